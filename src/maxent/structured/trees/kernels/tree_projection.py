"""The nearest point of the arborescence polytope, by cuts.

The polytope is {p >= 0, every column sums to 1, sum of p over the arcs into S >= 1 for all sets S
of nodes without the root} (Edmonds 1967); a single root makes the cut of all nodes an equality.
Without cuts the projection is one onto a simplex for each column. Cuts come in where a largest flow
from the root finds them violated, and their multipliers solve the concave, piecewise quadratic
dual by Newton's method, so that the answer is exact to rounding. Dense points, which would be
mixtures of very many trees, need few cuts or none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.structured.trees.kernels.spanning_trees import flow_to

_TIGHT = 1e-12  # violation of a cut that is rounding
_NEAR = 1e-9  # what is accepted where rounding allows no more
_DEPENDENT = 1e-11  # a pivot this small, relative to its diagonal, is 0
_STEPS = 60  # of Newton's method between two rounds of cuts
_MOST = 16  # cuts of a sparse point: an active set of few trees finds it sooner
_FAR = 100.0  # scores so far apart round more than that: their projection is projected once more
_SHARE = 4  # a dense one, of many trees, may have one cut for so many of its degrees of freedom


class Cuts(NamedTuple):
    """Sets of nodes and the multipliers of their cuts; the first is an equality or unused."""

    beyond: Any  # (capacity, n), whether a node is in the set
    multiplier: Any
    excess: Any  # 1 - sum of p over the arcs of the cut
    step: Any


@njit(cache=True, nogil=True)
def _room(capacity, n):
    return Cuts(
        np.zeros((capacity, n), np.bool_),
        np.zeros(capacity),
        np.empty(capacity),
        np.empty(capacity),
    )


@njit(cache=True, nogil=True)
def project_rows(theta, offsets, nodes, single, settled, out, start, stop):
    """Write the nearest points of rows not yet ``settled``; those of too many cuts stay open."""
    for row in range(start, stop):
        if settled[row]:
            continue
        n = nodes[row]
        point = out[offsets[row] : offsets[row + 1]].reshape(n, n)
        score = _columns_of(theta[offsets[row] : offsets[row + 1]].reshape(n, n))
        p = np.zeros((n, n))
        _, _, settled[row] = _project(score, single, p)
        if settled[row] and _reach(score) > _FAR:
            for i in range(n):
                for j in range(n):
                    score[i, j] = p[i, j] if score[i, j] > -np.inf else -np.inf
            _, _, settled[row] = _project(score, single, p)
        for i in range(n):
            for j in range(n):
                point[i, j] = min(p[j, i], 1.0)


@njit(cache=True, nogil=True)
def tangent_rows(theta, offsets, nodes, single, known, v, settled, out, start, stop):
    """Write v projected on the directions of the face of each nearest point.

    They are 0 where p is 0, and keep the sums of the columns and of the cuts in use; ``known``
    are the nearest points. Rows of too many cuts are marked as not ``settled``.
    """
    for row in range(start, stop):
        n = nodes[row]
        first, last = offsets[row], offsets[row + 1]
        if _is_vertex(known[first:last]):
            out[first:last] = 0.0
            continue
        score = _columns_of(theta[first:last].reshape(n, n))
        p = np.zeros((n, n))
        cuts, m, settled[row] = _project(score, single, p)
        change = np.ascontiguousarray(v[first:last].reshape(n, n).T)
        used = np.empty(m, np.int64)
        count = 0
        for s in range(m):
            tight = cuts.multiplier[s] > 0.0 and abs(cuts.excess[s]) <= _NEAR
            if tight or (s == 0 and single):
                used[count] = s
                count += 1
        _centre(p, change)
        rates = np.empty(count)
        for a in range(count):
            rates[a] = _over_cut(cuts.beyond[used[a]], change)
        _solve(_curvature(p, cuts, used, count), rates, count, 0.0)
        for a in range(count):
            _raise(cuts.beyond[used[a]], -rates[a], change)
        _centre(p, change)
        tangent = out[first:last].reshape(n, n)
        for i in range(n):
            for j in range(n):
                tangent[i, j] = change[j, i]


@njit(cache=True, nogil=True)
def _is_vertex(p):
    between = 0
    for x in p:
        between += 0.0 < x < 1.0
    return between == 0


@njit(cache=True, nogil=True)
def _columns_of(theta):
    """Scores [dependent, head], each column's largest 0, -inf for what is no arc."""
    n = len(theta)
    score = np.full((n, n), -np.inf)
    for j in range(1, n):
        top = -np.inf
        for i in range(n):
            if i != j:
                score[j, i] = theta[i, j]
                top = max(top, score[j, i])
        for i in range(n):
            score[j, i] -= top
    return score


