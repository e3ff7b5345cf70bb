"""Times at numbered places, and the first of them: a priority queue over a fixed set of places."""

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, helper=True, nogil=True)
def new_tournament(n):
    """A tree of times, all infinite; ``tree[1]`` is the first of all."""
    leaves = 1
    while leaves < n:
        leaves *= 2
    return np.full(2 * leaves, np.inf)


@njit(cache=True, helper=True, nogil=True)
def set_time(tree, place, time):
    """Set the time at a place, O(log n)."""
    k = (tree.size >> 1) + place
    tree[k] = time
    k >>= 1
    while k >= 1:
        first = min(tree[2 * k], tree[2 * k + 1])
        if tree[k] == first:
            return
        tree[k] = first
        k >>= 1


@njit(cache=True, helper=True, nogil=True)
def first_place(tree):
    """A place with the first time."""
    leaves = tree.size >> 1
    k = 1
    while k < leaves:
        k = 2 * k if tree[2 * k] == tree[k] else 2 * k + 1
    return k - leaves
