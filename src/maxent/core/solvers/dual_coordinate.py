"""Dual coordinate ascent: the distribution of one row at a time (Fenchel-Young paper, §8.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import Simplex
from maxent.core.entropies import (
    BinaryGini,
    Entropy,
    FermiDirac,
    Shannon,
    SquaredNorm,
    Tsallis,
    Zero,
    unwrap,
)
from maxent.core.maps import SampleMap
from maxent.core.problem import Problem
from maxent.core.solvers._dual import CompiledRows, DualRows, DualSolver, SlowRows
from maxent.rows.arrays import Array, Rows, Tied


@io.register
@dataclass(frozen=True)
class DualCoordinateAscent(DualSolver):
    """SDCA (Shalev-Shwartz and Zhang, 2016) for a strongly convex penalty and several rows.

    A change d of `p_i` changes the primal by `a_i (Omega(p_i + d) - Omega(p_i) - <theta_i, d>)` and
    at most `s_i/2 ||d||^2`, `s_i = a_i^2 ||F_i||^2 / strength`, because `w = -grad V(F p - mu)` and
    `grad V` is 1/strength-Lipschitz; so `p_i <- prox_{tau_i Omega}(p_i + tau_i theta_i)`,
    `tau_i = a_i/s_i`.

    Compiled for samples, elastic penalties and Shannon, Tsallis, FermiDirac, BinaryGini or Zero
    (also shifted or scaled); any other entropy goes through its ``prox``, row by row, a search of a
    few milliseconds where it has no closed form: entropies of structures too, where
    ``BlockFrankWolfe`` and ``LBFGS`` are faster. A row that did not move rests until the next look
    at the certificate.

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
        """Rows, a strongly convex penalty, and a proximity operator of the entropy."""
        lack = super().missing(problem)
        inside = unwrap(problem.entropy).entropy
        if lack is None and not inside.has_prox:
            return f"{inside!r} has no proximity operator; use BlockFrankWolfe"
        size = problem.features.n_features
        if lack is None and isinstance(problem.features.scores(np.zeros(size)), Tied):
            return (
                "sums of transitions cannot be projected; use BlockFrankWolfe, or "
                "ChainMap(..., tied=False)"
            )
        return lack

    def _rows(self, problem: Problem, point: Rows) -> DualRows:
        compiled = _kernel(unwrap(problem.entropy).entropy)
        features = problem.features
        plain = isinstance(features, SampleMap) and features.whole
        if compiled is None or not plain or problem.potential.elastic(features.n_features) is None:
            return _ProxRows(problem, point)
        return _ClosedRows(problem, point, *compiled)


def _kernel(entropy: Entropy) -> tuple[int, float, float] | None:
    """Kind, alpha - 1 and temperature, as the kernels take them."""
    from maxent.core.kernels.dual_ascent import BINARY_GINI, FERMI_DIRAC, TSALLIS

    if isinstance(entropy, FermiDirac):
        return FERMI_DIRAC, 0.0, 1.0
    if isinstance(entropy, BinaryGini):
        return BINARY_GINI, 0.0, 1.0
    if not isinstance(entropy.domain, Simplex):
        return None
    if isinstance(entropy, Zero):
        return TSALLIS, 1.0, 0.0
    if isinstance(entropy, Shannon):
        return TSALLIS, 0.0, 1.0
    if isinstance(entropy, Tsallis):
        return TSALLIS, entropy.alpha - 1, 1.0
    if isinstance(entropy, SquaredNorm) and entropy.q == 2:
        return TSALLIS, 1.0, 1.0
    return None


class _ProxRows(SlowRows):
    """Steps through ``entropy.prox``."""

    def __init__(self, problem: Problem, point: Rows) -> None:
        super().__init__(problem, point)
        modulus = problem.potential.strong_convexity()
        with np.errstate(divide="ignore"):
            self.steps = modulus / (self.weights * self.norms)

    def move(self, i: int) -> bool:
        """p_i <- prox_{tau_i Omega}(p_i + tau_i theta_i)."""
        tau, old = float(self.steps[i]), self.batch(i)
        theta = self.parts[i].scores(self.w) + self.cost(i)
        new = self.recipe.entropy.prox(old + tau * theta, tau * self.recipe.temperature)
        return self.change(i, old, new)


class _ClosedRows(CompiledRows):
    """Steps through the proximity operators that the kernels know."""

    def __init__(
        self, problem: Problem, point: Rows, kind: int, power: float, temperature: float
    ) -> None:
        super().__init__(problem, point)
        self.model = kind, power, unwrap(problem.entropy).temperature * temperature

    def move_all(self, order: Array, *arrays: Array) -> int:
        """p_i <- prox_{tau_i Omega}(p_i + tau_i theta_i)."""
        from maxent.core.kernels.dual_ascent import pass_over

        return int(pass_over(order, *self.model, *arrays))
