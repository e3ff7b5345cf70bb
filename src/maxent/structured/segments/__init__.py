"""Segmentations of sequences: semi-Markov models."""
