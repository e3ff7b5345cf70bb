"""Compiled loops of isotonic regression."""
