"""Permutations: rankings and sorting."""
