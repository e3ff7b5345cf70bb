"""Cutting planes from sums alone, so that rows may stay wherever they are.

A plane is a sum, the residual m = F p - mu of an answer p with its entropy o = Omega(p). A mixture
of answers has the mixture of their residuals, and at most that of their entropies, as Omega is
convex; for a hinge, where Omega is linear, exactly that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Protocol

from maxent.core.problem import Problem, State
from maxent.rows.arrays import Array, Rows
from maxent.rows.evaluator import Evaluation, above_rounding


class Master(Protocol):
    """The programme over planes, see ``CuttingPlane``."""

    planes: Array
    entropies: Array
    repeated: bool

    def add(self, plane: Array, entropy: float, w: Array) -> tuple[Array, Array]:
        """The best weights with one more plane, and the weights of the planes."""

    def drop_idle(self) -> Array:
        """Forget planes without weight."""


@dataclass(frozen=True, eq=False)
class SumState(State):
    """A state certified at a mixture of answers, of which residual and entropy are known."""

    residual: Array
    entropy: float  # with what rounding may have taken from it
    mixture: tuple[tuple[float, Evaluation], ...] = field(repr=False)

    @property
    def prediction(self) -> Rows:
        """The mixture: a single vertex of the oracle is never optimal where vertices tie."""
        return sum(share * answer.p for share, answer in self.mixture)

    @cached_property
    def gap(self) -> float:
        """Gap at the mixture, pulled towards the observed rows where the domain of V asks it."""
        return self.pulled_gap(None, self.residual)

    @cached_property
    def optimality(self) -> float:
        """Of the residual of the mixture, which is a subgradient once its entropy part is 0."""
        return max(self.relative_violation(self.residual), self.entropy_gap(None))

    def _mixture_entropy_gap(self, s: float, p: Rows | None) -> float:
        return self._mixed_entropy_gaps(s)

    def entropy_gap(self, p: Rows | None) -> float:
        """Omega(p) + Omega*(theta) - <theta, p> of the mixture, from its sums."""
        conjugate = self.evaluation.total
        score = float(self.w @ (self.residual + self.problem.target))
        size = abs(self.entropy) + abs(conjugate) + abs(score)
        return above_rounding(self.entropy + conjugate - score, size)


def planes_of_sums(problem: Problem, state: State, master: Master) -> Iterator[State]:
    """The steps of ``CuttingPlane`` with one slack."""
    answers: list[Evaluation] = []
    roundings: list[float] = []
    while True:
        at = state.evaluation
        answers.append(at)
        entropy, rounding = at.answer_value
        roundings.append(rounding)
        w, shares = master.add(state.gradient, entropy, state.w)
        used = zip(shares.tolist(), answers, strict=True)
        state = SumState(
            problem,
            w,
            problem.evaluate(w),
            residual=shares @ master.planes,
            entropy=float(shares @ (master.entropies + roundings)),
            mixture=tuple((share, answer) for share, answer in used if share > 0),
        )
        yield state
        if master.repeated:
            return
        kept = master.drop_idle()
        answers = list(compress(answers, kept))
        roundings = list(compress(roundings, kept))
