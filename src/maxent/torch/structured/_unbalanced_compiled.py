"""Turns of unbalanced plans of CPU tensors by the compiled loops of the core, where numba is."""

from __future__ import annotations

import torch
from maxent._support.threads import over_rows
from maxent.structured.transport.kernels import unbalanced as kernels
from maxent.torch.structured._marginal_penalties import KullbackLeibler, MarginalPenalty
from torch import Tensor

_MOST = 1000  # turns, which take about as long as Newton's steps

Sides = tuple[MarginalPenalty, MarginalPenalty]


def turned(
    p: Tensor, f: Tensor, g: Tensor, a: Tensor, b: Tensor, sides: Sides, s: float, tolerance: Tensor
) -> Tensor:
    """Potentials of columns after turns from the plan of f and g, up to the tolerance."""
    new = g.clone(memory_format=torch.contiguous_format)
    given = tuple(x.contiguous().numpy() for x in (p, f, new, a.log(), b, b.log()))
    rows, columns = (_numbers(side, s) for side in sides)

    def work(begin: int, end: int) -> None:
        kernels.turns(*given, rows, columns, s, tolerance.numpy(), _MOST, begin, end)

    over_rows(work, len(p), 20 * p[0].numel())
    return new


def _numbers(side: MarginalPenalty, s: float) -> tuple[float, float, float]:
    """By what a potential is shortened, its bound, and the weight of Kullback and Leibler's."""
    if isinstance(side, KullbackLeibler):
        return side.weight / (side.weight + s), side.bound, side.weight
    return 1.0, side.bound, 0.0
