"""The k best perfect matchings: Murty's partition, each part by one shortest augmenting path.

What is left after a matching M falls into the matchings that agree with M on the rows before s and
differ on s, for each s. The potentials of M are feasible there (edges were taken away, none
added), and M without row s is optimal for them: the best matching of a part is one shortest path,
from row s to the column that it gave up, away from M (Murty 1968; Miller, Stone and Cox 1997).
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.heap import among_least, pop, push, with_room


@njit(cache=True, nogil=True)
def _shortest(cost, row, owner, u, v, closed, barred, limit, length, origin, done):
    """The free column that is nearest to a row, and how far; -1 where none is within the limit.

    Lengths are costs less the potentials u of rows and v of columns. Columns that are ``closed``
    are not used; those that are ``barred`` are not for this row.
    """
    n = len(cost)
    for j in range(n):
        length[j], done[j] = np.inf, closed[j]
    i, so_far = row, 0.0
    while True:
        nearest, least, line = -1, np.inf, cost[i]
        for j in range(n):
            if done[j]:
                continue
            if not (i == row and barred[j]):
                there = so_far + (line[j] - u[i] - v[j])
                if there < length[j]:
                    length[j], origin[j] = there, i
            if length[j] < least:
                nearest, least = j, length[j]
        if nearest < 0 or least > limit:
            return -1, np.inf
        so_far = max(so_far, least)
        if owner[nearest] < 0:
            return nearest, so_far
        done[nearest] = True
        i = owner[nearest]


@njit(cache=True, nogil=True)
def _augment(row, sink, so_far, partner, owner, u, v, closed, length, origin, done):
    """Take the shortest path: new potentials, and each row on it moves to its next column."""
    for j in range(partner.size):
        if done[j] and not closed[j]:
            u[owner[j]] += so_far - length[j]
            v[j] -= so_far - length[j]
    u[row] += so_far
    j = sink
    while True:
        i = origin[j]
        owner[j] = i
        before, partner[i] = partner[i], j
        if i == row:
            break
        j = before


@njit(cache=True, nogil=True)
def _part(partner, row, closed, owner):
    """Rows before ``row`` keep their columns, and ``row`` gives up its own."""
    for j in range(partner.size):
        closed[j] = False
    for i in range(partner.size):
        owner[partner[i]] = i
        if i < row:
            closed[partner[i]] = True
    owner[partner[row]] = -1


@njit(cache=True, nogil=True)
def kbest_rows(theta, offsets, sides, value, out, start, stop):
    """Write scores (row, rank), up to rounding falling, and matchings (rank, cell) of the best.

    Return -1, or the first row without a matching. Matchings that wait are known by their loss
    beside the best, the one that they differ from and the row where they begin to.
    """
    many, largest = value.shape[1], 1
    for r in range(start, stop):
        largest = max(largest, sides[r])
    partner = np.empty((many, largest), np.int64)
    u, v = np.empty((many, largest)), np.empty((many, largest))
    barred = np.empty((many, largest), np.bool_)  # columns that are not for row first[found]
    first = np.empty(many, np.int64)
    loss = np.empty(many)
    kept, spare = np.empty(many + 1), np.empty(many + 1, np.int64)
    values, items = np.empty(2 * many), np.empty(2 * many, np.int64)
    parent, branch = np.empty(2 * many, np.int64), np.empty(2 * many, np.int64)
    owner, origin = np.empty(largest, np.int64), np.empty(largest, np.int64)
    closed, done = np.empty(largest, np.bool_), np.empty(largest, np.bool_)
    bar, length = np.empty(largest, np.bool_), np.empty(largest)
    for r in range(start, stop):
        n, cells = sides[r], slice(offsets[r], offsets[r + 1])
        cost = np.empty((n, n))
        for i in range(n):
            closed[i], bar[i], owner[i] = False, False, -1
            barred[0, i], partner[0, i] = False, -1
        for i in range(n):
            nearest, least = -1, np.inf
            for j in range(n):
                cost[i, j] = -np.float64(theta[offsets[r] + i * n + j])
                if cost[i, j] < least:
                    nearest, least = j, cost[i, j]
            if nearest < 0:
                return r
            u[0, i], v[0, i] = least, 0.0
            if owner[nearest] < 0:
                owner[nearest], partner[0, i] = i, nearest
        for i in range(n):
            if partner[0, i] >= 0:
                continue
            sink, far = _shortest(
                cost, i, owner, u[0], v[0], closed, bar, np.inf, length, origin, done
            )
            if sink < 0:
                return r
            _augment(i, sink, far, partner[0, :n], owner, u[0], v[0], closed, length, origin, done)
        parent[0], branch[0], made = -1, 0, 1
        waiting = push(values, items, 0, 0.0, 0)
        _, known = among_least(kept, spare, 0, 0.0)
        for found in range(many):
            vertex = out[found, cells]
            for c in range(vertex.size):
                vertex[c] = 0
            if not waiting:
                value[r, found] = -np.inf
                continue
            waiting = pop(values, items, waiting)
            item = items[waiting]
            above, s = parent[item], branch[item]
            mine, ours, theirs = partner[found, :n], u[found, :n], v[found, :n]
            first[found], loss[found] = s, -values[waiting]
            if above >= 0:
                for i in range(n):
                    mine[i], ours[i], theirs[i] = partner[above, i], u[above, i], v[above, i]
                    barred[found, i] = barred[above, i] and first[above] == s
                barred[found, mine[s]] = True
                _part(mine, s, closed[:n], owner)
                bar[:n] = barred[found, :n]
                sink, far = _shortest(
                    cost, s, owner, ours, theirs, closed, bar, np.inf, length, origin, done
                )
                _augment(s, sink, far, mine, owner, ours, theirs, closed, length, origin, done)
            total = 0.0
            for i in range(n):
                vertex[i * n + mine[i]] = 1
                total -= cost[i, mine[i]]
            value[r, found] = total
            for row in range(s, n - 1):  # the last one has no other column
                _part(mine, row, closed[:n], owner)
                for j in range(n):
                    bar[j] = j == mine[row] or (row == s and barred[found, j])
                limit = kept[0] - loss[found] if known == many else np.inf
                sink, far = _shortest(
                    cost, row, owner, ours, theirs, closed, bar, limit, length, origin, done
                )
                if sink < 0:
                    continue
                near, known = among_least(kept, spare, known, loss[found] + far)
                if near:
                    values, items = with_room(values, waiting), with_room(items, waiting)
                    parent, branch = with_room(parent, made), with_room(branch, made)
                    parent[made], branch[made] = found, row
                    waiting = push(values, items, waiting, -(loss[found] + far), made)
                    made += 1
    return -1
