"""What estimators that solve one problem with rows share: settings of the solver, certificate."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from maxent.core.problem import Problem
from maxent.core.solvers import Solution, choose

CERTIFICATE = ("loss_", "objective_", "gap_", "optimality_", "n_iter_")


class SolvesProblem:
    """``solver``, ``tol``, ``max_iter`` and ``verbose`` of an estimator, and what they lead to.

    loss_, objective_ : mean loss, and with the penalty; gap_ : ``objective_`` is at most that far
    above the smallest there is; optimality_; n_iter_.
    """

    solver: Any
    tol: float
    max_iter: int | None
    verbose: int
    checkpoint: str | None = None

    def _check_settings(self) -> None:
        if not (isinstance(self.tol, Real) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}")
        if self.max_iter is not None and not (
            isinstance(self.max_iter, Integral) and int(self.max_iter) >= 1
        ):
            raise ValueError(f"max_iter must be an integer >= 1 or None, got {self.max_iter!r}")

    def _solve(
        self,
        problem: Problem,
        w0: Any = None,
        *,
        solver: Any = None,
        samples: float = 1.0,
        stacklevel: int = 1,
    ) -> Solution:
        """Solve the problem; warn in the name of the caller's caller where the gap is missed.

        ``solver`` stands in for the estimator's own; ``samples`` multiplies the tolerance of a
        problem that is a sum over so many of them.
        """
        settings: dict[str, Any] = {}
        if self.max_iter is not None:
            settings["max_iter"] = int(self.max_iter)
        if self.checkpoint is not None:
            settings["checkpoint"] = self.checkpoint
        tol = float(self.tol) * samples
        wanted = self.solver if solver is None else solver
        chosen = choose(wanted, problem, tol=tol, verbose=self.verbose, **settings)
        solution = chosen.run(problem, w0)
        chosen.warn_unless_converged(solution, stacklevel=stacklevel + 2)
        return solution

    def _certify(self, problem: Problem, solution: Solution, samples: float = 1.0) -> None:
        """Keep the certificate, as a mean over the samples."""
        state = problem.state(solution.w)
        self.loss_ = float(state.smooth + problem.observed_value) / samples
        self.objective_ = self.loss_ + float(state.penalty) / samples
        self.gap_, self.optimality_ = float(solution.gap) / samples, float(solution.optimality)
        self.n_iter_ = int(solution.n_iter)


def mean_weights(weight: Any, name: str) -> Any:
    """Sample weights that sum to 1."""
    if not weight.any():
        raise ValueError(
            f"all sample weights are zero (0 everywhere): give some {name} a positive weight"
        )
    return np.asarray(weight / weight.sum())
