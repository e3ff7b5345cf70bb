"""Entropic plans whose sums may differ from the masses, and Sinkhorn's turns by factors of one.

The plan at potentials f and g is `exp((x_ij - f_i - g_j) / s)`. One pass over the scores makes a
plan whose rows are right, and one over a plan is a turn: at other potentials it has the factors
`exp((f_i - f'_i) / s)` and `exp((g_j - g'_j) / s)`.
"""

import math

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential
from maxent.core.kernels.largest import largest
from maxent.structured.transport.kernels.laplacian import ADD

_FAR = 30.0  # how far the logarithms of factors may go
_WATCHED = 8  # turns after which it is known how fast they are
_ROWS = 4  # at once


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _potential(level, log_mass, s, side):
    """What belongs to the scores of a row: shortened by a factor, and within its bounds."""
    return min(max((level - s * log_mass) * side[0], -side[1]), side[1])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _plan(x, g, log_a, side, s, p, f, moved):
    """The plan of the best f, which stays as it is where there is nothing, and its column sums."""
    moved[:] = 0.0
    for i in range(f.size):
        row, out = x[i], p[i]
        for j in range(g.size):
            out[j] = row[j] - g[j]
        top = largest(out)
        if top == -np.inf:
            out[:] = 0.0
            continue
        total = 0.0
        for j in range(g.size):
            out[j] = exponential((out[j] - top) / s)
            total += out[j]
        f[i] = _potential(top + s * math.log(total), log_a[i], s, side)
        factor = math.exp((top - f[i]) / s)
        for j in range(g.size):
            out[j] *= factor
            moved[j] += out[j]


@njit(cache=True, nogil=True)
def plans(x, g, log_a, side, s, begin, end, p, f, moved):
    """Those of the matrices from begin to end."""
    for k in range(begin, end):
        _plan(x[k], g[k], log_a[k], side, s, p[k], f[k], moved[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _row_factor(total, f, log_mass, s, side):
    """What makes a row with this sum right."""
    if not total > 0.0:
        return 1.0
    return exponential((f - _potential(f + s * math.log(total), log_mass, s, side)) / s)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _pass(p, f, v, log_a, s, side, moved):
    """The column sums of the plan with right rows, but for the factors v, and the mass."""
    moved[:] = 0.0
    mass, i = 0.0, 0
    while i + _ROWS <= f.size:
        first, second, third, fourth = p[i], p[i + 1], p[i + 2], p[i + 3]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for j in range(v.size):
            one += first[j] * v[j]
            two += second[j] * v[j]
            three += third[j] * v[j]
            four += fourth[j] * v[j]
        a = _row_factor(one, f[i], log_a[i], s, side)
        b = _row_factor(two, f[i + 1], log_a[i + 1], s, side)
        c = _row_factor(three, f[i + 2], log_a[i + 2], s, side)
        d = _row_factor(four, f[i + 3], log_a[i + 3], s, side)
        mass += (a * one + b * two) + (c * three + d * four)
        for j in range(v.size):
            moved[j] += (a * first[j] + b * second[j]) + (c * third[j] + d * fourth[j])
        i += _ROWS
    while i < f.size:
        row, total = p[i], 0.0
        for j in range(v.size):
            total += row[j] * v[j]
        factor = _row_factor(total, f[i], log_a[i], s, side)
        mass += factor * total
        for j in range(v.size):
            moved[j] += factor * row[j]
        i += 1
    return mass


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ADD)
def _scale(p, f, v, log_a, s, side):
    """The plan with the factors v, and right rows."""
    for i in range(f.size):
        row, total = p[i], 0.0
        for j in range(v.size):
            row[j] *= v[j]
            total += row[j]
        if total > 0.0:
            level = _potential(f[i] + s * math.log(total), log_a[i], s, side)
            factor = math.exp((f[i] - level) / s)
            f[i] = level
            for j in range(v.size):
                row[j] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def _turns(p, f, g, log_a, b, log_b, of_rows, of_columns, s, tolerance, most, sums):
    """g is moved until columns are off by the tolerance, a share of the mass, or turns are slow.

    Whether they reached it; then p and f are those of g as well, and ``sums`` its columns.
    of_rows, of_columns : the factor and the bound of potentials, and the weight of a divergence of
    Kullback-Leibler or 0.
    """
    v, new, moved = np.ones(g.size), g.copy(), np.empty(g.size)
    reached = False
    bound, weight = of_columns[1], of_columns[2]
    shifted = of_rows[2] > 0.0 and weight > 0.0
    both = 1.0 / (1.0 / of_rows[2] + 1.0 / weight) if shifted else 0.0
    due = b.copy()
    if weight > 0.0:
        for j in range(g.size):
            due[j] *= math.exp(g[j] / weight)
    before = np.inf
    for turn in range(most):
        mass = _pass(p, f, v, log_a, s, of_rows, moved)
        off, total = 0.0, 0.0
        for j in range(g.size):
            over = moved[j] * v[j] - due[j]
            held = (over > 0.0 and new[j] >= bound) or (over < 0.0 and new[j] <= -bound)
            if moved[j] > 0.0:
                total += due[j]
                off += 0.0 if held else abs(over)
        size = off / max(total, mass)
        if size <= tolerance or not size < np.inf:
            reached = size <= tolerance
            break
        if turn == 0:
            before = size
        elif turn % _WATCHED == 0:
            if math.log(before / size) / _WATCHED * (most - turn) < math.log(size / tolerance):
                break
            before = size
        total = 0.0
        for j in range(g.size):
            if moved[j] > 0.0:
                new[j] = _potential(g[j] + s * math.log(moved[j]), log_b[j], s, of_columns)
                if weight > 0.0:
                    due[j] = b[j] * math.exp(new[j] / weight)
                    total += due[j]
        # Séjourné, Vialard and Peyré (2022): no entry of the plan changes
        shift = both * math.log(total / mass) if shifted and total > 0.0 and mass > 0.0 else 0.0
        shrink = math.exp(-shift / weight) if shifted else 1.0
        far = 0.0
        for j in range(g.size):
            if moved[j] > 0.0:
                new[j] -= shift
                due[j] *= shrink
                change = (g[j] - new[j]) / s
                v[j] = exponential(change)
                far = max(far, abs(change))
        if far > _FAR:
            break
    g[:] = new
    if reached:
        _scale(p, f, v, log_a, s, of_rows)
        for j in range(g.size):
            sums[j] = moved[j] * v[j]
    return reached


@njit(cache=True, nogil=True)
def turns(
    p, f, g, log_a, b, log_b, of_rows, of_columns, s, tolerances, most, begin, end, sums, reached
):
    """Those of the matrices from begin to end."""
    for k in range(begin, end):
        reached[k] = _turns(
            *(p[k], f[k], g[k], log_a[k], b[k], log_b[k]),
            *(of_rows, of_columns, s, tolerances[k], most, sums[k]),
        )
