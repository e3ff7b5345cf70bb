"""Couplings of two histograms."""
