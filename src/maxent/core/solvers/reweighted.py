"""Hinges over chains under penalties that are concave in w^2: a series of max-margin networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.potentials import LaplacePrior, Potential, Quadratic, ScaledPotential
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, Status
from maxent.core.solvers.block_frank_wolfe import BlockFrankWolfe
from maxent.core.solvers.cutting_plane import MixedState
from maxent.rows.arrays import Array, Rows

_PRICE = 0.3  # of the gap, what rounding the kinks may cost


@io.register
@dataclass(frozen=True)
class Reweighted(Solver):
    """The Laplace prior and l1 by squared norms: `V*(w) <= V*(w_0) + sum_k c_k/2 (w_k^2 - w_0k^2)`.

    `c_k = V*'(w_0k) / w_0k`: the penalty is concave in `w^2`, so that its tangent there lies above
    it. Each round is a max-margin network with a strength of its own for every weight, solved from
    the paths of the round before. For the Laplace prior it is Algorithm 1 of the discrimination
    paper with another rule for the covariance, whose fixed point is the exact problem of Corollary
    6. For l1 the kink is rounded, `sqrt(w^2 + e^2)` for `|w|`, with an e that falls from round to
    round; the residual then lies inside the box, and weights that are 0 at the optimum are set to
    0. The gap is that of the exact problem; its last digits are slow for l1: ask for a modest
    tolerance.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 200
        Iterations at most.
    share : float, default 0.1
        Share of the gap of a round, the gap to which the next one is solved.
    fall : float, default 0.5
        Ratio of e to the e of the round before.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 200
    share: float = 0.1
    fall: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.share < 1 and 0 < self.fall < 1):
            raise ValueError(
                f"share and fall lie between 0 and 1, got {self.share!r} and {self.fall!r}"
            )

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A Laplace prior or an l1 penalty, and a hinge over chains."""
        elastic = problem.potential.elastic(problem.features.n_features)
        bent = elastic is not None and bool((elastic[0] + elastic[1] > 0).all())
        if not bent and not isinstance(_inside(problem.potential), LaplacePrior):
            return f"{problem.potential!r} is neither a LaplacePrior nor l1 on all weights"
        if not BlockFrankWolfe.resumes(problem.with_potential(Quadratic(1.0))):
            return "reweighting is for hinges over chains with tied transitions"
        return None

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        w, paths, tol = state.w, None, 0.1 * max(abs(state.dual), self.tol)
        elastic = problem.potential.elastic(w.size)
        rounding = gap = np.inf
        while True:
            if elastic is None:
                strengths = _tangent(problem.potential, w)
            else:
                size = float(np.abs(w).max())
                wanted = _PRICE * gap / max(float(elastic[0].sum()), 1e-300)
                rounding = min(max(self.fall * rounding, wanted), rounding, size or np.inf)
                strengths = _rounded(*elastic, w, rounding)
            solver = BlockFrankWolfe(tol, verbose=0)
            solution, paths = solver.resume(problem.with_potential(Quadratic(strengths)), paths)
            before, w = w, solution.w
            new = _state(problem, w, solution.p)
            if elastic is not None:
                new = _with_zeros(new, elastic[0])
            gap = new.gap
            yield new
            if solution.status is Status.STALLED and np.array_equal(w, before):
                return
            finite = new.gap if np.isfinite(new.gap) else tol / self.share
            tol = max(min(tol, self.share * finite), 0.1 * self.tol)


def _inside(potential: Potential) -> Potential:
    return potential.potential if isinstance(potential, ScaledPotential) else potential


def _state(problem: Problem, w: Array, p: Rows) -> MixedState:
    return MixedState(problem, w, problem.scored(w), p)


def _with_zeros(state: MixedState, l1: Array) -> MixedState:
    """The state, or where its certificate is as good the one with 0 for weights inside the box."""
    shrunk = np.abs(state.residual) < 0.5 * l1
    if not (shrunk & (state.w != 0)).any():
        return state
    sparse = _state(state.problem, np.where(shrunk, 0.0, state.w), state.mixture)
    return sparse if sparse.gap <= state.gap else state


def _rounded(l1: Array, l2: Array, w: Array, rounding: float) -> Array:
    """l2 + l1 / sqrt(w^2 + rounding^2); at the start, where nothing is known of sizes, l1 + l2."""
    return l2 + (l1 if np.isinf(rounding) else l1 / np.hypot(w, rounding))


def _tangent(potential: Potential, w: Array) -> Array:
    """V*'(w) / w, at 0 the curvature."""
    flat = potential.conjugate_hessian(np.zeros(w.size))
    assert flat is not None
    small = np.abs(w) < 1e-150
    slopes = potential.conjugate_gradient(np.where(small, 1.0, w))
    return np.where(small, flat, slopes / np.where(small, 1.0, w))
