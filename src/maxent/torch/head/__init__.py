"""A linear layer and what follows it, a loss or a sparse distribution, in one."""

from __future__ import annotations

from maxent.torch.head.distribution import SparseDistribution, linear_entmax
from maxent.torch.head.loss import LinearFenchelYoungLoss, linear_fenchel_young_loss

__all__ = [
    "LinearFenchelYoungLoss",
    "SparseDistribution",
    "linear_entmax",
    "linear_fenchel_young_loss",
]
