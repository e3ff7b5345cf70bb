"""Hinges under the Laplace prior: a series of max-margin networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent._rows import Array
from maxent.potentials import LaplacePrior, Potential, Quadratic, ScaledPotential
from maxent.problem import Problem, State
from maxent.solvers.base import Solver, Status
from maxent.solvers.block_frank_wolfe import BlockFrankWolfe
from maxent.solvers.cutting_plane import MixedState


@io.register
@dataclass(frozen=True)
class Reweighted(Solver):
    """The Laplace prior by squared norms: V*(w) <= V*(w_0) + sum_k c_k/2 (w_k^2 - w_0k^2).

    c_k = V*'(w_0k) / w_0k: the penalty is concave in w^2, so that its tangent there lies above it.
    Each round is a max-margin network with a strength of its own for every weight, solved from the
    paths of the round before. It is Algorithm 1 of the discrimination paper with another rule for
    the covariance, whose fixed point is the exact problem of Corollary 6, and its gap is that of
    the exact problem.

    share : of the gap of a round, the gap to which the next one is solved.
    """

    max_iter: int = 200
    share: float = 0.1

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A Laplace prior, and a hinge over chains."""
        if not isinstance(_inside(problem.potential), LaplacePrior):
            return f"{problem.potential!r} is no LaplacePrior"
        network = problem.with_potential(Quadratic(1.0))
        if not BlockFrankWolfe.resumes(network):
            return "reweighting is for hinges over chains with tied transitions"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        w, paths, tol = state.w, None, 0.1 * max(abs(state.dual), self.tol)
        while True:
            network = problem.with_potential(Quadratic(_tangent(problem.potential, w)))
            solver = BlockFrankWolfe(tol, verbose=0)
            solution, paths = solver.resume(network, paths)
            before, w = w, solution.w
            new = MixedState(problem, w, problem.features.scores(w), solution.p)
            yield new
            if solution.status is Status.STALLED and np.array_equal(w, before):
                return
            finite = new.gap if np.isfinite(new.gap) else tol / self.share
            tol = max(min(tol, self.share * finite), 0.1 * self.tol)


def _inside(potential: Potential) -> Potential:
    return potential.potential if isinstance(potential, ScaledPotential) else potential


def _tangent(potential: Potential, w: Array) -> Array:
    """V*'(w) / w, at 0 the curvature."""
    flat = potential.conjugate_hessian(np.zeros(w.size))
    assert flat is not None
    small = np.abs(w) < 1e-150
    slopes = potential.conjugate_gradient(np.where(small, 1.0, w))
    return np.where(small, flat, slopes / np.where(small, 1.0, w))
