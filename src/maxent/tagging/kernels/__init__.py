"""Compiled loops over attributes and their names."""
