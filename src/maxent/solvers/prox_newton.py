"""Proximal Newton with working sets: the fast default for boxes, elastic nets and quadratics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from maxent._rows import Array, Rows, flat, row_scale
from maxent.maps import ColumnMap
from maxent.problem import Problem, State
from maxent.solvers.base import Solver, needs_gradient

_SAMPLED_ROWS = 20_000  # rows that make a Hessian good enough for the first steps
_CHEAP = 2e7  # multiplications below which a Hessian is not worth keeping
_GOOD_RATE = 0.2  # a step that shrinks the optimality below this share keeps its Hessian
_GROWTH = 1000  # features that join a large working set at most
_INNER = 1e-6  # accuracy of a model's solution, as a share of the optimality
_PASSES, _ROUNDS = 10, 100  # coordinate passes before a face is solved, and rounds of both
_DAMPING = 100.0  # factor by which a failed step is damped more, and a good one less
_LONGEST = 1e3  # a step longer than this share of the weights means no curvature at all
_RIDGE = 1e-12  # keeps a model with dependent features solvable
_POOR_RATE = 0.5  # above this share a sampled Hessian is replaced by the full one


@dataclass(frozen=True)
class ProxNewton(Solver):
    """Newton steps on the features that matter, by coordinate descent on their Gram matrix.

    The working set holds the features in use and those that violate optimality most, and grows
    as needed. The Hessian is kept while it still gives fast steps, and for many rows the first
    ones come from a sample of the rows: the certificate, not the Hessian, decides when to stop.
    """

    max_iter: int = 200
    working_set: int = 32

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Elastic penalty, columns, and a Jacobian that is a diagonal less a rank one."""
        if problem.potential.elastic(problem.features.n_features) is None:
            return (
                f"{problem.potential!r} is not a sum of l1 and squared l2 terms; use FISTA, or "
                "Box, Quadratic, ElasticNet"
            )
        if not isinstance(problem.features, ColumnMap):
            return f"{type(problem.features).__name__} cannot write out columns; use FISTA or LBFGS"
        lack = needs_gradient(problem)
        if lack:
            return lack
        if not problem.entropy.has_curvature:
            return f"{problem.entropy!r} has no simple Jacobian; use FISTA or LBFGS"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        l1, l2 = problem.potential.elastic(problem.features.n_features)  # type: ignore[misc]
        model = _Model(problem)
        room, damping = self.working_set, 0.0
        while True:
            before = state.optimality
            index = _working_set(state, room)
            model.prepare(state, index)
            new = _newton_step(problem, state, index, model.gram(index), l1, l2, damping)
            if new is None:
                if not model.is_exact_at(state):
                    model.discard()
                    continue
                # a flat map (a sparse one at a vertex) has no curvature to trust: shorten the step
                damping = max(_DAMPING * damping, 1e-2 * before / (1 + np.abs(state.w).max()))
                if damping * (1 + np.abs(state.w).max()) > 1e8 * before:
                    return
                continue
            damping = damping / _DAMPING if damping > _RIDGE else 0.0
            state = new
            yield state
            rate = state.optimality / before if before > 0 else 0.0
            if rate > _POOR_RATE:
                room = min(2 * room, problem.features.n_features)
            cheap = index.size**2 * flat(state.theta).size <= _CHEAP
            if cheap or rate > _GOOD_RATE:
                model.discard(keep_sample=rate <= _POOR_RATE)


