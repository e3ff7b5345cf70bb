"""Partial ROC: only where few presences are omitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxent.evaluation._distribution import as_predictions
from maxent.rows.arrays import Array

_ROUNDING = 1e-9  # of shares that should be whole numbers


@dataclass(frozen=True, eq=False)
class PartialROC:
    """Partial AUC over that of a random prediction, resampled.

    Attributes
    ----------
    ratio : float
        Mean of the ratios; above 1 the prediction is better than random. NaN where there are too
        few presences for any ratio to be below 1.
    p_value : float
        `(1 + k) / (1 + B)` where k of B ratios are 1 or less; NaN where ``ratio`` is.
    ratios : array (n_repeats,)
        One per resample; NaN where the curve has no such part.
    """

    ratio: float
    p_value: float
    ratios: Array


def partial_roc(
    presence: ArrayLike,
    background: ArrayLike,
    error: float = 0.05,
    share: float = 0.5,
    repeats: int = 500,
    seed: int = 0,
) -> PartialROC:
    """Ratio of partial AUCs (Peterson, Papeş and Soberón, 2008), as kuenm computes it.

    y(a) is the share of the presences among the share a of the background with the highest
    predictions. Where a0 is the least area with `y > 1 - error`,

        `ratio = integral_a0^1 y(a) da / integral_a0^1 a da`,

    the lower the omission that is tolerated, the later the curve begins. Each of ``repeats`` ratios
    is of ceil(share n) presences drawn with replacement.

    With `x_j` the share of the background at or above presence j the first integral is the mean of
    `1 - max(x_j, a0)`: no curve is drawn and nothing is binned.

    A resample of m presences needs `m error > 1`: with fewer, none may be omitted, y is 1 on the
    whole part, and the ratio is 1 or more for any prediction. Ratio and p-value are NaN then. See
    :func:`fewest_presences`.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.
    error : float, default 0.05
        Omission that is tolerated.
    share : float, default 0.5
        Share of the presences in each resample.
    repeats : int, default 500
        Number of resamples.
    seed : int, default 0
        Seed of the resamples.

    Examples
    --------
    >>> at_background = np.linspace(0, 1, 1001)
    >>> test = partial_roc(np.sqrt(at_background), at_background)
    >>> test.ratio > 1.05, round(test.p_value, 4)
    (True, 0.002)
    >>> partial_roc([0.2, 0.9, 0.4], at_background).ratio
    nan
    """
    at_presence = as_predictions(presence, "presence")
    ordered = np.sort(as_predictions(background, "background"))
    fewest = fewest_presences(error, share)
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats!r}")
    area = 1 - np.searchsorted(ordered, at_presence, "left") / ordered.size
    m = math.ceil(share * at_presence.size)
    drawn = np.random.default_rng(seed).integers(at_presence.size, size=(repeats, m))
    needed = np.sort(area[drawn], axis=1)
    # the least k with k / m > 1 - error, free of rounding in 1 - error
    first = min(math.floor(m * (1 - error) + _ROUNDING), m - 1)
    start = needed[:, first]
    partial = 1 - np.maximum(needed, start[:, None]).mean(axis=1)
    random = (1 - start**2) / 2
    ratios = np.full(repeats, np.nan)
    np.divide(partial, random, out=ratios, where=random > 0)
    known = ratios[np.isfinite(ratios)]
    if not known.size or at_presence.size < fewest:
        return PartialROC(math.nan, math.nan, ratios)
    p_value = (1 + int((known <= 1).sum())) / (1 + known.size)
    return PartialROC(float(known.mean()), p_value, ratios)


def fewest_presences(error: float = 0.05, share: float = 0.5) -> float:
    """The fewest presences with which :func:`partial_roc` can tell a prediction from chance.

    The least n with `ceil(share n) error > 1`, infinite without any omission.

    Parameters
    ----------
    error : float, default 0.05
        Omission that is tolerated.
    share : float, default 0.5
        Share of the presences in each resample.

    Examples
    --------
    >>> fewest_presences(), fewest_presences(0.1), fewest_presences(0.0)
    (41, 21, inf)
    """
    if not 0 <= error < 1:
        raise ValueError(f"error is the omission tolerated, in [0, 1), got {error!r}")
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share!r}")
    if error == 0:
        return math.inf
    drawn = math.floor(1 / error + _ROUNDING) + 1
    # the least n whose share, rounded up, is that many
    return math.floor((drawn - 1) / share + _ROUNDING) + 1
