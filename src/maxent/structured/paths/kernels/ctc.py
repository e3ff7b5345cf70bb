"""Alignments of connectionist temporal classification (CTC), one pair of scores and target per row.

The states of a target y_1, ..., y_S are blank, y_1, blank, ..., y_S, blank. A position stays in its
state, goes on to the next, or passes over a blank between two labels that differ.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _label(target, blank, state):
    return target[state // 2] if state % 2 else blank


@njit(cache=True, nogil=True)
def _skips(target, state):
    """Whether a path may come to a state from two before it."""
    return state % 2 == 1 and state > 1 and target[state // 2] != target[state // 2 - 1]


@njit(cache=True, nogil=True)
def _before(row, target, state):
    """The messages from the states that may come before one, -inf where there is none."""
    stay = row[state]
    step = row[state - 1] if state > 0 else -np.inf
    skip = row[state - 2] if _skips(target, state) else -np.inf
    return stay, step, skip


@njit(cache=True, nogil=True)
def ctc_rows(scores, targets, lengths, sizes, blank, value, mean, start, stop):
    """Write log-partitions over alignments and probabilities of labels; -inf where there is none.

    Probabilities are shares of shares from the last position back, so that nothing cancels.
    """
    _, most, _ = scores.shape
    forward = np.empty((most, 2 * targets.shape[1] + 1))
    here, moved = np.empty(forward.shape[1]), np.empty(forward.shape[1])
    for row in range(start, stop):
        length, target = lengths[row], targets[row, : sizes[row]]
        states = 2 * sizes[row] + 1
        for s in range(states):
            forward[0, s] = scores[row, 0, _label(target, blank, s)] if s < 2 else -np.inf
        for t in range(1, length):
            for s in range(states):
                a, b, c = _before(forward[t - 1], target, s)
                top = max(a, b, c)
                if top > -np.inf:
                    mass = np.exp(a - top) + np.exp(b - top) + np.exp(c - top)
                    top += np.log(mass) + scores[row, t, _label(target, blank, s)]
                forward[t, s] = top
        last = forward[length - 1, states - 1]
        before = forward[length - 1, states - 2] if states > 1 else -np.inf
        top = max(last, before)
        value[row] = top
        if top == -np.inf:
            continue
        mass = np.exp(last - top) + np.exp(before - top)
        value[row] = top + np.log(mass)
        for s in range(states):
            here[s] = 0.0
        here[states - 1] = np.exp(last - top) / mass
        if states > 1:
            here[states - 2] = np.exp(before - top) / mass
        for t in range(length - 1, -1, -1):
            for s in range(states):
                moved[s] = 0.0
            for s in range(states):
                share = here[s]
                if share > 0.0:
                    mean[row, t, _label(target, blank, s)] += share
                    if t > 0:
                        a, b, c = _before(forward[t - 1], target, s)
                        top = max(a, b, c)
                        a, b, c = np.exp(a - top), np.exp(b - top), np.exp(c - top)
                        share /= a + b + c
                        moved[s] += share * a
                        if b > 0.0:
                            moved[s - 1] += share * b
                        if c > 0.0:
                            moved[s - 2] += share * c
            for s in range(states):
                here[s] = min(moved[s], 1.0)


@njit(cache=True, nogil=True)
def ctc_best_rows(scores, targets, lengths, sizes, blank, value, label, start, stop):
    """Write the best score and alignment of each row; -inf where there is none."""
    _, most, _ = scores.shape
    best = np.empty((most, 2 * targets.shape[1] + 1))
    for row in range(start, stop):
        length, target = lengths[row], targets[row, : sizes[row]]
        states = 2 * sizes[row] + 1
        for s in range(states):
            best[0, s] = scores[row, 0, _label(target, blank, s)] if s < 2 else -np.inf
        for t in range(1, length):
            for s in range(states):
                a, b, c = _before(best[t - 1], target, s)
                best[t, s] = max(a, b, c) + scores[row, t, _label(target, blank, s)]
        state = states - 1
        if states > 1 and best[length - 1, states - 2] > best[length - 1, state]:
            state = states - 2
        value[row] = best[length - 1, state]
        if value[row] == -np.inf:
            continue
        for t in range(length - 1, -1, -1):
            label[row, t] = _label(target, blank, state)
            if t > 0:
                a, b, c = _before(best[t - 1], target, state)
                if b >= a and b >= c:
                    state -= 1
                elif c > a:
                    state -= 2
