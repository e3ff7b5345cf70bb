"""Block-coordinate Frank-Wolfe: the answer of an oracle for one row at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from maxent import io
from maxent._support.threads import one_blas_thread
from maxent.core.domains import Simplex
from maxent.core.entropies import Youngized, Zero, unwrap
from maxent.core.maps import SampleMap
from maxent.core.problem import Problem, State
from maxent.core.solvers._dual import (
    CompiledRows,
    DualRows,
    DualSolver,
    PairState,
    SlowRows,
    pair_state,
)
from maxent.core.solvers.base import Callback, Solution
from maxent.rows.arrays import Array, Rows, row_dot

if TYPE_CHECKING:
    from maxent.core.solvers._chains import Layout
    from maxent.core.solvers._path_rows import ActivePaths


@io.register
@dataclass(frozen=True)
class BlockFrankWolfe(DualSolver):
    """Steps towards `p_w`, row by row (Lacoste-Julien et al., 2013), for a strongly convex penalty.

    It asks an entropy for its map alone: for Zero with a cost the cost-augmented argmax of a
    max-margin model, plain or structured. The step from `p_i` to the answer `q_i` has the length
    `min(1, g_i strength / (a_i^2 ||F_i(q_i - p_i)||^2))`, `g_i = a_i` times the Fenchel-Young gap
    of the row: exact for Zero under Quadratic, never too long otherwise. On the simplex a hinge
    moves mass from its worst class to its best one (pairwise steps) in compiled code.

    A hinge over ``Chain`` with tied transitions under Quadratic (any strengths > 0) is compiled as
    well. Each sequence keeps the paths it is a mixture of and moves mass between them (Osokin et
    al., 2016); the best recombination of their states joins them without an oracle; passes are
    accelerated by a proximal term. ``resume`` goes on from the paths of another problem's solution.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 2000
        Iterations at most.
    average : bool, default False
        Whether to return the average of the passes, the k-th with weight k, where its certificate
        is better: it has less of the noise of hinges.
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
    cache : int, default 5
        Chains: passes over the known states after each that asks the oracle.
    sampling : "uniform" or "gap", default "uniform"
        Chains: "gap" draws rows by their last known gaps.
    plain : bool, default False
        Chains: the method of 2013 alone, one step towards one answer, nothing kept.

    Examples
    --------
    >>> import numpy as np
    >>> from maxent import Chain, ChainMap, Problem, Quadratic, Shifted, Zero
    >>> chain = Chain(2)
    >>> labels = chain.encode([[0, 1], [1, 1, 0]], tied=True)
    >>> cost = chain.scores([1 - y.reshape(-1, 2) for y in labels.own.rows()], np.zeros((2, 2)))
    >>> chains = ChainMap([np.eye(2), np.ones((3, 2))], 2)
    >>> hinge = Shifted(Zero(chain), cost)
    >>> solver = BlockFrankWolfe(tol=1e-6)
    >>> first, paths = solver.resume(Problem(hinge, chains, Quadratic(0.1), observed=labels))
    >>> again, _ = solver.resume(Problem(hinge, chains, Quadratic(0.11), observed=labels), paths)
    >>> again.gap <= 1e-6
    True
    """

    average: bool = False
    cache: int = field(default=5, kw_only=True, metadata=io.LATER)
    sampling: str = field(default="uniform", kw_only=True, metadata=io.LATER)
    plain: bool = field(default=False, kw_only=True, metadata=io.LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache < 0:
            raise ValueError(f"cache must be >= 0, got {self.cache!r}")
        if self.sampling not in ("uniform", "gap"):
            raise ValueError(f"sampling is 'uniform' or 'gap', got {self.sampling!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """Rows, a strongly convex penalty, and a map that is cheap for a single row."""
        lack = super().missing(problem)
        inside = unwrap(problem.entropy).entropy
        if lack is None and isinstance(inside, Youngized):
            return f"{inside!r} needs a linear programme for each row and step; use CuttingPlane"
        return lack

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        steps = super()._iterate(problem, state)
        if not self.average:
            yield from steps
            return
        mean: Rows = None
        for count, new in enumerate(steps, start=1):
            assert isinstance(new, PairState)
            share = 2 / (count + 1)
            mean = new.point if mean is None else (1 - share) * mean + share * new.point
            averaged = pair_state(problem, mean)
            yield averaged if averaged.gap < new.gap else new

    def _rows(self, problem: Problem, point: Rows) -> DualRows:
        recipe = unwrap(problem.entropy)
        features = problem.features
        elastic = problem.potential.elastic(features.n_features)
        hinge = isinstance(recipe.entropy, Zero) and elastic is not None
        plain = isinstance(features, SampleMap) and features.whole
        if hinge and plain and isinstance(recipe.entropy.domain, Simplex):
            return _PairwiseRows(problem, point)
        return self._chain_rows(problem, point, None) or _OracleRows(problem, point)

    def _chain_rows(
        self, problem: Problem, point: Rows, active: ActivePaths | None
    ) -> DualRows | None:
        """Compiled rows of a hinge over chains under a squared norm, else None."""
        from maxent.core.solvers._path_rows import PathRows, PlainRows

        parts = _compiled_layout(problem)
        if parts is None:
            return None
        by_gap = self.sampling == "gap"
        if self.plain:
            return PlainRows(problem, point, parts, by_gap)
        return PathRows(problem, point, parts, by_gap, self.cache, active)

    @classmethod
    def resumes(cls, problem: Problem) -> bool:
        """Whether ``resume`` applies: a hinge over tied chains under a squared norm."""
        return cls.missing(problem) is None and _compiled_layout(problem) is not None

    def resume(
        self, problem: Problem, active: ActivePaths | None = None, callback: Callback | None = None
    ) -> tuple[Solution, ActivePaths]:
        """Solve a hinge over chains from active paths; the solution and its own active paths.

        Those of a problem with the same sequences and another penalty or other costs are a start
        near the solution. Nothing warns of a missed tolerance: see the solution's status.
        """
        lack = self.missing(problem)
        with one_blas_thread():
            start = None if lack else self._initial(problem.origin())
            rows = None
            if isinstance(start, PairState):
                rows = replace(self, plain=False)._chain_rows(start.problem, start.point, active)
            if rows is None:
                raise TypeError(
                    "BlockFrankWolfe resumes hinges over Chain with tied transitions, costs of "
                    f"states and a squared norm as penalty, got {problem!r}" + (lack or "")
                )
            return self._descend(rows.state(), callback), rows.active  # type: ignore[attr-defined]


def _compiled_layout(problem: Problem) -> Layout | None:
    """How chains lie in memory, for a hinge over tied ones under a squared norm; else None."""
    from maxent.core.solvers._chains import layout

    elastic = problem.potential.elastic(problem.features.n_features)
    return None if elastic is None or elastic[0].any() else layout(problem, Zero)


class _OracleRows(SlowRows):
    """Steps towards the answer of any entropy's map."""

    def __init__(self, problem: Problem, point: Rows) -> None:
        super().__init__(problem, point)
        self.modulus = problem.potential.strong_convexity()

    def move(self, i: int) -> bool:
        """p_i <- p_i + length (q_i - p_i)."""
        entropy, heat, cost = self.recipe.entropy, self.recipe.temperature, self.cost(i)
        old, part = self.batch(i), self.parts[i]
        theta = part.scores(self.w) + cost
        value, answer = entropy.conjugate(theta / heat)
        gap = heat * (value + entropy.value_inside(old)) - row_dot(theta, old)
        step = answer - old
        image = part.moments(step)
        curved = self.weights[i] * float(image @ image) / self.modulus
        if not gap[0] > 0 or curved == 0:
            return False
        length = min(1.0, float(gap[0]) / curved)
        return self.change(i, old, old + length * step)


class _PairwiseRows(CompiledRows):
    """Mass from the worst class in use to the best one."""

    def move_all(self, order: Array, *arrays: Array) -> int:
        """Pairwise steps."""
        from maxent.core.kernels.dual_ascent import pairwise_pass

        return int(pairwise_pass(order, *arrays))
