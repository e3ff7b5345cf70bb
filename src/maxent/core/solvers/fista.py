"""Accelerated proximal gradient (FISTA) with backtracking and adaptive restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, needs_gradient


@io.register
@dataclass(frozen=True)
class FISTA(Solver):
    """Any differentiable conjugate, any potential: the solver that always applies.

    Beck and Teboulle (2009); the momentum restarts when it points uphill (O'Donoghue and
    Candes, 2015), and the step may grow again by ``growth`` each iteration.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 20000
        Iterations at most.
    growth : float, default 1.1
        Factor by which the step may grow each iteration.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 20_000
    growth: float = 1.1

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate."""
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        slope = float(np.max(np.abs(state.gradient), initial=0.0))
        step = min(1 / slope, 1e200) if slope else 1.0  # halved as often as it takes
        current = state
        ahead, momentum = current, 1.0
        stuck = 0
        while True:
            new, step = self._step(problem, ahead, step)
            if new is None:
                stuck += 1
                if stuck > 1:
                    return
                ahead, momentum = current, 1.0
                continue
            move = new.w - current.w
            if (ahead.w - new.w) @ move > 0:  # the momentum points uphill
                momentum = 1.0
            if not move.any():
                stuck += 1
                if stuck > 1:
                    return
            else:
                stuck = 0
            next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            current = new
            yield current
            beta = (momentum - 1) / next_momentum
            momentum = next_momentum
            ahead = problem.state(current.w + beta * move) if beta else current
            step *= self.growth

    @staticmethod
    def _step(problem: Problem, at: State, step: float) -> tuple[State | None, float]:
        """A proximal step from ``at`` whose length passes the quadratic upper bound."""
        for _ in range(1000):
            new = problem.state(problem.prox(at.w - step * at.gradient, step))
            move = new.w - at.w
            quadratic = at.smooth + at.gradient @ move + move @ move / (2 * step)
            slack = 1e-14 * max(1.0, abs(at.smooth))
            if new.smooth <= quadratic + slack:
                # close to the optimum values round off: compare gradients, which do not
                rounding = move @ move / (2 * step) < 1e2 * slack
                bend = (new.gradient - at.gradient) @ move if rounding else 0.0
                if bend <= move @ move / step:
                    return new, step
            step /= 2
        return None, step
