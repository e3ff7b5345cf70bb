"""Compiled loops of paths."""
