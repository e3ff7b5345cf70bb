"""Features of pairs of elements of two sequences, from which alignments are learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxent.rows.arrays import Array


def _squared(first: Array, second: Array) -> Array:
    return -((first[:, None] - second) ** 2)


def _absolute(first: Array, second: Array) -> Array:
    return -np.abs(first[:, None] - second)


def _slopes(first: Array, second: Array) -> Array:
    return _squared(_slope(first), _slope(second))


def _slope(x: Array) -> Array:
    """Change per element, channel by channel; 0 for a single element."""
    return np.gradient(x, axis=0) if len(x) > 1 else np.zeros_like(x)


def _diagonal(first: Array, second: Array) -> Array:
    """Minus the squared distance from the diagonal, both sequences having length 1."""
    i, j = ((np.arange(len(x)) + 0.5) / len(x) for x in (first, second))
    return -((i[:, None] - j)[..., None] ** 2)


def _length(first: Array, second: Array) -> Array:
    return np.ones((len(first), len(second), 1))


KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "squared": _squared,
    "absolute": _absolute,
    "slopes": _slopes,
    "diagonal": _diagonal,
    "length": _length,
}


def check_kinds(features: Any) -> tuple[str, ...]:
    """The names of features, in order."""
    kinds = (features,) if isinstance(features, str) else tuple(features)
    if not kinds or not set(kinds) <= KINDS.keys() or len(set(kinds)) < len(kinds):
        raise ValueError(
            f"features must be a function (first, second) -> (n, m, features) or some of "
            f"{', '.join(map(repr, KINDS))}, each once, got {features!r}"
        )
    return kinds


def pair_features(features: Any, first: Array, second: Array) -> Array:
    """The features (n m, count) of all pairs of elements of two sequences (n, d) and (m, d)."""
    n, m = len(first), len(second)
    if not callable(features):
        tables = [KINDS[kind](first, second) for kind in check_kinds(features)]
        return np.concatenate(tables, axis=2).reshape(n * m, -1)
    table = np.asarray(features(first, second), dtype=np.float64)
    if table.ndim != 3 or table.shape[:2] != (n, m) or not table.shape[2]:
        raise ValueError(
            f"the features of sequences of {n} and {m} elements must have shape ({n}, {m}, "
            f"count), got {table.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("the features of a pair of sequences must be finite, got NaN or infinity")
    return table.reshape(n * m, -1)
