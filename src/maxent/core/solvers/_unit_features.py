"""A density problem whose features lie in [0, 1], and the bounds that iterative scaling maximises.

Any feature is brought there by its range: f' = (f - low)/size with lambda = size w, because a
shift of a feature is a constant in the exponent. Degenerate features and cells are dealt with
before the first step (density paper, Appendix G).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from maxent.core.problem import Problem, State
from maxent.core.quasi_newton import BOTTOMLESS
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array

_FAR, _NEAR = 1e200, 1e-300  # where the slopes of a penalty are those at infinity and next to 0
_OUT_OF_REACH = 1e-8  # share of its range by which a moment may miss the domain of its potential
_EXCLUDED = 1e-16  # mass that may stay on excluded cells


@dataclass(frozen=True)
class GainBound:
    """A lower bound on what a change of lambda gains, feature by feature, q = E_p[f'].

    F_j(delta) = -growth(q_j, delta) + delta mu_j - V_j*(-lambda_j - delta) + V_j*(-lambda_j).
    The slope of ``growth`` in delta is ``response(inverse(q) + delta)``.
    """

    response: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    growth: Callable[[Array, Array], Array]


def _log_odds(q: Array) -> Array:
    return special.logit(np.clip(q, 0, 1))


def _log(q: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(q, 0))


def _selective_growth(q: Array, delta: Array) -> Array:
    """log(1 + (e^delta - 1) q)."""
    far = np.logaddexp(np.log1p(-q), _log(q) + delta)
    return np.where(delta > 1, far, np.log1p(np.expm1(np.minimum(delta, 1)) * q))


def _parallel_growth(q: Array, delta: Array) -> Array:
    """(e^delta - 1) q."""
    with np.errstate(over="ignore"):
        far = np.exp(_log(q) + delta) - q
    return np.where(delta > 1, far, np.expm1(np.minimum(delta, 1)) * q)


# eq. (24) and (40) of the density paper
SELECTIVE = GainBound(special.expit, _log_odds, _selective_growth)
PARALLEL = GainBound(np.exp, _log, _parallel_growth)


@dataclass(frozen=True, eq=False)
class UnitState(State):
    """A state with the best new value of each lambda and what it gains at least."""

    unit: UnitFeatures
    goal: Array
    gains: Array

    @cached_property
    def auxiliary(self) -> float:
        """sum_j F_j, 0 only at the optimum (Theorems 20 and 21)."""
        return float(np.sum(self.gains))


class UnitFeatures:
    """A problem in the terms of f' and lambda, and which cells and features take part.

    Parameters
    ----------
    problem : Problem
        The problem.
    bound : GainBound
        The bound on the gain of a step.
    theta : array
        Scores of the cells.

    Attributes
    ----------
    size : array
        lambda / w.
    constant : array
        Features with one value, whose weight matters for the penalty alone.
    free : array
        Features that are not degenerate.
    ray : array or None
        A direction in which the dual falls without end, where some feature cannot reach its
        potential's domain; else None.
    """

    def __init__(self, problem: Problem, bound: GainBound, theta: Array) -> None:
        self.problem, self.bound = problem, bound
        self._low, high = problem.features.ranges()
        magnitude = np.maximum(np.abs(self._low), np.abs(high))
        eps = 100 * float(np.finfo(theta.dtype).eps)
        self.constant = high - self._low <= eps * magnitude
        self.size = np.where(self.constant, magnitude, high - self._low)
        self.size[self.size == 0] = 1.0
        rounding = eps * np.maximum(magnitude / self.size, 1)
        # dom V_j = [lower, upper]: the slopes of V_j* at -inf and inf
        far = np.full(self.size.shape, _FAR)
        with np.errstate(over="ignore"):
            lower, upper = (problem.potential.conjugate_terms(s * far)[1] for s in (-1, 1))
            lower, upper = lower / self.size, upper / self.size
        target = (problem.target - self._low) / self.size
        over = target + lower - ~self.constant  # how far the mean must pass 1 ...
        under = -(target + upper)  # ... or 0, or the value of a constant feature
        self.target = np.where(self.constant, np.clip(target, -upper, -lower), target)
        self.ray: Array | None = None
        self._rate = float(np.max(np.maximum(over, under) - rounding))
        if self._rate > _OUT_OF_REACH:
            j = int(np.argmax(np.maximum(over, under) - rounding))
            self.ray = np.zeros_like(self.size)
            self.ray[j] = (1 if over[j] > under[j] else -1) / self.size[j]
        # App. G: a mean that must be 1 (or 0) leaves only cells where the feature is 1 (or 0)
        sign = np.where(over >= -rounding, 1, np.where(under >= -rounding, -1, 0))
        sign[self.constant] = 0
        self.free = sign == 0
        self._away = sign / self.size  # the direction that empties the other cells
        alive = problem.entropy.conjugate(np.zeros_like(theta))[1] > 0
        end = np.where(sign > 0, high, self._low)
        distance = float(self._away @ end) - problem.features.scores(self._away)
        out = distance > float(rounding @ np.abs(sign))
        self._out: Array | None = out if np.any(out & alive) else None
        self._distance = float(np.min(distance[out & alive], initial=np.inf))
        if not np.any(alive & ~out):  # features at odds with each other
            self.ray, self._rate = self._away, float(distance[alive].min())
        if bound is PARALLEL:  # sum_j f'_j <= 1
            used = (self.free & ~self.constant) / self.size
            total = problem.features.scores(used) - float(used @ self._low)
            largest = float(np.max(total[alive & ~out], initial=0.0)) or 1.0
            self.size, self.target = self.size * largest, self.target / largest
        near = np.full(self.size.shape, _NEAR)
        self._right, self._left = self._penalty(near)[1], self._penalty(-near)[1]
        elastic = problem.potential.elastic(self.size.size)
        self._curved = np.full(self.size.shape, True) if elastic is None else elastic[1] > 0

    def _penalty(self, x: Array) -> tuple[Array, Array]:
        """V_j*(-x_j / size_j) and its slope in x_j."""
        values, slopes = self.problem.potential.conjugate_terms(-x / self.size)
        return values, -slopes / self.size

    def means(self, theta: Array) -> Array:
        """E_p[f'] over the cells that take part."""
        if self._out is not None:
            theta = np.where(self._out, -np.inf, theta)
        return self._means(self.problem.moments(self.problem.entropy.conjugate(theta)[1]))

    def _means(self, moments: Array) -> Array:
        # never exactly 0 or 1 for a feature that varies, so that every step is finite
        q = np.clip((moments - self._low) / self.size, _NEAR, 1 - 1e-16)
        q[self.constant] = 0
        return q

    def best(self, q: Array, w: Array) -> tuple[Array, Array]:
        """The new lambda_j that maximises F_j, and F_j there."""
        old = self.size * w
        eta = self.bound.inverse(q) - old
        # Fig. 3 and 5: delta_+ where the mean less the kink is in reach, delta_- likewise
        with np.errstate(invalid="ignore"):
            plus = self.bound.inverse(self.target - self._right) - eta
            minus = self.bound.inverse(self.target - self._left) - eta
        x = np.where(plus > 0, plus, np.where(minus < 0, minus, 0.0))
        x = np.where(self.free, x, old)
        curved = np.flatnonzero(self._curved & self.free & (x != 0))
        if curved.size:
            x[curved] = self._root(eta, x, curved)
        delta = x - old
        (value, slope), (old_value, old_slope) = self._penalty(x), self._penalty(old)
        # gains are of second order in delta: for small ones the values would round them off
        small = np.abs(delta) < 1e-5 * np.abs(old)
        cost = np.where(small, (slope + old_slope) / 2 * delta, value - old_value)
        return x, np.maximum(delta * self.target - self.bound.growth(q, delta) - cost, 0)

    def _root(self, eta: Array, x: Array, index: Array) -> Array:
        """response(eta + x) + penalty'(x) = target, between 0 and the answer without curvature."""
        sign, high, trial = np.sign(x[index]), np.abs(x[index]), np.zeros_like(x)

        def slope(size: Array, rows: Array) -> Array:
            at = index[rows]
            trial[at] = sign[rows] * size
            response = self.bound.response(eta[at] + trial[at])
            return sign[rows] * (self.target[at] - response - self._penalty(trial)[1][at])

        endless = np.flatnonzero(np.isinf(high))
        high[endless] = 1.0
        while endless.size:
            endless = endless[(slope(high[endless], endless) > 0) & (high[endless] < _FAR)]
            high[endless] *= 4
        return sign * bracketed_root(slope, np.zeros(index.size), high)

    def measure(self, state: State) -> UnitState:
        """The state with its auxiliary function."""
        if self.ray is not None:
            goal, gains = self.size * state.w, np.full(self.size.shape, np.inf)
        elif self._out is None:
            goal, gains = self.best(self._means(state.gradient + self.problem.target), state.w)
        else:
            goal, gains = self.best(self.means(state.theta), state.w)
        return UnitState(self.problem, state.w, state.evaluation, self, goal, gains)

    def state(self, w: Array) -> State:
        """The problem's state at w, where excluded cells are empty up to rounding.

        No finite weight excludes a cell: the weights of degenerate features grow as needed.
        """
        state = self.problem.state(w)
        if self._out is None:
            return state
        conjugate = self.problem.entropy.conjugate
        masses = [conjugate(np.where(m, state.theta, -np.inf))[0] for m in (self._out, ~self._out)]
        excess = float(masses[0] - masses[1] - np.log(_EXCLUDED))
        if excess <= 0:
            return state
        return self.problem.state(w + (excess + 1) / self._distance * self._away)

    def far(self, state: State) -> UnitState:
        """A state so far down the ray that the dual counts as unbounded."""
        assert self.ray is not None
        length = -4 * BOTTOMLESS * (1 + abs(state.dual)) / self._rate
        return self.measure(self.problem.state(state.w + length * self.ray))
