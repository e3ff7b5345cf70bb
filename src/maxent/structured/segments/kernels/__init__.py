"""Compiled loops of segmentations."""
