"""Hinges as the limit of smooth losses: any structure with a log-partition, any potential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import SumProductDomain
from maxent.core.entropies import Entropy, Scaled, Shannon, Shifted, Zero, unwrap
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, Status, needs_rows
from maxent.core.solvers.cutting_plane import MixedState


@io.register
@dataclass(frozen=True)
class Smoothing(Solver):
    """`max_y` as the limit of `T log sum_y exp(. / T)`: conditional random fields growing colder.

    For Zero with or without a cost on a domain with a log-partition, under any potential. Each
    temperature T is a smooth problem for the solver that suits its potential, started at the
    weights of the one before and ended at a gap of T, so that early ones are cheap. Its p is
    feasible here, and the gap here is at most that gap and T times the entropy of p.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 40
        Iterations at most.
    first : float, default 1.0
        Temperature to begin with, in units of the scores' costs.
    ratio : float, default 0.3
        Ratio of one temperature to the one before.
    inner : int, default 2000
        Steps of the inner solver at a temperature, at most.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 40
    first: float = 1.0
    ratio: float = 0.3
    inner: int = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.first < np.inf and 0 < self.ratio < 1 and self.inner >= 1):
            raise ValueError(
                "Smoothing needs first > 0, 0 < ratio < 1 and inner >= 1, got "
                f"{self.first!r}, {self.ratio!r} and {self.inner!r}"
            )

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Zero with or without a cost, on a domain with a log-partition."""
        lack = needs_rows(problem)
        if lack:
            return lack
        inside = unwrap(problem.entropy).entropy
        if not isinstance(inside, Zero):
            return f"{inside!r} is not Zero: smoothing is for perceptrons and hinges"
        if not isinstance(inside.domain, SumProductDomain):
            return f"{inside.domain} has no log-partition that would smooth its argmax"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        temperature, w = self.first, state.w
        while temperature > np.finfo(np.float64).tiny:
            warm = self._warm(problem, temperature)
            settings = {"tol": 0.1 * temperature, "max_iter": self.inner, "verbose": 0}
            solution = warm.run("auto", w, **settings)
            if solution.status is Status.UNBOUNDED:
                return
            w = solution.w
            yield MixedState(problem, w, problem.scored(w), solution.p)
            if not solution.status.reached:  # colder would be harder still
                return
            temperature *= self.ratio

    @staticmethod
    def _warm(problem: Problem, temperature: float) -> Problem:
        """The problem at a temperature."""
        recipe = unwrap(problem.entropy)
        entropy: Entropy = Scaled(Shannon(domain=recipe.entropy.domain), temperature)
        if recipe.cost is not None:
            entropy = Shifted(entropy, recipe.cost)
        known = problem.observed is not None
        return Problem(
            entropy,
            problem.features,
            problem.potential,
            target=None if known else problem.target,
            observed=problem.observed,
            weights=problem.weights,
        )
