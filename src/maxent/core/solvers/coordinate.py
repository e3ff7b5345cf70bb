"""Greedy coordinate descent for l1-regularized densities (structural paper, Fig. 1 and Fig. 2).

The feature whose slope is steepest takes a step, in closed form or exact. With the steps of
StructMaxent1 it differs from ``SUMMET`` in the choice of the feature alone. Slow next to
``ProxNewton`` on a fixed set of features; its steps are those of column generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.problem import Problem, State
from maxent.core.solvers._unit_features import SELECTIVE, UnitFeatures
from maxent.core.solvers.base import Solver, elastic_terms
from maxent.core.solvers.papers.scaling import SUMMET, column_scores
from maxent.core.solvers.steps import RULES, Coordinate, StepRule, violation
from maxent.rows.arrays import Array


@io.register
@dataclass(frozen=True)
class CoordinateDescent(Solver):
    """One weight at a time, that of the steepest slope `d_j`, by the step of a rule.

    `d_j = beta_j sgn(w_j) + epsilon_j`, `epsilon_j = E_p[f_j] - mu_j`; for `w_j = 0` it is what
    `epsilon_j` exceeds `beta_j` by. Slopes are compared per width of the features' ranges, which
    the paper takes to be the same. For Shannon densities with a ``Box`` or ``Equality``.

    Means at the end of a feature's range are as in ``SUMMET``.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 20000
        Sweeps at most.
    rule : "structmaxent2", "structmaxent1" or "line-search", default "structmaxent2"
        "structmaxent2" minimises a bound by Hoeffding's lemma (Fig. 1), "structmaxent1" a closer
        one by convexity (Fig. 2), "line-search" the objective itself. StructMaxent1 needs
        conditions (8), `low < E_p[f_j] < high` and `low + beta_j < mu_j < high - beta_j`; where
        they fail the step is that of StructMaxent2, and a warning says so.
    sweep : int, default 10
        Steps between two states, so that the certificate costs little.
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
    >>> problem.solve(mx.CoordinateDescent(rule="line-search")).p.round(3)
    array([0.6, 0.2, 0.2])
    """

    max_iter: int = 20_000
    rule: str = "structmaxent2"
    sweep: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in RULES:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, RULES))}, got {self.rule!r}"
            )
        if self.sweep < 1:
            raise ValueError(f"sweep must be >= 1, got {self.sweep!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """An l1 penalty or none; for the rest as ``SUMMET``."""
        elastic = problem.potential.elastic(problem.features.n_features)
        if elastic is None or elastic[1].any():
            return (
                f"{problem.potential!r} is not the l1 penalty of a Box, nor Equality; use "
                "ProxNewton, FISTA or SUMMET"
            )
        return SUMMET.missing(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        unit = UnitFeatures(problem, SELECTIVE, state.theta)
        if unit.ray is not None:
            yield unit.far(state)
            return
        descent = _Descent(problem, unit, self.rule)
        while True:
            new = unit.state(descent.sweep(state, self.sweep))
            if np.array_equal(new.w, state.w):
                return
            state = new
            yield state


class _Descent:
    """The steps of one solve."""

    def __init__(self, problem: Problem, unit: UnitFeatures, rule: str) -> None:
        self.problem, self.rule = problem, StepRule(rule)
        self.beta, _ = elastic_terms(problem)
        self.low, self.high = problem.features.ranges()
        self.constant = unit.constant
        # what slopes are divided by: degenerate features are left to UnitFeatures
        self.width = np.where(unit.free & ~unit.constant, unit.size, np.inf)

    def sweep(self, state: State, steps: int) -> Array:
        """The weights after some steps, fewer where none gains."""
        if state.w[self.constant].any():
            state = self.problem.state(np.where(self.constant, 0.0, state.w))
        for _ in range(steps):
            slopes = violation(state.w, state.gradient, self.beta) / self.width
            j = int(np.argmax(np.abs(slopes)))
            if slopes[j] == 0:
                break
            column = column_scores(self.problem.features, j, 1.0)
            w = state.w.copy()
            w[j] += self._step(state, j, column)
            change = w[j] - state.w[j]
            if change == 0:
                break
            state = self.problem.state(w, state.theta.astype(np.float64) + change * column)
        return state.w

    def _step(self, state: State, j: int, column: Array) -> float:
        mu = self.problem.target[j]
        return self.rule(
            lambda: f"feature {j}",
            column,
            state.p,
            Coordinate(
                w=state.w[j],
                beta=self.beta[j],
                p_mean=state.gradient[j] + mu,
                s_mean=mu,
                low=self.low[j],
                high=self.high[j],
            ),
        )
