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

__all__ = [
    "SoftRank",
    "SoftSort",
    "SoftTopK",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
]
