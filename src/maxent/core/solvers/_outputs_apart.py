"""Newton steps for outputs that have nothing to do with each other.

Where the entropy is a sum over the entries of a row and the penalty one over the weights, the
outputs of a linear model are problems of their own over the same samples,

    min_w  sum_i a_i omega*(<w, x_i>) - <w, mu> + sum_j l2_j/2 w_j^2 .

They share passes over the samples and nothing else: each has conjugate gradients of its own, a step
of its own length, and rest where it is solved while others go on. One length for all would be that
of the worst: with a sparse map some output has a kink on any way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from maxent.core.maps import SampleMap
from maxent.core.problem import Problem, State
from maxent.rows.arrays import Array

_ENOUGH = 1e-4  # share of the slope that a step must gain (Armijo)
_FLAT = 0.25  # share of the slope that may be left at the end of a step
_EDGE = 0.1  # share of a bracket by which it shrinks at least
_FURTHER = 4.0  # the longest next trial, in units of the last, while a step is too short
_TRIALS = 30
_WORTH = 1e-3  # of the largest gain that an output promises, below which it rests
_SLOPE = 1e-3  # share of the steepest curvature that counts for rows without any
_FEWEST = 2  # outputs


def lie_apart(problem: Problem) -> bool:
    """Whether the outputs of a problem have nothing to do with each other."""
    features = problem.features
    if not (isinstance(features, SampleMap) and features.whole and features.n_outputs >= _FEWEST):
        return False
    terms = problem.potential.elastic(features.n_features)
    apart = problem.entropy.separable and problem.entropy.differentiable
    return apart and problem.weights is not None and terms is not None and not terms[0].any()


def steps_apart(problem: Problem, state: State, accuracy: float, cg_iter: int) -> Iterator[State]:
    """The state after each step of the outputs that promise most; ends where none gains."""
    samples = _Samples(problem)
    while True:
        gradient = state.gradient.reshape(samples.shape) + samples.ridge * samples.weights(state)
        curved = samples.curvature(state)
        inverse = samples.inverse(curved)
        promised = np.einsum("ij,ij->j", gradient, inverse.times(gradient))
        moving = np.flatnonzero(promised > _WORTH * promised.max(initial=0.0))
        if not moving.size:
            return
        product = samples.product(curved[:, moving], samples.ridge[:, moving])
        step = _conjugate_gradients(
            product, inverse.of(moving), gradient[:, moving], accuracy, cg_iter
        )
        new = samples.search(state, gradient, moving, step)
        if new is None:
            return
        state = new
        yield state


class _Samples:
    """The samples of a problem, and its objective along the steps of some outputs."""

    def __init__(self, problem: Problem) -> None:
        features = problem.features
        assert isinstance(features, SampleMap)
        assert problem.weights is not None
        terms = problem.potential.elastic(features.n_features)
        assert terms is not None
        self.problem, self.outputs = problem, features.n_outputs
        self.shape = (-1, features.n_outputs)
        self.ridge = terms[1].reshape(self.shape)
        self.target = problem.target.reshape(self.shape)
        self.a = problem.weights[:, None]
        X = features.X
        if sparse.issparse(X):
            self.X, self.transposed = sparse.csr_array(X), sparse.csr_array(X.T)
            self.squares = self.transposed.power(2)
        else:
            self.X, self.transposed, self.squares = X, X.T, np.square(X).T
        self.sizes = np.asarray(self.squares @ self.a, np.float64)
        ones = (
            np.asarray(self.X[:, [-1]].sum(axis=0)).item()
            == self.X.shape[0]
            == self.squares[[-1]].sum()
        )
        self.intercept = ones and self.X.shape[1] > 1 and not self.ridge[-1].any()

    def weights(self, state: State) -> Array:
        """W, a column for each output."""
        return state.w.reshape(self.shape)

    def curvature(self, state: State) -> Array:
        """The slope of the map at each score, times the weight of its row."""
        slope = self.problem.entropy.hvp(state.theta, state.p, np.ones_like(state.theta))
        return np.asarray(self.a * slope)

    def inverse(self, curved: Array) -> _Inverse:
        """Approximate inverses of the Hessians."""
        steepest = curved.max(initial=0.0) / self.a.max()
        diagonal = np.asarray(self.squares @ curved, np.float64) + self.ridge
        diagonal += _SLOPE * steepest * self.sizes + 1e-300
        if not self.intercept:
            return _Inverse(diagonal)
        sums = np.asarray(self.transposed @ curved, np.float64)
        means = sums[:-1] / diagonal[-1]
        diagonal[:-1] = np.maximum(diagonal[:-1] - sums[:-1] * means, _SLOPE * diagonal[:-1])
        return _Inverse(diagonal, means)

    def product(self, curved: Array, ridge: Array) -> Callable[[Array, Array], Array]:
        """v -> H v of the outputs ``on`` of these."""

        def multiply(v: Array, on: Array) -> Array:
            image = self.transposed @ (curved[:, on] * (self.X @ v))
            return np.asarray(image, np.float64) + ridge[:, on] * v

        return multiply

    def search(self, state: State, gradient: Array, moving: Array, step: Array) -> State | None:
        """A state along the steps in which each output gains enough; None if none does."""
        full = np.zeros_like(gradient)
        full[:, moving] = step
        direction = self.problem.features.scores(full.ravel())[:, moving]
        line = _Line(self, state, moving, step, direction)
        length = _lengths(line, np.einsum("ij,ij->j", gradient[:, moving], step))
        if not length.any():
            return None
        w, theta = self.weights(state).copy(), np.array(state.theta)
        w[:, moving] += length * step
        theta[:, moving] += length * direction
        return self.problem.state(w.ravel(), theta)


class _Inverse(NamedTuple):
    """The diagonals of the Hessians, of columns less their ``means`` where an intercept is last."""

    diagonal: Array
    means: Array | None = None

    def of(self, outputs: Array) -> _Inverse:
        """Those of some outputs."""
        means = None if self.means is None else self.means[:, outputs]
        return _Inverse(self.diagonal[:, outputs], means)

    def times(self, residual: Array) -> Array:
        """The inverses times a vector each."""
        if self.means is None:
            return residual / self.diagonal
        x = residual.copy()
        x[:-1] -= self.means * residual[-1]
        x /= self.diagonal
        x[-1] -= np.einsum("ij,ij->j", self.means, x[:-1])
        return x


class _At(NamedTuple):
    """What each output's objective gains at its length, and its slope there."""

    gain: Array
    slope: Array


