"""Truncated Newton for many densities over the same cells, whose weights are coupled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.maps import JointMap, shannon_base
from maxent.core.potentials import Coupled, Quadratic
from maxent.core.potentials.spiked import Spiked
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver
from maxent.rows.arrays import Array

_ENOUGH = 1e-4  # share of the slope that a step must gain (Armijo)
_TRIALS, _APART = 45, 8  # trials of lengths, and how many of them for each density by itself
_TOGETHER = 0.25  # the first of the lengths that are tried for all densities after that
_SETTLED, _FAR = 0.1, 0.5  # gap above which a step is far from the end, and its accuracy there
_NOISE = 4.0  # roundings of the products by which the dual may seem to rise
_DIRECTIONS = 64  # of A that the preconditioner knows; the others count as alike
_ROWS = 32  # densities whose products are made at once


@io.register
@dataclass(frozen=True)
class JointNewton(Solver):
    """Newton steps by conjugate gradients for ``JointMap``, Shannon and ``Coupled`` quadratics.

    The Hessian is `W -> sum_s a_s C_s w_s e_s' + c W A^-1`, `C_s` the covariance of the features
    under density s. Its preconditioner has `t_s C` for `C_s`, C their mean and `t_s` the share of
    its trace, which the eigenvectors of C take apart into a system in A for every eigenvalue. Each
    density has its own length of a step: where one bends more than its model, it alone is held
    back. A step costs a few products with the features, and two for every conjugate gradient, on a
    sample of the cells where the distributions take more than ``memory``. Steps may be in float32;
    the gap that stops them is of the point that was reached.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop.
    max_iter : int, default 200
        Newton steps at most.
    accuracy : float, default 0.1
        Share of the gradient, in the norm of the preconditioner, that a step may leave; the root
        of the gap where that is less.
    cg_iter : int, default 60
        Products with the Hessian per step, at most.
    memory : int, default 512 MiB
        Bytes of distributions that are kept for products with the Hessian.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 200
    accuracy: float = 0.1
    cg_iter: int = 60
    memory: int = 1 << 29

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.accuracy < 1:
            raise ValueError(f"accuracy must lie between 0 and 1, got {self.accuracy!r}")
        if self.cg_iter < 1:
            raise ValueError(f"cg_iter must be >= 1, got {self.cg_iter!r}")
        if not self.memory > 0:
            raise ValueError(f"memory must be > 0, got {self.memory!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A ``JointMap``, Shannon's entropy of the simplex and a quadratic, coupled or not."""
        if not isinstance(problem.features, JointMap):
            return "it is for the rows of a JointMap; use NewtonCG or LBFGS"
        if shannon_base(problem.entropy) is None:
            return f"it is for Shannon's entropy of the simplex, not {problem.entropy!r}; use LBFGS"
        if _quadratic(problem) is None:
            return (
                f"it is for Coupled with a scalar Quadratic, not {problem.potential!r}; use LBFGS"
            )
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        model = _Model.of(problem)
        noise = _NOISE * float(np.finfo(problem.features.products).eps)
        for draw in count():  # another sample for every step: their errors do not add up
            gradient = model.gradient(state)
            hessian = _Hessian.at(problem, state, self.memory, draw)
            step = self._step(model, hessian, gradient, float(state.gap))
            new = _reached(problem, model, state, step, noise)
            if new is None:
                return
            state = new
            yield state

    def _step(self, model: _Model, hessian: _Hessian, gradient: Array, gap: float) -> Array:
        """An approximate solution of H step = -gradient."""
        precondition = model.preconditioner(hessian)
        step, residual = np.zeros_like(gradient), -gradient
        scaled = precondition(residual)
        norm = float(np.vdot(residual, scaled))
        # far from the end a step is not worth many products
        accuracy = min(_FAR, max(self.accuracy, gap)) if gap > _SETTLED else self.accuracy
        direction, goal = scaled, min(accuracy, np.sqrt(gap)) ** 2 * norm
        for _ in range(self.cg_iter):
            image = hessian.product(direction) + model.penalty_gradient(direction)
            bend = float(np.vdot(direction, image))
            if not bend > 0:
                break
            length = norm / bend
            step += length * direction
            residual -= length * image
            scaled = precondition(residual)
            new = float(np.vdot(residual, scaled))
            if not new > goal:
                break
            direction = scaled + (new / norm) * direction
            norm = new
        return step


def _quadratic(problem: Problem) -> tuple[Spiked, float] | None:
    """A and c of the penalty `c/2 tr(W A^-1 W')`; None where it is another."""
    potential = problem.potential
    if isinstance(potential, Coupled):
        ridge = potential.ridge()
        scalar = ridge is not None and not ridge.ndim
        return (potential.relation, float(ridge)) if scalar and ridge is not None else None
    if type(potential) is Quadratic and not np.ndim(potential.strength):
        return Spiked.identity(problem.features.n_rows), float(potential.strength)
    return None


class _Model(NamedTuple):
    """What stays the same: weights a, A and c; ``spikes`` are the directions of A told apart."""

    weights: Array
    relation: Spiked
    c: float
    rest: float
    spikes: Array
    share: Array

    @classmethod
    def of(cls, problem: Problem) -> _Model:
        """Of a problem."""
        found = _quadratic(problem)
        assert found is not None
        rest, spikes, spectrum = _told_apart(found[0])
        return cls(problem.weights, *found, rest, spikes, 1 - rest / spectrum)

    def penalty_gradient(self, W: Array) -> Array:
        """`c W A^-1`."""
        return self.c * self.relation.times(W, -1.0)

    def gradient(self, state: State) -> Array:
        """That of the dual, (features, rows)."""
        W = state.w.reshape(-1, self.weights.size)
        return state.gradient.reshape(W.shape) + self.penalty_gradient(W)

    def preconditioner(self, hessian: _Hessian) -> Callable[[Array], Array]:
        """The inverse of the Hessian with `t_s C` for the covariances `C_s`."""
        e, vectors = np.linalg.eigh(hessian.pooled())
        e = np.maximum(e, 1e-12 * max(float(e[-1]), 1e-300))
        spread = hessian.spreads() / max(float(e.sum()), 1e-300)
        plain = e[:, None] * (self.weights * spread) + self.c / self.rest
        spikes = self.spikes
        # (e D + c A^-1)^-1 by Woodbury, with A^-1 = (I - Q share Q') / rest
        inside = np.empty((len(e), len(self.share), len(self.share)))
        corner = np.diag(self.rest / (self.c * self.share))
        for j, diagonal in enumerate(plain):
            inside[j] = np.linalg.inv(corner - spikes.T @ (spikes / diagonal[:, None]))

        def precondition(G: Array) -> Array:
            x = (vectors.T @ G) / plain
            if len(corner):
                pull = np.einsum("jkl,jl->jk", inside, x @ spikes)
                x += (pull @ spikes.T) / plain
            return np.asarray(vectors @ x)

        return precondition


def _told_apart(A: Spiked) -> tuple[float, Array, Array]:
    """An eigenvalue for most directions, and the directions that are furthest above it."""
    low, _ = A.extremes
    far = np.argsort(-A.spectrum)[:_DIRECTIONS]
    left = np.delete(A.spectrum, far)
    if A.basis.shape[0] != A.basis.shape[1]:
        rest = A.rest
    else:  # where all are told apart any positive number does
        rest = float(np.exp(np.log(left).mean())) if left.size else low
    far = far[A.spectrum[far] > rest * (1 + 1e-6)]
    return rest, A.basis[:, far], A.spectrum[far]


class _Hessian(NamedTuple):
    """Distributions (rows, cells) over all cells or a sample of them, and the features there."""

    q: Array
    mean: Array
    across: Array
    weights: Array

    @classmethod
    def at(cls, problem: Problem, state: State, memory: int, seed: int = 0) -> _Hessian:
        """At a state; the sample is drawn where the mean of all densities is."""
        features, base = problem.features, shannon_base(problem.entropy)
        assert base is not None
        across = features.across
        cells = across.shape[1]
        most = int(memory // (features.n_rows * across.itemsize))
        chosen, share = None, None
        if most < cells:
            chosen, share = _sample(features, state, base[0], most, seed)
            across = np.ascontiguousarray(across[:, chosen])
        q = np.empty((features.n_rows, across.shape[1]), dtype=across.dtype)

        def use(rows: slice, made: Array, peak: Array, total: Array) -> None:
            part = made if chosen is None else made[:, chosen] * share
            np.divide(part, part.sum(axis=1, dtype=np.float64)[:, None], out=q[rows])

        features.over_distributions(state.w, base[0], use)
        return cls(q, q @ across.T, across, problem.weights)

    def pooled(self) -> Array:
        """`sum_s a_s C_s`."""
        everywhere = (self.weights.astype(self.q.dtype) @ self.q) / self.weights.sum()
        mean = self.across @ everywhere
        apart = self.across - mean[:, None]
        total = np.asarray((apart * everywhere) @ apart.T, dtype=np.float64)
        between = self.mean - mean
        return total - (between.T * (self.weights / self.weights.sum())) @ between

    def spreads(self) -> Array:
        """The trace of every `C_s`."""
        size = np.einsum("ij,ij->j", self.across, self.across)
        spread = np.asarray(self.q @ size, dtype=np.float64)
        spread -= (self.mean.astype(np.float64) ** 2).sum(axis=1)
        return np.maximum(spread, 1e-6 * spread.max(initial=0.0))

    def product(self, W: Array) -> Array:
        """`a_s C_s w_s` for every column."""
        D = np.ascontiguousarray(W.T, dtype=self.q.dtype)
        image = np.empty((len(self.q), len(self.across)))
        starts = range(0, len(self.q), _ROWS)

        def work(first: int, last: int) -> None:
            for start in starts[first:last]:
                rows = slice(start, start + _ROWS)
                moved = D[rows] @ self.across
                moved -= np.einsum("ij,ij->i", moved, self.q[rows])[:, None]
                moved *= self.q[rows]
                image[rows] = moved @ self.across.T

        over_rows(work, len(starts), _ROWS * self.across.size // 64)
        image *= self.weights[:, None]
        return image.T


def _sample(
    features: JointMap, state: State, base: Array | None, most: int, seed: int
) -> tuple[Array, Array]:
    """Cells drawn where the densities are, half of them evenly, and 1 / their chances."""
    mean = np.zeros(len(features.X))
    sums = []

    def use(rows: slice, made: Array, peak: Array, total: Array) -> None:
        sums.append((1 / total).astype(made.dtype) @ made)

    features.over_distributions(state.w, base, use)
    for part in sums:
        mean += part
    chosen, mass = drawn_cells(mean, most, seed)
    return chosen, mass.astype(features.products)


def drawn_cells(likely: Array, number: int, seed: int = 0) -> tuple[Array, Array]:
    """Cells drawn half by ``likely`` and half evenly, each once, and 1 / their chances."""
    number = max(number, 1)
    chance = 0.5 * likely / likely.sum() + 0.5 / likely.size
    chosen = np.unique(np.random.default_rng(seed).choice(likely.size, size=number, p=chance))
    hit = -np.expm1(number * np.log1p(-chance[chosen]))
    return chosen, 1 / hit


def _reached(
    problem: Problem, model: _Model, state: State, step: Array, noise: float
) -> State | None:
    """The state after a step that gains enough, some densities' steps shortened; None if none does.

    Each density has to gain by its own step, the others staying where they are: with the identity
    for A that is a line search for each.
    """
    weights, old = model.weights, state.evaluation.conjugate
    gradient = model.gradient(state)
    slopes = (gradient * step).sum(axis=0)
    tangent = ((state.gradient + problem.target).reshape(step.shape) * step).sum(axis=0)
    bend = 0.5 * model.c * model.relation.diagonal(-1.0) * (step * step).sum(axis=0)
    lengths = np.ones(len(weights))
    slack = noise * (abs(state.evaluation.total) + abs(state.penalty))
    for trial in range(_TRIALS):
        moved = step * lengths
        new = problem.state(state.w + moved.ravel())
        if new.dual <= state.dual + slack and new.gap < 0.5 * state.gap:
            return new
        rise = weights * (new.evaluation.conjugate - old) - lengths * tangent
        own = rise + lengths * slopes + lengths**2 * bend
        over = (own > _ENOUGH * lengths * np.minimum(slopes, 0.0) + slack) & (slopes < 0)
        if not over.any() or trial >= _APART:
            slope = float(np.vdot(gradient, moved))
            if slope < 0 and new.dual <= state.dual + _ENOUGH * slope:
                return new
            # lengths apart may turn a step of coupled densities uphill; one length never does
            lengths = lengths * 0.5 if np.ptp(lengths) == 0 else np.full_like(lengths, _TOGETHER)
        else:
            lengths[over] *= 0.5
    return None
