"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent import domains
from maxent.domains import *  # noqa: F403
from maxent.structured.alignment import Alignment
from maxent.structured.chain import Chain
from maxent.structured.distribution import StructureDistribution, sparse_distribution
from maxent.structured.frank_wolfe import FrankWolfeResult, frank_wolfe
from maxent.structured.higher_order import HigherOrderChain
from maxent.structured.tree import Tree

__all__ = [
    "Alignment",
    "Chain",
    "FrankWolfeResult",
    "HigherOrderChain",
    "StructureDistribution",
    "Tree",
    "frank_wolfe",
    "sparse_distribution",
    *domains.__all__,
]
