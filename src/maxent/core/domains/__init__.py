"""Domains: convex sets reached through oracles.

A domain answers for batches of rows (arrays whose last axis is the row, or Ragged): ``argmax`` (a
best vertex), ``project`` (the nearest point) and, where sums over all vertices are tractable,
``softmax`` (log-partition and marginals). Entropies know their domain through these oracles alone,
so every entropy written for oracles works on every domain that has them.
"""

from maxent.core.domains.base import (
    Domain,
    KBestDomain,
    StructuredDomain,
    SumProductDomain,
    central_difference,
)
from maxent.core.domains.simple import (
    Cube,
    Euclidean,
    Intervals,
    KSubset,
    NonNegative,
    Simplex,
    one_hot,
)
from maxent.core.domains.wrappers import Blocks, Product, ScaledDomain

__all__ = [
    "Blocks",
    "Cube",
    "Domain",
    "Euclidean",
    "Intervals",
    "KBestDomain",
    "KSubset",
    "NonNegative",
    "Product",
    "ScaledDomain",
    "Simplex",
    "StructuredDomain",
    "SumProductDomain",
    "central_difference",
    "one_hot",
]
