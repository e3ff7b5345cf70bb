"""Steps of coordinate descent along one feature (structural paper, §2.4 and Appendix C).

A step eta of the weight w changes the dual objective by

    beta (|w + eta| - |w|) - eta E_S[f] + log E_p[e^{eta f}],                                 (7)

with p the current density and E_S the mean over the sample. Each rule minimises (7) or an upper
bound of it, so that no step makes the objective worse. A shift of f is a constant in the exponent:
only the width of its range counts, Lambda is half of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from maxent._support.threads import sum_of_parts
from maxent.rows.arrays import Array

# changes of the score over the range of the feature:
_FAR = 50.0  # by a step that has no best length
_FIRST = 4.0  # by a first Newton step, at most
_NEAR = 1e-8  # by a Newton step whose square is below rounding
_MAX_ITER = 200


RULES = ("structmaxent2", "structmaxent1", "line-search")


class Coordinate(NamedTuple):
    """What the closed forms need of one feature: weight, penalty, both means and the range."""

    w: float
    beta: float
    p_mean: float
    s_mean: float
    low: float
    high: float


class StepRule:
    """The step along a feature by one of ``RULES``.

    Where StructMaxent1 does not apply it takes the step of StructMaxent2, and says so once, unless
    ``warn`` is False.
    """

    def __init__(self, rule: str, *, warn: bool = True) -> None:
        self.rule, self._warn = rule, warn

    def __call__(self, name: Callable[[], str], column: Array, p: Array, at: Coordinate) -> float:
        """The change of the weight of the feature ``column`` under the density p."""
        if self.rule == "line-search":
            return line_search_step(at.w, column, p, at.s_mean, at.beta)
        if self.rule == "structmaxent1":
            step = float(scaling_step(at.w, at.p_mean, at.s_mean, at.beta, at.low, at.high))
            if np.isfinite(step):
                return step
            self._fall_back(name, at)
        half = (at.high - at.low) / 2
        return float(hoeffding_step(at.w, at.p_mean - at.s_mean, at.beta, half))

    def _fall_back(self, name: Callable[[], str], at: Coordinate) -> None:
        if not self._warn:
            return
        self._warn = False
        failed = (
            f"low + beta < mu < high - beta with mu = {at.s_mean:.6g}, beta = {at.beta:.6g}"
            if at.low < at.p_mean < at.high
            else f"low < E_p[f] < high with E_p[f] = {at.p_mean:.6g}"
        )
        warnings.warn(
            f"conditions (8) of StructMaxent1 fail for {name()}: {failed}, in the range "
            f"[{at.low:.6g}, {at.high:.6g}]; where they fail the step is that of StructMaxent2",
            stacklevel=9,
        )


def violation(w: ArrayLike, gradient: ArrayLike, beta: ArrayLike) -> Array:
    """The slope of the objective along each feature (§2.4.1), 0 where no step lowers it.

    With epsilon the ``gradient`` E_p[f] - E_S[f]: d = beta sgn(w) + epsilon where w != 0, else
    sgn(epsilon) max(|epsilon| - beta, 0).
    """
    w, gradient, beta = np.asarray(w), np.asarray(gradient), np.asarray(beta)
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - beta, 0)
    return np.where(w == 0, at_zero, beta * np.sign(w) + gradient)


def hoeffding_step(
    w: ArrayLike, epsilon: ArrayLike, beta: ArrayLike, half_width: ArrayLike
) -> Array:
    """The step of StructMaxent2 (Fig. 1), for features with a range of 2 ``half_width``.

    Hoeffding's lemma bounds the log in (7) by eta E_p[f] + (eta Lambda)^2 / 2. It sees only the
    width: Lambda = 1/2 for features in [0, 1], which allows steps four times those of the paper's
    Lambda = 1. ``epsilon`` = E_p[f] - E_S[f]. A constant feature with |epsilon| > beta has no best
    step: plus or minus inf.
    """
    w, epsilon, half_width = np.asarray(w), np.asarray(epsilon), np.asarray(half_width)
    pull = w * half_width * half_width - epsilon
    with np.errstate(divide="ignore", invalid="ignore"):
        away = (-epsilon - np.sign(pull) * beta) / half_width / half_width
    return np.where(np.abs(pull) <= beta, -w, away)


def scaling_step(
    w: ArrayLike,
    p_mean: ArrayLike,
    s_mean: ArrayLike,
    beta: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
) -> Array:
    """The step of StructMaxent1 (Fig. 2), for features in [low, high]; NaN where (8) fails.

    Convexity bounds the log in (7) by log((1 - q) e^{eta low} + q e^{eta high}) with
    q = (E_p[f] - low) / (high - low), exactly so for a feature with two values. ``p_mean`` is
    E_p[f], ``s_mean`` E_S[f]; conditions (8) are low < E_p[f] < high and
    low + beta < E_S[f] < high - beta.
    """
    w, low = np.asarray(w), np.asarray(low)
    width = np.asarray(high) - low
    with np.errstate(divide="ignore", invalid="ignore"):
        q = (np.asarray(p_mean) - low) / width
        s, b = (np.asarray(s_mean) - low) / width, np.asarray(beta) / width
        # Appendix C, with P+ = 2 Lambda q and P- = 2 Lambda (q - 1): under the bound the mean
        # after a step is expit(logit(q) + 2 Lambda eta)
        short = s - special.expit(special.logit(q) - w * width)
        away = (special.logit(s - np.sign(short) * b) - special.logit(q)) / width
    step = np.where(np.abs(short) <= b, -w, away)
    return np.where((q > 0) & (q < 1) & (s > b) & (s < 1 - b), step, np.nan)


def line_search_step(w: float, column: Array, p: Array, s_mean: float, beta: float) -> float:
    """The minimiser of (7) itself, where ``column`` is f at every cell and ``s_mean`` E_S[f].

    None exists where the mean must lie at an end of the range of f, or beyond: the step is then
    one that moves the scores by 50. A constant feature can only cost: its step is -w.
    """
    support = p > 0
    low = float(np.min(column, where=support, initial=np.inf))
    high = float(np.max(column, where=support, initial=-np.inf))
    if not high > low:
        return -w
    tilt = _tilt(column, p, low, high)
    unpenalized = tilt(-w)
    short = s_mean - low - unpenalized.above
    if abs(short) <= beta:
        return -w
    side = 1.0 if short > 0 else -1.0  # of w + eta
    above, below = s_mean - side * beta - low, high - s_mean + side * beta
    if above <= 0 or below <= 0:
        return side * _FAR / (high - low)
    start, first = (0.0, tilt(0.0)) if side * w > 0 else (-w, unpenalized)
    return _newton(tilt, float(np.log(above) - np.log(below)), start, first, high - low)


class _Tilted(NamedTuple):
    """The density p e^{eta f} / Z: its mean above low, log((mean - low)/(high - mean)), slope."""

    above: float
    log_odds: float
    slope: float


def _tilt(column: Array, p: Array, low: float, high: float) -> Callable[[float], _Tilted]:
    """eta -> the tilted density.

    The slope of the log odds is (high - low) var / ((mean - low)(high - mean)): constant for a
    feature with two values, and no other changes faster than by e^{2 (high - low) |eta|}.
    """
    width = high - low

    def at(eta: float) -> _Tilted:
        end = width if eta > 0 else 0.0  # no exponent is positive

        def part(start: int, stop: int) -> Array:
            above = np.clip(column[start:stop].astype(np.float64) - low, 0, width)
            below, mass = width - above, p[start:stop] * np.exp(eta * (above - end))
            return np.array([mass.sum(), mass @ above, mass @ below, mass * above @ below])

        total, above, below, both = sum_of_parts(part, len(p), 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = width * (1 - both / above * (total / below))
            return _Tilted(float(above / total), float(np.log(above) - np.log(below)), float(slope))

    return at


def _newton(
    tilt: Callable[[float], _Tilted],
    goal: float,
    eta: float,
    now: _Tilted,
    width: float,
) -> float:
    """The eta where the log odds are ``goal``, from a first one, in a bracket that shrinks."""
    low, high, longest = -np.inf, np.inf, _FIRST / width
    for _ in range(_MAX_ITER):
        miss = goal - now.log_odds
        low, high = (eta, high) if miss > 0 else (low, eta)
        step = miss / now.slope if now.slope > 0 else np.copysign(np.inf, miss)
        new = float(np.clip(eta + np.clip(step, -longest, longest), low, high))
        if new in (low, high) and abs(step) * width > _NEAR:  # past what is known: halve that
            new = (low + high) / 2
        if abs(new - eta) * width <= _NEAR:
            return new
        eta, now, longest = new, tilt(new), 2 * longest
    return eta
