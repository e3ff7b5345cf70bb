"""Isotonic regression with weights: ranks of scores that count several times, a row at a time."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit

_HUGE = 1e300  # scores are cut here, so that differences of them are no NaN


@njit(cache=True, nogil=True)
def weighted_rank_rows(theta, weight, order, scale, hard, p, block, start, stop):
    """Write the projection of scale * theta, and which entries move together.

    ``order`` is falling. Scores v = scale * theta - rank, in this order, are pooled where they
    would rise; the hard kind pools ties alone.
    """
    size = theta.shape[1]
    first = np.empty(size + 1, np.int64)
    lift, mass = np.empty(size), np.empty(size)
    rank, s = np.empty(size), np.empty(size)
    for r in range(start, stop):
        total, sound = 0.0, True
        for i in range(size):
            sound = sound and np.isfinite(theta[r, i])
            total += weight[r, i]
        if not sound:
            for i in range(size):
                p[r, i], block[r, i] = np.nan, i
            continue
        # from the largest on, and measured from it
        top, count = np.float64(theta[r, order[r, 0]]), 0
        for i in range(size):
            e = order[r, i]
            total -= weight[r, e]
            rank[i] = total + 0.5 * (weight[r, e] + 1.0)
            s[i] = max(scale * (np.float64(theta[r, e]) - top), -_HUGE)
            first[count], mass[count] = i, weight[r, e]
            lift[count] = -rank[i] if hard else s[i] - rank[i]
            while count > 0:
                tie = theta[r, order[r, first[count]]] == theta[r, order[r, first[count - 1]]]
                if not (tie or (not hard and lift[count] > lift[count - 1])):
                    break
                both = mass[count - 1] + mass[count]
                part = mass[count] / both
                lift[count - 1] += part * (lift[count] - lift[count - 1])
                mass[count - 1] = both
                count -= 1
            count += 1
        first[count] = size
        for b in range(count):
            a, z = first[b], first[b + 1]
            middle, shift = 0.0, 0.0  # means of the block's ranks, and of scores from its first
            for i in range(a, z):
                part = weight[r, order[r, i]] / mass[b]
                middle += part * rank[i]
                shift += 0.0 if hard else part * (s[i] - s[a])
            for i in range(a, z):
                e = order[r, i]
                own = 0.0 if hard else s[i] - s[a]
                p[r, e], block[r, e] = middle + (own - shift), b
