"""Cutting planes from sums alone: for rows that stay in blocks, whose answers no one writes out.

A plane is a sum, the residual m = F p - mu of an answer p with its entropy o = Omega(p). A mixture
of answers has the mixture of their residuals, and at most that of their entropies, as Omega is
convex; for a hinge, where Omega is linear, exactly that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from maxent._rows import Array, Rows
from maxent.problem import Problem, State


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
    entropy: float

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
        conjugate = self.problem.total(self.conjugate)
        score = float(self.w @ (self.residual + self.problem.target))
        size = abs(self.entropy) + abs(conjugate) + abs(score)
        return max(self.entropy + conjugate - score, float(np.finfo(np.float64).eps) * size)


def planes_of_sums(problem: Problem, state: State, master: Master) -> Iterator[State]:
    """The steps of ``CuttingPlane`` with one slack."""
    while True:
        moments = state.gradient + problem.target
        entropy = float(state.w @ moments) - problem.total(state.conjugate)
        w, mixture = master.add(state.gradient, entropy, state.w)
        state = SumState(
            problem,
            w,
            None,
            residual=mixture @ master.planes,
            entropy=float(mixture @ master.entropies),
        )
        yield state
        if master.repeated:
            return
        master.drop_idle()
