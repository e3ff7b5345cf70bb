"""Orthant-wise L-BFGS for l1 penalties with many weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from maxent import io
from maxent.core.problem import Problem, State
from maxent.core.quasi_newton import OrthantSteps
from maxent.core.solvers.base import Solver, elastic_terms, needs_gradient


@io.register
@dataclass(frozen=True)
class OWLQN(Solver):
    """Orthant-wise limited-memory quasi-Newton (Andrew and Gao, 2007).

    For a differentiable entropy and an elastic penalty `sum l1 |w| + l2/2 w^2` (Box, ElasticNet,
    Quadratic, Families of them). Inside an orthant the penalty has a gradient; a step of L-BFGS
    along the pseudo-gradient stays in the orthant, and weights that would leave it become 0. It
    needs a few vectors of the number of weights, where ``ProxNewton`` needs matrices of the
    working set: the solver for l1-regularised random fields over sparse attributes. Its objective
    falls fast; the duality gap of an l1 penalty, which asks for the largest residual, follows late.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 5000
        Iterations at most.
    memory : int, default 10
        Pairs of steps and changes of the gradient that are kept.
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
    >>> from maxent import Box, Problem, Shannon
    >>> cells = np.arange(5.0)[:, None]
    >>> problem = Problem(Shannon(), cells, Box(0.1), observed=[0, 0, 0, 0.5, 0.5])
    >>> round(float(OWLQN().solve(problem).p @ cells[:, 0]), 3)
    3.4
    """

    max_iter: int = 5_000
    memory: int = 10

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate of the entropy, and an elastic penalty."""
        if problem.potential.elastic(problem.features.n_features) is None:
            return (
                f"orthants need a penalty sum l1 |w| + l2/2 w^2 (Box, ElasticNet, Quadratic), got "
                f"{problem.potential!r}; use FISTA"
            )
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        return OrthantSteps(*elastic_terms(problem), self.memory).from_state(state)
