"""Monotone alignments of two sequences."""
