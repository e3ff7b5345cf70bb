"""L-BFGS for penalties with a gradient."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent._rows import Array
from maxent.problem import Problem, State
from maxent.solvers.base import Solver, bottomless, needs_gradient


@io.register
@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory quasi-Newton (Liu and Nocedal, 1989) with a weak-Wolfe line search.

    For a differentiable entropy and a potential whose conjugate is differentiable (Quadratic,
    QuadraticForm, SmoothBox, LaplacePrior, Equality ...).
    """

    max_iter: int = 5_000
    memory: int = 20

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate of the entropy and of the potential."""
        if not problem.potential.smooth_conjugate:
            return (
                f"the penalty of {problem.potential!r} has kinks; use FISTA or ProxNewton, or a "
                "smooth penalty such as Quadratic or SmoothBox"
            )
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        gradient = _full_gradient(state)
        pairs: deque[tuple[Array, Array]] = deque(maxlen=self.memory)
        restarted = False
        while True:
            direction = two_loop(gradient, pairs)
            if direction @ gradient >= 0:
                pairs.clear()
                direction = -gradient
            first = 1.0 if pairs else min(1.0, 1 / max(np.abs(gradient).sum(), 1e-300))
            new = _wolfe(problem, state, gradient, direction, first)
            if new is None:
                if restarted or not pairs:
                    return
                pairs.clear()
                restarted = True
                continue
            restarted = False
            new_gradient = _full_gradient(new)
            s, y = new.w - state.w, new_gradient - gradient
            if s @ y > 1e-16 * np.sqrt((s @ s) * (y @ y)):
                pairs.append((s, y))
            state, gradient = new, new_gradient
            yield state


def _full_gradient(state: State) -> Array:
    """Gradient of the whole dual; the penalty V*(-w) enters with a minus sign."""
    return state.gradient - state.problem.potential.conjugate_gradient(-state.w)


def two_loop(gradient: Array, pairs: deque[tuple[Array, Array]]) -> Array:
    """-H gradient, H the inverse Hessian that the pairs (s, y) tell of."""
    q = gradient.copy()
    kept = []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        q -= a * y
        kept.append(a)
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(kept), strict=True):
        q += (a - (y @ q) / (s @ y)) * s
    return -q


def _wolfe(
    problem: Problem, state: State, gradient: Array, direction: Array, length: float
) -> State | None:
    """A step with sufficient decrease and flatter slope, by bisection; None if there is none."""
    slope = float(gradient @ direction)
    low, high = 0.0, np.inf
    # a step that keeps the value within rounding and shrinks the slope counts as progress
    slack = 1e-15 * max(1.0, abs(state.dual))
    for _ in range(60):
        new = problem.state(state.w + length * direction)
        if bottomless(new, state.dual):
            return new
        if not new.dual <= state.dual + 1e-4 * length * slope + slack:
            high = length
        else:
            new_slope = float(_full_gradient(new) @ direction)
            if new_slope >= 0.9 * slope and abs(new_slope) <= max(abs(slope), 1e-300):
                return new
            if new_slope > 0:
                high = length
            else:
                low = length
        length = (low + high) / 2 if np.isfinite(high) else 2 * length
        if high - low < 1e-16 * max(1.0, low):
            return None
    return None
