"""Subsets of k of d entries: the best ones by a tree of moves, draws by a walk over the entries."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.heap import pop, push


@njit(cache=True, nogil=True)
def kbest_rows(ranked, order, k, value, out, start, stop):
    """Write scores (row, rank) and subsets (rank, row, entry) of the best of each row.

    ``ranked`` are the scores, falling, and ``order`` the entries they belong to. A subset is the
    places of its entries, c_0 < ... < c_{k-1}. Its one parent has its first place that moved
    (c_r > r) one step back, so no subset is met twice, and none is better than its parent: a sum
    of as many terms in one order, of which one is not smaller, even when rounded. The children
    move that place or the one before it, hence two at most.
    """
    many = value.shape[1]
    places = np.empty((many, k), np.int64)
    moved = np.empty(many, np.int64)  # the first place that moved; k for none
    parent, which = np.empty(2 * many + 1, np.int64), np.empty(2 * many + 1, np.int64)
    values, items = np.empty(2 * many + 1), np.empty(2 * many + 1, np.int64)
    for row in range(start, stop):
        scores, usable = ranked[row], 0
        while usable < scores.size and scores[usable] > -np.inf:
            usable += 1
        parent[0], which[0], made = -1, k, 1
        waiting = push(values, items, 0, 0.0, 0)
        for found in range(many):
            subset = out[found, row]
            for i in range(subset.size):
                subset[i] = 0
            if not waiting:
                value[row, found] = -np.inf
                continue
            waiting = pop(values, items, waiting)
            item = items[waiting]
            own, first = places[found], which[item]
            for r in range(k):
                own[r] = r if parent[item] < 0 else places[parent[item], r]
            if first < k:
                own[first] += 1
            moved[found] = first
            value[row, found] = _total(scores, own, -1)
            for r in range(k):
                subset[order[row, own[r]]] = 1
            for r in range(max(first - 1, 0), min(first + 1, k)):
                after = own[r + 1] if r + 1 < k else usable
                if own[r] + 1 < after:
                    parent[made], which[made] = found, r
                    waiting = push(values, items, waiting, _total(scores, own, r), made)
                    made += 1


@njit(cache=True, nogil=True)
def _total(scores, places, moved):
    """The sum over places, of which one is moved on by one; -1 for none."""
    total = 0.0
    for r in range(places.size):
        total += scores[places[r] + 1] if r == moved else scores[places[r]]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _count_on(take, leave, size, k, before, after, i):
    """Write the chances of the numbers taken of the first i + 1 entries, from those of i.

    Of the numbers from which k of ``size`` entries can still be reached.
    """
    low, high = max(0, k - (size - i - 1)), min(i + 1, k)
    first = max(low, 1)
    here, less = before[first : high + 1], before[first - 1 : high]
    out = after[first : high + 1]
    for j in range(out.size):
        out[j] = here[j] * leave + less[j] * take
    if low == 0:
        after[0] = before[0] * leave


@njit(cache=True, nogil=True)
def sample_rows(take, leave, k, uniform, out, start, stop):
    """Write subsets (draw, row, entry), from the last entry to the first.

    Entries that are taken and left independently, with these chances, are a subset of k drawn by
    its weight once k of them are taken. A walk back from there meets a number of entries with at
    most its chance forward (over that of k), so chances that are too small for a number are never
    missed. Those of a few places are kept, and those between are taken again from there: room for
    2 sqrt(d) (k + 1) numbers instead of d (k + 1).
    """
    draws, size = len(out), take.shape[1]
    step = int(np.ceil(np.sqrt(size)))
    kept = np.empty((-(-size // step), k + 1))
    chance, number = np.empty((step + 1, k + 1)), np.empty(draws, np.int64)
    for row in range(start, stop):
        chance[:2] = 0.0
        chance[0, 0] = 1.0
        for i in range(size):
            here, after = chance[i % 2], chance[1 - i % 2]
            if i % step == 0:
                kept[i // step] = here
            _count_on(take[row, i], leave[row, i], size, k, here, after, i)
        number[:] = k
        for block in range(len(kept) - 1, -1, -1):
            first = block * step
            last = min(first + step, size)
            chance[:] = 0.0
            chance[0] = kept[block]
            for i in range(first, last):
                here, after = chance[i - first], chance[i - first + 1]
                _count_on(take[row, i], leave[row, i], size, k, here, after, i)
            for draw in range(draws):
                for i in range(last - 1, first - 1, -1):
                    j, chosen = number[draw], False
                    if j > i:
                        chosen = True  # all that are left
                    elif j:
                        with_it = chance[i - first, j - 1] * take[row, i]
                        without = chance[i - first, j] * leave[row, i]
                        chosen = uniform[draw, row, i] * (with_it + without) < with_it
                    out[draw, row, i] = 1 if chosen else 0
                    number[draw] = j - chosen
