"""Weights of the tokens of chains, read and changed for one token and one state at a time.

Token t has the entries ``values`` of its ``attributes`` from ``offsets[t]`` on. Attribute a has
weights for all k states, w[a k + state], where ``start`` is empty; otherwise for the states
``state`` of the weights start[a] to start[a + 1], as in ``tagging.kernels.attribute_scores``.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, helper=True, nogil=True, fastmath={"reassoc", "contract"})
def write_scores(values, attributes, offsets, start, state, k, w, first, last, out):
    """Write the scores of all states at the tokens from first to last."""
    for t in range(first, last):
        row = out[t - first]
        row[:] = 0.0
        begin, stop = offsets[t], offsets[t + 1]
        if start.size > 0:
            for i in range(begin, stop):
                a = attributes[i]
                for j in range(start[a], start[a + 1]):
                    row[state[j]] += values[i] * w[j]
            continue
        whole = stop - (stop - begin) % 4
        for i in range(begin, whole, 4):  # four lines of weights for each pass over the row
            x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
            a0, a1 = np.int64(attributes[i]) * k, np.int64(attributes[i + 1]) * k
            a2, a3 = np.int64(attributes[i + 2]) * k, np.int64(attributes[i + 3]) * k
            for j in range(k):
                row[j] += x0 * w[a0 + j] + x1 * w[a1 + j] + x2 * w[a2 + j] + x3 * w[a3 + j]
        for i in range(whole, stop):
            a = np.int64(attributes[i]) * k
            for j in range(k):
                row[j] += values[i] * w[a + j]


@njit(cache=True, nogil=True, forceinline=True)
def _weight(start, state, k, a, s):
    """The weight of an attribute and a state, -1 if they have none."""
    if start.size == 0:
        return np.int64(a) * k + s
    for j in range(start[a], start[a + 1]):
        if state[j] == s:
            return j
    return -1


@njit(cache=True, helper=True, nogil=True, forceinline=True)
def score(values, attributes, offsets, start, state, k, w, t, s):
    """The score of one state at one token."""
    total = 0.0
    for i in range(offsets[t], offsets[t + 1]):
        j = _weight(start, state, k, attributes[i], s)
        if j >= 0:
            total += values[i] * w[j]
    return total


@njit(cache=True, helper=True, nogil=True, forceinline=True)
def push(values, attributes, offsets, start, state, k, scale, amount, t, s, w):
    """w += amount * scale * token, in the weights of one state."""
    for i in range(offsets[t], offsets[t + 1]):
        j = _weight(start, state, k, attributes[i], s)
        if j >= 0:
            w[j] += amount * values[i] * scale[j]


@njit(cache=True, helper=True, nogil=True, forceinline=True)
def clear(attributes, offsets, start, state, k, t, s, w):
    """w = 0 wherever the token has a weight for the state."""
    for i in range(offsets[t], offsets[t + 1]):
        j = _weight(start, state, k, attributes[i], s)
        if j >= 0:
            w[j] = 0.0


@njit(cache=True, helper=True, nogil=True, fastmath={"reassoc", "contract"})
def push_states(values, attributes, offsets, start, state, k, scale, amount, t, change, w):
    """w += amount * scale * token, times the ``change`` of each state."""
    for i in range(offsets[t], offsets[t + 1]):
        x = amount * values[i]
        if start.size == 0:
            a = np.int64(attributes[i]) * k
            for j in range(k):
                w[a + j] += x * scale[a + j] * change[j]
        else:
            a = attributes[i]
            for j in range(start[a], start[a + 1]):
                w[j] += x * scale[j] * change[state[j]]
