"""Predictions as a step distribution: the one sort behind ranks, omissions and areas."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent.rows.arrays import Array


def as_predictions(values: ArrayLike, name: str) -> Array:
    """Predictions as a float64 vector: not empty, without NaN."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a vector with at least one prediction, got shape {array.shape}"
        )
    if np.isnan(array).any():
        raise ValueError(
            f"{name} has {np.isnan(array).sum()} NaN among {array.size} predictions; "
            "drop the cells without data first"
        )
    return array


def as_weights(weights: ArrayLike, size: int, name: str) -> Array:
    """Weights as a float64 vector: one per row, finite, non-negative, not all zero."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (size,):
        raise ValueError(f"{name} must be a vector of {size} numbers, got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError(f"{name} must be finite and non-negative, with a sum > 0")
    return array


class Distribution:
    """F(t) = share of the (weighted) values at most t, with its left limits.

    >>> Distribution(np.array([1.0, 2.0, 2.0, 3.0])).up_to(2.0)
    array(0.75)
    """

    def __init__(self, values: Array, weights: Array | None = None) -> None:
        if weights is None:
            self.values = np.sort(values)
            mass = np.arange(values.size + 1.0)
        else:
            order = np.argsort(values, kind="stable")
            self.values = values[order]
            mass = np.concatenate([[0.0], np.cumsum(weights[order])])
        self._share = mass / mass[-1]

    def below(self, cuts: Any) -> Array:
        """Share of the values < each cut."""
        return np.asarray(self._share[np.searchsorted(self.values, cuts, "left")])

    def up_to(self, cuts: Any) -> Array:
        """Share of the values <= each cut."""
        return np.asarray(self._share[np.searchsorted(self.values, cuts, "right")])

    def placement(self, values: Array) -> Array:
        """Share of the values below each of these, ties counting one half."""
        return (self.below(values) + self.up_to(values)) / 2
