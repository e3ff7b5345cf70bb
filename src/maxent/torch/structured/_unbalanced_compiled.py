"""Turns of unbalanced plans of CPU tensors by the compiled loops of the core, where numba is."""

from __future__ import annotations

import numpy as np

import torch
from maxent._support.threads import over_rows
from maxent.structured.transport.kernels import unbalanced as kernels
from maxent.torch.structured._marginal_penalties import KullbackLeibler, MarginalPenalty
from torch import Tensor

_MOST = 1000  # turns, which take about as long as Newton's steps
_WITHIN = 0.25  # of the tolerance, since a plan that is made anew is rounded otherwise


class Plans:
    """The plans of scores (rows, m, n), and their potentials.

    nothing : the potentials of rows that nothing can be in, and 0 elsewhere.
    """

    def __init__(
        self,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        sides: tuple[MarginalPenalty, MarginalPenalty],
        nothing: Tensor,
    ) -> None:
        self.x, self.b, self.sides = x.contiguous().numpy(), b.contiguous().numpy(), sides
        self.log_a, self.log_b = (mass.contiguous().log().numpy() for mass in (a, b))
        self.nothing = nothing.numpy()

    def at(self, g: Tensor, s: float, room: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The plan with the best potentials of rows, these, and the sums of its columns.

        room : a plan that is written over.
        """
        p = np.empty_like(self.x) if room is None else room.numpy()
        f, moved = self.nothing.copy(), np.empty(g.shape)
        given, side = (self.x, g.numpy(), self.log_a), _numbers(self.sides[0], s)

        def work(begin: int, end: int) -> None:
            kernels.plans(*given, side, s, begin, end, p, f, moved)

        over_rows(work, len(p), p[0].size)
        return torch.from_numpy(p), torch.from_numpy(f), torch.from_numpy(moved)

    def turned(
        self, p: Tensor, f: Tensor, g: Tensor, s: float, tolerance: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Potentials of columns after turns from the plan of f and g, to within the tolerance.

        Where all reached it, p and f are those of the new g as well, and its column sums come back.
        """
        new, sums = g.clone(), torch.empty_like(g)
        reached = np.zeros(len(g), np.bool_)
        given = p.numpy(), f.numpy(), new.numpy(), self.log_a, self.b, self.log_b
        rows, columns = (_numbers(side, s) for side in self.sides)
        tolerances = _WITHIN * tolerance.numpy()

        def work(begin: int, end: int) -> None:
            kernels.turns(
                *given, rows, columns, s, tolerances, _MOST, begin, end, sums.numpy(), reached
            )

        over_rows(work, len(p), _MOST // 10 * p[0].numel())
        return new, sums if reached.all() else None


def _numbers(side: MarginalPenalty, s: float) -> tuple[float, float, float]:
    """By what a potential is shortened, its bound, and the weight of Kullback and Leibler's."""
    if isinstance(side, KullbackLeibler):
        return side.weight / (side.weight + s), side.bound, side.weight
    return 1.0, side.bound, 0.0
