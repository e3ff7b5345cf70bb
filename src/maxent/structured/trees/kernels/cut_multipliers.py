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
_STALLS = 10  # steps in which what is left is not halved: it is rounding
_DAMPING, _LEAST, _MOST = 1e-3, 1e-8, 1.0  # at first, and its range
_MARGIN = 0.2  # arcs this far below the threshold of their column may come in
_NO_MARGIN = 1e-8  # among so many equal scores that all of them are taken
_SPARE = 4  # times the arcs in use: more are not worth their time
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


class _Arcs(NamedTuple):
    """Arcs that Newton's steps may use, by their dependents, and which of them each cut holds."""

    dependent: Any  # the nodes in any set, in order
    first: Any  # arcs of dependent k are first[k] : first[k + 1]
    head: Any
    held: Any  # arcs of cut s are held[bounds[s] : bounds[s + 1]]
    bounds: Any


@njit(cache=True, helper=True, nogil=True)
def maximise(score, equal, cuts, m, p, tolerance):
    """Newton's steps on the dual of m cuts, the first ``equal`` equalities; what is left of it.

    The steps see the arcs near the support alone; all arcs are looked at where they end, and where
    others make the dual fall before, they end there.
    """
    best, stalls, margin = np.inf, 0, _MARGIN
    table = np.empty_like(score)
    _at(score, cuts, m, table, p)
    _write_excess(cuts, m, p)
    for _ in range(_STEPS):
        worst = _amiss(cuts, m, equal)
        if worst <= 0.5 * best:
            best, stalls = worst, 0
        else:
            stalls, margin = stalls + 1, 2.0 * margin
        if worst <= tolerance or (worst <= NEAR and stalls > 0):
            return worst
        arcs = _arcs_near_support(table, p, cuts, m, margin)
        step, slope = -cuts.multiplier[:m], cuts.excess[:m].copy()
        if not _newton(arcs, table, cuts, m, equal, tolerance):
            return worst
        step += cuts.multiplier[:m]
        _back(score, cuts, m, step, np.dot(step, slope), table, p)
    return np.inf


@njit(cache=True, nogil=True)
def _back(score, cuts, m, step, first, table, p):
    """Go back along a step just made to where the slope, at ``first`` before it, is nearly 0.

    Where it has not become negative, nothing is gone back.
    """
    low, slope_low, high, slope_high = 0.0, first, 1.0, -1.0
    part = 1.0
    for _ in range(50):
        _at(score, cuts, m, table, p)
        _write_excess(cuts, m, p)
        slope = np.dot(step, cuts.excess[:m])
        enough = slope >= -_FLAT * first and (part == 1.0 or slope <= _FLAT * first)
        if enough or not first > 0.0:
            break
        if slope > 0.0:
            low, slope_low = part, slope
        else:
            high, slope_high = part, slope
        there = _between(low, slope_low, high, slope_high)
        for s in range(m):
            cuts.multiplier[s] += (there - part) * step[s]
        part = there


@njit(cache=True, nogil=True)
def _between(low, slope_low, high, slope_high):
    """Where a line through both ends is 0, not too near to either."""
    share = min(max(slope_low / (slope_low - slope_high), 0.05), 0.95)
    return low + (high - low) * share


@njit(cache=True, nogil=True)
def _amiss(cuts, m, equal):
    """The most by which a cut is violated, or by which it and its multiplier are both above 0."""
    worst = 0.0
    for s in range(m):
        part = abs(cuts.excess[s])
        if s >= equal and cuts.excess[s] < 0.0:
            part = min(part, cuts.multiplier[s])
        worst = max(worst, part)
    return worst


