"""Norms of order p, their balls and their squares: gradients, projections, proximity operators."""

from __future__ import annotations

import numpy as np

from maxent.core.roots import bracketed_root, linear_plus_power
from maxent.rows.arrays import Array

_FAR = 1e300  # a multiplier beyond it, or below its inverse, is as good as infinite, or 0


def dual_order(p: float) -> float:
    """The p' with 1/p + 1/p' = 1."""
    return 1.0 if np.isinf(p) else np.inf if p == 1 else p / (p - 1)


def p_norm(v: Array, p: float) -> float:
    """||v||_p without overflow."""
    largest = float(np.max(np.abs(v), initial=0.0))
    if largest == 0 or np.isinf(p) or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(v / largest, ord=p))


def unit_norm_gradient(v: Array, p: float) -> Array:
    """Gradient of ||v||_p at v != 0: sign(v) (|v| / ||v||_p)^(p-1)."""
    norm = p_norm(v, p)
    if norm == 0:
        return np.zeros_like(v)
    return np.sign(v) * (np.abs(v) / norm) ** (p - 1)


def project_ball(v: Array, p: float, radius: float) -> Array:
    """Projection on {||x||_p <= radius}."""
    v = np.asarray(v, dtype=np.float64)
    norm = p_norm(v, p)
    if norm <= radius:
        return v.copy()
    if radius == 0:
        return np.zeros_like(v)
    if np.isinf(p):
        return np.clip(v, -radius, radius)
    if p == 2:
        return v / norm * radius
    size = np.abs(v)
    largest = size.max()
    if p == 1:  # a projection on the simplex, which does not see a common shift
        with np.errstate(over="ignore"):
            below = np.maximum((size - largest) / radius, -2)
        ordered = np.sort(below)[::-1]
        t = (np.cumsum(ordered) - 1) / np.arange(1, v.size + 1)
        last = int(np.flatnonzero(ordered > t)[-1])
        return np.sign(v) * np.maximum(below - t[last], 0) * radius
    # The multiplier t puts x on the unit sphere: linear x + t x^(p-1) = |v| / largest. The
    # largest entry of x gives t, and lies between n^(-1/p) and 1.
    rest = size > 0
    target, linear = size[rest] / largest, radius / largest

    def point(top: Array) -> Array:
        t = max(1 - linear * top[0], 0.0) / top[0] ** (p - 1)
        return linear_plus_power(target, linear, t, p - 1)

    def room(top: Array, rows: Array) -> Array:
        return np.array([1 - p_norm(point(top), p)])

    top = np.array([1.0 if linear <= 1 else 1 / linear])
    x = np.zeros_like(v)
    x[rest] = point(bracketed_root(room, np.array([target.size ** (-1 / p)]), top))
    return np.sign(v) * x * radius


def prox_squared_norm(v: Array, q: float, c: float) -> Array:
    """argmin_x 1/2 ||x - v||^2 + c/2 ||x||_q^2."""
    v = np.asarray(v, dtype=np.float64)
    scale = float(np.max(np.abs(v), initial=0.0))
    if scale == 0 or c < 1 / _FAR:  # nothing, or less than rounding
        return v.copy()
    size, c = np.abs(v) / scale, min(c, _FAR)
    if q > 2:  # Moreau: the conjugate is a squared norm of order below 2
        return v - prox_squared_norm(v, dual_order(q), 1 / c)
    if q == 2:
        x = size / (1 + c)
    elif q == 1:
        # threshold t = c ||x||_1 = c sum_k / (1 + c k) over the k largest entries; as t tends to
        # the largest with c, entries less t are found from the sums of entries less the k-th
        ordered = np.sort(size)[::-1]
        steps = np.arange(1, v.size) * (ordered[:-1] - ordered[1:])
        above, share = np.concatenate([[0.0], np.cumsum(steps)]), 1 / (1 + c)
        last = int(np.flatnonzero(share * ordered > (1 - share) * above)[-1])
        lead = (last + 1) * (size - ordered[last]) - above[last]
        x = np.maximum(share * size + (1 - share) * lead, 0) / (share + (1 - share) * (last + 1))
    else:  # x + c N^(2-q) x^(q-1) = |v| with N = ||x||_q
        rest = size > 0

        def point(norm: Array) -> Array:
            return linear_plus_power(size[rest], 1.0, c * norm[0] ** (2 - q), q - 1)

        def excess(norm: Array, rows: Array) -> Array:
            return np.array([p_norm(point(norm), q)]) - norm

        # between ||v||_q / (1 + c n^(2/q - 1)) and ||v||_q / max(1, c), by the triangle inequality
        whole = np.array([p_norm(size, q)])
        low, high = whole / (1 + c * rest.sum() ** (2 / q - 1)), whole / max(1, c)
        x = np.zeros_like(v)
        x[rest] = point(bracketed_root(excess, low, high))
    return np.sign(v) * x * scale
