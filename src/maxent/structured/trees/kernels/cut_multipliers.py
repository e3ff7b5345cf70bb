"""Multipliers of given cuts: the dual of a projection onto the arborescence polytope.

With multipliers `lambda_s` of cuts the nearest point is, column by column, the projection of
`theta + sum_s lambda_s outside_s beyond_s'` onto a simplex. So the dual is concave and piecewise
quadratic, with as many unknowns as cuts. Its Newton steps solve the quadratic piece at hand under
the bounds `lambda >= 0` exactly, by an active set, with a small damping where cuts depend on each
other, and go along the line as far as the dual rises. Tables are [dependent, head].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.kernels import njit

TIGHT = 1e-12  # violation of a cut that is rounding
NEAR = 1e-9  # what is accepted where rounding allows no more
_DEPENDENT = 1e-11  # a pivot this small, relative to its diagonal, is 0
_STEPS = 300  # of Newton's method between two rounds of cuts
_STALLS = 20  # steps in which what is left is not halved: it is rounding
_DAMPING, _LEAST, _MOST = 1e-3, 1e-8, 1.0  # at first, and its range
_FLAT = 0.1  # a line has been followed far enough when its slope has fallen to this share


class Cuts(NamedTuple):
    """Sets of nodes and the multipliers of their cuts; the first may be an equality."""

    outside: Any  # (capacity, n), 0.0 for a node of the set, 1.0 for others
    multiplier: Any
    excess: Any  # 1 - sum of p over the arcs into the set


@njit(cache=True, helper=True, nogil=True)
def room_for_cuts(capacity, n):
    """No cuts yet."""
    return Cuts(np.ones((capacity, n)), np.zeros(capacity), np.zeros(capacity))


@njit(cache=True, helper=True, nogil=True)
def maximise(score, equal, cuts, m, p, tolerance):
    """Newton's steps on the dual of m cuts, the first ``equal`` equalities; what is left of it."""
    n = len(score)
    table, tilt = np.empty((n, n)), np.empty((n, n))
    step, trial = np.empty(m), np.empty(m)
    every = np.arange(m)
    damping, best, stalls = _DAMPING, np.inf, 0
    _at(score, cuts, m, table, p)
    for _ in range(_STEPS):
        worst = 0.0
        _write_excess(cuts, m, p)
        for s in range(m):
            excess = cuts.excess[s]
            part = abs(excess)
            if s >= equal and excess < 0.0:
                part = min(part, cuts.multiplier[s])
            worst = max(worst, part)
        if worst <= 0.5 * best:
            best, stalls = worst, 0
        else:
            stalls += 1
        if worst <= tolerance or (worst <= NEAR and stalls >= _STALLS):
            return worst
        _bounded_step(curvature(p, cuts, every, m), cuts, m, equal, damping, step)
        for j in range(n):
            for i in range(n):
                tilt[j, i] = 0.0
        _raise_cuts(cuts, m, step, tilt)
        total, slope = 0.0, 0.0
        for s in range(m):
            total += step[s]
            slope += step[s] * cuts.excess[s]
        if not slope > 0.0:
            return worst
        part = _along(table, tilt, total, slope, p)
        for s in range(m):
            trial[s] = cuts.multiplier[s] + part * step[s]
            cuts.multiplier[s] = trial[s] if s < equal else max(trial[s], 0.0)
        if part > 0.9:
            damping = max(_LEAST, 0.1 * damping)
        elif part < 0.3:
            damping = min(_MOST, 10.0 * damping)
        _at(score, cuts, m, table, p)
    return np.inf


@njit(cache=True, nogil=True)
def _at(score, cuts, m, table, p):
    """Write the scores raised by the multipliers, and the point for them."""
    n = len(score)
    for j in range(n):
        for i in range(n):
            table[j, i] = score[j, i]
    _raise_cuts(cuts, m, cuts.multiplier, table)
    for j in range(1, n):
        _onto_simplex(table[j], p[j])


