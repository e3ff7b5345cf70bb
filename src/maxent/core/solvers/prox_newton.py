"""Proximal Newton with working sets: the fast default for boxes, elastic nets and quadratics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.maps import SelectableFeatures
from maxent.core.potentials import ElasticPotential
from maxent.core.problem import Problem, State
from maxent.core.solvers._faces import solve_faces
from maxent.core.solvers.base import Solver, elastic_terms, needs_gradient
from maxent.rows.arrays import Array

_STEPS = 10  # Newton steps on a working set at most, before all features are looked at
_WORTH = {False: 0.03, True: 0.3}  # share of the optimality to which a working set is solved
_ROOM = {False: 32, True: 48}  # features in the first one; True where a look at all is cheap
_SAMPLE = 20_000  # rows or cells that make a Hessian good enough for fast steps
_CHEAP = 2e7  # multiplications below which a Hessian is not worth keeping
_GOOD_RATE = 0.2  # a step that shrinks the optimality below this share keeps its Hessian
_GROWTH = 1000  # features that join a large working set at most
_INNER = 1e-6  # accuracy of a model's solution, as a share of the optimality
_PASSES, _FACES, _ROUNDS = 4, 100, 100  # coordinate passes, then faces in turn; rounds of both
_DAMPING = 100.0  # factor by which a failed step is damped more, and a good one less
_LONGEST = 1e3  # a step that moves the scores by more, in multiples of them, has no curvature
_RIDGE = 1e-12  # keeps a model with dependent features solvable
_POOR_RATE = 0.5  # above this share a larger sample makes the Hessian
_MORE = 8  # times as large


@io.register
@dataclass(frozen=True)
class ProxNewton(Solver):
    """Newton steps on the features that matter, by coordinate descent on their Gram matrix.

    The working set holds the features in use and those that violate optimality most, and grows
    as needed. The Hessian is kept while it still gives fast steps, and of many rows (or cells) a
    sample makes it for as long as its steps are fast: the certificate decides when to stop.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 200
        Iterations at most.
    working_set : int, default None
        Features in the first working set; None chooses by the problem.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 200
    working_set: int | None = None

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Elastic penalty, columns, and a Jacobian that is a diagonal less a rank one."""
        if problem.potential.elastic(problem.features.n_features) is None:
            return (
                f"{problem.potential!r} is not a sum of l1 and squared l2 terms; use FISTA, or "
                "Box, Quadratic, ElasticNet"
            )
        if not isinstance(problem.features, SelectableFeatures):
            return f"{type(problem.features).__name__} cannot write out columns; use FISTA or LBFGS"
        lack = needs_gradient(problem)
        if lack:
            return lack
        if not problem.entropy.has_curvature:
            return f"{problem.entropy!r} has no simple Jacobian; use FISTA or LBFGS"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        cheap = problem.features.cheap_moments
        room, working = self.working_set or _ROOM[cheap], None
        sizes = state.evaluation.sizes
        while True:
            before = state.optimality
            index = _violators(state, room)
            if working is None or not np.isin(index, working.index).all():
                working = _WorkingSet(problem, index, *sizes)
            new = working.improve(state)
            if new is None:
                return
            state = new
            yield state
            crowded = 2 * np.count_nonzero(state.w) > index.size
            if crowded and state.optimality > _POOR_RATE * before:
                room = min(2 * room, _GROWTH, problem.features.n_features)


class _WorkingSet:
    """The problem of a few features, all others being zero, with its last Hessian."""

    def __init__(self, whole: Problem, index: Array, points: int, scores: int) -> None:
        self.whole, self.index = whole, index
        l1, l2 = elastic_terms(whole)
        self.l1, self.l2 = l1[index], l2[index]
        self.problem = whole.restrict(index, Elastic(self.l1, self.l2)).with_unit(whole.unit)
        self.points, self.scores = points, scores  # rows (cells of a single one), all scores
        self.sample = _SAMPLE
        self.damping = 0.0
        self._gram: Array | None = None
        self._at: State | None = None

    def improve(self, whole: State) -> State | None:
        """Newton steps until the working set is as good as is worth before looking at the rest."""
        index = self.index
        worth = _WORTH[self.whole.features.cheap_moments]
        moments = whole.evaluation.moments[index]
        first = state = whole.transfer(self.problem, whole.w[index], moments)
        for _ in range(_STEPS):
            new = self._step(state)
            if new is None:
                break
            state = new
            if state.optimality <= worth * whole.optimality:
                break
        if state is first:
            return None
        w = np.zeros_like(whole.w)
        w[index] = state.w
        whole_set = index.size == w.size
        return state.transfer(self.whole, w, state.evaluation.moments if whole_set else None)

    def _step(self, state: State) -> State | None:
        """One step, with a better Hessian or more damping as long as it fails."""
        if state.optimality == 0:
            return None
        size = 1 + np.abs(state.w).max(initial=0.0)
        while True:
            gram = self._hessian(state)
            new = _newton_step(self.problem, state, gram, self.l1, self.l2, self.damping)
            if new is not None:
                rate = new.optimality / state.optimality
                if rate > _GOOD_RATE or self._cheap():
                    self._gram = None
                if rate > _POOR_RATE:
                    self.sample *= _MORE
                self.damping = self.damping / _DAMPING if self.damping > _RIDGE else 0.0
                return new
            if self._at is not state or self._every() > 1:
                self._gram, self.sample = None, _MORE * self.sample
                continue
            # a flat map (a sparse one at a vertex) has no curvature to trust: shorten the step
            slope = state.optimality * self.problem.unit
            self.damping = max(_DAMPING * self.damping, 1e-2 * slope / size)
            if self.damping * size > 1e8 * slope:
                return None

    def _cheap(self) -> bool:
        """Whether a Hessian costs too little to be kept."""
        return self.index.size**2 * self.scores <= _CHEAP

    def _every(self) -> int:
        """One of how many points makes the Hessian."""
        return max(self.points // self.sample, 1)

    def _hessian(self, state: State) -> Array:
        if self._gram is None:
            self._gram = state.evaluation.hessian(self._every())
            self._at = state
        return self._gram


@dataclass(frozen=True, eq=False)
class Elastic(ElasticPotential):
    """The penalty of a working set: any l1 and l2, zeros included."""

    l1: Array
    l2: Array

    def coefficients(self) -> tuple[Array, Array]:
        """As given."""
        return self.l1, self.l2


def _violators(state: State, room: int) -> Array:
    """Features in use and the worst violators: ``room`` in all, or half as many as in use."""
    size = state.w.size
    violation = state.violation.copy()
    active = state.w != 0
    used = int(active.sum())
    count = max(room, used + min(used // 2, _GROWTH))
    if 2 * count >= size and size <= 2 * _GROWTH:  # half of them: no use in choosing
        return np.arange(size)
    violation[active] = 0.0
    chosen = state.problem.features.candidates(violation, count - used)
    return np.union1d(np.flatnonzero(active), chosen)


def _solve_model(
    gram: Array, gradient: Array, w: Array, l1: Array, l2: Array, goal: float
) -> Array:
    """The step d of the quadratic model: coordinate descent finds a face, Newton solves it."""
    from maxent._support.compiling.kernels import exact
    from maxent.core.kernels.coordinate_descent import elastic_quadratic

    d = np.zeros_like(w)
    with np.errstate(all="ignore"):  # a step that is not finite is not taken
        for _ in range(_ROUNDS):
            descend = exact(elastic_quadratic, _PASSES * w.size**2)
            if descend(gram, gradient + gram @ d, w, l1, l2, d, _PASSES, goal):
                break
            try:
                solve_faces(gram, gradient, w, l1, l2, d, _FACES)
            except np.linalg.LinAlgError:
                break
    return d


def _newton_step(
    problem: Problem, state: State, gram: Array, l1: Array, l2: Array, damping: float
) -> State | None:
    """A step that lowers the dual, or None."""
    ridge = max(_RIDGE * float(np.trace(gram)) / max(len(gram), 1), damping)
    if ridge == 0:  # no curvature at all
        return None
    w, gradient = state.w, state.gradient
    goal = _INNER * min(state.optimality, 1.0) * problem.unit
    step = _solve_model(gram + ridge * np.eye(len(gram)), gradient, w, l1, l2, goal)
    if not (step.any() and np.isfinite(step).all()):
        return None
    ray = problem.ray(state, step)
    if ray.moves_scores_by(_LONGEST):
        return None
    # decrease predicted by the model's linear part and the penalty (Tseng and Yun, 2009)
    predicted = float(gradient @ step) + problem.penalty(w + step) - state.penalty
    length = 1.0
    slack = 1e-15 * max(1.0, abs(state.dual))
    for _ in range(30):
        new = ray.state(length)
        if new.dual <= state.dual + 1e-4 * length * min(predicted, 0.0) + slack:
            stuck = abs(new.dual - state.dual) <= slack
            return new if not stuck or new.optimality < state.optimality else None
        length /= 2
    return None
