"""Estimators that solve one problem: settings of the solver, certificate, and the fit itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from maxent.core.potentials.parameters import ROUNDING
from maxent.core.problem import Problem
from maxent.core.solvers import Solution, choose
from maxent.core.solvers.base import Callback
from maxent.learn.saving import SavesFields
from maxent.typing import SolverLike

NO_SUPPORT = 1e-6  # share of its largest value below which a multiplier counts as 0
CERTIFICATE = ("loss_", "objective_", "gap_", "optimality_", "n_iter_")


@dataclass(eq=False, repr=False)
class SolverSettings:
    """The parameters of every estimator that has a solver."""

    _: KW_ONLY
    solver: SolverLike = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    verbose: int = 0

    def _check_settings(self) -> None:
        if not (isinstance(self.tol, Real) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}")
        if self.max_iter is not None and not (
            isinstance(self.max_iter, Integral) and int(self.max_iter) >= 1
        ):
            raise ValueError(f"max_iter must be an integer >= 1 or None, got {self.max_iter!r}")


class SolvesProblem(SolverSettings):
    """An estimator of one problem: what its solver finds, and the certificate.

    loss_, objective_ : mean loss, and with the penalty; gap_ : ``objective_`` is at most that far
    above the smallest there is; optimality_; n_iter_.
    """

    checkpoint: str | None = None
    _watch: Callback | None = None  # sees the steps of the fit that is under way

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
        solution = chosen.run(problem, w0, self._watch)
        chosen.warn_unless_converged(solution, stacklevel=stacklevel + 2)
        return solution

    def _certify(self, problem: Problem, solution: Solution, samples: float = 1.0) -> None:
        """Keep the certificate, as a mean over the samples."""
        state = problem.state(solution.w)
        self.loss_ = float(state.smooth + problem.observed_value) / samples
        self.objective_ = self.loss_ + float(state.penalty) / samples
        self.gap_, self.optimality_ = float(solution.gap) / samples, float(solution.optimality)
        self.n_iter_ = int(solution.n_iter)


class Posed(NamedTuple):
    """The problem of a data set, how many samples it sums over, and the solver that suits it."""

    problem: Problem
    samples: float = 1.0
    solver: Any = None


class StructuredEstimator(SolvesProblem, SavesFields, BaseEstimator):
    """Weights of structures, learned from pairs of an input and an output.

    A subclass says what is its own in three hooks: ``_check_settings``, which refuses what its
    parameters must not be; ``_pose``, which reads a data set and states its problem; ``_keep``,
    which names the optimal weights.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags

    @abstractmethod
    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        """The problem of a data set; what prediction needs of the data is kept."""

    @abstractmethod
    def _keep(self, w: Any) -> None:
        """Set the fitted attributes that hold the weights."""

    def _keep_dual(self, problem: Problem, solution: Solution, sample_weight: Any) -> None:
        """Set those that hold the dual variables, where an estimator has some."""

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the weights; a fit that fails leaves the estimator as it was."""
        self._check_settings()
        with unless_it_fails(self):
            problem, samples, suited = self._pose(X, y, sample_weight)
            solver = suited if self.solver is None else None
            solution = self._solve(problem, solver=solver, samples=samples, stacklevel=2)
            self._keep(solution.w)
            self._keep_dual(problem, solution, sample_weight)
            self._certify(problem, solution, samples)
        return self

    def _check_outputs(self, y: Any, inputs: Sized, *, names: tuple[str, str]) -> None:
        """Refuse outputs that are missing or not as many as the inputs; ``names`` of the two."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give "
                f"{names[1]}, one for each of the {names[0]}"
            )
        if len(y) != len(inputs):
            raise ValueError(f"X has {len(inputs)} {names[0]}, y {len(y)} {names[1]}")


@contextmanager
def unless_it_fails(model: Any) -> Iterator[None]:
    """A fit that fails leaves the model as it was."""
    before = model.__dict__.copy()
    try:
        yield
    except BaseException:
        model.__dict__ = before
        raise


def certified(problem: Problem, p: Any) -> float:
    """The share of p that certifies the weights: s, with which s (F p - mu) is in dom V."""
    potential = problem.potential
    gauge = potential.gauge(problem.moments(p) - problem.target)
    inside = gauge < 1 if potential.open_domain else gauge <= 1
    return 1.0 if inside else (1 - ROUNDING) / gauge


def mean_weights(weight: Any, name: str) -> Any:
    """Sample weights that sum to 1."""
    if not weight.any():
        raise ValueError(
            f"all sample weights are zero (0 everywhere): give some {name} a positive weight"
        )
    return np.asarray(weight / weight.sum())
