"""Families of features that are grown greedily: monomials, trees, splines, and your own."""

from maxent.families.base import (
    Family,
    FunctionFeatures,
    Proposal,
    Search,
    Terms,
    empirical_complexity,
)
from maxent.families.monomials import Monomials
from maxent.families.splines import Splines
from maxent.families.trees import Trees

__all__ = [
    "Family",
    "FunctionFeatures",
    "Monomials",
    "Proposal",
    "Search",
    "Splines",
    "Terms",
    "Trees",
    "empirical_complexity",
]
