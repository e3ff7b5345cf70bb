"""Compiled loops of the exact path."""
