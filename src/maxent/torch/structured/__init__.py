"""Structured maps and losses for torch: the domains of ``maxent.structured`` as layers."""

from maxent.torch.structured.ranking import (
    SoftRank,
    SoftSort,
    SoftTopK,
    soft_partial_rank,
    soft_rank,
    soft_sort,
    soft_topk,
)
from maxent.torch.structured.transport import (
    Matching,
    MatchingLoss,
    Sinkhorn,
    matching,
    matching_loss,
    sinkhorn,
    transport,
    transport_loss,
)

__all__ = [
    "Matching",
    "MatchingLoss",
    "Sinkhorn",
    "SoftRank",
    "SoftSort",
    "SoftTopK",
    "matching",
    "matching_loss",
    "sinkhorn",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    "transport",
    "transport_loss",
]
