"""Exponentiated gradient on the distributions of sequences, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent import io
from maxent.core.entropies import Shannon, Zero, unwrap
from maxent.core.problem import Problem
from maxent.core.solvers._dual import DualRows, DualSolver, PairState
from maxent.rows.arrays import Array, Ragged, Rows, Tied

if TYPE_CHECKING:
    from maxent.core.solvers._chains import Layout


@io.register
@dataclass(frozen=True)
class ExponentiatedGradient(DualSolver):
    """Multiplicative steps for max-margin networks and conditional random fields over chains.

    Each sequence has scores `theta_i` of its own, and `p_i` is their Gibbs distribution. A visit
    moves `theta_i <- theta_i + eta (F_i'w + cost)` for a hinge (Bartlett, Collins, Taskar and
    McAllester, 2004), `theta_i <- (1 - eta) theta_i + eta F_i'w` for the CRF (Collins, Globerson,
    Koo, Carreras and Bartlett, 2008), and `w = -grad V(F p - mu)` follows; the step of each row is
    halved until the primal falls and grows otherwise. The vertices that a hinge ends in are
    approached slowly: ``BlockFrankWolfe`` is faster there.

    For Zero or Shannon, with costs of states, on ``Chain`` with tied transitions under Quadratic.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 2000
        Iterations at most.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    passes : int, default 5
        Passes over the rows between two looks at the certificate.
    random_state : int, default 0
        Seed of the order in which rows are visited.
    """

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Chains with tied transitions, and a purely quadratic penalty."""
        from maxent.core.solvers._chains import layout

        elastic = problem.potential.elastic(problem.features.n_features)
        if elastic is None or elastic[0].any() or not (elastic[1] > 0).all():
            return f"exponentiated gradient needs Quadratic (all strengths > 0), got {problem!r}"
        inside = type(unwrap(problem.entropy).entropy)
        if inside not in (Zero, Shannon) or layout(problem, inside) is None:
            return (
                "exponentiated gradient is for Zero and Shannon, with costs of states, on Chain "
                f"with tied transitions (ChainMap, PairChainMap), got {problem!r}"
            )
        return None

    def _initial(self, state: Any) -> PairState:
        """From the Gibbs distributions of scores 0: all paths alike."""
        rows = _GibbsRows(state.problem)
        return rows.state()

    def _rows(self, problem: Problem, point: Rows) -> DualRows:
        return _GibbsRows(problem)


class _GibbsRows(DualRows):
    """Scores of all sequences and their marginals."""

    def __init__(self, problem: Problem) -> None:
        from maxent.core.solvers._chains import layout, weights_of

        recipe = unwrap(problem.entropy)
        parts = layout(problem, type(recipe.entropy))
        assert parts is not None
        self.parts: Layout = parts
        self.heat = recipe.temperature if isinstance(recipe.entropy, Shannon) else 0.0
        k, chains = parts.n_states, parts.chains
        offsets = np.append(chains.first, len(chains.cost)) * k
        self.theta = Tied(
            Ragged(np.zeros(len(chains.cost) * k), offsets),
            np.zeros((len(chains.lengths), k * k)),
        )
        values, point = recipe.entropy.domain.softmax(self.theta)  # type: ignore[attr-defined]
        super().__init__(problem, point)
        self.negentropy = -np.asarray(values)
        self.w, self.l2, self.kernel_weights = weights_of(problem, parts)
        self._refresh()
        with np.errstate(divide="ignore"):
            self.eta = float(self.l2.min()) / (self.weights * self.norms)
        if self.heat:
            self.eta = np.minimum(self.eta, 1 / self.heat)

    def _refresh(self) -> None:
        self.w[:] = -(self.problem.moments(self.point) - self.problem.target) / self.l2

    def pass_over(self, order: Array) -> Array:
        """A visit of each row; the same rows, or none where nothing moved."""
        from maxent.structured.chain.kernels.gibbs_steps import gibbs_visits

        parts, k = self.parts, self.parts.n_states
        moved = gibbs_visits(
            order, self.heat, parts.tokens, parts.chains, self.kernel_weights,
            self.theta.own.values.reshape(-1, k), self.theta.tied.reshape(-1, k, k),
            self.point.own.values.reshape(-1, k), self.point.tied.reshape(-1, k, k),
            self.negentropy, self.eta, parts.longest,
        )  # fmt: skip
        return order if moved else order[:0]

    def state(self) -> PairState:
        """The state here; rounding in the weights ends with it."""
        self._refresh()
        state = super().state()
        return PairState(state.problem, state.w, state.evaluation, state.point, self)
