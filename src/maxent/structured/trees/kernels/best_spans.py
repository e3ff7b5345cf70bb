"""The k best trees that are put together from spans, and the trees on a face; see ``spans``."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _offer(values, first, second, third, k, value, a, b, c):
    """Take a candidate into a list of the k best, falling; False where it is not good enough."""
    if not value > values[k - 1]:
        return False
    place = k - 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        first[place], second[place], third[place] = (
            first[place - 1],
            second[place - 1],
            third[place - 1],
        )
        place -= 1
    values[place], first[place], second[place], third[place] = value, a, b, c
    return True


@njit(cache=True, nogil=True)
def kbest_rows(theta, offsets, nodes, chart, labels, k, scores, out, start, stop):
    """Write the k best trees of each row into out[:k], their scores falling.

    Every item keeps its k best, first without and then with the label of its cell. Two falling
    lists are joined through their corner: ranks a and b count while (a + 1) (b + 1) <= k.
    """
    longest = 1
    for row in range(start, stop):
        longest = max(longest, nodes[row])
    most = chart.goals[longest] + 1  # the last is nothing
    value, raw = np.empty((most, k)), np.empty((most, k))
    way, left_rank, right_rank = (
        np.empty((most, k), np.int32),
        np.empty((most, k), np.int32),
        np.empty((most, k), np.int32),
    )
    rank, label, unused = (
        np.empty((most, k), np.int32),
        np.empty((most, k), np.int32),
        np.empty(k, np.int32),
    )
    nothing = most - 1
    for i in range(k):
        value[nothing, i] = -np.inf
    value[nothing, 0] = 0.0
    waiting, ranks = np.empty(4 * longest + 2, np.int64), np.empty(4 * longest + 2, np.int64)
    for row in range(start, stop):
        n = nodes[row]
        score = theta[offsets[row] : offsets[row + 1]]
        last = chart.goals[n] - 1
        for v in range(last + 1):
            for i in range(k):
                value[v, i] = raw[v, i] = -np.inf
            for t in range(chart.ways[v]):
                left, right = chart.left[v] + t, chart.right[v] + t * chart.pitch
                left = chart.item[left] if left else nothing
                right = chart.item[right] if right else nothing
                for a in range(k):
                    if value[left, a] == -np.inf:
                        break
                    taken = False
                    for b in range(k // (a + 1)):
                        total = value[left, a] + value[right, b]
                        if not _offer(
                            raw[v], way[v], left_rank[v], right_rank[v], k, total, t, a, b
                        ):
                            break
                        taken = True
                    if not taken:
                        break
            cell = (chart.head[v] * n + chart.dependent[v]) * labels
            for i in range(k):
                if raw[v, i] == -np.inf:
                    break
                if chart.head[v] < 0:
                    value[v, i], rank[v, i] = raw[v, i], i
                    continue
                taken = False
                for c in range(labels):
                    total = raw[v, i] + np.float64(score[cell + c])
                    if _offer(value[v], rank[v], label[v], unused, k, total, i, c, 0):
                        taken = True
                if not taken:
                    break
        if value[last, 0] == -np.inf:
            return row
        for found in range(k):
            scores[row, found] = value[last, found]
            vertex = out[found, offsets[row] : offsets[row + 1]]
            for i in range(vertex.size):
                vertex[i] = 0.0
            if value[last, found] == -np.inf:
                continue
            waiting[0], ranks[0], count = last, found, 1
            while count:
                count -= 1
                v, own = waiting[count], ranks[count]
                if chart.head[v] >= 0:
                    cell = (chart.head[v] * n + chart.dependent[v]) * labels
                    vertex[cell + label[v, own]] = 1.0
                own = rank[v, own]
                t = way[v, own]
                left, right = chart.left[v] + t, chart.right[v] + t * chart.pitch
                if left:
                    waiting[count], ranks[count] = chart.item[left], left_rank[v, own]
                    count += 1
                if right:
                    waiting[count], ranks[count] = chart.item[right], right_rank[v, own]
                    count += 1
    return -1
