"""Compiled loops of couplings."""
