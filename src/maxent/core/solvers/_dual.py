"""For solvers that move the distributions p_i of the rows and let the weights follow.

V has a gradient where its penalty is strongly convex, and then w = -grad V(F p - mu) is optimal
for p: the second part of the duality gap is 0, the first a sum of one Fenchel-Young gap per row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from maxent.core.entropies import Relative, unwrap
from maxent.core.maps import RowMap
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, elastic_terms
from maxent.rows.arrays import Array, Rows, parts, put_row, take_row, uneven


@dataclass(frozen=True, eq=False)
class PairState(State):
    """A state with a primal point of its own, certified at the better of that and p_w."""

    point: Rows
    rows: DualRows | None = field(default=None, repr=False)  # to go on with, where they are known

    @cached_property
    def _best(self) -> tuple[float, bool]:
        """The smaller gap, and whether it is that of the point."""
        own, other = np.inf, np.inf
        if self.problem.entropy.cheap_value(self.point):
            own = self._own_entropy_gap + self._potential_gap(self.residual)
        if self.problem.entropy.differentiable:
            other = self._gap(self.p, self.gradient)  # V is finite everywhere
        return min(own, other), own <= other

    @cached_property
    def _own_entropy_gap(self) -> float:
        return self.entropy_gap(self.point)

    @cached_property
    def residual(self) -> Array:
        """F p - mu of the point."""
        return self.problem.moments(self.point) - self.problem.target

    @cached_property
    def gap(self) -> float:
        """The smaller of the two gaps."""
        return self._best[0]

    @property
    def prediction(self) -> Rows:
        """The point or p_w, whichever has the smaller gap."""
        return self.point if self._best[1] else self.p

    @cached_property
    def optimality(self) -> float:
        """Of p_w, or of the point where p_w is a vertex that jumps."""
        if self.problem.entropy.differentiable:
            return super().optimality
        return max(self.relative_violation(self.residual), self._own_entropy_gap)


@dataclass(frozen=True)
class DualSolver(Solver):
    """Rows in random order, several passes between two looks at the certificate.

    passes : over the rows, between two states; random_state : seed of the orders.
    """

    begins_at_weights: ClassVar[bool] = False

    max_iter: int = 2_000
    passes: int = field(default=5, kw_only=True)
    random_state: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1:
            raise ValueError(f"passes must be >= 1, got {self.passes!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Rows, and a strongly convex penalty."""
        if not isinstance(problem.features, RowMap):
            return f"{problem.features!r} has no separate rows; use NewtonCG, ProxNewton or FISTA"
        if not problem.potential.strong_convexity() > 0:
            return (
                f"the penalty of {problem.potential!r} is not strongly convex (its V has no "
                "Lipschitz gradient); use Quadratic or ElasticNet on all weights (a free intercept "
                "has no penalty: fit_intercept=False), or the solver FISTA"
            )
        if not problem.entropy.domain.rows_alike:
            return f"{problem.entropy.domain} has no rows by themselves; use NewtonCG or FISTA"
        if problem.observed is not None and not problem.entropy.cheap_value(problem.observed):
            return (
                f"{problem.entropy!r} has no formula at sums of transitions; use NewtonCG or "
                "L-BFGS, or ChainMap(..., tied=False)"
            )
        if not problem.entropy.convex:
            return f"{problem.entropy!r} is not convex, so a row has no best distribution"
        inside = unwrap(problem.entropy).entropy
        if isinstance(inside, Relative) and len(np.atleast_2d(inside.q0)) > 1:
            return f"{inside!r} has a base measure for each row; use NewtonCG or FISTA"
        return None

    def _initial(self, state: State) -> State:
        """From the observed distribution, whose weights are 0, or from p_w."""
        problem = state.problem
        known = problem.observed is not None and not state.w.any()
        point = problem.observed if known else state.p
        return pair_state(problem, point.astype(np.float64, copy=True))

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        assert isinstance(state, PairState)
        rng = np.random.default_rng(self.random_state)
        rows = state.rows or self._rows(problem, state.point)
        while True:
            moved = rows.advance(rng, self.passes)
            before, state = state, rows.state()
            yield state
            if not moved or np.array_equal(state.w, before.w):
                return

    @abstractmethod
    def _rows(self, problem: Problem, point: Rows) -> DualRows:
        """The rows at a point, ready to be moved."""


def pair_state(problem: Problem, point: Rows) -> PairState:
    """The state at the weights that are optimal for a point."""
    w = -problem.potential.grad(problem.moments(point) - problem.target)
    return PairState(problem, w, problem.scored(w), point)


