"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.chain import Chain
from maxent.structured.permutahedron import Permutahedron
from maxent.structured.ranking import (
    kendall_tau,
    soft_partial_rank,
    soft_rank,
    soft_sort,
    soft_topk,
)
from maxent.structured.transport import Birkhoff, Transport

__all__ = [
    "Birkhoff",
    "Chain",
    "Permutahedron",
    "Transport",
    "kendall_tau",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    *domains.__all__,
]