class _Line:
    """The objectives of some outputs along their steps."""

    def __init__(
        self, samples: _Samples, state: State, moving: Array, step: Array, direction: Array
    ) -> None:
        self._entropy, self._a = samples.problem.entropy, samples.a
        self._theta, self._direction = np.asarray(state.theta)[:, moving], direction
        weights, ridge = samples.weights(state)[:, moving], samples.ridge[:, moving]
        self._linear = np.einsum("ij,ij->j", ridge * weights - samples.target[:, moving], step)
        self._bend = np.einsum("ij,ij,ij->j", ridge, step, step)
        self._start = self._values(np.zeros(moving.size))[0]

    def _values(self, length: Array) -> tuple[Array, Array]:
        theta = self._theta + length * self._direction
        values, p = self._entropy.conjugate(theta.reshape(-1, 1))
        p = p.reshape(theta.shape)
        slope = np.einsum("i,ij,ij->j", self._a[:, 0], p, self._direction)
        return np.asarray(self._a * values.reshape(theta.shape)), slope

    def at(self, length: Array) -> _At:
        """What is gained at these lengths."""
        values, slope = self._values(length)
        rise = (values - self._start).sum(axis=0)
        rise += length * self._linear + 0.5 * length**2 * self._bend
        return _At(-rise, slope + self._linear + length * self._bend)


def _lengths(line: _Line, first: Array) -> Array:
    """The share of its step that each output takes, 0 where none gains enough."""
    length, found = np.ones_like(first), np.zeros_like(first)
    low, down = np.zeros_like(first), first.copy()
    high, up = np.full_like(first, np.inf), np.zeros_like(first)
    open_ = first < 0
    for _ in range(_TRIALS):
        at = line.at(length)
        enough = at.gain >= -_ENOUGH * length * first
        done = open_ & enough & (np.abs(at.slope) <= _FLAT * np.abs(first))
        short = open_ & enough & ~done & (at.slope < 0)
        long = open_ & ~done & ~short
        found = np.where(done | short, length, found)
        low, down = np.where(short, length, low), np.where(short, at.slope, down)
        high, up = np.where(long, length, high), np.where(long, at.slope, up)
        open_ = open_ & ~done
        if not open_.any():
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.where(up > 0, down / (down - up), 0.5)
            between = low + np.clip(share, _EDGE, 1 - _EDGE) * (high - low)
            rising = np.where(down > first, first / (first - down), np.inf)
            beyond = low * np.clip(rising, 1 + _EDGE, _FURTHER)
        length = np.where(open_, np.where(np.isfinite(high), between, beyond), length)
    return found


def _conjugate_gradients(
    product: Callable[[Array, Array], Array],
    inverse: _Inverse,
    gradient: Array,
    accuracy: float,
    cg_iter: int,
) -> Array:
    """Approximate solutions of H step = -gradient, each output with numbers of its own."""
    step, on = np.zeros_like(gradient), np.arange(gradient.shape[1])
    residual = -gradient
    direction = inverse.times(residual)
    norm = np.einsum("ij,ij->j", residual, direction)
    goal, x = accuracy**2 * norm, step.copy()
    for _ in range(cg_iter):
        image = product(direction, on)
        bend = np.einsum("ij,ij->j", direction, image)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = np.where(bend > 0, norm / bend, 0.0)
        x += length * direction
        residual -= length * image
        scaled = inverse.times(residual)
        new = np.einsum("ij,ij->j", residual, scaled)
        direction = scaled + (new / norm) * direction
        norm = new
        go_on = (new > goal) & (length > 0)
        if not go_on.all():  # those at their goal leave the matrices
            step[:, on[~go_on]] = x[:, ~go_on]
            on, inverse = on[go_on], inverse.of(go_on)
            x, residual, direction = x[:, go_on], residual[:, go_on], direction[:, go_on]
            norm, goal = norm[go_on], goal[go_on]
        if not on.size:
            break
    step[:, on] = x
    return step