@njit(cache=True, nogil=True)
def _project(score, single, p):
    """Write the nearest point [dependent, head]; the cuts, their number, whether it holds."""
    n = len(score)
    cuts = _room(_MOST + n * n // _SHARE + n, n)
    cuts.beyond[0, 1:] = True
    m = 1
    reach = _reach(score)
    residual, vectors = np.empty((n, n)), np.empty((2, n), np.int64)
    shifted = np.empty((n, n))
    most = _MOST
    while m <= most:
        amiss = _maximise(score, single, reach, cuts, m, shifted, p)
        known = m
        most = max(_MOST, (np.count_nonzero(p) - n) // _SHARE)
        capacity = np.ascontiguousarray(p.T)
        done = np.zeros(n, np.bool_)
        for sink in range(1, n):
            if done[sink] or flow_to(capacity, sink, _TIGHT, residual, vectors) >= 1.0:
                continue
            for j in range(n):
                cuts.beyond[m, j] = vectors[0, j] < 0
                done[j] = done[j] or cuts.beyond[m, j]
            cuts.multiplier[m] = 0.0
            if _is_new(cuts.beyond, m):
                m += 1
        if m == known or amiss > _NEAR:
            return cuts, m, amiss <= _NEAR
    return cuts, m, False


@njit(cache=True, nogil=True)
def _reach(score):
    """How far finite scores lie below the largest, which is 0, and 1 more."""
    lowest = 0.0
    for j in range(1, len(score)):
        for i in range(len(score)):
            if score[j, i] > -np.inf:
                lowest = min(lowest, score[j, i])
    return 1.0 - lowest


@njit(cache=True, nogil=True)
def _is_new(beyond, m):
    for s in range(m):
        same = True
        for j in range(beyond.shape[1]):
            same = same and beyond[s, j] == beyond[m, j]
        if same:
            return False
    return True


@njit(cache=True, nogil=True)
def _maximise(score, single, reach, cuts, m, shifted, p):
    """Newton's steps on the dual of the first m cuts; what is left of its gradient."""
    value = _dual(score, cuts, cuts.multiplier, m, shifted, p)
    trial = np.empty(m)
    used = np.empty(m, np.int64)
    best = np.inf
    for _ in range(_STEPS):
        count = 0
        worst = 0.0
        for s in range(m):
            excess = 1.0 - _over_cut(cuts.beyond[s], p)
            cuts.excess[s] = excess
            free = s == 0 and single
            if free or cuts.multiplier[s] > 0.0 or excess > 0.0:
                part = abs(excess)
                if not free and excess < 0.0:
                    part = min(part, cuts.multiplier[s])
                worst = max(worst, part)
                used[count] = s
                cuts.step[count] = excess
                count += 1
        if worst <= _TIGHT / 10.0 or (worst <= _NEAR and worst > 0.5 * best):
            return worst
        best = min(best, worst)
        _solve(_curvature(p, cuts, used, count), cuts.step, count, 1.0 / reach)
        slope, longest = 0.0, 0.0
        for a in range(count):
            longest = max(longest, abs(cuts.step[a]))
        shrink = min(1.0, 2.0 * reach / max(longest, 1e-300))
        for a in range(count):
            cuts.step[a] *= shrink
            slope += cuts.step[a] * cuts.excess[used[a]]
        if not slope > 0.0:
            return worst
        part = 1.0
        for _ in range(60):
            for s in range(m):
                trial[s] = cuts.multiplier[s]
            for a in range(count):
                s = used[a]
                trial[s] += part * cuts.step[a]
                if trial[s] < 0.0 and not (s == 0 and single):
                    trial[s] = 0.0
            new = _dual(score, cuts, trial, m, shifted, p)
            onward = 0.0
            for a in range(count):
                s = used[a]
                if trial[s] > 0.0 or (s == 0 and single):
                    onward += cuts.step[a] * (1.0 - _over_cut(cuts.beyond[s], p))
            rounding = 1e-15 * (abs(value) + 1.0)
            if new >= value + 1e-4 * part * slope - rounding:
                break
            # the slope falls along the step: where a line through its ends is 0, with safeguards
            ratio = slope / (slope - onward) if onward < 0.0 else 0.5
            part *= min(0.7, max(0.05, ratio))
        value = new
        for s in range(m):
            cuts.multiplier[s] = trial[s]
    return np.inf


@njit(cache=True, nogil=True)
def _dual(score, cuts, multiplier, m, shifted, p):
    """Write p for the multipliers; min_p sum (p^2/2 - p score) - sum multiplier (p(cut) - 1)."""
    n = len(score)
    value = 0.0
    for j in range(1, n):
        for i in range(n):
            shifted[j, i] = score[j, i]
    for s in range(m):
        if multiplier[s] != 0.0:
            value += multiplier[s]
            _raise(cuts.beyond[s], multiplier[s], shifted)
    for j in range(1, n):
        _onto_simplex(shifted[j], p[j])
        for i in range(n):
            if p[j, i] > 0.0:
                value += p[j, i] * (0.5 * p[j, i] - shifted[j, i])
    return value


@njit(cache=True, nogil=True)
def _raise(beyond, amount, columns):
    """Add an amount to the arcs of a cut."""
    for j in range(len(beyond)):
        if beyond[j]:
            for i in range(len(beyond)):
                if not beyond[i]:
                    columns[j, i] += amount


@njit(cache=True, nogil=True)
def _over_cut(beyond, columns):
    """The sum over the arcs of a cut."""
    total = 0.0
    for j in range(len(beyond)):
        if beyond[j]:
            for i in range(len(beyond)):
                if not beyond[i]:
                    total += columns[j, i]
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


@njit(cache=True, nogil=True)
def _centre(p, change):
    """Project on the directions of the columns' faces: 0 where p is 0, sums 0."""
    n = len(p)
    change[0] = 0.0
    for j in range(1, n):
        total, count = 0.0, 0
        for i in range(n):
            if p[j, i] > 0.0:
                total += change[j, i]
                count += 1
        for i in range(n):
            change[j, i] = change[j, i] - total / count if p[j, i] > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _curvature(p, cuts, used, count):
    """A C A' for the cuts A in use, C centring the supported entries of each column."""
    n = len(p)
    matrix = np.zeros((count, count))
    outside = np.empty(count)
    support = np.empty(n, np.int64)
    inside = np.empty(count, np.int64)
    for j in range(1, n):
        size, number = 0, 0
        for i in range(n):
            if p[j, i] > 0.0:
                support[size] = i
                size += 1
        for a in range(count):
            if not cuts.beyond[used[a], j]:
                continue
            inside[number] = a
            number += 1
            outside[a] = 0.0
            for i in support[:size]:
                outside[a] += not cuts.beyond[used[a], i]
        for a in inside[:number]:
            for b in inside[:number]:
                if b > a:
                    break
                both = 0.0
                for i in support[:size]:
                    both += not (cuts.beyond[used[a], i] or cuts.beyond[used[b], i])
                matrix[a, b] += both - outside[a] * outside[b] / size
    return matrix


@njit(cache=True, nogil=True)
def _solve(matrix, x, n, pivot):
    """Solve in place by Cholesky's factor of the lower half; what is 0 there becomes ``pivot``.

    Unknowns of a pivot 0 are 0.
    """
    for a in range(n):
        whole = matrix[a, a]
        for b in range(a):
            total = matrix[a, b]
            for c in range(b):
                total -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = total / matrix[b, b] if matrix[b, b] > 0.0 else 0.0
        rest = whole
        for b in range(a):
            rest -= matrix[a, b] * matrix[a, b]
        matrix[a, a] = np.sqrt(rest if rest > _DEPENDENT * max(whole, 1.0) else pivot)
        total = x[a]
        for b in range(a):
            total -= matrix[a, b] * x[b]
        x[a] = total / matrix[a, a] if matrix[a, a] > 0.0 else 0.0
    for a in range(n - 1, -1, -1):
        x[a] = x[a] / matrix[a, a] if matrix[a, a] > 0.0 else 0.0
        for b in range(a):
            x[b] -= matrix[a, b] * x[a]
