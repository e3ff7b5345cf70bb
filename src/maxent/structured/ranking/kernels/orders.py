"""The k best ways to give weights to scores: a best-first search over swaps of neighbours."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.heap import among_least, pop, push, with_room


@njit(cache=True, nogil=True)
def kbest_rows(ranked, order, weights, value, out, start, stop):
    """Write scores (row, rank), up to rounding falling, and points (rank, row, entry) of the best.

    ``ranked`` are the scores, falling, and ``order`` the entries that they belong to. The best
    point has the weights in falling order. Every other one has a first place r with p_r < p_{r+1};
    swapping the two is no loss, so that is its one parent, and no point is met twice: points with
    the same weights in the same places are one. The swap of a child costs
    (s_r - s_{r+1}) (p_r - p_{r+1}) >= 0.
    """
    many, size = value.shape[1], ranked.shape[1]
    points, loss = np.empty((many, size)), np.empty(many)
    kept, spare = np.empty(many + 1), np.empty(many + 1, np.int64)
    values, items = np.empty(2 * many), np.empty(2 * many, np.int64)
    parent, place = np.empty(2 * many, np.int64), np.empty(2 * many, np.int64)
    for row in range(start, stop):
        scores, usable = ranked[row], 0
        while usable < size and scores[usable] > -np.inf:
            usable += 1
        parent[0], place[0], made = -1, 0, 1
        waiting = push(values, items, 0, 0.0, 0)
        _, known = among_least(kept, spare, 0, 0.0)
        for found in range(many):
            point = out[found, row]
            for i in range(size):
                point[i] = 0
            if not waiting:
                value[row, found] = -np.inf
                continue
            waiting = pop(values, items, waiting)
            item = items[waiting]
            loss[found] = -values[waiting]
            p, r = points[found], place[item]
            for i in range(usable):
                p[i] = weights[i] if parent[item] < 0 else points[parent[item], i]
            if parent[item] >= 0:
                p[r], p[r + 1] = p[r + 1], p[r]
            total, rise = 0.0, usable - 1  # the first place below the next one
            for i in range(usable - 1, -1, -1):
                point[order[row, i]] = p[i]
                total += scores[i] * p[i]
                if i + 1 < usable and p[i] < p[i + 1]:
                    rise = i
            value[row, found] = total
            for r in range(min(rise + 2, usable - 1)):
                # behind the rise, only what comes to stand there is below what stands before it
                if p[r] > p[r + 1] and (r <= rise or p[rise] >= p[r + 1]):
                    more = loss[found] + (scores[r] - scores[r + 1]) * (p[r] - p[r + 1])
                    near, known = among_least(kept, spare, known, more)
                    if near:
                        values, items = with_room(values, waiting), with_room(items, waiting)
                        parent, place = with_room(parent, made), with_room(place, made)
                        parent[made], place[made] = found, r
                        waiting = push(values, items, waiting, -more, made)
                        made += 1
