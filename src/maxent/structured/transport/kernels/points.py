"""Sums over the plan of two clouds of points, whose entries are computed where they are needed.

    E_ij = exp(f_i + g_j - |x_i - y_j|^2)

Blocks of rows meet tiles of columns: a tile whose box is so far from the block's that no entry
counts is left out. Everything of columns lies by tiles, the last filled up with a g of -inf, and by
dimension within a tile, so that the loops over a tile are vectors of a known length.
"""

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential
from maxent.structured.transport.kernels.laplacian import ADD

ROWS, COLUMNS = 32, 128
_MOST = 700.0  # exponents are cut there


@njit(cache=True, nogil=True)
def _nearest(low, high, block, others_low, others_high, tile):
    """The squared distance of two boxes."""
    total = 0.0
    for k in range(low.shape[1]):
        apart = max(others_low[tile, k] - high[block, k], low[block, k] - others_high[tile, k])
        if apart > 0.0:
            total += apart * apart
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _exponents(x, i, y, tile, level, g, t):
    """f_i + g_j - |x_i - y_j|^2 of the columns of a tile."""
    dimensions = x.shape[1]
    for j in range(COLUMNS):
        t[j] = level + g[tile, j]
    k = 0
    while k + 4 <= dimensions:
        x0, x1, x2, x3 = x[i, k], x[i, k + 1], x[i, k + 2], x[i, k + 3]
        for j in range(COLUMNS):
            d0, d1 = x0 - y[tile, k, j], x1 - y[tile, k + 1, j]
            d2, d3 = x2 - y[tile, k + 2, j], x3 - y[tile, k + 3, j]
            t[j] -= (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        k += 4
    while k < dimensions:
        x0 = x[i, k]
        for j in range(COLUMNS):
            d0 = x0 - y[tile, k, j]
            t[j] -= d0 * d0
        k += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def sums(x, low, high, y, y_low, y_high, f, g, tops, values, cut, begin, end, out):
    """out_ik = sum_j E_ij v_jk for the rows of the blocks from begin to end.

    Tiles all of whose entries are below exp(cut) are left out. tops : the largest g of each tile.
    """
    count = values.shape[1]
    t = np.empty(COLUMNS)
    for block in range(begin, end):
        start, stop = block * ROWS, min(len(x), (block + 1) * ROWS)
        level = -np.inf
        for i in range(start, stop):
            level = max(level, f[i])
            for k in range(count):
                out[i, k] = 0.0
        for tile in range(tops.size):
            far = _nearest(low, high, block, y_low, y_high, tile)
            if level + tops[tile] - far < cut:
                continue
            for i in range(start, stop):
                _exponents(x, i, y, tile, f[i], g, t)
                for j in range(COLUMNS):
                    t[j] = exponential(t[j] if t[j] < _MOST else _MOST)
                for k in range(count):
                    total = 0.0
                    for j in range(COLUMNS):
                        total += t[j] * values[tile, k, j]
                    out[i, k] += total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def entries(x, low, high, y, y_low, y_high, f, g, tops, cut, begin, end, lengths, index, value):
    """The entries above exp(cut) of the rows of the blocks from begin to end, row after row.

    Gives their number, also where there is no room for all of them.
    """
    t, number = np.empty(COLUMNS), 0
    for i in range(begin * ROWS, min(len(x), end * ROWS)):
        block, before = i // ROWS, number
        for tile in range(tops.size):
            far = _nearest(low, high, block, y_low, y_high, tile)
            if f[i] + tops[tile] - far < cut:
                continue
            _exponents(x, i, y, tile, f[i], g, t)
            for j in range(COLUMNS):
                if t[j] >= cut:
                    if number < index.size:
                        index[number] = tile * COLUMNS + j
                        value[number] = exponential(t[j] if t[j] < _MOST else _MOST)
                    number += 1
        lengths[i] = number - before
    return number
