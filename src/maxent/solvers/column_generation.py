"""Column generation: the vertices of every row that matter, and an exact programme over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxent import io
from maxent.maps import RowMap
from maxent.potentials import DualBall
from maxent.potentials.parameters import ROUNDING
from maxent.problem import Problem, State
from maxent.solvers.base import Solver, needs_kinks
from maxent.solvers.cutting_plane import MixedState

_FINER = 0.1  # share of the tolerance that a programme may miss
_FINEST = 1e-15  # share of the objective below which rounding is all that is left


@io.register
@dataclass(frozen=True)
class ColumnGeneration(Solver):
    """Hinges of few rows to the last digit, under most potentials and with any slacks.

    Each row keeps the answers p of the oracle so far, planes <theta_i, p> - Omega(p) below its
    Omega*(theta_i) (for ``Slack`` below its hinge). Interior points give the best w against all
    planes, with weights of the planes whose mixture is the primal point of the certificate; the
    answers there are the next planes. Where the answers are vertices it ends after finitely many
    programmes, in general after a few dozen. They grow with the rows and the weights: thousands of
    either are many.

    For elastic penalties, smooth penalties with a Hessian, and norms, their squares and balls of
    any order. Of weights without a price, as under ``Equality``, the moments of the mixture are
    equal to 1e-12 of the largest, which counts as equal; where no mixture has the moments, the dual
    falls for ever along w (``Status.UNBOUNDED``).

    >>> import numpy as np
    >>> from maxent import DualBall, Problem, SampleMap, Shifted, Zero
    >>> X, y = np.array([[1.0, 0.5], [-1.0, 0.3]]), np.eye(2)
    >>> hinge = Problem(Shifted(Zero(), 1 - y), SampleMap(X, 2), DualBall(0.5, p=1), observed=y)
    >>> solution = hinge.solve(ColumnGeneration())
    >>> round(solution.objective, 6), solution.gap <= 1e-8
    (0.5, True)
    """

    max_iter: int = 2_000

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Rows, a conjugate with kinks, a penalty that interior points know."""
        from maxent.solvers._convex_rows import penalty_of

        lack = needs_kinks(problem)
        if lack:
            return lack
        features, potential = problem.features, problem.potential
        if not (isinstance(features, RowMap) or features.one_row):
            return f"{features!r} has no separate rows; use CuttingPlane"
        penalty = penalty_of(potential, features.n_features)
        if penalty is None:
            return (
                "interior points need an elastic penalty, a smooth one with a Hessian, or a norm "
                f"of all weights, got {potential!r}"
            )
        held = potential.strong_convexity() > 0 or isinstance(potential, DualBall)
        if problem.observed is None and not (held or penalty.free.all()):
            return "without an observed distribution the first planes may have no lowest point"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        from maxent.solvers._convex_rows import ConvexRows, penalty_of

        penalty = penalty_of(problem.potential, problem.features.n_features)
        assert penalty is not None
        master = ConvexRows(problem, penalty)
        finest, lowest = _FINEST * abs(state.dual), state
        precision = max(_FINER * self.tol, finest)
        kind = EvenState if penalty.free.any() else MixedState
        while True:
            if not (master.add(state) or master.widen(state.w)):
                if precision <= finest:
                    return
                precision = max(_FINER**2 * precision, finest)
            w = master.solve(precision)
            state = kind(problem, w, problem.scored(w), master.point())
            if state.dual < lowest.dual:
                lowest = state
            # the mixture of all planes so far, with the best weights so far
            pair = kind(problem, lowest.w, lowest.evaluation, state.mixture)
            best = pair if pair.gap < state.gap else state
            if np.isinf(best.gap) and best.optimality <= self.tol and precision > finest:
                precision = finest  # moments are nearly equal: once more, to the last digits
            else:
                yield best


@dataclass(frozen=True, eq=False)
class EvenState(MixedState):
    """Of weights without a price: moments are equal where they differ by rounding alone."""

    @cached_property
    def gap(self) -> float:
        """The gap at the mixture, with what w makes of the rounding."""
        residual = self.residual
        rounding = np.abs(residual) <= ROUNDING * self.problem.unit
        even = np.where(rounding, 0.0, residual)
        return self.pulled_gap(self.mixture, even) + float(np.abs(residual - even) @ np.abs(self.w))
