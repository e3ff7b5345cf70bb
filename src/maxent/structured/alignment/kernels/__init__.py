"""Compiled loops of alignments."""
