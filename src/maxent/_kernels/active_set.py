"""One step of Wolfe's minimum-norm-point method on the active vertices of one row.

Vertex a is kept by its ``used[a]`` nonzero entries, ``value[a]`` at ``index[a]``, so that a step
costs what the vertices hold, not the size of the row. ``factor`` is the lower Cholesky factor of
V V' + shift 1 1' (the constant does not matter where weights sum to 1): it gains a row with each
vertex and loses one by rotations. ``direction`` is theta - point, the point being V' weights.
"""

from __future__ import annotations

import numpy as np

from maxent._kernels.compiling import njit

OPTIMAL, FULL = -1, -2
_ROUNDING = 4e-15  # a few units of rounding, relative to the terms of an inner product
_NOTHING = 1e-14  # a weight this small is 0


@njit(cache=True, nogil=True)
def advance(vertex, theta, direction, index, value, used, factor, weights, shift, n):
    """Take in a best vertex; the new number of vertices, OPTIMAL, or FULL if it needs room."""
    if not _store(vertex, index, value, used, n):
        return FULL
    weights[n] = 0.0 if n else 1.0
    step = np.empty(n + 1)
    size = _inner(direction, index, value, used, weights, n + 1, step)
    if n and step[n] - _dot(weights, step, n) <= _ROUNDING * size:
        return OPTIMAL  # the gap <theta - point, vertex - point>, a bound on ||p - p*||^2
    if not _append(vertex, index, value, used, factor, shift, n):
        return OPTIMAL  # in the affine hull of the others, where the point is already nearest
    n += 1
    moved = False
    while True:
        _affine_step(factor, n, step)
        part, blocking = 1.0, -1
        for a in range(n):
            if weights[a] + step[a] <= _NOTHING:
                ratio = weights[a] / max(-step[a], 1e-300)
                if blocking < 0 or ratio < part:
                    part, blocking = min(1.0, ratio), a
        moved = moved or part > 0.0
        for a in range(n):
            weights[a] += part * step[a]
        if n > 1 and blocking < 0:
            for a in range(n):
                for i in range(used[a]):
                    direction[index[a, i]] -= step[a] * value[a, i]
            return n
        for a in range(n):
            for i in range(used[a]):
                direction[index[a, i]] = theta[index[a, i]]
        if blocking >= 0:
            _drop(index, value, used, factor, weights, n, blocking)
            n -= 1
        for a in range(n):
            for i in range(used[a]):
                direction[index[a, i]] -= weights[a] * value[a, i]
        if not moved:
            return OPTIMAL
        if blocking < 0:
            return n
        _inner(direction, index, value, used, weights, n, step)


@njit(cache=True, nogil=True)
def _store(vertex, index, value, used, n):
    """Write the nonzero entries of a vertex into row n, if there is room."""
    capacity, width = index.shape
    if n == capacity:
        return False
    count = 0
    for i in range(vertex.size):
        if vertex[i] != 0:
            if count == width:
                return False
            index[n, count] = i
            value[n, count] = vertex[i]
            count += 1
    used[n] = count
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _inner(direction, index, value, used, weights, n, out):
    """Write <direction, v> for n vertices; return the size of the terms in <direction, v - p>."""
    size = 1.0
    for a in range(n):
        total, absolute = 0.0, 0.0
        for i in range(used[a]):
            term = value[a, i] * direction[index[a, i]]
            total += term
            absolute += abs(term)
        out[a] = total
        size += absolute if a == n - 1 else weights[a] * absolute
    return size


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _append(vertex, index, value, used, factor, shift, n):
    """Row n of the factor, for vertex n; False if the vertex depends on the others."""
    row = factor[n]
    for a in range(n + 1):
        total = shift
        for i in range(used[a]):
            total += value[a, i] * vertex[index[a, i]]
        row[a] = total
    square = row[n]
    rest = square
    for a in range(n):
        row[a] = (row[a] - _dot(factor[a], row, a)) / factor[a, a]
        rest -= row[a] * row[a]
    row[n] = np.sqrt(max(rest, 0.0))
    return rest > 1e-12 * square


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(x, y, n):
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True)
def _affine_step(factor, n, step):
    """From <direction, v>: the change of weights to the nearest point of the affine hull.

    M d = c - mu 1 with sum d = 0 and M = L L': with y = L^-1 c and o = L^-1 1, mu = <o, y>/<o, o>
    and L' d = y - mu o.
    """
    base = step[0]
    ones = np.empty(n)
    for a in range(n):
        # a constant in c has no effect, and what is left of it is small near the optimum
        step[a] = (step[a] - base - _dot(factor[a], step, a)) / factor[a, a]
        ones[a] = (1.0 - _dot(factor[a], ones, a)) / factor[a, a]
    mu = _dot(ones, step, n) / _dot(ones, ones, n)
    for a in range(n):
        step[a] -= mu * ones[a]
    for a in range(n - 1, -1, -1):
        step[a] /= factor[a, a]
        for b in range(a):
            step[b] -= factor[a, b] * step[a]


@njit(cache=True, nogil=True)
def _drop(index, value, used, factor, weights, n, gone):
    """Take vertex ``gone`` out of n; rotations make the factor triangular again."""
    for a in range(gone, n - 1):
        weights[a], used[a] = weights[a + 1], used[a + 1]
        for i in range(used[a]):
            index[a, i], value[a, i] = index[a + 1, i], value[a + 1, i]
        for b in range(a + 2):
            factor[a, b] = factor[a + 1, b]
    n -= 1
    for a in range(gone, n):
        radius = np.hypot(factor[a, a], factor[a, a + 1])
        cosine, sine = factor[a, a] / radius, factor[a, a + 1] / radius
        for b in range(a, n):
            x, y = factor[b, a], factor[b, a + 1]
            factor[b, a] = cosine * x + sine * y
            factor[b, a + 1] = cosine * y - sine * x
    total = 0.0
    for a in range(n):
        weights[a] = max(weights[a], 0.0)
        total += weights[a]
    for a in range(n):
        weights[a] /= total