@njit(cache=True, nogil=True)
def _newton(arcs, table, cuts, m, equal, tolerance):
    """Newton's steps for given arcs; whether there was one."""
    size = len(arcs.head)
    raised, tilt, p = np.empty(size), np.empty(size), np.empty(size)
    base = np.empty(size)
    for j in range(len(arcs.dependent)):
        for k in range(arcs.first[j], arcs.first[j + 1]):
            base[k] = table[arcs.dependent[j], arcs.head[k]]
    _raise_arcs(arcs, cuts.multiplier, -1.0, base)
    step = np.empty(m)
    damping, best, stalls = _DAMPING, np.inf, 0
    for number in range(_STEPS):
        for k in range(size):
            raised[k] = base[k]
        _raise_arcs(arcs, cuts.multiplier, 1.0, raised)
        for j in range(len(arcs.dependent)):
            here = slice(arcs.first[j], arcs.first[j + 1])
            _onto_simplex(raised[here], p[here])
        for s in range(m):
            total = 0.0
            for k in arcs.held[arcs.bounds[s] : arcs.bounds[s + 1]]:
                total += p[k]
            cuts.excess[s] = 1.0 - total
        worst = _amiss(cuts, m, equal)
        if worst <= 0.5 * best:
            best, stalls = worst, 0
        else:
            stalls += 1
        if worst <= 0.5 * tolerance or (worst <= NEAR and stalls >= _STALLS):
            return True
        _bounded_step(_curvature(arcs, p, m), cuts, m, equal, damping, step)
        for k in range(size):
            tilt[k] = 0.0
        _raise_arcs(arcs, step, 1.0, tilt)
        total, slope = 0.0, 0.0
        for s in range(m):
            total += step[s]
            slope += step[s] * cuts.excess[s]
        if not slope > 0.0:
            return number > 0
        longest, far = 0.0, 1.0
        for s in range(m):
            longest = max(longest, abs(step[s]))
            far = max(far, 2.0 * abs(cuts.multiplier[s]))
        part = _along(arcs, raised, tilt, total, slope, p)
        ends = part * longest > far  # further on, other arcs count
        if ends:
            part = far / longest
        for s in range(m):
            cuts.multiplier[s] += part * step[s]
            if s >= equal:
                cuts.multiplier[s] = max(cuts.multiplier[s], 0.0)
        if ends:
            return True
        if part > 0.9:
            damping = max(_LEAST, 0.1 * damping)
        elif part < 0.3:
            damping = min(_MOST, 10.0 * damping)
    return True


@njit(cache=True, nogil=True)
def _at(score, cuts, m, table, p):
    """Write the scores raised by the multipliers, and the point for them."""
    n = len(score)
    inside, raised = np.empty((m, n)), np.empty((m, n))
    for s in range(m):
        for j in range(n):
            inside[s, j] = 1.0 - cuts.outside[s, j]
            raised[s, j] = cuts.multiplier[s] * cuts.outside[s, j]
    total = np.dot(inside.T, raised)
    for j in range(n):
        for i in range(n):
            table[j, i] = score[j, i] + total[j, i]
    for j in range(1, n):
        _onto_simplex(table[j], p[j])


@njit(cache=True, nogil=True)
def _write_excess(cuts, m, p):
    """1 less the sum over the arcs of each cut."""
    n = len(p)
    outside = np.ascontiguousarray(cuts.outside[:m].T)
    total = np.zeros(m)
    for j in range(1, n):
        for i in range(n):
            part = p[j, i]
            if part > 0.0:
                for s in range(m):
                    total[s] += part * (1.0 - outside[j, s]) * outside[i, s]
    for s in range(m):
        cuts.excess[s] = 1.0 - total[s]


@njit(cache=True, nogil=True)
def _arcs_near_support(table, p, cuts, m, margin):
    """Arcs in use, and those up to a margin below the threshold of their column."""
    n = len(table)
    dependent, first = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    threshold = np.empty(n)
    count, used = 0, 0
    for j in range(1, n):
        for s in range(m):
            if cuts.outside[s, j] == 0.0:
                dependent[count] = j
                for i in range(n):
                    if p[j, i] > 0.0:
                        threshold[count] = table[j, i] - p[j, i]
                        used += 1
                count += 1
                break
    chosen = np.empty((n, n), np.bool_)
    while True:
        size = 0
        for k in range(count):
            j = dependent[k]
            for i in range(n):
                chosen[j, i] = p[j, i] > 0.0 or table[j, i] > threshold[k] - margin
                size += chosen[j, i]
        if size <= _SPARE * used or margin < _NO_MARGIN:
            break
        margin *= 0.5
    for s in range(m):
        _choose_ways_into(cuts.outside[s], table, chosen)
    head = np.empty(n * n, np.int64)
    size = 0
    for k in range(count):
        for i in range(n):
            if chosen[dependent[k], i]:
                head[size] = i
                size += 1
        first[k + 1] = size
    held, bounds = np.empty(m * size, np.int32), np.zeros(m + 1, np.int64)
    total = 0
    for s in range(m):
        for j in range(count):
            if cuts.outside[s, dependent[j]] == 0.0:
                for k in range(first[j], first[j + 1]):
                    held[total] = k
                    total += cuts.outside[s, head[k]] > 0.0
        bounds[s + 1] = total
    return _Arcs(dependent[:count], first[: count + 1], head[:size], held[:total], bounds)


