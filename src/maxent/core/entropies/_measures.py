"""Rows against a base measure q: densities p/q, their norms, and sums of separable terms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxent.core.entropies.base import same_type
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array


def of_rows(measure: Array, rows: Array) -> Array:
    """The part of a base measure, shared or one per row, that belongs to these rows."""
    return measure if len(measure) == 1 else measure[rows]


def log_ratio(p: Array, q: Array | None) -> Array:
    """log(p/q), 0 where p = 0 and inf where only q = 0."""
    safe = np.where(p > 0, p, 1.0)
    if q is None:
        return np.log(safe)
    with np.errstate(divide="ignore"):
        return np.where(p > 0, np.log(safe) - np.log(q), 0.0)


def measure_norm(p: Array, order: float, q: Array | None) -> Array:
    """(sum q (p/q)^order)^(1/order), the norm of the density p/q in L^order(q)."""
    p = np.asarray(p, dtype=np.float64)
    base = np.ones(1) if q is None else q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, p / base, 0.0)
    largest = ratio.max(axis=1, keepdims=True, initial=0.0)
    if np.isinf(order):
        return largest[:, 0]
    share = ratio / np.where(largest > 0, largest, 1.0)  # no underflow for a large order
    return largest[:, 0] * np.sum(base * share**order, axis=1) ** (1 / order)


def separable_prox(
    eta: Array, inverse: Callable[[Array, Array], Array], slope: Callable[[float], Array]
) -> Array:
    """prox of a uniformly separable entropy: p_i = inverse(eta_i - nu), sum p = 1 (App. A.1).

    ``inverse(y, rows)`` solves g'(p) = y, ``slope(t)`` is g'(t); Prop. 9 brackets nu between
    the values that give the best entry 1 and every entry at most 1/d.
    """
    x = eta.astype(np.float64)
    x = np.where(np.isfinite(x), x, -1e300)

    def excess(nu: Array, rows: Array) -> Array:
        return np.sum(inverse(x[rows] - nu[:, None], rows), axis=1) - 1

    low = np.max(x - slope(1.0), axis=1)
    high = np.max(x - slope(1.0 / x.shape[1]), axis=1)
    nu = bracketed_root(excess, low, high)
    p = inverse(x - nu[:, None], np.arange(len(x)))
    return same_type(p / np.sum(p, axis=1, keepdims=True), eta)
