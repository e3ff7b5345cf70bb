"""L-BFGS for penalties with a gradient."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.problem import Problem, State
from maxent.core.quasi_newton import Pair, bottomless, remember, two_loop
from maxent.core.solvers.base import Solver, needs_gradient
from maxent.rows.arrays import Array

_ROOM = 64 << 20  # bytes of pairs
_FEWEST = 6  # pairs, whatever they take


@io.register
@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory quasi-Newton (Liu and Nocedal, 1989) with a weak-Wolfe line search.

    For a differentiable entropy and a potential whose conjugate is differentiable (Quadratic,
    QuadraticForm, SmoothBox, LaplacePrior, Equality ...).

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 5000
        Iterations at most.
    memory : int, default 20
        Pairs of steps and changes of the gradient that are kept; fewer (6 at least, where that many
        are asked for) where they take more than 64 MB.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 5_000
    memory: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 1:
            raise ValueError(f"memory must be >= 1, got {self.memory!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate of the entropy and of the potential."""
        if not problem.potential.smooth_conjugate:
            return (
                f"the penalty of {problem.potential!r} has kinks; use FISTA or ProxNewton, or a "
                "smooth penalty such as Quadratic or SmoothBox"
            )
        return needs_gradient(problem)

    def pairs(self, n_features: int) -> int:
        """How many pairs are kept, at most, of so many weights."""
        pair = 2 * np.dtype(np.float64).itemsize * n_features
        return min(self.memory, max(_ROOM // (pair + 1), _FEWEST))

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        gradient = _full_gradient(state)
        pairs: deque[Pair] = deque(maxlen=self.pairs(gradient.size))
        restarted = False
        while True:
            direction = two_loop(gradient, pairs)
            if direction @ gradient >= 0:
                pairs.clear()
                direction = -gradient
            first = 1.0 if pairs else min(1.0, 1 / max(np.abs(gradient).sum(), 1e-300))
            found = _wolfe(problem, state, gradient, direction, first)
            if found is None:
                if restarted or not pairs:
                    return
                pairs.clear()
                restarted = True
                continue
            restarted = False
            new, new_gradient = found
            remember(pairs, new.w - state.w, new_gradient - gradient)
            state, gradient = new, new_gradient
            yield state


def _full_gradient(state: State) -> Array:
    """Gradient of the whole dual; the penalty V*(-w) enters with a minus sign."""
    return state.gradient - state.problem.potential.conjugate_gradient(-state.w)


def _wolfe(
    problem: Problem, state: State, gradient: Array, direction: Array, length: float
) -> tuple[State, Array] | None:
    """A step with sufficient decrease and flatter slope, and its gradient; None if there is none.

    Between two lengths by bisection; beyond the longest, to where the slope would be 0 if it went
    on changing as it did.
    """
    slope = float(gradient @ direction)
    low, high, level = 0.0, np.inf, 0.0
    # a step that keeps the value within rounding and shrinks the slope counts as progress
    slack = 1e-14 * max(1.0, abs(state.dual))
    for _ in range(60):
        new = problem.state(state.w + length * direction)
        if bottomless(new, state.dual):
            return new, _full_gradient(new)
        if not new.dual <= state.dual + 1e-4 * length * slope + slack:
            high = length
        else:
            new_gradient = _full_gradient(new)
            new_slope = float(new_gradient @ direction)
            if new_slope >= 0.9 * slope and abs(new_slope) <= max(abs(slope), 1e-300):
                return new, new_gradient
            if new_slope > 0:
                high = length
            else:
                low = length
                level = length * slope / min(slope - new_slope, -1e-300)
        length = (
            (low + high) / 2 if np.isfinite(high) else float(np.clip(level, 2 * low, 100 * low))
        )
        if high - low < 1e-16 * max(1.0, low):
            return None
    return None
