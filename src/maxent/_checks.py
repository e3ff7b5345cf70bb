"""Checks of parameters that several packages share."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from maxent._rows import Array


def positive(name: str, value: Any) -> float:
    """A positive number."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def masses(name: str, values: Any, count: int) -> Array:
    """A finite, non-negative number per row; ones by default."""
    if values is None:
        return np.ones(count)
    if isinstance(values, Real):
        values = np.full(count, float(values))
    masses = np.asarray(values, dtype=np.float64)
    if masses.shape != (count,):
        raise ValueError(
            f"{name} must have one entry per row, shape ({count},), got {masses.shape}"
        )
    if not np.isfinite(masses).all() or (masses < 0).any():
        raise ValueError(f"{name} must be finite and non-negative")
    return masses
