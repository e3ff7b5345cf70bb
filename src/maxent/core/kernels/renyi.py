"""Rows of p from rows of theta for Renyi entropies of order beta < 1, against a base measure q.

With m = 1/(1 - beta) stationarity gives p_i ~ q_i (1 + y_i)^-m, y_i = e^r b_i / (m - 1), where
b_i = max theta - theta_i and the mean of y under p is e^r - 1. All of it keeps its digits as
beta -> 1, where y and r vanish. The root r >= 0 is unique, at most -log(q_i / sum q) of the best
entry: Newton's method between bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.gather import gather_row

Array = NDArray[Any]

_STEPS = 200
_TIGHT = 2.5e-16  # relative step that rounding hides
_NEAR = 1e-8  # relative step from which one that does not shrink is rounding
_FAR = 1e300  # distances beyond it are as good as infinite


@njit(cache=True, nogil=True, error_model="numpy")
def _excess(x: Array, q: Array, w: Array, m: float, r: float) -> tuple[float, float, float]:
    """Fill w = q (1 + y)^-m; return its sum, e^-r E[y] - (1 - e^-r) and its derivative in r."""
    growth = math.exp(r)
    total, first, mixed, share = 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        y = min(x[j] * growth, _FAR)
        w[j] = q[j] * math.exp(-m * math.log1p(y))
        part = y / (1.0 + y)
        total += w[j]
        first += w[j] * y
        mixed += w[j] * y * part
        share += w[j] * part
    mean = first / total
    slope = -(1.0 + m * (mixed / total - mean * (share / total))) / growth
    return total, mean / growth + math.expm1(-r), slope


@njit(cache=True, nogil=True, error_model="numpy")
def _root(x: Array, q: Array, w: Array, m: float, high: float) -> tuple[float, float]:
    """The root r in [0, high] and the sum of w there."""
    low, r = 0.0, 0.0
    total, excess, slope = _excess(x, q, w, m, r)
    step = np.inf
    for _ in range(_STEPS):
        if excess > 0.0:
            low = r
        else:
            high = r
        new = r - excess / slope
        if not low <= new <= high:
            new = 0.5 * (low + high)
        last, step = step, abs(new - r)
        r = new
        total, excess, slope = _excess(x, q, w, m, r)
        if step <= _TIGHT * r or (step <= _NEAR * r and step >= 0.5 * last):
            break
    return r, total


@njit(cache=True, nogil=True, error_model="numpy")
def renyi_rows(
    theta: Array, beta: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """Maximiser p and conjugate value of the Renyi entropy, 0 < beta < 1, of rows start to stop.

    Omega*(theta) = max theta + log sum w + m r + (m - 1)(e^-r - 1). ``weights`` and the answer are
    those of ``tsallis_rows`` in threshold.py.
    """
    m, goal = 1.0 / (1.0 - beta), beta / (1.0 - beta)
    size = theta.shape[1]
    x, q, w, index = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    for i in range(start, stop):
        n, top = gather_row(theta[i], weights, i, x, q, index)
        if n == 0:
            return i
        mass, best = 0.0, 0.0
        for j in range(n):
            mass += q[j]
            if x[j] == 0.0:
                best = max(best, q[j])
            x[j] = min(-x[j], _FAR) / goal
        r, total = _root(x[:n], q, w, m, math.log(mass / best))
        for j in range(n):
            p[i, index[j]] = w[j] / total
        value[i] = top + math.log(total) + m * r + goal * math.expm1(-r)
    return -1
