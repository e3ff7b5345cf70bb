"""Rows of p from rows of theta for half a squared q-norm, 1 < q <= 2, against a base measure.

With m = 1/(q - 1) and t the distance of the threshold below the largest score, stationarity gives
p_i ~ q_i [1 + (theta_i - max theta)/t]_+^m. Writing A and B for the sums of q z^m and
q z^(m+1) in z = [1 + ...]_+, the entries sum to 1 where t A B^((1-m)/(1+m)) = 1, an increasing
function of t. Then ||p||^2 = t B/A.
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


@njit(cache=True, nogil=True, error_model="numpy")
def _mass(x: Array, q: Array, w: Array, m: float, t: float) -> tuple[float, float, float, float]:
    """Fill w = q z^m; return A, B, the mass t A B^((1-m)/(1+m)) and its derivative in t."""
    lower, middle, upper = 0.0, 0.0, 0.0
    for j in range(x.size):
        z = 1.0 + x[j] / t
        w[j] = 0.0
        if z > 0.0:
            w[j] = q[j] * math.exp(m * math.log1p(x[j] / t))
            lower += w[j] / z
            middle += w[j]
            upper += w[j] * z
    mass = t * middle * math.exp((1.0 - m) / (1.0 + m) * math.log(upper))
    slope = (m * lower / middle + (1.0 - m) * middle / upper) * mass / t
    return middle, upper, mass, slope


@njit(cache=True, nogil=True, error_model="numpy")
def _root(x: Array, q: Array, w: Array, m: float) -> tuple[float, float, float]:
    """The t whose mass is 1, with A and B there."""
    low, high, t = 0.0, np.inf, 1.0
    middle, upper, mass, slope = _mass(x, q, w, m, t)
    step = np.inf
    for _ in range(_STEPS):
        if mass < 1.0:
            low = t
        else:
            high = t
        new = t - (mass - 1.0) / slope
        if not low <= new <= high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * t
        last, step = step, abs(new - t)
        t = new
        middle, upper, mass, slope = _mass(x, q, w, m, t)
        if step <= _TIGHT * t or (step <= _NEAR * t and step >= 0.5 * last):
            break
    return t, middle, upper


@njit(cache=True, nogil=True, error_model="numpy")
def squared_norm_rows(
    theta: Array, order: float, weights: Array, p: Array, value: Array, start: int, stop: int
) -> int:
    """Maximiser p and conjugate value max theta - t + ||p||^2 / 2 of rows start to stop.

    ``weights`` and the answer are those of ``tsallis_rows`` in threshold.py.
    """
    m = 1.0 / (order - 1.0)
    size = theta.shape[1]
    x, q, w, index = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    for i in range(start, stop):
        n, top = gather_row(theta[i], weights, i, x, q, index)
        if n == 0:
            return i
        t, middle, upper = _root(x[:n], q, w, m)
        for j in range(n):
            p[i, index[j]] = w[j] / middle
        value[i] = top - t + 0.5 * t * upper / middle
    return -1
