"""One relaxation value: the y at which sum_j m_j clip(c_j y + e_j, low_j, high_j) is ``total``.

With c = u, e = 0 and y = mu / nu this is (8); with c = 1 and e = u its Euclidean version.
"""

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.relaxation.kernels.homotopy import add_product

_POLISH = 200  # steps at most
_ROUNDING = 1e-15  # share of the total that may be missing where no row is free


@njit(cache=True, nogil=True)
def polished(c, e, low, high, m, total, y):
    """Newton's steps from a y close to the solution, with sums of twice the digits.

    Rounding may have put y on another piece, from which the steps could go anywhere: a step out of
    what is known to hold the solution halves that instead.
    """
    rest = np.zeros(6)
    left, right = np.min((low - e) / c), np.max((high - e) / c)
    for _ in range(_POLISH):
        rest[:] = 0.0
        add_product(rest, 0, total, 1.0)
        for j in range(c.size):
            v = c[j] * y + e[j]
            if v <= low[j]:
                add_product(rest, 0, -m[j], low[j])
            elif v >= high[j]:
                add_product(rest, 0, -m[j], high[j])
            else:
                add_product(rest, 0, -m[j], e[j])
                add_product(rest, 1, m[j], c[j])
        if rest[2] > 0.0:
            new = (rest[0] + rest[1]) / rest[2]
            if abs(new - y) <= 2e-16 * abs(new):
                return new
        elif abs(rest[0]) <= _ROUNDING * total:
            return y
        else:
            new = np.inf if rest[0] > 0.0 else -np.inf
        if new > y:
            left = y
        else:
            right = y
        y = new if left < new < right else 0.5 * (left + right)
    return y


@njit(cache=True, nogil=True)
def by_sorting(c, e, low, high, m, total):
    """All 2n corners in order, O(n log n) (§5)."""
    n = c.size
    corners = np.concatenate(((low - e) / c, (high - e) / c))
    order = np.argsort(corners)
    value, slope, previous = 0.0, 0.0, 0.0
    for j in range(n):
        value += m[j] * low[j]
    for i in range(order.size):
        j = order[i]
        y = corners[j]
        if i > 0:
            value += slope * (y - previous)
        if value >= total and i > 0:
            return polished(c, e, low, high, m, total, 0.5 * (previous + y))
        slope += m[j % n] * c[j % n] if j < n else -m[j % n] * c[j % n]
        previous = y
    return polished(c, e, low, high, m, total, previous)


@njit(cache=True, nogil=True)
def by_selection(c, e, low, high, m, total, seed):
    """Corners chosen at random halve what is left, O(n) expected (§5)."""
    n = c.size
    rows = np.arange(n)
    left, right = -np.inf, np.inf
    fixed, offset, slope = 0.0, 0.0, 0.0  # of rows without a corner between left and right
    count = n
    word = np.uint64(seed * 2 + 1)
    while count > 0:
        word = word * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        j = rows[np.int64((word >> np.uint64(33)) % np.uint64(count))]
        first, second = (low[j] - e[j]) / c[j], (high[j] - e[j]) / c[j]
        inside = left < first < right
        if inside and left < second < right:
            pivot = first if (word >> np.uint64(32)) & np.uint64(1) else second
        else:
            pivot = first if inside else second
        value = fixed + offset + slope * pivot
        for i in range(count):
            k = rows[i]
            value += m[k] * min(max(c[k] * pivot + e[k], low[k]), high[k])
        if value < total:
            left = pivot
        else:
            right = pivot
        kept = 0
        for i in range(count):
            k = rows[i]
            first, second = (low[k] - e[k]) / c[k], (high[k] - e[k]) / c[k]
            if first >= right:
                fixed += m[k] * low[k]
            elif second <= left:
                fixed += m[k] * high[k]
            elif first <= left and second >= right:
                offset += m[k] * e[k]
                slope += m[k] * c[k]
            else:
                rows[kept] = k
                kept += 1
        count = kept
    if left == -np.inf:
        return polished(c, e, low, high, m, total, right)
    if right == np.inf:
        return polished(c, e, low, high, m, total, left)
    return polished(c, e, low, high, m, total, 0.5 * (left + right))
