"""Rows of p from rows of theta for Tsallis entropies of index alpha < 1, against a base measure q.

With a = 1 - alpha and k = 1/a stationarity gives p_i = q_i (b_i + s)^-k, b_i = a (max theta -
theta_i): no entry is 0, and tails are heavy. In units of r = q_best^a, the least s that one of the
best entries allows, it reads p_i ~ q_i (1 + y_i + sigma)^-k with y = b/r and sigma >= 0: no digit
is lost as alpha -> 1, where y and sigma vanish, nor where the best entry has next to no mass. The
mean of power -k of the y + sigma is concave in sigma, so that Newton's method climbs from 0.
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
_FAR = 1e300  # distances beyond it are as good as infinite


@njit(cache=True, nogil=True, error_model="numpy")
def _masses(y: Array, q: Array, w: Array, k: float, sigma: float) -> tuple[float, float]:
    """Fill w = q z^-k, z = 1 + y + sigma; return its sum and that of w / z."""
    total, slope = 0.0, 0.0
    for j in range(y.size):
        shift = y[j] + sigma
        w[j] = q[j] * math.exp(-k * math.log1p(shift))
        total += w[j]
        slope += w[j] / (1.0 + shift)
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def dense_tsallis_rows(
    theta: Array, alpha: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """Maximiser p and conjugate value of the Tsallis entropy, 0 < alpha < 1, of rows start to stop.

    ``weights`` and the answer are those of ``tsallis_rows`` in threshold.py.
    """
    a = 1.0 - alpha
    k = 1.0 / a
    size = theta.shape[1]
    y, q, w, index = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    for i in range(start, stop):
        n, top = gather_row(theta[i], weights, i, y, q, index)
        if n == 0:
            return i
        best = 0.0
        for j in range(n):
            if y[j] == 0.0:
                best = max(best, q[j])
        unit = math.exp(a * math.log(best))
        for j in range(n):
            y[j] = min(-y[j] * a / unit, _FAR)
            q[j] /= best
        sigma = 0.0
        total, slope = _masses(y[:n], q, w, k, sigma)
        for _ in range(_STEPS):
            step = math.expm1(math.log(total) / k) * total / slope
            if not step > _TIGHT * sigma:
                break
            sigma += step
            total, slope = _masses(y[:n], q, w, k, sigma)
        mean = 0.0
        for j in range(n):
            p[i, index[j]] = w[j] / total
            mean += w[j] * y[j]
        # <theta, p> - Omega(p), in which (p/q)^(alpha - 1) = unit (1 + y + sigma)
        lift = math.expm1(a * math.log(best)) + unit * sigma
        value[i] = top + (unit * mean / total + lift / a) / alpha
    return -1
