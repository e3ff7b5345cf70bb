"""The largest of many numbers, and where the large ones are."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def largest(x):
    """The largest entry, by four at a time that do not wait for one another; NaN may be missed."""
    a = b = c = d = np.float64(x[0])
    whole = x.size - x.size % 4
    for i in range(0, whole, 4):
        p, q, r, s = x[i], x[i + 1], x[i + 2], x[i + 3]
        a = p if p > a else a
        b = q if q > b else b
        c = r if r > c else c
        d = s if s > d else d
    for i in range(whole, x.size):
        a = x[i] if x[i] > a else a
    return max(max(a, b), max(c, d))


@njit(cache=True, nogil=True)
def where_at_least(x, least, index):
    """Write where x >= least, in order, and return how often: fast where that is rare."""
    count = 0
    whole = x.size - x.size % 4
    for j in range(0, whole, 4):
        a = x[j] if x[j] > x[j + 1] else x[j + 1]
        b = x[j + 2] if x[j + 2] > x[j + 3] else x[j + 3]
        if a >= least or b >= least:
            for i in range(j, j + 4):
                index[count] = i
                count += x[i] >= least
    for i in range(whole, x.size):
        index[count] = i
        count += x[i] >= least
    return count
