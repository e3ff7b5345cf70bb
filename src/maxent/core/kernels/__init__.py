"""Compiled loops of domains, entropies and solvers."""
