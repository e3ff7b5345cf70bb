"""Calibration: whether probabilities of presence come true at presences and absences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from maxent.rows.arrays import Array

_Z = 1.959963984540054  # of a 95 % interval
_TINY = np.finfo(np.float64).eps


class Calibration(NamedTuple):
    """How predicted probabilities compare with what was observed.

    Attributes
    ----------
    brier : float
        Mean of `(p - y)^2`.
    log_loss : float
        Mean of `-y log p - (1 - y) log(1 - p)`.
    slope : float
        Slope of `logit P(y = 1) = intercept + slope logit p`, fitted by maximum likelihood (Cox
        1958): 1 where probabilities come true, below 1 where they are too extreme. It is infinite
        where p separates presences from absences, and unknown (NaN) where p is the same everywhere.
    intercept : float
        Its intercept: 0 where probabilities come true.
    predicted : array (n_bins,)
        Mean of p in bins of equal numbers of points.
    observed : array (n_bins,)
        Share of presences in each.
    low : array (n_bins,)
        Lower end of its 95 % interval (Wilson 1927).
    high : array (n_bins,)
        Upper end.
    n : array (n_bins,)
        Number of points in each.
    """

    brier: float
    log_loss: float
    slope: float
    intercept: float
    predicted: Array
    observed: Array
    low: Array
    high: Array
    n: Array


def calibration(at_presences: ArrayLike, at_absences: ArrayLike, n_bins: int = 10) -> Calibration:
    """Calibration of probabilities of presence, given at presences and at absences.

    Parameters
    ----------
    at_presences : array (n_presences,)
        Probabilities at presences.
    at_absences : array (n_absences,)
        Probabilities at absences.
    n_bins : int, default 10
        Number of bins.

    Examples
    --------
    >>> told = calibration([0.9, 0.6, 0.5, 0.2], [0.1, 0.4, 0.5, 0.8], n_bins=2)
    >>> round(told.brier, 3), told.observed
    (0.265, array([0.33333333, 0.6       ]))
    """
    present, absent = (np.asarray(v, dtype=np.float64) for v in (at_presences, at_absences))
    p = np.concatenate([present, absent])
    if not (present.size and absent.size and (p >= 0).all() and (p <= 1).all()):
        raise ValueError(
            f"calibration needs probabilities of presences and absences, got {present.size} and "
            f"{absent.size} numbers from {p.min(initial=np.inf):g} to {p.max(initial=-np.inf):g}"
        )
    y = np.repeat([1.0, 0.0], [present.size, absent.size])
    inside = np.clip(p, _TINY, 1 - _TINY)
    slope, intercept = _line(logit(inside), y)
    loss = -np.mean(y * np.log(inside) + (1 - y) * np.log1p(-inside))
    brier = np.mean((p - y) ** 2)
    return Calibration(float(brier), float(loss), slope, intercept, *_binned(p, y, n_bins))


def _line(score: Array, y: Array) -> tuple[float, float]:
    """Slope and intercept of a logistic regression on one variable, without a penalty."""
    if np.ptp(score) == 0:
        return np.nan, np.nan
    present, absent = score[y == 1], score[y == 0]
    if present.min() >= absent.max():
        return np.inf, np.nan
    if present.max() <= absent.min():
        return -np.inf, np.nan
    middle, width = score.mean(), score.std()
    z = (score - middle) / width

    def loss(w: Array) -> tuple[float, Array]:
        eta = w[0] + w[1] * z
        error = expit(eta) - y
        value = np.mean(np.logaddexp(0, eta) - y * eta)
        return float(value), np.array([error.mean(), (error * z).mean()])

    start = np.array([logit(y.mean()), 0.0])
    w = scipy.optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    slope = w[1] / width
    return float(slope), float(w[0] - slope * middle)


def _binned(p: Array, y: Array, n_bins: int) -> tuple[Array, Array, Array, Array, Array]:
    order = np.sort(p)
    # a bin starts at a value, so that equal probabilities share it
    starts = np.unique(order[np.arange(n_bins) * order.size // n_bins])
    place = np.searchsorted(starts, p, side="right") - 1
    n = np.bincount(place, minlength=starts.size)
    share = np.bincount(place, y, minlength=starts.size) / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
    return np.bincount(place, p, minlength=starts.size) / n, share, low, high, n