class DualRows:
    """The distributions of the rows, with the residual and the weights that follow from them."""

    def __init__(self, problem: Problem, point: Rows) -> None:
        self.problem = problem
        self.point = point
        assert problem.weights is not None
        self.weights = np.array(problem.weights)  # writable: one type for the kernels
        self.norms = problem.features.row_norms()
        counted = (self.weights > 0) & (self.norms > 0)
        self.moving = np.flatnonzero(counted)  # the others have no influence on the weights
        self.still: list[int] = np.flatnonzero(~counted).tolist()

    def advance(self, rng: np.random.Generator, passes: int) -> bool:
        """Passes over the rows that still move; whether any did."""
        order, moved = self.moving, False
        for _ in range(passes):
            order = self.pass_over(rng.permutation(order))
            if not order.size:
                break
            moved = True
        return moved

    def pass_over(self, order: Array) -> Array:
        """One step for each row of the order; the rows that have moved."""
        return np.array([i for i in order if self.move(int(i))], dtype=np.int64)

    def move(self, i: int) -> bool:
        """One step for a row; whether it did anything."""
        raise NotImplementedError

    def state(self) -> PairState:
        """The state here, with everything summed afresh."""
        state = pair_state(self.problem, self.point.copy())
        for i in self.still:
            put_row(state.point, i, take_row(state.p, i))
        return state


class SlowRows(DualRows):
    """Any map with rows, any entropy, any strongly convex penalty: one row at a time in Python."""

    def __init__(self, problem: Problem, point: Rows) -> None:
        super().__init__(problem, point)
        self.residual = problem.moments(point) - problem.target
        self.w = -problem.potential.grad(self.residual)
        self.parts = [problem.features.take(np.array([i])) for i in range(len(self.norms))]
        self.recipe = unwrap(problem.entropy)

    def cost(self, i: int) -> Rows:
        """The cost of a row, as a batch of one."""
        cost = self.recipe.cost
        if cost is None:
            return 0.0
        if not uneven(cost) and (np.ndim(cost) == 1 or len(cost) == 1):
            return cost
        return take_row(cost, i)

    def batch(self, i: int) -> Rows:
        """The row's distribution as a batch of one."""
        return take_row(self.point, i)

    def change(self, i: int, old: Rows, new: Rows) -> bool:
        """Put a row in its new place."""
        step = new - old
        if not any(np.abs(values).max() > 4e-16 for values in parts(step)):
            return False
        put_row(self.point, i, new)
        self.residual = self.residual + self.weights[i] * self.parts[i].moments(step)
        self.w = -self.problem.potential.grad(self.residual)
        return True


class CompiledRows(DualRows):
    """Samples and an elastic penalty: a whole pass in a compiled kernel."""

    def __init__(self, problem: Problem, point: Rows) -> None:
        super().__init__(problem, point)
        features, cost = problem.features, unwrap(problem.entropy).cost
        shape = -1, features.n_outputs
        l1, l2 = elastic_terms(problem)
        self.l1, self.inverse = l1.reshape(shape), 1 / l2.reshape(shape)
        cost = np.zeros(features.n_outputs) if cost is None else cost
        self.costs = np.array(cost, dtype=np.float64, ndmin=2)
        self.samples = _compressed(features.X)
        # the largest curvature 1/l2 over the outputs, feature by feature
        squares = features.X.power(2) if sparse.issparse(features.X) else features.X**2
        with np.errstate(divide="ignore"):
            bound = np.asarray(squares @ self.inverse.max(axis=1), dtype=np.float64)
            self.steps = 1 / (self.weights * bound)
        self._refresh()

    def _refresh(self) -> None:
        problem = self.problem
        self.residual = (problem.moments(self.point) - problem.target).reshape(self.l1.shape)
        self.w = -problem.potential.grad(self.residual.ravel()).reshape(self.l1.shape)

    def pass_over(self, order: Array) -> Array:
        """One step for each row of the order; the rows that have moved."""
        moved = self.move_all(
            order,
            self.costs,
            *self.samples,
            self.weights,
            self.steps,
            self.l1,
            self.inverse,
            self.point,
            self.residual,
            self.w,
        )
        return order[:moved]

    def move_all(self, order: Array, *arrays: Array) -> int:
        """One step for each row of the order; how many, put at its front, have moved."""
        raise NotImplementedError

    def state(self) -> PairState:
        """The state here; rounding in the residual ends with it."""
        self._refresh()
        return super().state()


def _compressed(X: Any) -> tuple[Array, Array, Array]:
    """Values, columns (none where X is dense) and offsets of the rows."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        return X.data.astype(np.float64), X.indices.astype(np.int64), X.indptr.astype(np.int64)
    values = np.ascontiguousarray(X, dtype=np.float64).ravel()
    return values, np.empty(0, np.int64), np.arange(len(X) + 1) * X.shape[1]
