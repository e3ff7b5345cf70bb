"""Families of features that are grown greedily: monomials, trees, splines, and your own."""

from maxent.families.base import Family, Proposal, Search, Terms, empirical_complexity

__all__ = ["Family", "Proposal", "Search", "Terms", "empirical_complexity"]