@njit(cache=True, nogil=True)
def _choose_ways_into(outside, table, chosen):
    """Choose the best arc to each node of a set without one: its multiplier would have no end."""
    n = len(outside)
    for j in range(1, n):
        if outside[j] == 0.0:
            for i in range(n):
                if outside[i] > 0.0 and chosen[j, i]:
                    return
    for j in range(1, n):
        if outside[j] == 0.0:
            best = -1
            for i in range(n):
                if outside[i] > 0.0 and (best < 0 or table[j, i] > table[j, best]):
                    best = i
            chosen[j, best] = table[j, best] > -np.inf


@njit(cache=True, nogil=True)
def _raise_arcs(arcs, amount, sign, columns):
    """Add its amount to the arcs of each cut."""
    for s in range(len(arcs.bounds) - 1):
        own = sign * amount[s]
        if own != 0.0:
            for k in arcs.held[arcs.bounds[s] : arcs.bounds[s + 1]]:
                columns[k] += own


@njit(cache=True, nogil=True)
def _along(arcs, table, tilt, total, first, p):
    """How far to go, at most 1: until the slope, at ``first``, is nearly 0. It falls all the way.

    The tilt is what the scores gain per unit, ``total`` what the multipliers do.
    """
    low, slope_low, high, slope_high = 0.0, first, 1.0, -1.0
    raised = np.empty_like(table)
    part = 1.0
    for _ in range(50):
        for k in range(len(table)):
            raised[k] = table[k] + part * tilt[k]
        for j in range(len(arcs.dependent)):
            here = slice(arcs.first[j], arcs.first[j + 1])
            _onto_simplex(raised[here], p[here])
        slope = total - _dot(tilt, p)
        if abs(slope) <= _FLAT * first or (slope > 0.0 and part == 1.0):
            break
        if slope > 0.0:
            low, slope_low = part, slope
        else:
            high, slope_high = part, slope
        part = _between(low, slope_low, high, slope_high)
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
def curvature(p, cuts, m):
    """A C A' for m cuts A, C centring the supported entries of each column."""
    arcs = _arcs_near_support(p, p, cuts, m, 0.0)
    own = np.empty(len(arcs.head))
    for j in range(len(arcs.dependent)):
        for k in range(arcs.first[j], arcs.first[j + 1]):
            own[k] = p[arcs.dependent[j], arcs.head[k]]
    return _curvature(arcs, own, m)


@njit(cache=True, nogil=True)
def _curvature(arcs, p, m):
    """The same for arcs and their point."""
    place, count = np.full(len(p), -1), np.zeros(len(arcs.dependent), np.int64)
    column = np.empty(len(p), np.int64)
    places = 0
    for j in range(len(arcs.dependent)):
        for k in range(arcs.first[j], arcs.first[j + 1]):
            count[j] += p[k] > 0.0
        for k in range(arcs.first[j], arcs.first[j + 1]):
            column[k] = j
            if p[k] > 0.0 and count[j] > 1:  # a column of one entry cannot move
                place[k] = places
                places += 1
    centred = np.zeros((m, places))
    share = np.zeros(len(arcs.dependent))
    for s in range(m):
        row = centred[s]
        for j in range(len(share)):
            share[j] = 0.0
        for k in arcs.held[arcs.bounds[s] : arcs.bounds[s + 1]]:
            if place[k] >= 0:
                row[place[k]] = 1.0
                share[column[k]] += 1.0
        for j in range(len(arcs.dependent)):
            if share[j] > 0.0:
                mean = share[j] / count[j]
                for k in range(arcs.first[j], arcs.first[j + 1]):
                    if place[k] >= 0:
                        row[place[k]] -= mean
    return np.dot(centred, centred.T)


