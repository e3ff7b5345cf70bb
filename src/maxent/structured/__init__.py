"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.chain import Chain
from maxent.structured.permutahedron import Permutahedron
from maxent.structured.ranking import soft_partial_rank, soft_rank, soft_sort, soft_topk

__all__ = [
    "Chain",
    "Permutahedron",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    *domains.__all__,
]
