"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.alignment import Alignment
from maxent.structured.arborescence import Arborescence
from maxent.structured.chain import Chain
from maxent.structured.distribution import StructureDistribution, sparse_distribution
from maxent.structured.frank_wolfe import FrankWolfeResult, frank_wolfe
from maxent.structured.higher_order import HigherOrderChain
from maxent.structured.permutahedron import Permutahedron
from maxent.structured.ranking import (
    kendall_tau,
    soft_partial_rank,
    soft_rank,
    soft_sort,
    soft_topk,
)
from maxent.structured.transport import Birkhoff, Transport
from maxent.structured.tree import Tree

__all__ = [
    "Alignment",
    "Arborescence",
    "Birkhoff",
    "Chain",
    "FrankWolfeResult",
    "Permutahedron",
    "HigherOrderChain",
    "StructureDistribution",
    "Transport",
    "Tree",
    "frank_wolfe",
    "kendall_tau",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    "sparse_distribution",
    *domains.__all__,
]
