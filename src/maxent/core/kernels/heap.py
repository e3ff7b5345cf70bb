"""Heaps for best-first searches: arrays of values and of what they belong to, largest on top."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _before(values, items, a, b):
    """Whether place a goes above place b; of equal values the earlier item does."""
    return values[a] > values[b] or (values[a] == values[b] and items[a] < items[b])


@njit(cache=True, nogil=True)
def _swap(values, items, a, b):
    value, item = values[a], items[a]
    values[a], items[a] = values[b], items[b]
    values[b], items[b] = value, item


@njit(cache=True, helper=True, nogil=True)
def push(values, items, count, value, item):
    """Add an item to a heap of ``count``; return the new count."""
    values[count], items[count] = value, item
    place = count
    while place > 0 and _before(values, items, place, (place - 1) // 2):
        _swap(values, items, place, (place - 1) // 2)
        place = (place - 1) // 2
    return count + 1


@njit(cache=True, helper=True, nogil=True)
def pop(values, items, count):
    """Move the largest of ``count`` behind the others, to place ``count - 1``; return that."""
    count -= 1
    _swap(values, items, 0, count)
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and _before(values, items, child + 1, child):
            child += 1
        if not _before(values, items, child, place):
            break
        _swap(values, items, place, child)
        place = child
    return count


@njit(cache=True, helper=True, nogil=True)
def among_least(kept, items, count, loss):
    """Take a loss into the ``kept.size - 1`` smallest; whether it is one, and how many there are.

    The largest of them is on top; one as large as it, where all places are taken, is not.
    """
    if count == kept.size - 1:
        if not loss < kept[0]:
            return False, count
        push(kept, items, count, loss, 0)
        return True, pop(kept, items, count + 1)
    return True, push(kept, items, count, loss, 0)


@njit(cache=True, helper=True, nogil=True)
def with_room(x, count):
    """A vector with room for more than ``count`` entries, the first of them the same."""
    if count < x.size:
        return x
    longer = np.empty(2 * count + 1, x.dtype)
    for i in range(count):
        longer[i] = x[i]
    return longer
