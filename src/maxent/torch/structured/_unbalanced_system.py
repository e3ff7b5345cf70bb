"""The linear system of the potentials of an unbalanced plan: of Newton's steps, and derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

_GROUND = 1e-14  # of the diagonal: where a shift of all potentials changes nothing


class System:
    """The Hessian of the dual in (f, g), reduced to the columns; what does not move is left out.

    `diag(slopes) + [[diag(q 1), q], [q^T, diag(q^T 1)]]` for derivatives q of the plan's entries.
    """

    def __init__(
        self,
        q: Tensor,
        slopes: tuple[Tensor, Tensor],
        moving: tuple[Tensor, Tensor],
        damping: Tensor | None = None,
    ) -> None:
        self.q, self.moves = q, moving[1]
        pivot = slopes[0] + q.sum(2)
        there = moving[0] & (pivot > 0)
        self.inverse = torch.where(there, 1 / torch.where(there, pivot, 1.0), 0.0)
        shared = q * self.inverse[:, :, None]
        weights = q.mT @ shared
        weights = weights - torch.diag_embed(weights.diagonal(dim1=1, dim2=2))
        # what is not shared with other columns, without a difference: slopes and rows at rest
        kept = torch.where(there, slopes[0] * self.inverse, 1.0)
        diagonal = slopes[1] + (q * kept[:, :, None]).sum(1) + weights.sum(2)
        used = self.moves & (diagonal > 0)
        diagonal = torch.where(used, diagonal, 1.0)
        # by the root of the diagonal, since masses may differ by any power
        self.scale = torch.where(used, diagonal.rsqrt(), 0.0)
        weights = weights * self.scale[:, :, None] * self.scale[:, None]
        matrix = torch.diag_embed(torch.full_like(diagonal, 1 + _GROUND)) - weights
        if damping is not None:  # of differences alone: a shift of all may be long
            root = torch.where(used, diagonal, 0.0).sqrt()
            root = root / torch.linalg.vector_norm(root, dim=1, keepdim=True).clamp(min=1e-300)
            apart = torch.diag_embed(torch.ones_like(root)) - root[:, :, None] * root[:, None]
            matrix = matrix + damping[:, None, None] * apart
        self.factors = torch.linalg.lu_factor(matrix)

    def columns(self, c: Tensor) -> Tensor:
        """The part of the columns, for a right side of 0 in the rows."""
        return (
            self.scale * torch.linalg.lu_solve(*self.factors, (self.scale * c)[..., None])[..., 0]
        )

    def solve(self, r: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The parts of rows and columns."""
        v = self.columns(c - (self.q * (self.inverse * r)[:, :, None]).sum(1))
        return self.inverse * (r - (self.q * v[:, None]).sum(2)), v