@njit(cache=True, nogil=True)
def _raise_cuts(cuts, m, amount, columns):
    """Add an amount to the arcs of each cut: one product of matrices for all of them."""
    n = columns.shape[1]
    inside, raised = np.empty((m, n)), np.empty((m, n))
    for s in range(m):
        for j in range(n):
            inside[s, j] = 1.0 - cuts.outside[s, j]
            raised[s, j] = amount[s] * cuts.outside[s, j]
    total = np.dot(inside.T, raised)
    for j in range(n):
        for i in range(n):
            columns[j, i] += total[j, i]


@njit(cache=True, nogil=True)
def _write_excess(cuts, m, p):
    """1 less the sum over the arcs of each cut."""
    n = len(p)
    across = np.dot(cuts.outside[:m], p.T)
    for s in range(m):
        total = 0.0
        for j in range(n):
            if cuts.outside[s, j] == 0.0:
                total += across[s, j]
        cuts.excess[s] = 1.0 - total


@njit(cache=True, nogil=True)
def _along(table, tilt, total, first, p):
    """How far to go, at most 1: until the slope, at ``first``, is nearly 0. It falls all the way.

    The tilt is what the scores gain per unit, ``total`` what the multipliers do.
    """
    n = len(table)
    low, slope_low, high, slope_high = 0.0, first, 1.0, -1.0
    raised = np.empty(n)
    part = 1.0
    for _ in range(50):
        slope = total
        for j in range(1, n):
            for i in range(n):
                raised[i] = table[j, i] + part * tilt[j, i]
            _onto_simplex(raised, p[j])
            slope -= _dot(tilt[j], p[j])
        if abs(slope) <= _FLAT * first or (slope > 0.0 and part == 1.0):
            break
        if slope > 0.0:
            low, slope_low = part, slope
        else:
            high, slope_high = part, slope
        # where a line through both ends is 0, with safeguards
        gap = high - low
        part = low + gap * min(max(slope_low / (slope_low - slope_high), 0.05), 0.95)
    return part


@njit(cache=True, helper=True, nogil=True)
def raise_cut(outside, amount, columns):
    """Add an amount to the arcs of a cut."""
    for j in range(len(outside)):
        if outside[j] == 0.0:
            column = columns[j]
            for i in range(len(outside)):
                column[i] += amount * outside[i]


@njit(cache=True, helper=True, nogil=True)
def over_cut(outside, columns):
    """The sum over the arcs of a cut."""
    total = 0.0
    for j in range(len(outside)):
        if outside[j] == 0.0:
            total += _dot(columns[j], outside)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True)
def _onto_simplex(x, p):
    """Write the nearest point of the simplex; entries leave until none lies below the threshold."""
    top = -np.inf
    for i in range(len(x)):
        top = max(top, x[i])
    lower = -1.0  # relative to the largest: the threshold is at least 1 below it
    while True:
        total, count = 0.0, 0
        for i in range(len(x)):
            if x[i] - top > lower:
                total += x[i] - top
                count += 1
        threshold = (total - 1.0) / count
        if threshold <= lower:
            break
        lower = threshold
    for i in range(len(x)):
        p[i] = max(0.0, x[i] - top - threshold)


@njit(cache=True, helper=True, nogil=True)
def curvature(p, cuts, used, count):
    """A C A' for the cuts A in use, C centring the supported entries of each column."""
    n = len(p)
    support, first = np.empty(n * n, np.int64), np.zeros(n + 1, np.int64)
    places = 0
    for j in range(1, n):
        for i in range(n):
            if p[j, i] > 0.0:
                support[places] = i
                places += 1
        if places - first[j] == 1:
            places -= 1  # a column of one entry cannot move
        first[j + 1] = places
    centred = np.zeros((count, places))
    for a in range(count):
        outside = cuts.outside[used[a]]
        for j in range(1, n):
            size = first[j + 1] - first[j]
            if outside[j] != 0.0 or size == 0:
                continue
            total = 0.0
            for k in range(first[j], first[j + 1]):
                total += outside[support[k]]
            for k in range(first[j], first[j + 1]):
                centred[a, k] = outside[support[k]] - total / size
    return np.dot(centred, centred.T)