class _Model:
    """The Gram matrix of the last Hessian, over the columns asked for so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        rows = problem.features.n_rows
        self.complete = rows is None or rows <= 2 * _SAMPLED_ROWS
        self._columns = np.empty(0, dtype=int)
        self._state: State | None = None
        self._gram = np.empty((0, 0))

    def prepare(self, state: State, index: Array) -> None:
        """Make sure the Gram matrix covers ``index``, computing it at ``state`` if need be."""
        if self._columns.size and np.isin(index, self._columns).all():
            return
        diagonal, spike = _curvature(state)
        rows = slice(None)
        if not self.complete:
            step = self.problem.features.n_rows // _SAMPLED_ROWS
            rows = slice(None, None, step)  # every step-th row: a view, no gathering
            diagonal = diagonal[rows] * step
            spike = None if spike is None else spike[rows] * np.sqrt(step)
        self._gram = self.problem.features.gram(index, diagonal, spike, rows)
        self._columns, self._state = index, state

    def is_exact_at(self, state: State) -> bool:
        """Whether the Hessian is the one of this state, from all rows."""
        return self.complete and self._state is state

    def gram(self, index: Array) -> Array:
        """The part of the Gram matrix for ``index``."""
        position = np.searchsorted(self._columns, index)
        return self._gram[np.ix_(position, position)]

    def discard(self, keep_sample: bool = False) -> None:
        """Ask for a new Hessian; from all rows unless the sample still served."""
        self._columns = np.empty(0, dtype=int)
        self.complete = self.complete or not keep_sample


def _curvature(state: State) -> tuple[Rows, Rows | None]:
    """The Jacobian of the map with the row weights in it."""
    diagonal, spike = state.problem.entropy.curvature(
        np.atleast_2d(state.theta), np.atleast_2d(state.p)
    )
    weights = state.problem.weights
    if weights is None:
        return diagonal[0], None if spike is None else spike[0]
    return (
        row_scale(diagonal, weights),
        None if spike is None else row_scale(spike, np.sqrt(weights)),
    )


def _working_set(state: State, room: int) -> Array:
    """Features in use, and the worst violators: ``room`` in all, or as many again as in use."""
    size = state.w.size
    moved = state.problem.prox(state.w - state.gradient, 1.0)
    violation = np.abs(state.w - moved)
    active = state.w != 0
    used = int(active.sum())
    count = min(size, max(room, used + min(used, _GROWTH)))
    if count >= size:
        return np.arange(size)
    violation[active] = np.inf
    chosen = np.argpartition(violation, -count)[-count:]
    return np.sort(chosen[violation[chosen] > 0])


def _solve_model(
    gram: Array, gradient: Array, w: Array, l1: Array, l2: Array, goal: float
) -> Array:
    """The step d of the quadratic model: coordinate descent finds the face, then it is solved."""
    from maxent._kernels.coordinate import elastic_quadratic

    d = np.zeros_like(w)
    for _ in range(_ROUNDS):
        if elastic_quadratic(gram, gradient, w, l1, l2, d, _PASSES, goal):
            break
        _solve_face(gram, gradient, w, l1, l2, d)
    return d


def _solve_face(gram: Array, gradient: Array, w: Array, l1: Array, l2: Array, d: Array) -> None:
    """Newton's step with the signs of w + d held, in place; stops where the first sign changes."""
    x = w + d
    face = np.flatnonzero((x != 0) | (l1 == 0))
    here, threshold = x[face], l1[face]
    slope = (gradient + gram @ d)[face] + threshold * np.sign(here) + l2[face] * here
    matrix = gram[np.ix_(face, face)] + np.diag(l2[face])
    try:
        move = linalg.cho_solve(linalg.cho_factor(matrix, check_finite=False), -slope)
    except linalg.LinAlgError:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        flips = (threshold > 0) & (np.sign(here + move) != np.sign(here))
        share = np.where(flips, -here / move, np.inf)
    length = min(1.0, float(share.min(initial=1.0)))
    new = np.where(share <= length, 0.0, here + length * move)
    d[face] = new - w[face]


def _newton_step(
    problem: Problem,
    state: State,
    index: Array,
    gram: Array,
    l1: Array,
    l2: Array,
    damping: float,
) -> State | None:
    """A step that lowers the dual, or None."""
    size = 1 + np.abs(state.w).max()
    mean = float(np.trace(gram)) / max(len(gram), 1)
    ridge = max(_RIDGE * mean, _RIDGE * state.optimality / size, damping)
    gram = gram + ridge * np.eye(len(gram))
    w, gradient = state.w[index], state.gradient[index]
    goal = _INNER * min(state.optimality, 1.0)
    step = _solve_model(gram, gradient, w, l1[index], l2[index], goal)
    if not 0 < np.abs(step).max() < _LONGEST * size:
        return None
    moved = np.flatnonzero(step)
    direction = problem.features.column_scores(index[moved], step[moved])

    def penalty(v: Array) -> float:
        return float(l1[index] @ np.abs(v) + 0.5 * (l2[index] @ v**2))

    # decrease predicted by the model's linear part and the penalty (Tseng and Yun, 2009)
    predicted = float(gradient @ step) + penalty(w + step) - penalty(w)
    length = 1.0
    slack = 1e-15 * max(1.0, abs(state.dual))
    for _ in range(30):
        full = state.w.copy()
        full[index] = w + length * step
        new = problem.state(full, state.theta + length * direction)
        if new.dual <= state.dual + 1e-4 * length * min(predicted, 0.0) + slack:
            flat = abs(new.dual - state.dual) <= slack
            return new if not flat or new.optimality < state.optimality else None
        length /= 2
    return None
