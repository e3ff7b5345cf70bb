"""What a threshold does: predicted present where the prediction is at least the threshold.

omission = share of the presences below it (1 - sensitivity), area = share of the background at
or above it (1 - specificity when the background stands for absences).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, entr

from maxent.evaluation._distribution import Distribution, as_predictions, as_weights
from maxent.rows.arrays import Array


class RocCurve(NamedTuple):
    """Rates at falling thresholds, from (0, 0) at +inf to (1, 1).

    Attributes
    ----------
    false_positive_rate : array (n_cuts,)
        1 - specificity at each threshold.
    true_positive_rate : array (n_cuts,)
        Sensitivity at each threshold.
    thresholds : array (n_cuts,)
        The thresholds, falling.
    """

    false_positive_rate: Array
    true_positive_rate: Array
    thresholds: Array


class MaxTSS(NamedTuple):
    """The largest TSS and the lowest threshold that attains it.

    Attributes
    ----------
    tss : float
        The largest TSS.
    threshold : float
        The lowest threshold that attains it.
    """

    tss: float
    threshold: float


@dataclass(frozen=True, eq=False)
class OmissionCurve:
    """Omission and area at every distinct prediction, from the lowest to the highest.

    Attributes
    ----------
    threshold : array (n_cuts,)
        Predictions.
    cumulative : array (n_cuts,)
        The same on the cumulative scale, 0 to 100; a hundredth of it is the omission to expect if
        the model is right.
    area : array (n_cuts,)
        Share of the background predicted present.
    training_omission : array (n_cuts,)
        Share of the training presences predicted absent.
    test_omission : array (n_cuts,) or None
        The same for the test presences, None without them.
    """

    threshold: Array
    cumulative: Array
    area: Array
    training_omission: Array
    test_omission: Array | None = None


@dataclass(frozen=True)
class Threshold:
    """One row of the table of thresholds.

    Attributes
    ----------
    name : str
        The rule, worded as in maxentResults.csv.
    value : float
        The threshold, in the unit of the predictions.
    cumulative : float
        The threshold on the cumulative scale, 0 to 100.
    area : float
        Share of the background predicted present.
    training_omission : float
        Share of the training presences predicted absent.
    test_omission : float or None
        Share of the test presences predicted absent, None without them.
    p_value : float or None
        Of the test presences, see :func:`binomial_p_value`; None without them.
    """

    name: str
    value: float
    cumulative: float
    area: float
    training_omission: float
    test_omission: float | None = None
    p_value: float | None = None


def omission(
    presence: ArrayLike, threshold: float, presence_weights: ArrayLike | None = None
) -> float:
    """Share of the presences predicted below the threshold.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    threshold : float
        Predictions at or above it say presence.
    presence_weights : array (n_presences,), default None
        Weights of the presences; None is 1 each.

    Examples
    --------
    >>> omission([0.2, 0.5, 0.9, 0.7], 0.5)
    0.25
    """
    values = as_predictions(presence, "presence")
    if presence_weights is not None:
        presence_weights = as_weights(presence_weights, values.size, "presence_weights")
    return float(np.average(values < threshold, weights=presence_weights))


def tss(presence: ArrayLike, background: ArrayLike, threshold: float) -> float:
    """True skill statistic: sensitivity + specificity - 1, in [-1, 1].

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.
    threshold : float
        Predictions at or above it say presence.

    Examples
    --------
    >>> tss([0.2, 0.5, 0.9, 0.7], [0.1, 0.4, 0.6, 0.3], 0.5)
    0.5
    """
    return omission(background, threshold) - omission(presence, threshold)


def max_tss(presence: ArrayLike, background: ArrayLike) -> MaxTSS:
    """The largest TSS over all thresholds.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.

    Examples
    --------
    >>> max_tss([0.2, 0.5, 0.9, 0.7], [0.1, 0.4, 0.6, 0.3])
    MaxTSS(tss=0.5, threshold=0.5)
    """
    curve = roc_curve(presence, background)
    skill = curve.true_positive_rate - curve.false_positive_rate
    best = np.flatnonzero(skill == skill.max())[-1]  # thresholds fall, the last is the lowest
    return MaxTSS(float(skill[best]), float(curve.thresholds[best]))


def roc_curve(presence: ArrayLike, background: ArrayLike) -> RocCurve:
    """Sensitivity against 1 - specificity at every distinct prediction.

    Parameters
    ----------
    presence : array (n_presences,)
        Predictions at the presences.
    background : array (n_background,)
        Predictions at the background.

    Examples
    --------
    >>> roc_curve([0.5, 0.9], [0.1, 0.5]).true_positive_rate
    array([0. , 0.5, 1. , 1. ])
    """
    at_presence = as_predictions(presence, "presence")
    at_background = as_predictions(background, "background")
    cuts = np.append(np.unique(np.concatenate([at_presence, at_background])), np.inf)[::-1]
    return RocCurve(
        1 - Distribution(at_background).below(cuts), 1 - Distribution(at_presence).below(cuts), cuts
    )


def cumulative(raw: ArrayLike, background_raw: ArrayLike) -> Array:
    """Cumulative output: 100 x share of the model's mass at cells with raw <= this one.

    Parameters
    ----------
    raw : array
        Raw output at the places asked for.
    background_raw : array
        Raw output at all cells.

    Examples
    --------
    >>> cumulative([0.1, 0.25, 0.6], [0.1, 0.6, 0.3])
    array([ 10.,  10., 100.])
    """
    mass = _mass(background_raw)
    return 100 * Distribution(mass, mass).up_to(as_predictions(raw, "raw"))


def _mass(background_raw: ArrayLike) -> Array:
    values = as_predictions(background_raw, "background_raw")
    return as_weights(values, values.size, "background_raw")


def omission_curve(
    presence: ArrayLike,
    background: ArrayLike,
    test: ArrayLike | None = None,
    background_raw: ArrayLike | None = None,
) -> OmissionCurve:
    """Omission, area and cumulative value at every distinct prediction.

    Parameters
    ----------
    presence : array
        Predictions at the training presences.
    background : array (n_background,)
        Predictions at the background.
    test : array (n_test,), default None
        Predictions at the test presences.
    background_raw : array (n_background,), default None
        Raw densities at the background, in any unit, where the predictions are on another scale
        that grows with them (cloglog, logistic); None is ``background``.

    Examples
    --------
    >>> curve = omission_curve([0.5, 0.3], [0.1, 0.1, 0.3, 0.5])
    >>> curve.area, curve.training_omission, curve.cumulative
    (array([1.  , 0.5 , 0.25]), array([0. , 0. , 0.5]), array([ 20.,  50., 100.]))
    """
    samples = {"presence": presence, "background": background}
    if test is not None:
        samples["test"] = test
    values = {name: as_predictions(sample, name) for name, sample in samples.items()}
    mass = _mass(values["background"] if background_raw is None else background_raw)
    if mass.size != values["background"].size:
        raise ValueError(
            f"background_raw has {mass.size} entries for {values['background'].size} predictions"
        )
    cuts = np.unique(np.concatenate(list(values.values())))
    below = {name: Distribution(sample).below(cuts) for name, sample in values.items()}
    return OmissionCurve(
        threshold=cuts,
        cumulative=100 * Distribution(values["background"], mass).up_to(cuts),
        area=1 - below["background"],
        training_omission=below["presence"],
        test_omission=below.get("test"),
    )


def binomial_p_value(omission_rate: float, area: float, n: int) -> float:
    """Are test presences predicted better than by chance? P(hits or more), hits ~ Bin(n, area).

    One-sided and exact: the null hypothesis is a random prediction with the same area, and hits
    = (1 - omission) n of the n test presences are predicted present.

    Parameters
    ----------
    omission_rate : float
        Share of the test presences predicted absent.
    area : float
        Share of the background predicted present.
    n : int
        Number of test presences.

    Examples
    --------
    >>> binomial_p_value(0.0, area=0.5, n=3)
    0.125
    """
    if not (0 <= omission_rate <= 1 and 0 <= area <= 1):
        raise ValueError(f"rates lie between 0 and 1, got {omission_rate!r} and {area!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1 test presence, got {n!r}")
    hits = round((1 - omission_rate) * n)
    return float(bdtrc(hits - 1, n, area))


def thresholds(
    presence: ArrayLike,
    background: ArrayLike,
    test: ArrayLike | None = None,
    background_raw: ArrayLike | None = None,
) -> list[Threshold]:
    """The rules of Maxent's report, in its order; the two on test data only where there are any.

    A rule picks one of the distinct predictions, the lowest where several are as good:

    - fixed cumulative value 1, 5, 10: the first that reaches it;
    - minimum training presence; 10 percentile training presence: the presence of rank
      floor(n / 10), counted from 0;
    - equal sensitivity and specificity: least |omission - area|, on training and on test data;
    - maximum sensitivity plus specificity: least omission + area, on training and on test data;
    - balance: least 6 x training omission + 0.04 x cumulative + 1.6 x area;
    - equate entropy: the first with area `< exp(H) / N`, H the entropy of the model over its N
      background cells, so that the thresholded map is as spread out as the model.

    A cell seen twice is listed twice (``np.repeat`` by counts). Unlike Maxent's, p-values are exact
    for any number of test presences, and the cumulative value steps between background cells
    instead of being interpolated.

    Parameters
    ----------
    presence : array
        Predictions at the training presences.
    background : array (n_background,)
        Predictions at the background.
    test : array (n_test,), default None
        Predictions at the test presences.
    background_raw : array (n_background,), default None
        Raw densities at the background, in any unit, where the predictions are on another scale
        that grows with them (cloglog, logistic); None is ``background``.

    Examples
    --------
    >>> table = thresholds([0.5, 0.3], [0.1, 0.1, 0.3, 0.5])
    >>> len(table)
    9
    >>> table[3].name, table[3].value, table[3].area
    ('Minimum training presence', 0.3, 0.5)
    """
    curve = omission_curve(presence, background, test, background_raw)
    ordered = np.sort(as_predictions(presence, "presence"))
    mass = _mass(background if background_raw is None else background_raw)
    spread = math.exp(entr(mass / mass.sum()).sum()) / mass.size

    def equal(rate: Array) -> int:
        return int(np.argmin(np.abs(rate - curve.area)))

    def maximum(rate: Array) -> int:
        return int(np.argmin(rate + curve.area))

    def at(value: float) -> int:
        return int(np.searchsorted(curve.threshold, value))

    fixed = {f"Fixed cumulative value {c}": c for c in (1, 5, 10)}
    picks = {
        name: int(np.searchsorted(curve.cumulative, value)) for name, value in fixed.items()
    } | {
        "Minimum training presence": at(ordered[0]),
        "10 percentile training presence": at(ordered[ordered.size // 10]),
        "Equal training sensitivity and specificity": equal(curve.training_omission),
        "Maximum training sensitivity plus specificity": maximum(curve.training_omission),
    }
    if curve.test_omission is not None:
        picks["Equal test sensitivity and specificity"] = equal(curve.test_omission)
        picks["Maximum test sensitivity plus specificity"] = maximum(curve.test_omission)
    cost = 6 * curve.training_omission + curve.cumulative / 25 + 1.6 * curve.area
    picks["Balance training omission, predicted area and threshold value"] = int(np.argmin(cost))
    # a model uniform on its support is as spread out as its highest level, never less
    smaller = np.append(np.flatnonzero(curve.area < spread), curve.area.size - 1)
    picks["Equate entropy of thresholded and original distributions"] = int(smaller[0])

    n_test = 0 if test is None else as_predictions(test, "test").size
    table = []
    for name, i in picks.items():
        area = float(curve.area[i])
        missed = None if curve.test_omission is None else float(curve.test_omission[i])
        table.append(
            Threshold(
                name=name,
                value=float(curve.threshold[i]),
                cumulative=float(fixed.get(name, curve.cumulative[i])),
                area=area,
                training_omission=float(curve.training_omission[i]),
                test_omission=missed,
                p_value=None if missed is None else binomial_p_value(missed, area, n_test),
            )
        )
    return table