@njit(cache=True, nogil=True)
def _bounded_step(matrix, cuts, m, equal, damping, step):
    """Write the step d that maximises <excess, d> - d'(M + damping)d / 2 under multiplier + d >= 0.

    The free ones move to their best together; the first to reach its bound is fixed there, and when
    none does, the fixed one of the largest slope becomes free.
    """
    free = np.empty(m, np.bool_)
    chosen, best = np.empty(m, np.int64), np.empty(m)
    factor = np.empty((m, m))
    for s in range(m):
        free[s] = s < equal or cuts.multiplier[s] > 0.0 or cuts.excess[s] > 0.0
        step[s] = 0.0
    for _ in range(10 * m + 10):
        count = 0
        for s in range(m):
            if free[s]:
                chosen[count] = s
                best[count] = cuts.excess[s]
                for other in range(m):
                    if not free[other]:
                        best[count] -= matrix[s, other] * step[other]
                count += 1
        _damped_solve(matrix, chosen, count, damping, factor, best)
        part, blocking = 1.0, -1
        for a in range(count):
            s = chosen[a]
            if s >= equal and cuts.multiplier[s] + best[a] < 0.0:
                there, ahead = cuts.multiplier[s] + step[s], step[s] - best[a]
                ratio = there / ahead if ahead > 0.0 else 0.0
                if ratio < part:
                    part, blocking = ratio, s
        for a in range(count):
            step[chosen[a]] += part * (best[a] - step[chosen[a]])
        if blocking >= 0:
            free[blocking] = False
            step[blocking] = -cuts.multiplier[blocking]
            continue
        steepest, entering = 1e-13, -1
        for s in range(m):
            if not free[s]:
                slope = cuts.excess[s] - damping * step[s]
                for other in range(m):
                    slope -= matrix[s, other] * step[other]
                if slope > steepest:
                    steepest, entering = slope, s
        if entering < 0:
            break
        free[entering] = True


@njit(cache=True, nogil=True)
def _damped_solve(matrix, chosen, count, damping, factor, x):
    """Solve for the chosen unknowns in place, by Cholesky's factor of the matrix + damping."""
    for a in range(count):
        row = factor[a]
        for b in range(a):
            other = factor[b]
            row[b] = (matrix[chosen[a], chosen[b]] - _dot(row[:b], other[:b])) / other[b]
        rest = matrix[chosen[a], chosen[a]] + damping - _dot(row[:a], row[:a])
        row[a] = np.sqrt(max(rest, damping))
        x[a] = (x[a] - _dot(row[:a], x[:a])) / row[a]
    for a in range(count - 1, -1, -1):
        x[a] /= factor[a, a]
        for b in range(a):
            x[b] -= factor[a, b] * x[a]


@njit(cache=True, helper=True, nogil=True)
def solve_dependent(matrix, x, n):
    """Solve in place by Cholesky's factor; unknowns of a pivot 0 depend on others and are 0."""
    for a in range(n):
        row = matrix[a]
        whole = row[a]
        for b in range(a):
            pivot = matrix[b, b]
            row[b] = (row[b] - _dot(row[:b], matrix[b, :b])) / pivot if pivot > 0.0 else 0.0
        rest = whole - _dot(row[:a], row[:a])
        row[a] = np.sqrt(rest) if rest > _DEPENDENT * max(whole, 1.0) else 0.0
        x[a] = (x[a] - _dot(row[:a], x[:a])) / row[a] if row[a] > 0.0 else 0.0
    for a in range(n - 1, -1, -1):
        x[a] = x[a] / matrix[a, a] if matrix[a, a] > 0.0 else 0.0
        for b in range(a):
            x[b] -= matrix[a, b] * x[a]
