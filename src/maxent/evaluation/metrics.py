"""Metrics of predictions at presences against predictions at the background.

All of them sort once: O(n log n), no table of presences x background.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc

from maxent.evaluation._distribution import Distribution, as_predictions, as_weights
from maxent.rows.arrays import Array


class AUC(NamedTuple):
    """Area under the ROC curve and its standard deviation.

    Attributes
    ----------
    auc : float
        Area under the ROC curve.
    sd : float
        Its standard deviation.
    """

    auc: float
    sd: float


class AUCDifference(NamedTuple):
    """A test that two models have the same AUC.

    Attributes
    ----------
    difference : float
        AUC of the first model less that of the second.
    sd : float
        Its standard deviation.
    z : float
        difference / sd.
    p_value : float
        Two-sided p-value.
    """

    difference: float
    sd: float
    z: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Boyce:
    """The continuous Boyce index and the curve it summarises.

    Attributes
    ----------
    index : float
        Correlation of ``ratio`` with ``suitability``, in [-1, 1]; NaN where undefined.
    suitability : array (n_windows,)
        Midpoints of the windows.
    ratio : array (n_windows,)
        Predicted-to-expected ratio F; NaN in windows without background.
    """

    index: float
    suitability: Array
    ratio: Array


def auc(
    presence: ArrayLike,
    background: ArrayLike,
    presence_weights: ArrayLike | None = None,
    background_weights: ArrayLike | None = None,
) -> float:
    """Area under the ROC curve: `P(X > Y) + P(X = Y) / 2`, X at a presence, Y at the background.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.
    presence_weights : array (n_presences,), default None
        Weights of the presences; None is 1 each.
    background_weights : array (n_background,), default None
        Weights of the background; None is 1 each.

    Examples
    --------
    >>> auc([0.9, 0.5], [0.1, 0.5])
    0.875
    >>> auc([0.9, 0.5], [0.1, 0.5], presence_weights=[3, 1])
    0.9375
    """
    at_presence = as_predictions(presence, "presence")
    at_background = as_predictions(background, "background")
    if background_weights is not None:
        background_weights = as_weights(
            background_weights, at_background.size, "background_weights"
        )
    if presence_weights is not None:
        presence_weights = as_weights(presence_weights, at_presence.size, "presence_weights")
    placed = Distribution(at_background, background_weights).placement(at_presence)
    return float(np.average(placed, weights=presence_weights))


def auc_delong(presence: ArrayLike, background: ArrayLike) -> AUC:
    """AUC with the standard deviation of DeLong, DeLong and Clarke-Pearson (1988).

    With V10(x) the share of the background that presence x beats and V01(y) the share of the
    presences that beat background y (ties one half),

        `var = var(V10) / m + var(V01) / n`,    m presences, n background points.

    Both shares come from ranks (Sun and Xu, 2014) instead of the m x n comparisons. The report of
    Maxent prints the variance of their equation (2), lower by a share of about 1 / m.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.

    Examples
    --------
    >>> result = auc_delong([0.9, 0.8, 0.3], [0.1, 0.5, 0.2, 0.7])
    >>> round(result.auc, 4), round(result.sd, 4)
    (0.8333, 0.1925)
    """
    wins, beaten = _structural_components(presence, background, "presence", "background")
    variance = wins.var(ddof=1) / wins.size + beaten.var(ddof=1) / beaten.size
    return AUC(float(wins.mean()), math.sqrt(variance))


def auc_difference(
    presence: ArrayLike,
    background: ArrayLike,
    other_presence: ArrayLike,
    other_background: ArrayLike,
) -> AUCDifference:
    """Paired test of DeLong et al. (1988) that two models have the same AUC on the same points.

    `z = (AUC - AUC') / sd`, where sd uses the covariances of V10 and V01 between the models (see
    :func:`auc_delong`); p is two-sided.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.
    other_presence : array (n_presences,)
        Predictions of the other model at the same presences.
    other_background : array (n_background,)
        Predictions of the other model at the same background.

    Examples
    --------
    >>> test = auc_difference([3, 4, 5], [1, 2, 3], [3, 1, 5], [4, 2, 3])
    >>> round(test.difference, 3), round(test.z, 3), round(test.p_value, 3)
    (0.444, 1.414, 0.157)
    """
    first = _structural_components(presence, background, "presence", "background")
    second = _structural_components(
        other_presence, other_background, "other_presence", "other_background"
    )
    if [v.size for v in first] != [v.size for v in second]:
        raise ValueError(
            f"the models must predict the same points: {first[0].size} and {second[0].size} "
            f"presences, {first[1].size} and {second[1].size} background points were given"
        )
    wins, beaten = (a - b for a, b in zip(first, second, strict=True))
    difference = float(wins.mean())
    sd = math.sqrt(wins.var(ddof=1) / wins.size + beaten.var(ddof=1) / beaten.size)
    # sd is zero where the models rank all pairs alike, or differ by the same amount everywhere
    z = difference / sd if sd else (math.copysign(math.inf, difference) if difference else 0.0)
    return AUCDifference(difference, sd, z, float(erfc(abs(z) / math.sqrt(2))))


def _structural_components(
    presence: ArrayLike, background: ArrayLike, presence_name: str, background_name: str
) -> tuple[Array, Array]:
    """V10 and V01 of DeLong et al. (1988), section 2."""
    at_presence = as_predictions(presence, presence_name)
    at_background = as_predictions(background, background_name)
    for values, name in ((at_presence, presence_name), (at_background, background_name)):
        if values.size < 2:
            raise ValueError(f"DeLong's variance needs two predictions or more, {name} has one")
    wins = Distribution(at_background).placement(at_presence)
    beaten = 1 - Distribution(at_presence).placement(at_background)
    return wins, beaten


def log_loss(log_density: ArrayLike, counts: ArrayLike | None = None) -> float:
    """Mean negative log density at the presences: `-sum_i c_i ln p(x_i) / sum_i c_i`.

    A presence where the density is zero makes it infinite.

    Parameters
    ----------
    log_density : array (n_presences,)
        ln of the raw output at the presences, normalised over the cells of the model.
    counts : array (n_presences,), default None
        Occurrences per row; None is 1 each.

    Examples
    --------
    >>> log_loss(np.log([0.5, 0.25]), counts=[1, 3]) == (math.log(2) + 3 * math.log(4)) / 4
    True
    """
    values = as_predictions(log_density, "log_density")
    if np.isposinf(values).any():
        raise ValueError("log_density has +inf: no density is infinite")
    if counts is None:
        return float(-values.mean())
    weights = as_weights(counts, values.size, "counts")
    seen = weights > 0  # rows without presences may have density zero
    return float(-np.average(values[seen], weights=weights[seen]))


def gain(log_density: ArrayLike, n_cells: int, counts: ArrayLike | None = None) -> float:
    """How much better than uniform: `ln N - log loss`, with N the cells the density is over.

    exp(gain) is how many times denser the model is at a typical presence than the uniform
    distribution.

    Parameters
    ----------
    log_density : array (n_presences,)
        ln of the raw output at the presences, normalised over the cells of the model.
    n_cells : int
        N, the cells that the density is over.
    counts : array (n_presences,), default None
        Occurrences per row; None is 1 each.

    Examples
    --------
    >>> round(gain(np.log([0.5, 0.5]), n_cells=4), 4)
    0.6931
    """
    if n_cells < 1:
        raise ValueError(f"n_cells must be at least 1, got {n_cells!r}")
    return math.log(n_cells) - log_loss(log_density, counts)


def aicc(log_likelihood: float, n_parameters: int, n: int) -> float:
    """AIC corrected for small samples (Warren and Seifert, 2011):

        `AICc = 2 k - 2 ln L + 2 k (k + 1) / (n - k - 1)`

    with k non-zero weights, n presences and ln L the sum over presences of the log density,
    normalised over all cells. NaN where `k >= n - 1`: the correction has no meaning there, as
    often with hinge features, and NaN sorts last and is skipped by ``np.nanargmin``.

    Parameters
    ----------
    log_likelihood : float
        ln L, the sum of the log density over the presences.
    n_parameters : int
        Number k of weights that are not 0.
    n : int
        Number of presences.

    Examples
    --------
    >>> aicc(-100.0, n_parameters=3, n=20)
    207.5
    >>> aicc(-100.0, n_parameters=19, n=20)
    nan
    """
    if n_parameters < 0 or n < 1:
        raise ValueError(f"need n_parameters >= 0 and n >= 1, got {n_parameters!r} and {n!r}")
    k = n_parameters
    if k >= n - 1:
        return math.nan
    return 2 * k - 2 * float(log_likelihood) + 2 * k * (k + 1) / (n - k - 1)


def correlation(presence: ArrayLike, background: ArrayLike) -> float:
    """COR: Pearson correlation of the predictions with 1 at presences and 0 elsewhere.

    NaN for predictions that are all equal.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array
        Predictions elsewhere.

    Examples
    --------
    >>> round(correlation([0.9, 0.6], [0.1, 0.4]), 4)
    0.8575
    """
    at_presence = as_predictions(presence, "presence")
    at_background = as_predictions(background, "background")
    label = np.repeat([1.0, 0.0], [at_presence.size, at_background.size])
    return _pearson(np.concatenate([at_presence, at_background]), label)


def boyce(
    presence: ArrayLike,
    background: ArrayLike,
    window: float = 0.1,
    n_bins: int = 101,
    method: Literal["spearman", "pearson"] = "spearman",
    remove_duplicates: bool = True,
) -> Boyce:
    """Continuous Boyce index (Hirzel et al., 2006): do presences grow denser with suitability?

    A window slides over the range of the predictions; in each,

        F = (share of the presences inside) / (share of the background inside),

    and the index is the correlation of F with the middle of the window: near 1 where the model
    is right, 0 where it is random, negative where it is reversed. Windows without background
    are left out. The index is NaN where fewer than two values of F differ, for instance with
    predictions that are all equal.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.
    window : float, default 0.1
        Width of the window, as a share of the range of the predictions.
    n_bins : int, default 101
        Number of windows, evenly spaced from the lowest to the highest.
    method : "spearman" or "pearson", default "spearman"
        Correlation of ranks, or of values.
    remove_duplicates : bool, default True
        Whether a run of equal F counts once, so that plateaus do not hide the trend.

    Examples
    --------
    >>> suitability = np.linspace(0, 1, 1001)
    >>> presences = np.sqrt(suitability)  # a density proportional to suitability
    >>> round(boyce(presences, suitability).index, 3)
    1.0
    """
    at_presence = as_predictions(presence, "presence")
    at_background = as_predictions(background, "background")
    if not 0 < window < 1:
        raise ValueError(f"window is a share of the range between 0 and 1, got {window!r}")
    if n_bins < 2:
        raise ValueError(f"n_bins must be at least 2, got {n_bins!r}")
    if method not in ("spearman", "pearson"):
        raise ValueError(f"method must be 'spearman' or 'pearson', got {method!r}")
    low = min(at_presence.min(), at_background.min())
    high = max(at_presence.max(), at_background.max())
    if not np.isfinite(high - low):
        raise ValueError("boyce needs finite predictions; give densities instead of their logs")
    width = window * (high - low)
    starts = np.linspace(low, high - width, n_bins)
    ends = np.linspace(low + width, high, n_bins)
    observed = _inside(at_presence, starts, ends)
    expected = _inside(at_background, starts, ends)
    ratio = np.full(n_bins, np.nan)
    known = expected > 0
    # one division of whole numbers: equal ratios are equal to the last bit
    ratio[known] = (observed[known] * at_background.size) / (expected[known] * at_presence.size)
    suitability = (starts + ends) / 2
    x, f = suitability[known], ratio[known]
    if remove_duplicates:
        keep = np.append(True, f[1:] != f[:-1])
        x, f = x[keep], f[keep]
    if method == "spearman":
        x, f = (Distribution(v).placement(v) for v in (x, f))  # ranks, up to scale
    return Boyce(_pearson(x, f), suitability, ratio)


def _inside(values: Array, starts: Array, ends: Array) -> Array:
    """How many values lie in each closed interval."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, ends, "right") - np.searchsorted(ordered, starts, "left")


def _pearson(a: Array, b: Array) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))
