"""The best alignments of one matrix of scores: time warping that keeps k paths at every cell."""

from __future__ import annotations

import numpy as np

from maxent.rows.arrays import Array

_STEPS = ((1, 1), (1, 0), (0, 1))  # from where a path enters a cell


def best_paths(scores: Array, k: int) -> tuple[Array, Array]:
    """Scores, falling, and 0/1 matrices of the at most k best paths; -inf forbids a cell."""
    n, m = scores.shape
    best: dict[tuple[int, int], Array] = {}
    back: dict[tuple[int, int], tuple[Array, Array]] = {}  # the step and the rank before
    for i in range(n):
        for j in range(m):
            before = [best.get((i - a, j - b), np.empty(0)) for a, b in _STEPS]
            if i == j == 0:
                before[0] = np.zeros(1)
            together = np.concatenate(before)
            order = np.argsort(-together, kind="stable")[:k]
            order = order[together[order] + scores[i, j] > -np.inf]
            step = np.repeat(np.arange(3), [len(x) for x in before])[order]
            rank = np.concatenate([np.arange(len(x)) for x in before])[order]
            best[i, j], back[i, j] = together[order] + scores[i, j], (step, rank)
    found = best[n - 1, m - 1]
    paths = np.zeros((len(found), n, m))
    for path, last in zip(paths, range(len(found)), strict=True):
        i, j, at = n - 1, m - 1, last
        path[i, j] = 1
        while (i, j) != (0, 0):
            step, rank = back[i, j]
            (a, b), at = _STEPS[int(step[at])], int(rank[at])
            i, j = i - a, j - b
            path[i, j] = 1
    return found, paths
