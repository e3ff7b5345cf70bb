"""Sequences, trees, alignments, matchings and rankings."""
