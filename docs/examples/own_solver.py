"""A new solver: proximal gradient steps, without momentum."""

# ruff: noqa: D102 - the base class documents the methods

from dataclasses import dataclass

from maxent import Solver
from maxent.solvers.base import needs_gradient
from maxent.testing import check_solver


@dataclass(frozen=True)
class ProximalGradient(Solver):
    """w <- prox(w - step gradient), the step halved until the quadratic upper bound holds."""

    max_iter: int = 200_000

    @classmethod
    def missing(cls, problem):
        return needs_gradient(problem)

    def _iterate(self, problem, state):
        step = 1.0
        while True:
            new = problem.state(problem.prox(state.w - step * state.gradient, step))
            move = new.w - state.w
            bend = (new.gradient - state.gradient) @ move
            if bend > move @ move / step:
                step /= 2
                continue
            if not move.any():
                return
            state = new
            yield state


if __name__ == "__main__":
    check_solver(ProximalGradient(tol=1e-6))
