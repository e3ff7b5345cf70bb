"""Parameters of potentials, checked once, and what several potentials compute from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array

ROUNDING = 1e-12  # share by which a residual may pass a bound before it counts as outside


def parameter(name: str, value: Any, positive: bool = False) -> Array:
    """A finite non-negative (or positive) number or vector, as a read-only float64 array."""
    array = np.array(value, dtype=np.float64)
    wrong = array <= 0 if positive else array < 0
    if array.ndim > 1 or array.size == 0 or not np.isfinite(array).all() or wrong.any():
        what = "> 0" if positive else ">= 0"
        raise ValueError(
            f"{name} must be a finite number {what} or a vector of them, got {value!r}"
        )
    array.setflags(write=False)
    return array


def number(name: str, value: Any, positive: bool = False) -> float:
    """A single number, finite and non-negative (or positive)."""
    array = parameter(name, value, positive)
    if array.ndim:
        raise ValueError(f"{name} must be a single number, got {value!r}")
    return float(array)


def norm_order(p: Any) -> float:
    """The order p >= 1 of a norm."""
    p = float(p)
    if not p >= 1:
        raise ValueError(f"the order p of a norm must lie in [1, inf], got {p!r}")
    return p


def vector_size(*arrays: Array) -> int | None:
    """The number of features that vectors among the parameters are made for, None without any."""
    sizes = {a.size for a in arrays if a.ndim}
    if len(sizes) > 1:
        raise ValueError(f"parameters have different lengths: {sorted(sizes)}")
    return sizes.pop() if sizes else None


def check_curvature(curvature: float) -> None:
    """Refuse the curvature of a coordinate step that is not positive."""
    if not (np.isfinite(curvature) and curvature > 0):
        raise ValueError(f"a coordinate step needs a curvature > 0, got {curvature!r}")


def fraction(x: Array, bound: Array) -> Array:
    """|x| / bound with 0/0 = 0 and x/0 = inf."""
    x = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(x == 0, 0.0, x / bound)
