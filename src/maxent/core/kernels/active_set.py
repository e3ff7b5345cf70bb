"""Steps of Wolfe's minimum-norm-point method on the active vertices of one row.

Vertex a is kept by its ``used[a]`` nonzero entries, ``value[a]`` at ``index[a]``, so that a step
costs what the vertices hold, not the size of the row. ``factor`` is the lower Cholesky factor L of
V V' + shift 1 1' (the constant does not matter where weights sum to 1) and ``ones`` is L^-1 1:
they gain a row with each vertex and lose one by rotations. ``direction`` is theta - point, the
point being V' weights. Between two calls the point is the nearest one of the affine hull, so that
all active vertices have the same inner product with the direction, ``level``; a new vertex is the
only one that differs, and stays it while a step is cut short.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.copying import copy, copy_block
from maxent._support.compiling.kernels import njit

OPTIMAL = -1
_ROUNDING = 4e-15  # a few units of rounding, relative to the terms of an inner product
_NEAR = 1e-8  # below this the gap is measured afresh, with every inner product
_NOTHING = 1e-14  # a weight this small is 0
_STILL = 1e-13  # weights that change no more than this stand still


class Hull(NamedTuple):
    """The active vertices of one row."""

    index: Any
    value: Any
    used: Any
    factor: Any
    ones: Any
    weights: Any
    products: Any  # inner products with the direction
    change: Any  # of the weights, since the direction was last brought up to date
    dense: Any  # a vertex written out, 0 between calls


@njit(cache=True, nogil=True)
def hull(capacity, width, size):
    """Room for active vertices with up to ``width`` nonzeros, of rows of a size."""
    return Hull(
        np.empty((capacity, width), np.int32),
        np.empty((capacity, width)),
        np.empty(capacity, np.int64),
        np.empty((capacity, capacity)),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.zeros(size),
    )


@njit(cache=True, nogil=True)
def larger(room, capacity, width):
    """The same vertices with more room."""
    new = hull(capacity, width, room.dense.size)
    copy_block(room.index, new.index)
    copy_block(room.value, new.value)
    copy(room.used, new.used)
    copy_block(room.factor, new.factor)
    copy(room.ones, new.ones)
    copy(room.weights, new.weights)
    return new


@njit(cache=True, nogil=True)
def store(vertex, room, n):
    """Write the nonzero entries of a vertex into row n; False if there is no room."""
    capacity, width = room.index.shape
    if n == capacity:
        return False
    count = 0
    for i in range(vertex.size):
        if vertex[i] != 0:
            if count == width:
                return False
            room.index[n, count] = i
            room.value[n, count] = vertex[i]
            count += 1
    room.used[n] = count
    return True


@njit(cache=True, nogil=True)
def resume(theta, direction, room, shift, given):
    """Take up ``given`` stored vertices with their weights; how many of them are kept.

    Vertices that depend on those before are left out; the point becomes the nearest one of the
    affine hull, or of a face of it.
    """
    n = 0
    for a in range(given):
        if a > n:
            room.used[n], room.weights[n] = room.used[a], room.weights[a]
            for i in range(room.used[a]):
                room.index[n, i], room.value[n, i] = room.index[a, i], room.value[a, i]
        if _append(room, shift, n):
            n += 1
    _point_away(theta, direction, room, n)
    _inner(direction, room, n)
    return _move(direction, room, n, 0)[0]


@njit(cache=True, nogil=True)
def advance(theta, direction, room, shift, n):
    """Take in the best vertex, stored in row n; the new number of vertices, or OPTIMAL."""
    room.weights[n] = 0.0 if n else 1.0
    size = _inner_one(direction, room, n)
    first = n
    if n:
        gap = room.products[n] - _level(direction, room, n)
        for a in range(n):
            room.products[a] = 0.0
        room.products[n] = gap
        if gap <= _NEAR * size:
            _point_away(theta, direction, room, n)
            size = _inner(direction, room, n + 1)
            # the gap <theta - point, vertex - point>, a bound on ||p - p*||^2
            if room.products[n] - _dot(room.weights, room.products, n) <= _ROUNDING * size:
                return OPTIMAL
            first = 0
    if not _append(room, shift, n):
        return OPTIMAL  # in the affine hull of the others, where the point is already nearest
    if n == 0:
        _point_away(theta, direction, room, 1)
        return 1
    count, moved = _move(direction, room, n + 1, first)
    # one came and one went for a change of weights that is rounding: so it would go on
    return OPTIMAL if count == n and moved <= _STILL else count


@njit(cache=True, nogil=True)
def mixture(offsets, index, value, weights, point):
    """Write the mean of vertices in rows ``offsets`` of ``index`` and ``value``, for given weights.

    Rounding of the weights takes no entry beyond its least or largest value at the vertices.
    """
    least, largest = np.full(point.size, np.inf), np.full(point.size, -np.inf)
    used = np.zeros(point.size, np.int64)
    point[:] = 0.0
    for a in range(weights.size):
        for i in range(offsets[a], offsets[a + 1]):
            entry = index[i]
            point[entry] += weights[a] * value[i]
            least[entry] = min(least[entry], value[i])
            largest[entry] = max(largest[entry], value[i])
            used[entry] += 1
    for entry in range(point.size):
        if used[entry] < weights.size:
            least[entry] = min(least[entry], 0.0)
            largest[entry] = max(largest[entry], 0.0)
        point[entry] = min(max(point[entry], least[entry]), largest[entry])


@njit(cache=True, nogil=True)
def _move(direction, room, n, first):
    """Go to the nearest point of the affine hull, leaving vertices whose weights turn negative.

    ``first`` is the first inner product that is not 0. Return how many vertices are left, and
    the largest change of a weight.
    """
    room.change[:n] = 0.0
    step = np.empty(n)
    moved = 0.0
    while True:
        _affine_step(room.factor, room.ones, room.products, n, first, step)
        part, blocking = 1.0, -1
        for a in range(n):
            if room.weights[a] + step[a] <= _NOTHING:
                ratio = room.weights[a] / max(-step[a], 1e-300)
                if blocking < 0 or ratio < part:
                    part, blocking = min(1.0, ratio), a
        for a in range(n):
            moved = max(moved, abs(part * step[a]))
            room.weights[a] += part * step[a]
            room.change[a] += part * step[a]
            room.products[a] *= 1.0 - part  # up to a constant, which does not matter
        if blocking < 0:
            break
        _shift_direction(direction, room, blocking, room.change[blocking] - room.weights[blocking])
        _drop(room, n, blocking)
        n -= 1
        first = min(first - (blocking < first), n - 1)
    for a in range(n):
        _shift_direction(direction, room, a, room.change[a])
    return n, moved


@njit(cache=True, nogil=True)
def _shift_direction(direction, room, a, weight):
    for i in range(room.used[a]):
        direction[room.index[a, i]] -= weight * room.value[a, i]


@njit(cache=True, nogil=True)
def _point_away(theta, direction, room, n):
    """direction = theta - point, free of what rounding has added up."""
    total = 0.0
    for a in range(n):
        total += room.weights[a]
    for a in range(n):
        room.weights[a] /= total
    for a in range(n):
        for i in range(room.used[a]):
            direction[room.index[a, i]] = theta[room.index[a, i]]
    for a in range(n):
        _shift_direction(direction, room, a, room.weights[a])


@njit(cache=True, nogil=True)
def _level(direction, room, n):
    """<direction, v> of the active vertices, which is one number: that of the heaviest."""
    heaviest = 0
    for a in range(n):
        if room.weights[a] > room.weights[heaviest]:
            heaviest = a
    _inner_one(direction, room, heaviest)
    return room.products[heaviest]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _inner_one(direction, room, a):
    """Write <direction, v> of one vertex; return the size of its terms."""
    total, size = 0.0, 1.0
    for i in range(room.used[a]):
        term = room.value[a, i] * direction[room.index[a, i]]
        total += term
        size += abs(term)
    room.products[a] = total
    return size


@njit(cache=True, nogil=True)
def _inner(direction, room, n):
    """Write <direction, v> for n vertices; return the size of the terms in <direction, v - p>."""
    size = 1.0
    for a in range(n):
        absolute = _inner_one(direction, room, a) - 1.0
        size += absolute if a == n - 1 else room.weights[a] * absolute
    return size


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _append(room, shift, n):
    """Row n of the factor, for the vertex stored there; False if it depends on the others."""
    row = room.factor[n]
    for i in range(room.used[n]):
        room.dense[room.index[n, i]] = room.value[n, i]
    for a in range(n + 1):
        total = shift
        for i in range(room.used[a]):
            total += room.value[a, i] * room.dense[room.index[a, i]]
        row[a] = total
    for i in range(room.used[n]):
        room.dense[room.index[n, i]] = 0.0
    square = row[n]
    rest = square
    for a in range(n):
        row[a] = (row[a] - _dot(room.factor[a], row, a)) / room.factor[a, a]
        rest -= row[a] * row[a]
    row[n] = np.sqrt(max(rest, 0.0))
    if not rest > 1e-12 * square:
        return False
    room.ones[n] = (1.0 - _dot(row, room.ones, n)) / row[n]
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(x, y, n):
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _affine_step(factor, ones, products, n, first, step):
    """From c = <direction, v>: the change of weights to the nearest point of the affine hull.

    M d = c - mu 1 with sum d = 0 and M = L L': with y = L^-1 c and o = L^-1 1, mu = <o, y>/<o, o>
    and L' d = y - mu o. The entries of c before ``first`` are 0.
    """
    base = products[0] if first == 0 else 0.0
    mixed, square = 0.0, 0.0
    for a in range(n):
        step[a] = 0.0
        if a >= first:
            # a constant in c has no effect, and what is left of it is small near the optimum
            known = 0.0
            for b in range(first, a):
                known += factor[a, b] * step[b]
            step[a] = (products[a] - base - known) / factor[a, a]
        mixed += ones[a] * step[a]
        square += ones[a] * ones[a]
    mu = mixed / square
    for a in range(n):
        step[a] -= mu * ones[a]
    for a in range(n - 1, -1, -1):
        step[a] /= factor[a, a]
        weight, row = step[a], factor[a]
        for b in range(a):
            step[b] -= row[b] * weight


@njit(cache=True, nogil=True)
def _drop(room, n, gone):
    """Take vertex ``gone`` out of n; rotations make the factor triangular again."""
    for a in range(gone, n - 1):
        room.weights[a], room.used[a] = room.weights[a + 1], room.used[a + 1]
        room.products[a], room.change[a] = room.products[a + 1], room.change[a + 1]
        for i in range(room.used[a]):
            room.index[a, i], room.value[a, i] = room.index[a + 1, i], room.value[a + 1, i]
        for b in range(a + 2):
            room.factor[a, b] = room.factor[a + 1, b]
    n -= 1
    for a in range(gone, n):
        radius = np.hypot(room.factor[a, a], room.factor[a, a + 1])
        cosine, sine = room.factor[a, a] / radius, room.factor[a, a + 1] / radius
        for b in range(a, n):
            x, y = room.factor[b, a], room.factor[b, a + 1]
            room.factor[b, a] = cosine * x + sine * y
            room.factor[b, a + 1] = cosine * y - sine * x
    for a in range(gone, n):
        room.ones[a] = (1.0 - _dot(room.factor[a], room.ones, a)) / room.factor[a, a]
    for a in range(n):
        if room.weights[a] < 0.0:  # rounding
            room.change[a] -= room.weights[a]
            room.weights[a] = 0.0
