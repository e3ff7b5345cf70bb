"""Checks of parameters that several packages share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from maxent.rows.arrays import Array


def positive(name: str, value: Any) -> float:
    """A positive number."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def positive_grid(name: str, values: Any) -> list[float]:
    """Distinct positive numbers, largest first."""
    listed = [values] if isinstance(values, Real) else list(values)
    if not listed:
        raise ValueError(f"{name} is empty: give at least one")
    return sorted({positive(name, value) for value in listed}, reverse=True)


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


def floats(name: str, values: Any, size: int, missing: bool = False) -> None:
    """Complain unless these are ``size`` floats: compiled loops trust it. NaN where ``missing``."""
    _vector(name, values, size, "f", "floats")
    if values.dtype != np.float64:
        raise ValueError(f"{name} must be in double precision, got {values.dtype}")
    if not missing and np.isnan(values).any():
        raise ValueError(f"{name} must not contain NaN")


def indices(name: str, values: Any, size: int, count: int) -> None:
    """Complain unless these are ``size`` integers from 0 up to ``count``, which is left out."""
    _vector(name, values, size, "i", "integers")
    if values.size and not (values.min() >= 0 and values.max() < count):
        raise ValueError(
            f"{name} must be from 0 to {count - 1}, got {values.min()} to {values.max()}"
        )


def cuts(name: str, values: Any, total: int, least: int = 0) -> None:
    """Complain unless these are integers that grow from 0 to ``total`` by ``least`` or more."""
    _vector(name, values, np.size(values), "i", "integers")
    if not (values.size and values[0] == 0 and values[-1] == total):
        raise ValueError(f"{name} must grow from 0 to {total}, got {values!r:.60}")
    if (np.diff(values) < least).any():
        raise ValueError(f"{name} must grow by {least} or more from entry to entry")


def triple(what: str, value: Any, fields: str) -> None:
    """Complain unless this is a sequence of three integers."""
    three = isinstance(value, Sequence | np.ndarray) and len(value) == 3
    if not (three and all(isinstance(x, int | np.integer) for x in value)):
        raise ValueError(f"{what} {value!r}, where three integers ({fields}) are expected")


def _vector(name: str, values: Any, size: int, kind: str, words: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype.kind != kind:
        given = getattr(values, "dtype", type(values).__name__)
        raise ValueError(f"{name} must be an array of {words}, got {given}")
    if values.shape != (size,):
        raise ValueError(f"{name} must have {size} entries, got shape {values.shape}")
