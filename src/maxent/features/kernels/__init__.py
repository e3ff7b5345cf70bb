"""Compiled loops over cells: moments, and scores of what was fitted."""