@njit(cache=True, nogil=True)
def _bounded_step(matrix, cuts, m, equal, damping, step):
    """Write the step d that maximises <excess, d> - d'(M + damping)d / 2 under multiplier + d >= 0.

    The free ones move to their best together; the first to reach its bound is fixed there, and when
    none does, the fixed one of the largest slope becomes free. One factor follows them.
    """
    free = np.empty(m, np.bool_)
    chosen, best = np.empty(m, np.int64), np.empty(m)
    factor = np.empty((m, m))
    count = 0
    for s in range(m):
        free[s] = s < equal or cuts.multiplier[s] > 0.0 or cuts.excess[s] > 0.0
        step[s] = 0.0
        if free[s]:
            _append(matrix, chosen, count, s, damping, factor)
            count += 1
    for _ in range(10 * m + 10):
        for a in range(count):
            best[a] = cuts.excess[chosen[a]]
        for other in range(m):
            if not free[other] and step[other] != 0.0:
                for a in range(count):
                    best[a] -= matrix[other, chosen[a]] * step[other]
        _solve(factor, count, best)
        part, blocking = 1.0, -1
        for a in range(count):
            s = chosen[a]
            if s >= equal and cuts.multiplier[s] + best[a] < 0.0:
                there, ahead = cuts.multiplier[s] + step[s], step[s] - best[a]
                ratio = there / ahead if ahead > 0.0 else 0.0
                if ratio < part:
                    part, blocking = ratio, a
        for a in range(count):
            step[chosen[a]] += part * (best[a] - step[chosen[a]])
        if blocking >= 0:
            s = chosen[blocking]
            free[s] = False
            step[s] = -cuts.multiplier[s]
            _remove(chosen, count, blocking, factor)
            count -= 1
            continue
        steepest, entering = 1e-13, -1
        for s in range(m):
            if not free[s]:
                slope = cuts.excess[s] - damping * step[s] - _dot(matrix[s], step)
                if slope > steepest:
                    steepest, entering = slope, s
        if entering < 0:
            break
        free[entering] = True
        _append(matrix, chosen, count, entering, damping, factor)
        count += 1


@njit(cache=True, nogil=True)
def _append(matrix, chosen, count, s, damping, factor):
    """Add an unknown to the chosen ones, and its row to Cholesky's factor of matrix + damping."""
    chosen[count] = s
    row = factor[count]
    for b in range(count):
        row[b] = (matrix[s, chosen[b]] - _dot(row[:b], factor[b, :b])) / factor[b, b]
    rest = matrix[s, s] + damping - _dot(row[:count], row[:count])
    row[count] = np.sqrt(max(rest, damping))


@njit(cache=True, nogil=True)
def _remove(chosen, count, place, factor):
    """Take the unknown at a place out: later rows move up, rotations make them triangular again."""
    for a in range(place, count - 1):
        chosen[a] = chosen[a + 1]
        for b in range(a + 2):
            factor[a, b] = factor[a + 1, b]
    for a in range(place, count - 1):
        size = np.hypot(factor[a, a], factor[a, a + 1])
        cosine, sine = factor[a, a] / size, factor[a, a + 1] / size
        factor[a, a] = size
        for b in range(a + 1, count - 1):
            x, y = factor[b, a], factor[b, a + 1]
            factor[b, a] = cosine * x + sine * y
            factor[b, a + 1] = cosine * y - sine * x


@njit(cache=True, nogil=True)
def _solve(factor, count, x):
    """Solve in place by Cholesky's factor."""
    for a in range(count):
        x[a] = (x[a] - _dot(factor[a, :a], x[:a])) / factor[a, a]
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
