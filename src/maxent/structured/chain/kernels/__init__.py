"""Compiled loops of chains."""
