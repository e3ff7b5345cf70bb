"""The face of the best trees: which directions lie in it; see ``spans`` for the charts.

What is best in a direction uses tight ways alone, those whose item can be part of a best tree so.
A flow through the tight ways has as many degrees of freedom as there are ways beside the first one
of each item. One tree for each of these, with the first way of every item below it, spans them: of
the ways beside the first it has none that lies below its own.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.structured.trees.kernels.spans import best_scores


@njit(cache=True, nogil=True)
def face_trees(score, n, chart, labels, tolerance, trees):
    """Write trees whose differences from the first span the face of the best ones.

    Return how many there are, which may be more than there is room for; 0 without a tree.
    """
    size = chart.item.size
    earned, top, above = np.full(n * n, -np.inf), np.empty(size), np.full(size, -np.inf)
    best = best_scores(score, n, labels, chart, earned, top)
    if best == -np.inf:
        return 0
    pitch, last = chart.pitch, chart.goals[n] - 1
    first = np.full(size, -1, np.int64)  # way of each item that is tight
    parent, parent_way = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    above[chart.target[last]] = 0.0
    for v in range(last, -1, -1):
        here = chart.target[v]
        outside = above[here]
        if chart.head[v] >= 0:
            outside += earned[chart.head[v] * n + chart.dependent[v]]
        for t in range(chart.ways[v]):
            left, right = chart.left[v] + t, chart.right[v] + t * pitch
            above[left] = max(above[left], outside + top[right])
            above[right] = max(above[right], outside + top[left])
            if not outside + top[left] + top[right] >= best - tolerance:
                continue
            if first[here] < 0:
                first[here] = t
            if parent[left] < 0:
                parent[left], parent_way[left] = here, t
            if parent[right] < 0:
                parent[right], parent_way[right] = here, t
    waiting = np.empty(4 * n + 2, np.int64)
    count = 1
    goal = chart.target[last]
    if len(trees):
        _clear(trees[0])
        _below(goal, first, score, n, chart, labels, waiting, trees[0])
    for v in range(last, -1, -1):
        here = chart.target[v]
        if first[here] < 0 or (here != goal and parent[here] < 0):
            continue
        outside = above[here]
        if chart.head[v] >= 0:
            cell = chart.head[v] * n + chart.dependent[v]
            outside += earned[cell]
            usual = _best_label(score, cell, labels)
            for c in range(cell * labels, (cell + 1) * labels):
                gap = tolerance - best + above[here] + top[here] - earned[cell] + score[c]
                if c == usual or not gap >= 0.0:
                    continue
                if count < len(trees):
                    _clear(trees[count])
                    _with_way(
                        here,
                        first[here],
                        (first, parent, parent_way),
                        score,
                        n,
                        chart,
                        labels,
                        waiting,
                        trees[count],
                    )
                    trees[count, usual], trees[count, c] = 0.0, 1.0
                count += 1
        for t in range(chart.ways[v]):
            left, right = chart.left[v] + t, chart.right[v] + t * pitch
            if t == first[here] or not outside + top[left] + top[right] >= best - tolerance:
                continue
            if count < len(trees):
                _clear(trees[count])
                _with_way(
                    here,
                    t,
                    (first, parent, parent_way),
                    score,
                    n,
                    chart,
                    labels,
                    waiting,
                    trees[count],
                )
            count += 1
    return count


@njit(cache=True, nogil=True)
def _clear(tree):
    for i in range(tree.size):
        tree[i] = 0.0


@njit(cache=True, nogil=True)
def _best_label(score, cell, labels):
    best = cell * labels
    for c in range(cell * labels, (cell + 1) * labels):
        if score[c] > score[best]:
            best = c
    return best


@njit(cache=True, nogil=True)
def _below(address, first, score, n, chart, labels, waiting, tree):
    """Mark the cells of an item with the first way of everything below it."""
    waiting[0], count = address, 1
    while count:
        count -= 1
        here = waiting[count]
        if here == 0:
            continue
        v = chart.item[here]
        if chart.head[v] >= 0:
            tree[_best_label(score, chart.head[v] * n + chart.dependent[v], labels)] = 1.0
        waiting[count] = chart.left[v] + first[here]
        waiting[count + 1] = chart.right[v] + first[here] * chart.pitch
        count += 2


@njit(cache=True, nogil=True)
def _with_way(address, way, known, score, n, chart, labels, waiting, tree):
    """Mark a tree that has an item with one of its ways, and else the first ones."""
    first, parent, parent_way = known
    child = 0
    while address >= 0:
        v = chart.item[address]
        if chart.head[v] >= 0:
            tree[_best_label(score, chart.head[v] * n + chart.dependent[v], labels)] = 1.0
        left, right = chart.left[v] + way, chart.right[v] + way * chart.pitch
        for part in (left, right):
            if part != child and part != 0:
                _below(part, first, score, n, chart, labels, waiting, tree)
        child, way, address = address, parent_way[address], parent[address]
