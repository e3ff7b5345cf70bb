"""Sums over the plan of two clouds in blocks of torch operations: CUDA, and many dimensions."""

from __future__ import annotations

import torch
from torch import Tensor

_ENTRIES = 1 << 22  # of a block; 32 MiB


class Cloud:
    """Points, and the squares of their norms."""

    def __init__(self, x: Tensor) -> None:
        self.points, self.squares = x, 0.5 * x.square().sum(1)


class Plan:
    """`E_ij = exp((f_i + g_j - |x_i - y_j|^2 / 2) / strength)`; each call brings f and g."""

    def __init__(self, x: Cloud, y: Cloud, strength: float) -> None:
        self.x, self.y, self.strength = x, y, strength

    def sums(self, f: Tensor, g: Tensor, values: Tensor) -> Tensor:
        """`sum_j E_ij v_jk` (n, k)."""
        level, height = f - self.x.squares, g - self.y.squares
        found = values.new_empty(len(f), values.shape[1])
        rows = max(1, _ENTRIES // len(g))
        for start in range(0, len(f), rows):
            part = slice(start, start + rows)
            t = torch.addmm(height, self.x.points[part], self.y.points.T)
            t.add_(level[part, None]).div_(self.strength).clamp_(max=700.0).exp_()
            found[part] = t @ values
        return found

    def transposed(self) -> Plan:
        """The same with rows and columns exchanged."""
        return Plan(self.y, self.x, self.strength)
