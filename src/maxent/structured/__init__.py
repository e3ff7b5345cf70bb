"""Structured domains: polytopes whose oracles are dynamic programmes. Simple ones are here too."""

from maxent.core import domains
from maxent.core.domains import *  # noqa: F403
from maxent.structured.alignment.domain import Alignment
from maxent.structured.chain.domain import Chain
from maxent.structured.chain.higher_order import HigherOrderChain
from maxent.structured.distribution import StructureDistribution, sparse_distribution
from maxent.structured.frank_wolfe import FrankWolfeResult, frank_wolfe
from maxent.structured.max_marginals import max_marginals
from maxent.structured.paths.automaton import Automaton, collapse
from maxent.structured.paths.domain import Lattice
from maxent.structured.ranking.permutahedron import Permutahedron
from maxent.structured.ranking.soft import (
    kendall_tau,
    soft_partial_rank,
    soft_rank,
    soft_sort,
    soft_topk,
)
from maxent.structured.segments.domain import SemiMarkov
from maxent.structured.segments.feature_map import SegmentMap
from maxent.structured.transport.domain import Birkhoff, Transport
from maxent.structured.trees.arborescence import Arborescence
from maxent.structured.trees.constituency import ConstituencyTree
from maxent.structured.trees.projective import ProjectiveTree
from maxent.structured.trees.tree import Tree

__all__ = [
    "Alignment",
    "Arborescence",
    "Automaton",
    "Birkhoff",
    "Chain",
    "ConstituencyTree",
    "FrankWolfeResult",
    "Permutahedron",
    "ProjectiveTree",
    "HigherOrderChain",
    "Lattice",
    "SegmentMap",
    "SemiMarkov",
    "StructureDistribution",
    "Transport",
    "Tree",
    "collapse",
    "frank_wolfe",
    "kendall_tau",
    "max_marginals",
    "soft_partial_rank",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    "sparse_distribution",
    *domains.__all__,
]
