"""Murty's partition with an assignment of scipy solved anew for every part: no package has more.

What of it is on the package index lists no matchings beyond the best, so this is a reference.
"""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np
from scipy.optimize import linear_sum_assignment

NAME = "maxent's reference: an assignment of scipy for each part"  # counts as no peer


def best_matchings(theta: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores (k,) of the k best matchings of a matrix (n, n), falling, and partners (k, n)."""
    n, number = len(theta), count()

    def solved(fixed: np.ndarray, scores: np.ndarray) -> tuple[float, int, np.ndarray]:
        """The best matching in which the first rows have partners; ``scores`` are the others'."""
        rest = np.setdiff1d(np.arange(n), fixed)
        _, chosen = linear_sum_assignment(scores[:, rest], maximize=True)
        order = np.concatenate([fixed, rest[chosen]])
        return -float(theta[np.arange(n), order].sum()), next(number), order

    barred = np.zeros(n, bool)
    waiting = [(*solved(np.empty(0, np.int64), theta), 0, barred)]
    scores: list[float] = []
    found: list[np.ndarray] = []
    while waiting and len(found) < k:
        loss, _, order, first, barred = heapq.heappop(waiting)
        scores.append(-loss)
        found.append(order)
        for row in range(first, n - 1):
            own = barred.copy() if row == first else np.zeros(n, bool)
            own[order[row]] = True
            part = theta[row:].copy()
            part[0, own] = -np.inf
            try:
                heapq.heappush(waiting, (*solved(order[:row], part), row, own))
            except ValueError:  # no matching is left
                continue
    return np.array(scores), np.array(found)
