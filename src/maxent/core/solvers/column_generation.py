"""Column generation: the vertices of every row that matter, and an exact programme over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxent import io
from maxent.core.maps import RowMap
from maxent.core.potentials.parameters import ROUNDING
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, needs_kinks
from maxent.core.solvers.cutting_plane import MixedState

_FINER = 0.1  # share of the tolerance that a programme may miss
_FINEST = 1e-15  # share of the objective below which rounding is all that is left


@io.register
@dataclass(frozen=True)
class ColumnGeneration(Solver):
    """Hinges of few rows to the last digit, under most potentials and with any slacks.

    Each row keeps the answers p of the oracle so far, planes `<theta_i, p> - Omega(p)` below its
    `Omega*(theta_i)` (for ``Slack`` below its hinge). Interior points give the best w against all
    planes, with weights of the planes whose mixture is the primal point of the certificate; the
    answers there are the next planes. Where the answers are vertices it ends after finitely many
    programmes, in general after a few dozen. They grow with the rows and the weights: thousands of
    either are many.

    For elastic penalties, smooth penalties with a Hessian, norms, their squares and balls of any
    order, and families of these. Where nothing can pull the mixture into the potential, as under
    ``Equality`` or without an observed distribution, moments that miss it by 1e-12 of the largest
    count as inside; where no mixture comes there, the dual falls for ever along w
    (``Status.UNBOUNDED``).

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

    Examples
    --------
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
        from maxent.core.solvers._convex_rows import penalty_of

        lack = needs_kinks(problem)
        if lack:
            return lack
        features, potential = problem.features, problem.potential
        if not (isinstance(features, RowMap) or features.one_row):
            return f"{features!r} has no separate rows; use CuttingPlane"
        penalty = penalty_of(potential, features.n_features)
        if penalty is None:
            return (
                "interior points need elastic penalties, smooth ones with a Hessian, or norms, "
                f"got {potential!r}"
            )
        return None

    def _done(self, state: State) -> bool:
        """Not at a start without a gap: a mixture of planes may have one."""
        started = isinstance(state, MixedState) or bool(np.isfinite(state.gap))
        return started and super()._done(state)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        from maxent.core.solvers._convex_rows import ConvexRows, may_fall_for_ever, penalty_of

        penalty = penalty_of(problem.potential, problem.features.n_features)
        assert penalty is not None
        master = ConvexRows(problem, penalty)
        # w = 0 may lie outside a ball with a centre
        finest, lowest = _FINEST * (abs(state.dual) if np.isfinite(state.dual) else 0.0), state
        precision = max(_FINER * self.tol, finest)
        kind = EvenState if may_fall_for_ever(problem, penalty) else MixedState
        again = False
        while True:
            if not (master.add(state) or master.widen(state.w) or again):
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
            again = np.isinf(best.gap) and best.optimality <= self.tol and precision > finest
            if again:
                precision = finest  # moments are nearly within reach: once more, to the last digits
            else:
                yield best


@dataclass(frozen=True, eq=False)
class EvenState(MixedState):
    """Of moments that nothing pulls: they are in reach where only rounding leads out of it."""

    @cached_property
    def gap(self) -> float:
        """The gap at the mixture, with what w makes of the rounding."""
        residual, rounding = self.residual, ROUNDING * self.problem.unit
        even = np.where(np.abs(residual) <= rounding, 0.0, residual)
        gauge = self.problem.potential.gauge(even)
        inside = even / (gauge * (1 + ROUNDING)) if gauge > 1 else even
        if np.abs(even - inside).max(initial=0.0) <= 2 * rounding:
            even = inside
        return self.pulled_gap(self.mixture, even) + float(np.abs(residual - even) @ np.abs(self.w))
