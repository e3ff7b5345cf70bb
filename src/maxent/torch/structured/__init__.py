"""Structured maps and losses for torch: the domains of ``maxent.structured`` as layers."""

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
    "matching",
    "matching_loss",
    "sinkhorn",
    "transport",
    "transport_loss",
]
