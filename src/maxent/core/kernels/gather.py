"""The entries of a row that take part: finite scores of positive weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxent._support.compiling.kernels import njit

Array = NDArray[Any]


@njit(cache=True, helper=True, nogil=True, error_model="numpy")
def gather_row(
    row: Array, weights: Array, i: int, x: Array, q: Array, index: Array
) -> tuple[int, float]:
    """Fill x with scores less the largest, q and index; return how many, and the largest.

    ``weights`` is (0, 0) for q = 1, (1, size) or (rows, size), of which row i counts. The number
    is 0 where no entry takes part, or the row holds NaN or +inf.
    """
    rows = weights.shape[0]
    n, top = 0, -np.inf
    for j in range(row.size):
        score = np.float64(row[j])
        if not score < np.inf:
            return 0, np.nan
        weight = 1.0 if rows == 0 else weights[0 if rows == 1 else i, j]
        if score > -np.inf and weight > 0.0:
            top = max(top, score)
            x[n], q[n], index[n] = score, weight, j
            n += 1
    for j in range(n):
        x[j] -= top
    return n, top
