"""Cutting planes (fully corrective Frank-Wolfe) for entropies without a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy

from maxent import io
from maxent.core.maps import RowMap
from maxent.core.problem import Problem, State
from maxent.core.solvers._sum_planes import planes_of_sums
from maxent.core.solvers.base import Solver, elastic_terms, needs_kinks
from maxent.rows.arrays import Array, Rows

_WIDE = 1_000.0  # times the unit of the weights
_FINER = 0.1  # share of the tolerance that the programme of the rows may miss


@io.register
@dataclass(frozen=True)
class CuttingPlane(Solver):
    """Perceptrons and hinges, plain or structured: `Omega*` is a maximum of linear functions.

    Each answer p of the oracle gives a plane `<w, F p - mu> - Omega(p)` below
    `Omega*(F'w) - <w, mu>`. The best w against all planes so far is a small quadratic programme
    over their weights (Quadratic) or a linear programme (Box: l1-M3N); the mixture of the answers
    with those weights is the primal point of the certificate. This is the one-slack method of
    Joachims, Finley and Yu (2009), and fully corrective Frank-Wolfe on the primal.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 2000
        Iterations at most.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    slacks : "one" or "each", default "one"
        "one" slack for all rows, or "each" row its own (Tsochantaridis et al., 2005): fewer
        answers, larger programmes. Needs a map with rows.
    """

    max_iter: int = 2_000
    slacks: str = field(default="one", kw_only=True, metadata=io.LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slacks not in ("one", "each"):
            raise ValueError(f"slacks is 'one' or 'each', got {self.slacks!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A conjugate with kinks, and a purely quadratic or a purely l1 penalty."""
        lack = needs_kinks(problem, in_memory=False)
        if lack:
            return lack
        elastic = problem.potential.elastic(problem.features.n_features)
        if elastic is not None:
            l1, l2 = elastic
            if (not l1.any() and (l2 > 0).all()) or (not l2.any() and (l1 > 0).all()):
                return None
        return (
            f"cutting planes need Quadratic (all strengths > 0) or Box (all radii > 0), "
            f"got {problem.potential!r}"
        )

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        return self._one(problem, state) if self.slacks == "one" else self._each(problem, state)

    def _each(self, problem: Problem, state: State) -> Iterator[State]:
        from maxent.core.solvers._row_planes import LinearRows, QuadraticRows

        if not isinstance(problem.features, RowMap):
            raise TypeError(f"{problem.features!r} has no separate rows; use slacks='one'")
        l1, l2 = elastic_terms(problem)
        master = QuadraticRows(problem, l2) if l2.any() else LinearRows(problem, l1)
        while master.add(state):
            w = master.solve(_FINER * self.tol)
            state = MixedState(problem, w, problem.scored(w), master.point())
            yield state

    def _one(self, problem: Problem, state: State) -> Iterator[State]:
        l1, l2 = elastic_terms(problem)
        master = _QuadraticMaster(l2) if l2.any() else _LinearMaster(l1)
        yield from planes_of_sums(problem, state, master)


@dataclass(frozen=True, eq=False)
class MixedState(State):
    """A state certified at a mixture of answers instead of at its own, single answer."""

    mixture: Rows

    @property
    def prediction(self) -> Rows:
        """The mixture: a single vertex of the oracle is never optimal where vertices tie."""
        return self.mixture

    @cached_property
    def gap(self) -> float:
        """Gap at the mixture; the box needs the pull towards the observed distribution."""
        return self.pulled_gap(self.mixture, self.residual)

    @cached_property
    def optimality(self) -> float:
        """Of the residual of the mixture, which is a subgradient once its entropy part is 0."""
        return max(self.relative_violation(self.residual), self.entropy_gap(self.mixture))

    @cached_property
    def residual(self) -> Array:
        """F p - mu of the mixture."""
        return self.problem.moments(self.mixture) - self.problem.target


class _Master(ABC):
    """Planes (residual m_k, entropy o_k) and the weights of the last solution."""

    def __init__(self, size: int) -> None:
        self.planes = np.empty((0, size))
        self.entropies = np.empty(0)
        self.mixture = np.empty(0)
        self.repeated = False  # the last plane added nothing: no progress is possible
        self.precision = 0.0  # to which the last programme was solved

    def add(self, plane: Array, entropy: float, w: Array) -> tuple[Array, Array]:
        """The solution with a plane that the oracle found at w."""
        same = (self.planes == plane).all(axis=1) & (self.entropies == entropy)
        highest = float(np.max(self.planes @ w - self.entropies, initial=-np.inf))
        above = float(plane @ w) - entropy - highest
        size = float(np.abs(plane) @ np.abs(w)) + abs(entropy)
        rounding = 4 * float(np.finfo(np.float64).eps) * size
        self.repeated = bool(same.any()) or above <= max(self.precision, rounding)
        self.planes = np.vstack([self.planes, plane])
        self.entropies = np.append(self.entropies, entropy)
        return self.solve()

    def drop_idle(self) -> Array:
        """Forget planes without weight; which were kept."""
        used = self.mixture > 0
        self.planes, self.entropies = self.planes[used], self.entropies[used]
        self.mixture = self.mixture[used]
        return used

    @abstractmethod
    def solve(self) -> tuple[Array, Array]:
        """The best weights against the planes so far, and the planes' own weights."""


class _QuadraticMaster(_Master):
    """min over the simplex of 1/2 ||sum a_k m_k||^2_{1/l2} + sum a_k o_k; w = -(sum a m)/l2."""

    def __init__(self, l2: Array) -> None:
        super().__init__(l2.size)
        self.l2 = l2

    def solve(self) -> tuple[Array, Array]:
        from maxent.core.kernels.coordinate_descent import simplex_quadratic

        scaled = self.planes / np.sqrt(self.l2)
        mixture = np.append(self.mixture, 0.0 if self.mixture.size else 1.0)
        mixture /= mixture.sum()
        gram = scaled @ scaled.T
        tol = 1e-14 * (1 + np.abs(gram).max() + np.abs(self.entropies).max())
        self.precision = float(simplex_quadratic(gram, self.entropies, mixture, 100_000, tol))
        self.mixture = mixture
        return -(mixture @ self.planes) / self.l2, mixture


class _LinearMaster(_Master):
    """min_w sum l1 |w| + t subject to <w, m_k> - o_k <= t, a linear programme in (w+, w-, t)."""

    def __init__(self, l1: Array) -> None:
        super().__init__(l1.size)
        self.l1 = l1

    def drop_idle(self) -> Array:
        """None: without a square the next vertex may need an idle plane again."""
        return np.ones(self.mixture.size, dtype=bool)

    def solve(self) -> tuple[Array, Array]:
        count, size = self.planes.shape
        cost = np.concatenate([self.l1, self.l1, [1.0]])
        rows = np.hstack([self.planes, -self.planes, -np.ones((count, 1))])
        bounds = [(0, None)] * (2 * size) + [(None, None)]
        answer = scipy.optimize.linprog(cost, rows, self.entropies, bounds=bounds, method="highs")
        if answer.status != 0:
            # too few planes hold w: a box, not so wide that rounding spoils the heights of others
            unit = np.abs(self.entropies).max() / (np.abs(self.planes).max() or 1.0)
            wide = [(0, _WIDE * (unit or 1.0))] * (2 * size) + [(None, None)]
            answer = scipy.optimize.linprog(cost, rows, self.entropies, bounds=wide, method="highs")
        mixture = np.maximum(-np.asarray(answer.ineqlin.marginals), 0)
        self.mixture = mixture / mixture.sum()
        return answer.x[:size] - answer.x[size : 2 * size], self.mixture
