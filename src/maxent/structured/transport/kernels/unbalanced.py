"""Sinkhorn's turns for plans whose sums may differ from the masses, by factors of one plan.

The plan at potentials f and g is given; at others it is `p_ij exp((f_i - f'_i + g_j - g'_j) / s)`.
One pass over it makes the rows right and adds up the columns.
"""

import math

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.structured.transport.kernels.laplacian import ADD

_FAR = 30.0  # how far the logarithms of factors may go
_WATCHED = 8  # turns after which it is known how fast they are


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _weighted(row, v):
    """A product of vectors."""
    total = 0.0
    for j in range(v.size):
        total += row[j] * v[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _add(row, factor, out):
    """out += factor row."""
    for j in range(out.size):
        out[j] += factor * row[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _potential(level, log_mass, s, factor, bound):
    """What belongs to the scores of a row: shortened by the factor, and within the bounds."""
    return min(max((level - s * log_mass) * factor, -bound), bound)


@njit(cache=True, nogil=True, error_model="numpy")
def _turns(p, f, g, log_a, b, log_b, of_rows, of_columns, s, tolerance, most):
    """g is moved until columns are off by the tolerance, a share of the mass, or turns are slow.

    of_rows, of_columns : the factor and the bound of potentials, and the weight of a divergence of
    Kullback-Leibler or 0.
    """
    v, new, moved = np.ones(g.size), g.copy(), np.empty(g.size)
    weight = of_columns[2]
    shifted = of_rows[2] > 0.0 and weight > 0.0
    both = 1.0 / (1.0 / of_rows[2] + 1.0 / weight) if shifted else 0.0
    before = np.inf
    for turn in range(most):
        moved[:] = 0.0
        mass = 0.0
        for i in range(f.size):
            total = _weighted(p[i], v)
            if total > 0.0:
                level = f[i] + s * math.log(total)
                level = _potential(level, log_a[i], s, of_rows[0], of_rows[1])
                factor = math.exp((f[i] - level) / s)
                mass += factor * total
                _add(p[i], factor, moved)
        off, due = 0.0, 0.0
        for j in range(g.size):
            there = moved[j] * v[j]
            if there > 0.0:
                right = b[j] * math.exp(new[j] / weight) if weight > 0.0 else b[j]
                due += right
                less = there > right and new[j] >= of_columns[1]
                if not less and not (there < right and new[j] <= -of_columns[1]):
                    off += abs(there - right)
        size = off / max(due, mass)
        if size <= tolerance or not size < np.inf:
            break
        if turn % _WATCHED == _WATCHED - 1:
            rate = math.log(before / size) / _WATCHED
            if rate * (most - turn) < math.log(size / tolerance):
                break
            before = size
        elif turn == 0:
            before = size
        total = 0.0
        for j in range(g.size):
            if moved[j] > 0.0:
                level = g[j] + s * math.log(moved[j])
                new[j] = _potential(level, log_b[j], s, of_columns[0], of_columns[1])
                if shifted:
                    total += b[j] * math.exp(new[j] / weight)
        # Séjourné, Vialard and Peyré (2022): no entry of the plan changes
        shift = both * math.log(total / mass) if shifted and total > 0.0 and mass > 0.0 else 0.0
        far = 0.0
        for j in range(g.size):
            if moved[j] > 0.0:
                new[j] -= shift
                v[j] = math.exp((g[j] - new[j]) / s)
                far = max(far, abs(g[j] - new[j]) / s)
        if far > _FAR:
            break
    g[:] = new


@njit(cache=True, nogil=True)
def turns(p, f, g, log_a, b, log_b, of_rows, of_columns, s, tolerances, most, begin, end):
    """Those of the matrices from begin to end; g is what changes."""
    for k in range(begin, end):
        _turns(
            *(p[k], f[k], g[k], log_a[k], b[k], log_b[k]),
            *(of_rows, of_columns, s, tolerances[k], most),
        )
