"""The nearest point of the arborescence polytope, by cuts.

The polytope is {p >= 0, every column sums to 1, sum of p over the arcs into S >= 1 for all sets S
of nodes without the root} (Edmonds 1967); a single root makes the cut of all nodes an equality.
Without cuts the projection is one onto a simplex for each column. Cuts come in where a largest flow
from the root finds them violated, and go where their multiplier is 0 and they have slack.

Of the smallest cuts the one with the fewest nodes is taken. A node that heads no other node never
belongs to it, so that a column without a part in a cycle stays as it is, and the cuts are few even
where the point would be a mixture of thousands of trees.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.copying import copy_block
from maxent._support.compiling.kernels import njit
from maxent.structured.trees.kernels.cut_multipliers import (
    NEAR,
    TIGHT,
    curvature,
    maximise,
    over_cut,
    raise_cut,
    room_for_cuts,
    solve_dependent,
)
from maxent.structured.trees.kernels.spanning_trees import argmax_rows

_SMALL = 24  # nodes: cuts are faster, however few the trees
_ROUNDS = 300  # of cuts
_MANY, _MANY_PER_NODE = 20, 0.25  # cuts: with more of them, few trees are faster
_PER_NODE = 6  # cuts there is room for; sets that do not cross are fewer than 2 per node
_SHORT = 64  # nodes: so few rounds that their number does not matter
_CLOSE = 1e-6  # a violation below which cuts are looked for at the point alone
_STOPS = 2  # on the way to it
_LOOSE = 0.1  # multipliers are found to this share of the last violation, at the end to rounding
_FAR = 100.0  # scores so far apart round more than that: their projection is projected once more


@njit(cache=True, nogil=True)
def project_rows(theta, offsets, nodes, single, sparse, settled, out, start, stop):
    """Write the nearest points of rows not yet ``settled``.

    With ``sparse`` above 0, rows that are not small stay open where their columns, each projected
    for itself, have up to ``sparse`` heads on average, or where many cuts are found: few trees make
    them up. So do rows whose best vertex shows that the nearest point was not found.
    """
    for row in range(start, stop):
        if settled[row]:
            continue
        n = nodes[row]
        point = out[offsets[row] : offsets[row + 1]].reshape(n, n)
        score = _columns_of(theta[offsets[row] : offsets[row + 1]].reshape(n, n))
        p = np.zeros((n, n))
        _, _, settled[row] = _project(score, single, sparse * n if n > _SMALL else 0.0, p)
        if settled[row] and _reach(score) > _FAR:
            for i in range(n):
                for j in range(n):
                    score[i, j] = p[i, j] if score[i, j] > -np.inf else -np.inf
            _, _, settled[row] = _project(score, single, 0.0, p)
        for i in range(n):
            for j in range(n):
                point[i, j] = min(p[j, i], 1.0)
        if settled[row]:
            own = theta[offsets[row] : offsets[row + 1]]
            settled[row] = _no_gap(own, out[offsets[row] : offsets[row + 1]], n, single)


@njit(cache=True, nogil=True)
def _no_gap(theta, p, n, single):
    """Whether the best vertex v has no <theta - p, v - p> above 0, up to rounding."""
    slope, vertex = theta - p, np.empty(theta.size)
    argmax_rows(slope, np.array([0, theta.size]), np.array([n]), single, vertex, 0, 1)
    gap, size = 0.0, 1.0
    for i in range(theta.size):
        if vertex[i] != p[i]:
            gap += slope[i] * (vertex[i] - p[i])
        if vertex[i] + p[i] > 0.0:
            size += abs(slope[i]) * (vertex[i] + p[i])
    return gap <= TIGHT * size


@njit(cache=True, nogil=True)
def tangent_rows(theta, offsets, nodes, single, known, v, settled, out, start, stop):
    """Write v projected on the directions of the face of each nearest point.

    They are 0 where p is 0, and keep the sums of the columns and of the tight cuts; ``known`` are
    the nearest points. Rows whose multipliers are not found are marked as not ``settled``.
    """
    for row in range(start, stop):
        n = nodes[row]
        first, last = offsets[row], offsets[row + 1]
        if _is_vertex(known[first:last]):
            for i in range(first, last):
                out[i] = 0.0
            continue
        score = _columns_of(theta[first:last].reshape(n, n))
        p = np.zeros((n, n))
        cuts, m, settled[row] = _project(score, single, 0.0, p)
        change = np.ascontiguousarray(v[first:last].reshape(n, n).T)
        count = 0
        for s in range(m):
            if abs(cuts.excess[s]) <= NEAR:
                _move(cuts, s, count)
                count += 1
        _centre(p, change)
        if count > 0:
            rates = np.empty(count)
            for s in range(count):
                rates[s] = over_cut(cuts.outside[s], change)
            solve_dependent(curvature(p, cuts, count), rates, count)
            for s in range(count):
                raise_cut(cuts.outside[s], -rates[s], change)
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
def _reach(score):
    """How far finite scores lie below the largest, which is 0, and 1 more."""
    lowest = 0.0
    for j in range(1, len(score)):
        for i in range(len(score)):
            if score[j, i] > -np.inf:
                lowest = min(lowest, score[j, i])
    return 1.0 - lowest


@njit(cache=True, nogil=True)
def _project(score, single, sparse, p):
    """Write the nearest point [dependent, head]; the cuts, their number, whether it holds.

    With ``sparse`` above 0 it does not where up to ``sparse`` arcs are used when there are no cuts
    yet, or where the cuts become many.
    """
    n = len(score)
    most = _MANY + _MANY_PER_NODE * n if sparse > 0.0 else np.inf
    cuts = room_for_cuts(_PER_NODE * n + 1, n)
    if sparse > 0.0:
        maximise(score, 0, cuts, 0, p, TIGHT)
        used = 0
        for j in range(1, n):
            for i in range(n):
                used += p[j, i] > 0.0
        if used <= sparse:
            return cuts, 0, False
    equal = 1 if single and n > 1 else 0
    for j in range(1, n):
        cuts.outside[0, j] = 1.0 - equal
    within = np.zeros((n, n))  # a point without violated cuts: at first all nodes below the root
    within[1:, 0] = 1.0
    m, violated = equal, 1.0
    for _ in range(_ROUNDS):
        tolerance = max(TIGHT / 10.0, _LOOSE * violated)
        amiss = maximise(score, equal, cuts, m, p, tolerance)
        if amiss > max(tolerance, NEAR):
            break
        m = _without_slack(cuts, m, equal)
        if m > most:
            break
        known = m
        if violated > _CLOSE and n > _SHORT:
            m, violated = _violated_on_the_way(p, within, cuts, m)
            if violated > max(TIGHT, 2.0 * amiss):
                if m == len(cuts.multiplier):
                    break
                continue
            m = known
        m, violated = _violated(p, cuts, m, max(TIGHT, 2.0 * amiss))
        if m == len(cuts.multiplier):
            break
        if m == known and tolerance <= TIGHT:
            return cuts, m, True
    return cuts, m, False


@njit(cache=True, nogil=True)
def _without_slack(cuts, m, equal):
    """Keep the cuts of a multiplier and the tight ones; how many these are."""
    kept = equal
    for s in range(equal, m):
        if cuts.multiplier[s] > 0.0 or cuts.excess[s] > -NEAR:
            _move(cuts, s, kept)
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _move(cuts, s, place):
    """Write cut s over the one at a place."""
    cuts.multiplier[place], cuts.excess[place] = cuts.multiplier[s], cuts.excess[s]
    for j in range(cuts.outside.shape[1]):
        cuts.outside[place, j] = cuts.outside[s, j]


@njit(cache=True, nogil=True)
def _violated_on_the_way(p, within, cuts, m):
    """Write cuts violated between p and the point within, which moves towards p; as _violated.

    A cut violated before p lacks more at p than others do, and is likelier to count at the end
    (Ben-Ameur and Neto 2007).
    """
    known, share, there = m, 0.7, np.empty_like(p)
    for _ in range(_STOPS):
        for j in range(1, len(p)):
            for i in range(len(p)):
                there[j, i] = share * p[j, i] + (1.0 - share) * within[j, i]
        there[0] = 0.0
        m, violated = _violated(there, cuts, m, NEAR)
        if violated > 0.0:
            break
        copy_block(there, within)
        share = 0.5 * (1.0 + share)
    violated = 0.0
    for s in range(known, m):
        cuts.excess[s] = 1.0 - over_cut(cuts.outside[s], p)
        violated = max(violated, cuts.excess[s])
    return m, min(violated, 1.0)


@njit(cache=True, nogil=True)
def _violated(p, cuts, m, atol):
    """Write cuts violated by more than atol behind the m known ones; their number, the largest.

    A node of a violated set that has no dependent in it can be left out, so that only nodes with
    dependents are sinks. Nodes of a set just found wait for the next round. A node that a flow of 1
    reaches belongs to no violated set: it is as good as the root, from where later flows are short.
    """
    n = len(p)
    near, degree = np.empty((n, n), np.int32), np.zeros(n, np.int64)
    heads = np.zeros(n, np.bool_)
    for j in range(1, n):
        for i in range(n):
            if p[j, i] > 0.0:
                heads[i] = True
                near[j, degree[j]] = i
                degree[j] += 1
                if not p[i, j] > 0.0:
                    near[i, degree[i]] = j
                    degree[i] += 1
    residual, vectors = np.empty((n, n)), np.empty((4, n), np.int64)
    safe = np.zeros(n, np.bool_)
    safe[0] = True
    largest = 0.0
    for sink in _from_the_root(p, near, degree):
        if not heads[sink] or m == len(cuts.multiplier):
            continue
        flow = _flow_from_safe(p, near, degree, safe, sink, atol, residual, vectors)
        if flow >= 1.0:
            safe[sink] = True
            continue
        largest = max(largest, 1.0 - flow)
        for j in range(n):
            cuts.outside[m, j] = 1.0 if vectors[0, j] < 0 else 0.0
            heads[j] = heads[j] and vectors[0, j] < 0
        if _is_new(cuts.outside, m):
            cuts.multiplier[m] = 0.0
            cuts.excess[m] = 1.0 - flow
            m += 1
    return m, largest


@njit(cache=True, nogil=True)
def _from_the_root(p, near, degree):
    """The nodes but the root, those a few arcs below it first; last those it does not reach."""
    n = len(p)
    order, known = np.empty(n, np.int64), np.zeros(n, np.bool_)
    order[0], known[0] = 0, True
    seen, read = 1, 0
    while read < seen:
        i = order[read]
        read += 1
        for k in range(degree[i]):
            j = near[i, k]
            if not known[j] and p[j, i] > 0.0:
                order[seen], known[j] = j, True
                seen += 1
    for j in range(n):
        if not known[j]:
            order[seen] = j
            seen += 1
    return order[1:]


@njit(cache=True, nogil=True)
def _flow_from_safe(p, near, degree, safe, sink, atol, residual, vectors):
    """A flow from the safe nodes to the sink by Dinic's method, largest up to atol or >= 1.

    ``near`` are the neighbours of a node in the support. Where the flow is below 1, the smallest
    set beyond a smallest cut has ``vectors[0]``, the number of arcs to the sink, of 0 and more.
    """
    n = len(p)
    level, queue, turn, path = vectors[0], vectors[1], vectors[2], vectors[3]
    for j in range(n):
        for k in range(degree[j]):
            residual[j, near[j, k]] = p[j, near[j, k]]
    total, negligible = 0.0, atol / (n * n)
    while total < 1.0 - atol:
        for j in range(n):
            level[j], turn[j] = -1, 0
        level[sink], queue[0] = 0, sink
        seen, read, nearest = 1, 0, n
        while read < seen and level[queue[read]] < nearest:
            j = queue[read]
            read += 1
            for k in range(degree[j]):
                i = near[j, k]
                if level[i] < 0 and residual[j, i] > negligible:
                    level[i] = level[j] + 1
                    queue[seen] = i
                    seen += 1
                    if safe[i]:
                        nearest = level[i]
        if nearest == n:
            return total
        for place in range(read, seen):
            if safe[queue[place]]:
                total = _push(
                    near, degree, queue[place], sink, atol, residual, level, turn, path, total
                )
    return 1.0


@njit(cache=True, nogil=True)
def _push(near, degree, source, sink, atol, residual, level, turn, path, total):
    """Flow along the shortest paths from a source to the sink, added to ``total``."""
    n = len(degree)
    negligible = atol / (n * n)
    path[0], length = source, 0
    while total < 1.0 - atol:
        i = path[length]
        if i == sink:
            step, first = np.inf, 0
            for k in range(length):
                if residual[path[k + 1], path[k]] < step:
                    step, first = residual[path[k + 1], path[k]], k
            for k in range(length):
                residual[path[k + 1], path[k]] -= step
                residual[path[k], path[k + 1]] += step
            total += step
            length = first  # go on from where the path is used up
            continue
        while turn[i] < degree[i]:
            j = near[i, turn[i]]
            if level[j] == level[i] - 1 and residual[j, i] > negligible:
                break
            turn[i] += 1
        if turn[i] < degree[i]:
            length += 1
            path[length] = near[i, turn[i]]
        elif length == 0:
            break
        else:
            length -= 1
            turn[path[length]] += 1
    return total


@njit(cache=True, nogil=True)
def _is_new(outside, m):
    for s in range(m):
        same = True
        for j in range(outside.shape[1]):
            same = same and outside[s, j] == outside[m, j]
        if same:
            return False
    return True


@njit(cache=True, nogil=True)
def _centre(p, change):
    """Project on the directions of the columns' faces: 0 where p is 0, sums 0."""
    n = len(p)
    for i in range(n):
        change[0, i] = 0.0
    for j in range(1, n):
        total, count = 0.0, 0
        for i in range(n):
            if p[j, i] > 0.0:
                total += change[j, i]
                count += 1
        for i in range(n):
            change[j, i] = change[j, i] - total / count if p[j, i] > 0.0 else 0.0
