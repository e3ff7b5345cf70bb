"""Structured maps and losses for torch: the domains of ``maxent.structured`` as layers."""

from maxent.torch.structured.arborescence import (
    ArborescenceLoss,
    ArborescenceMarginals,
    arborescence_argmax,
    arborescence_crf_loss,
    arborescence_hinge_loss,
    arborescence_log_partition,
    arborescence_marginals,
    arborescence_sparsemap,
    arborescence_sparsemap_loss,
)
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
    "ArborescenceLoss",
    "ArborescenceMarginals",
    "Matching",
    "MatchingLoss",
    "Sinkhorn",
    "SoftRank",
    "SoftSort",
    "SoftTopK",
    "arborescence_argmax",
    "arborescence_crf_loss",
    "arborescence_hinge_loss",
    "arborescence_log_partition",
    "arborescence_marginals",
    "arborescence_sparsemap",
    "arborescence_sparsemap_loss",
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
