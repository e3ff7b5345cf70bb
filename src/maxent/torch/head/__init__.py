"""A linear layer and what follows it, a loss or a sparse distribution, in one."""

from __future__ import annotations

from maxent.torch.head.chunked import ChunkedLoss
from maxent.torch.head.distillation import linear_distillation_loss
from maxent.torch.head.distribution import SparseDistribution, linear_entmax
from maxent.torch.head.hugging_face import CausalLoss, EntmaxLogitsProcessor, set_causal_loss
from maxent.torch.head.log_probabilities import linear_log_probabilities
from maxent.torch.head.loss import linear_fenchel_young_loss
from maxent.torch.head.modules import LinearFenchelYoungLoss
from maxent.torch.head.statistics import RowStatistics, linear_statistics

__all__ = [
    "CausalLoss",
    "ChunkedLoss",
    "EntmaxLogitsProcessor",
    "LinearFenchelYoungLoss",
    "RowStatistics",
    "SparseDistribution",
    "linear_distillation_loss",
    "linear_entmax",
    "linear_fenchel_young_loss",
    "linear_log_probabilities",
    "linear_statistics",
    "set_causal_loss",
]
