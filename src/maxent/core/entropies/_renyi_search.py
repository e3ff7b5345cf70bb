"""Renyi entropies: their value, and beyond beta = 1 an exact one-dimensional search.

With k = beta/(beta-1), H = -k log ||p||_beta and -log x = max_c (log c + 1 - c x), so
    Omega*(theta) = max_c  h(c) + k (log c + 1),   h(c) = max_p <theta, p> - k c ||p||_beta,
c in [1, d^(1-1/beta)]. h is convex, the logarithm concave: between two points the chord of h
plus the logarithm bounds the objective, and branch and bound finds the global maximum. Gradient
methods can stop at a minimum here (docs, "Differences from the papers").
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from scipy import special

from maxent.core.entropies._measures import log_ratio, measure_norm
from maxent.core.entropies.base import same_type
from maxent.core.prediction_maps import norm_map
from maxent.rows.arrays import Array, Rows, row_dot, row_sum

_TOLERANCE = 1e-13
_MAX_PIECES = 4000


def negative_renyi(p: Rows, beta: float, q: Array | None) -> Array:
    """-H of each row, log(sum_j q_j (p_j/q_j)^beta) / (beta - 1), beta != 1."""
    if np.isinf(beta):  # the logarithm of the largest density
        return np.log(measure_norm(np.maximum(p, 0), beta, q))
    p = np.maximum(p, 0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = log_ratio(p, q)
        log_terms = beta * ratio
        if q is not None:
            log_terms = log_terms + np.log(q)
    terms = np.where(p > 0, log_terms, -np.inf)
    with np.errstate(over="ignore"):  # sum q (p/q)^beta - 1, which keeps its digits near beta = 1
        near_one = row_sum(p * np.expm1((beta - 1) * ratio))
    log_sum = np.where(
        np.abs(near_one) < 0.5,
        np.log1p(np.maximum(near_one, -0.5)),
        special.logsumexp(terms, axis=1),
    )
    return log_sum / (beta - 1)


def maximise(theta: Array, beta: float, q: Array | None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of each row."""
    x = theta.astype(np.float64)
    p = np.empty_like(x)
    for i, row in enumerate(x):
        base = None if q is None else (q if q.ndim == 1 or len(q) == 1 else q[i]).reshape(-1)
        p[i] = _best_row(row, beta, base)
    p = same_type(p, theta)
    top = np.max(x, axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = np.where(p > 0, x - top, 0.0)
    return top[:, 0] + row_dot(shifted, p) - negative_renyi(p, beta, q), p


def maximise_min_entropy(theta: Array, q: Array | None) -> tuple[Array, Array]:
    """Conjugate value and maximiser of each row at beta = inf, Omega(p) = log max p/q.

    At a given largest density the best p fills the best scores up to it: <theta, p> is linear in
    it while the same entry is the last one, -log of it is convex, so the maximum is where all
    entries are full: max_k E[theta of the k best] + log of their mass.
    """
    x = theta.astype(np.float64)
    mass = np.broadcast_to(1.0 if q is None else q, x.shape)
    x = np.where(mass > 0, x, -np.inf)
    top = x.max(axis=1, keepdims=True)
    order = np.argsort(-x, axis=1, kind="stable")
    mass = np.where(x > -np.inf, mass, 0.0)
    with np.errstate(over="ignore"):
        below = np.maximum(np.take_along_axis(x, order, axis=1) - top, -1e300)
    weight = np.take_along_axis(mass, order, axis=1)
    filled = np.cumsum(weight, axis=1)
    with np.errstate(over="ignore"):
        value = np.cumsum(weight * below, axis=1) / filled + np.log(filled)
    best = np.argmax(np.where(weight > 0, value, -np.inf), axis=1)[:, None]
    inside = np.arange(x.shape[1]) <= best
    p = np.zeros_like(x)
    np.put_along_axis(p, order, np.where(inside, weight, 0.0), axis=1)
    p /= p.sum(axis=1, keepdims=True)
    return top[:, 0] + np.take_along_axis(value, best, axis=1)[:, 0], same_type(p, theta)


def _best_row(theta: Array, beta: float, q: Array | None) -> Array:
    k = beta / (beta - 1)
    live = theta > -np.inf if q is None else (theta > -np.inf) & (q > 0)
    if q is None:
        ends = (1.0, float(live.sum()) ** (1 - 1 / beta))
    else:  # 1/||p/q||_beta lies between the most concentrated p and p = q
        mass = q[live]
        ends = (float(mass.min() ** (1 - 1 / beta)), float(mass.sum() ** (1 - 1 / beta)))
    with np.errstate(over="ignore"):
        scores = theta - theta[live].max()

    def inner(c: float) -> tuple[float, Array]:
        value, p = norm_map((scores / (k * c))[None], beta, q)
        return k * c * float(value[0] - 1), p[0]

    def total(c: float, h: float) -> float:
        return h + k * (np.log(c) + 1)

    low, high = ends
    h_low, best_p = inner(low)
    h_high, p_high = inner(high)
    best = total(low, h_low)
    if total(high, h_high) > best:
        best, best_p = total(high, h_high), p_high

    def bound(a: float, b: float, h_a: float, h_b: float) -> float:
        slope = (h_b - h_a) / (b - a)
        c = b if slope >= 0 else min(max(-k / slope, a), b)
        return total(c, h_a + slope * (c - a))

    pieces = [(-bound(low, high, h_low, h_high), low, high, h_low, h_high)] if high > low else []
    for _ in range(_MAX_PIECES):
        if not pieces:
            break
        upper, a, b, h_a, h_b = heapq.heappop(pieces)
        if -upper <= best + _TOLERANCE * (1 + abs(best)):
            break
        middle = (a * b) ** 0.5
        if not a < middle < b:
            continue
        h, p = inner(middle)
        # the p found at c improves further at its own best c = 1/||p||: use that value
        if total(middle, h) > best:
            best, best_p = total(middle, h), p
        heapq.heappush(pieces, (-bound(a, middle, h_a, h), a, middle, h_a, h))
        heapq.heappush(pieces, (-bound(middle, b, h, h_b), middle, b, h, h_b))
    return _polish(best_p, scores, beta, q, inner)


def _polish(
    p: Array,
    scores: Array,
    beta: float,
    q: Array | None,
    inner: Callable[[float], tuple[float, Array]],
) -> Array:
    """Fixed point c = 1/||p||: the last digits, which the flat top of the bound cannot give."""

    def objective(point: Array) -> float:
        used = point > 0
        return float(scores[used] @ point[used] - negative_renyi(point[None], beta, q)[0])

    value = objective(p)
    for _ in range(200):
        step = inner(1 / float(measure_norm(p[None], beta, q)[0]))[1]
        new = objective(step)
        if new < value or np.abs(step - p).max() <= 1e-16:
            break
        p, value = step, new
    return p
