"""Structured domains: polytopes whose oracles are dynamic programmes."""

from maxent.domains import (
    Cube,
    Domain,
    Euclidean,
    KSubset,
    NonNegative,
    Product,
    ScaledDomain,
    Simplex,
    SumProductDomain,
)
from maxent.structured.chain import Chain

__all__ = [
    "Chain",
    "Cube",
    "Domain",
    "Euclidean",
    "KSubset",
    "NonNegative",
    "Product",
    "ScaledDomain",
    "Simplex",
    "SumProductDomain",
]
