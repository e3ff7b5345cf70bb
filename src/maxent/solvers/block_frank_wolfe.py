"""Block-coordinate Frank-Wolfe: the answer of an oracle for one row at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from maxent import io
from maxent._rows import Array, Rows, row_dot
from maxent.domains import Simplex
from maxent.entropies import Youngized, Zero
from maxent.maps import SampleMap
from maxent.problem import Problem, State
from maxent.solvers._dual import (
    CompiledRows,
    DualRows,
    DualSolver,
    PairState,
    SlowRows,
    pair_state,
    unwrap,
)


@io.register
@dataclass(frozen=True)
class BlockFrankWolfe(DualSolver):
    """Steps towards p_w, row by row (Lacoste-Julien et al., 2013), for a strongly convex penalty.

    It asks an entropy for its map alone: for Zero with a cost the cost-augmented argmax of a
    max-margin model, plain or structured. The step from p_i to the answer q_i has the length
    min(1, g_i strength / (a_i^2 ||F_i(q_i - p_i)||^2)), g_i = a_i times the Fenchel-Young gap of
    the row: exact for Zero under Quadratic, never too long otherwise. On the simplex a hinge moves
    mass from its worst class to its best one (pairwise steps) in compiled code.

    average : whether to return the average of the passes, the k-th with weight k, where its
        certificate is better: it has less of the noise of hinges.
    """

    average: bool = False

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
        hinge = isinstance(recipe.entropy, Zero) and isinstance(recipe.entropy.domain, Simplex)
        plain = isinstance(features, SampleMap) and features.whole
        if hinge and plain and problem.potential.elastic(features.n_features) is not None:
            return _PairwiseRows(problem, point)
        return _OracleRows(problem, point)


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
        from maxent._kernels.dual import pairwise_pass

        return int(pairwise_pass(order, *arrays))
