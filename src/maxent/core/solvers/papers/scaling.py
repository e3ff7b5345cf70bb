"""Iterative scaling for densities: one weight at a time, or all at once (density paper, §6, §7).

Both maximise a lower bound on the gain of the dual objective. With ``Equality`` PLUMMET is
generalized iterative scaling (Darroch and Ratcliff, 1972). They are slow next to ``ProxNewton``,
and worth having for their bound and their simplicity.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxent import io
from maxent.core.domains import Simplex
from maxent.core.entropies import Relative, Shannon, Shifted
from maxent.core.maps import ColumnMap, FeatureMap
from maxent.core.potentials import NormBall
from maxent.core.problem import Problem, State
from maxent.core.solvers._unit_features import (
    PARALLEL,
    SELECTIVE,
    GainBound,
    UnitFeatures,
    UnitState,
)
from maxent.core.solvers.base import Solver
from maxent.rows.arrays import Array


class _Scaling(Solver):
    """What the selective and the parallel update share."""

    _bound: ClassVar[GainBound]

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """One distribution, the Shannon entropy, a decomposable potential, known ranges."""
        others = "use ProxNewton, LBFGS or FISTA"
        features, potential, entropy = problem.features, problem.potential, problem.entropy
        if features.n_rows is not None:
            return f"it is for one distribution over cells, {features!r} has rows; {others}"
        while isinstance(entropy, Relative | Shifted):
            entropy = entropy.entropy
        if not (isinstance(entropy, Shannon) and isinstance(entropy.domain, Simplex)):
            return (
                "it needs the Shannon entropy of the simplex (or Relative or Shifted of it), got "
                f"{problem.entropy!r}; {others}"
            )
        if not potential.decomposable:
            ball = isinstance(potential, NormBall) and potential.p == 2
            return (
                f"{potential!r} is not declared a sum over the features (decomposable); use "
                f"{'BallSearch' if ball else 'FISTA'}, or Box, Quadratic, ElasticNet ..."
            )
        if type(features).ranges is FeatureMap.ranges:
            return f"{features!r} does not know the ranges of its features; {others}"
        return None

    def _initial(self, state: State) -> UnitState:
        return UnitFeatures(state.problem, self._bound, state.theta).measure(state)

    def _measures(self, state: State) -> dict[str, float]:
        assert isinstance(state, UnitState)
        return {"auxiliary": state.auxiliary}

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        assert isinstance(state, UnitState)
        unit = state.unit
        if unit.ray is not None:
            yield unit.far(state)
            return
        while True:
            new = unit.state(self._update(problem, state))
            if np.array_equal(new.w, state.w):
                return
            state = unit.measure(new)
            yield state

    @abstractmethod
    def _update(self, problem: Problem, state: UnitState) -> Array:
        """The next weights."""


@io.register
@dataclass(frozen=True)
class SUMMET(_Scaling):
    """Selective update: the one weight, and the step, that maximise the bound `F_j`.

    `F_j(delta) = -log(1 + (e^delta - 1) E_p[f_j]) + delta mu_j - V_j*(-w_j - delta) + V_j*(-w_j)`,
    with features brought to [0, 1] by their ranges (density paper, Fig. 2 and 3). For Shannon
    densities with a decomposable potential; the step is explicit for ``Equality`` and ``Box``.
    Records in the history have the key ``auxiliary``, `sum_j max F_j`. A mean that must lie at the
    end of a feature's range (an ``Equality`` there) is reached in the limit only: cells that are
    excluded by it keep a mass of 1e-16, the weight is as large as that takes.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 20000
        Sweeps at most.
    sweep : int, default 10
        Updates between two states, so that the certificate costs little.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.

    Examples
    --------
    >>> import numpy as np
    >>> import maxent as mx
    >>> X = np.eye(3)[:, :2]
    >>> problem = mx.Problem(mx.Shannon(), X, mx.Box(0.1), observed=[0.7, 0.2, 0.1])
    >>> solution = problem.solve(mx.SUMMET())
    >>> solution.p.round(3), bool(solution.history[-1]["auxiliary"] < 1e-8)
    (array([0.6, 0.2, 0.2]), True)
    """

    max_iter: int = 20_000
    sweep: int = 10
    _bound: ClassVar[GainBound] = SELECTIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sweep < 1:
            raise ValueError(f"sweep must be >= 1, got {self.sweep!r}")

    def _update(self, problem: Problem, state: UnitState) -> Array:
        unit, features = state.unit, problem.features
        w, theta = state.w.copy(), state.theta.astype(np.float64)
        goal, gains = state.goal, state.gains
        w[unit.constant] = (goal / unit.size)[unit.constant]  # Appendix G, steps 3 and 4
        for count in range(self.sweep):
            if count:
                goal, gains = unit.best(unit.means(theta), w)
            j = int(np.argmax(gains))
            new = goal[j] / unit.size[j]
            if not gains[j] > 0 or new == w[j]:
                break
            theta += column_scores(features, j, new - w[j])
            w[j] = new
        return w


@io.register
@dataclass(frozen=True)
class PLUMMET(_Scaling):
    """Parallel update: all weights at once, each to the maximum of its own bound.

    `F_j(delta) = -(e^delta - 1) E_p[f_j] + delta mu_j - V_j*(-w_j - delta) + V_j*(-w_j)`, with
    features >= 0 whose sum is at most 1 at every cell, brought there by their ranges and the
    largest sum (density paper, Fig. 4 and 5). With ``Equality`` generalized iterative scaling. For
    Shannon densities with a decomposable potential. Records in the history have the key
    ``auxiliary``, `sum_j max F_j`. Means at the end of a feature's range are as in ``SUMMET``.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 100000
        Iterations at most.
    overrelax : float, default 1.0
        Factor by which steps grow longer than the bound's for as long as they gain at least what
        the bound promises, so that the proof of convergence holds (after Salakhutdinov and Roweis,
        2003); 1 for the paper's steps, 1.5 where many features overlap.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.

    Examples
    --------
    >>> import numpy as np
    >>> import maxent as mx
    >>> problem = mx.Problem(mx.Shannon(), [[0.0], [1.0], [2.0]], mx.Equality(), target=[1.5])
    >>> problem.solve(mx.PLUMMET()).p.round(3)
    array([0.116, 0.268, 0.616])
    """

    max_iter: int = 100_000
    overrelax: float = 1.0
    _bound: ClassVar[GainBound] = PARALLEL

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.overrelax >= 1:
            raise ValueError(f"overrelax must be >= 1, got {self.overrelax!r}")

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        assert isinstance(state, UnitState)
        if self.overrelax == 1 or state.unit.ray is not None:
            yield from super()._iterate(problem, state)
            return
        length = 1.0
        while True:
            plain = self._update(problem, state)
            if np.array_equal(plain, state.w):
                return
            length *= self.overrelax
            new = state.unit.state(_longer(state.w, plain, length))
            if not new.dual <= state.dual - state.auxiliary:
                length, new = 1.0, state.unit.state(plain)
            state = state.unit.measure(new)
            yield state

    def _update(self, problem: Problem, state: UnitState) -> Array:
        # degenerate features keep their weight to the last bit
        return np.where(state.unit.free, state.goal / state.unit.size, state.w)


def _longer(w: Array, plain: Array, length: float) -> Array:
    """w + length (plain - w), where that keeps the signs of the plain step."""
    longer = w + length * (plain - w)
    return np.where(longer * plain > 0, longer, plain)


def column_scores(features: FeatureMap, j: int, change: float) -> Array:
    """What the scores gain from a change of one weight."""
    if isinstance(features, ColumnMap):
        return features.restrict(np.array([j])).scores(np.array([change]))
    one = np.zeros(features.n_features)
    one[j] = change
    return features.scores(one)
