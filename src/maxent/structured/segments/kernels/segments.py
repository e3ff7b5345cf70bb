"""Sums over segmentations whose scores are sums: time T C (K + C), messages kept in the results.

A segment with label c from position s up to, not including, e scores
``begins[c, s] + ends[c, e - 1] + durations[c, e - s - 1]``, and ``transitions[a, c]`` follows a
segment with label a. Labels come first, so that what may precede an end lies side by side.
``reverse`` holds the durations from the longest to the shortest: those of the starts low, ...,
e - 1 of segments that end at e are its last e - low entries.

Forward messages are kept where results will be written: ``entry[c, s]``, log of the sum over all
before a segment with label c that starts at s, with its begin; ``exit[c, e - 1]``, the same for one
that ends at e, with its end. Going back, a position's messages are read for the last time before
its marginals replace them.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential
from maxent.core.kernels.largest import largest


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _weights(before, steps, share):
    """Write exp(before + steps - top); return their sum and top, the largest."""
    for j in range(steps.size):
        share[j] = before[j] + steps[j]
    top = largest(share[: steps.size])
    mass = 0.0
    if top > -np.inf:
        for j in range(steps.size):
            weight = exponential(share[j] - top)
            share[j] = weight
            mass += weight
    return mass, top


@njit(cache=True, nogil=True)
def _log(mass, top):
    return top + np.log(mass) if top > -np.inf else top


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _changes(exit, transitions, c, t, share):
    """The weights of the labels before a segment with label c that starts at t."""
    for a in range(len(transitions)):
        share[a] = exit[a, t - 1] + transitions[a, c]
    top = largest(share[: len(transitions)])
    mass = 0.0
    if top > -np.inf:
        for a in range(len(transitions)):
            weight = exponential(share[a] - top)
            share[a] = weight
            mass += weight
    return mass, top


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _last(exit, length, share):
    """The weights of the labels of the last segment."""
    for c in range(len(exit)):
        share[c] = exit[c, length - 1]
    top = largest(share[: len(exit)])
    mass = 0.0
    if top > -np.inf:
        for c in range(len(exit)):
            weight = exponential(share[c] - top)
            share[c] = weight
            mass += weight
    return mass, top


@njit(cache=True, nogil=True)
def _forward(begins, ends, reverse, transitions, length, entry, exit, share):
    """Write the messages; return the log-partition."""
    labels, longest = reverse.shape
    for c in range(labels):
        entry[c, 0] = begins[c, 0]
    for e in range(1, length + 1):
        low = max(0, e - longest)
        for c in range(labels):
            mass, top = _weights(entry[c, low:e], reverse[c, longest - (e - low) :], share)
            exit[c, e - 1] = ends[c, e - 1] + _log(mass, top)
        if e < length:
            for c in range(labels):
                mass, top = _changes(exit, transitions, c, e, share)
                entry[c, e] = begins[c, e] + _log(mass, top)
    mass, top = _last(exit, length, share)
    return _log(mass, top)


@njit(cache=True, nogil=True)
def _room(labels, longest):
    """Masses of the starts base, ..., base + 2 K - 1, a window that follows the end back."""
    return np.zeros((labels, 2 * longest))


@njit(cache=True, nogil=True)
def _follow(window, base, low):
    """Move the window so that start ``low`` is in it; return where it begins."""
    half = window.shape[1] // 2
    if low >= base:
        return base
    for c in range(len(window)):
        for j in range(half):
            window[c, half + j] = window[c, j]
            window[c, j] = 0.0
    return base - half


@njit(cache=True, nogil=True)
def softmax_rows(
    begins, ends, reverse, transitions, lengths, value, d_begins, d_ends, d_reverse, d_transitions,
    start, stop,
):  # fmt: skip
    """Write log-partitions and marginals, of durations and changes as sums, for each row.

    Probabilities are shares of shares from the last segment back, so that nothing cancels. A row
    without a segmentation has the log-partition -inf and no marginals.
    """
    _, labels, _ = begins.shape
    longest = reverse.shape[2]
    share = np.empty(max(longest, labels))
    here = np.empty(labels)
    for row in range(start, stop):
        length = lengths[row]
        entry, exit = d_begins[row], d_ends[row]
        scores, change = reverse[row], transitions[row]
        value[row] = _forward(begins[row], ends[row], scores, change, length, entry, exit, share)
        if value[row] == -np.inf:
            for c in range(labels):
                for t in range(length):
                    entry[c, t] = exit[c, t] = 0.0
            continue
        window, base = _room(labels, longest), length - 2 * longest
        mass, _ = _last(exit, length, share)
        for c in range(labels):
            here[c] = share[c] / mass
        for e in range(length, 0, -1):
            low = max(0, e - longest)
            base = _follow(window, base, low)
            for c in range(labels):
                m = min(here[c], 1.0)
                if m > 0.0:
                    first = longest - (e - low)
                    mass, _ = _weights(entry[c, low:e], scores[c, first:], share)
                    _spread(
                        m / mass, share, window[c, low - base : e - base], d_reverse[row, c, first:]
                    )
            for c in range(labels):
                exit[c, e - 1] = min(here[c], 1.0)
                here[c] = 0.0
            for c in range(labels):
                m = min(window[c, e - 1 - base], 1.0)
                entry[c, e - 1] = m
                if e > 1 and m > 0.0:
                    mass, _ = _changes(exit, change, c, e - 1, share)
                    for a in range(labels):
                        joint = m * (share[a] / mass)
                        here[a] += joint
                        d_transitions[row, a, c] += joint


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _spread(amount, share, window, counts):
    """Add shares of an amount to the starts of a window and to the counts of their durations."""
    for j in range(window.size):
        part = amount * share[j]
        window[j] += part
        counts[j] += part


@njit(cache=True, nogil=True)
def covariance_rows(
    begins, ends, reverse, transitions, lengths, v_begins, v_ends, v_reverse, v_transitions,
    d_begins, d_ends, d_reverse, d_transitions, start, stop,
):  # fmt: skip
    """Write the derivative of the marginals along v, for each row.

    Gains are the expected sums of v on the way, see ``paths``; slopes the derivatives of masses.
    """
    _, labels, most = begins.shape
    longest = reverse.shape[2]
    share = np.empty(max(longest, labels))
    entry, exit = np.empty((labels, most)), np.empty((labels, most))
    gain_in, gain_out = np.empty((labels, most)), np.empty((labels, most))
    here, moving = np.empty(labels), np.empty(labels)
    for row in range(start, stop):
        length, scores, change = lengths[row], reverse[row], transitions[row]
        if _forward(begins[row], ends[row], scores, change, length, entry, exit, share) == -np.inf:
            continue
        for c in range(labels):
            gain_in[c, 0] = v_begins[row, c, 0]
        for e in range(1, length + 1):
            low = max(0, e - longest)
            first = longest - (e - low)
            for c in range(labels):
                gain_out[c, e - 1] = 0.0
                mass, _ = _weights(entry[c, low:e], scores[c, first:], share)
                if mass > 0.0:
                    expected = 0.0
                    for j in range(e - low):
                        expected += share[j] * (gain_in[c, low + j] + v_reverse[row, c, first + j])
                    gain_out[c, e - 1] = v_ends[row, c, e - 1] + expected / mass
            if e < length:
                for c in range(labels):
                    gain_in[c, e] = 0.0
                    mass, _ = _changes(exit, change, c, e, share)
                    if mass > 0.0:
                        expected = 0.0
                        for a in range(labels):
                            if share[a] > 0.0:
                                gain = gain_out[a, e - 1] + v_transitions[row, a, c]
                                expected += share[a] * gain
                        gain_in[c, e] = v_begins[row, c, e] + expected / mass
        window, slopes, base = _room(labels, longest), _room(labels, longest), length - 2 * longest
        mass, _ = _last(exit, length, share)
        average = 0.0
        for c in range(labels):
            here[c] = share[c] / mass
            if here[c] > 0.0:
                average += here[c] * gain_out[c, length - 1]
        for c in range(labels):
            moving[c] = here[c] * (gain_out[c, length - 1] - average) if here[c] > 0.0 else 0.0
        for e in range(length, 0, -1):
            low = max(0, e - longest)
            first = longest - (e - low)
            before = base
            base = _follow(window, before, low)
            _follow(slopes, before, low)
            for c in range(labels):
                m, r = here[c], moving[c]
                d_ends[row, c, e - 1] = r
                here[c] = moving[c] = 0.0
                if m > 0.0:
                    average = gain_out[c, e - 1] - v_ends[row, c, e - 1]
                    mass, _ = _weights(entry[c, low:e], scores[c, first:], share)
                    for j in range(e - low):
                        part = share[j] / mass
                        gain = gain_in[c, low + j] + v_reverse[row, c, first + j] - average
                        moved = part * (r + m * gain) if part > 0.0 else 0.0
                        window[c, low + j - base] += part * m
                        slopes[c, low + j - base] += moved
                        d_reverse[row, c, first + j] += moved
            for c in range(labels):
                m, r = window[c, e - 1 - base], slopes[c, e - 1 - base]
                d_begins[row, c, e - 1] = r
                if e > 1 and m > 0.0:
                    average = gain_in[c, e - 1] - v_begins[row, c, e - 1]
                    mass, _ = _changes(exit, change, c, e - 1, share)
                    for a in range(labels):
                        part = share[a] / mass
                        if part > 0.0:
                            gain = gain_out[a, e - 2] + v_transitions[row, a, c] - average
                            moved = part * (r + m * gain)
                            here[a] += part * m
                            moving[a] += moved
                            d_transitions[row, a, c] += moved


@njit(cache=True, nogil=True)
def viterbi_rows(
    begins, ends, reverse, transitions, lengths, value, label, first, start, stop
):  # fmt: skip
    """Write the best score, the labels of positions and whether a segment begins there."""
    _, labels, most = begins.shape
    longest = reverse.shape[2]
    entry, exit = np.empty((labels, most)), np.empty((labels, most))
    before = np.empty((labels, most), np.int64)
    for row in range(start, stop):
        length, scores, change = lengths[row], reverse[row], transitions[row]
        for c in range(labels):
            entry[c, 0] = begins[row, c, 0]
        for e in range(1, length + 1):
            low = max(0, e - longest)
            shift = longest - e
            for c in range(labels):
                top = -np.inf
                for s in range(low, e):
                    top = max(top, entry[c, s] + scores[c, shift + s])
                exit[c, e - 1] = ends[row, c, e - 1] + top
            if e < length:
                for c in range(labels):
                    top, choice = -np.inf, 0
                    for a in range(labels):
                        score = exit[a, e - 1] + change[a, c]
                        if score > top:
                            top, choice = score, a
                    entry[c, e], before[c, e] = begins[row, c, e] + top, choice
        c = 0
        for a in range(labels):
            if exit[a, length - 1] > exit[c, length - 1]:
                c = a
        value[row] = exit[c, length - 1]
        e = length if value[row] > -np.inf else 0
        while e > 0:
            # starts are found again on the way back: nothing of size T C to store
            low, shift = max(0, e - longest), longest - e
            top, choice = -np.inf, low
            for s in range(low, e):
                score = entry[c, s] + scores[c, shift + s]
                if score > top:
                    top, choice = score, s
            for t in range(choice, e):
                label[row, t], first[row, t] = c, False
            first[row, choice] = True
            e, c = choice, before[c, choice] if choice else 0


@njit(cache=True, nogil=True)
def sample_rows(
    begins, ends, reverse, transitions, lengths, uniform, value, label, first, start, stop
):  # fmt: skip
    """Write log-partitions and drawn segmentations (draw, row, position), from the last one back.

    ``uniform`` (draw, row, position, 2) decides a segment's start, then the label before it.
    """
    _, labels, most = begins.shape
    longest = reverse.shape[2]
    share = np.empty(max(longest, labels))
    entry, exit = np.empty((labels, most)), np.empty((labels, most))
    for row in range(start, stop):
        length, scores, change = lengths[row], reverse[row], transitions[row]
        value[row] = _forward(begins[row], ends[row], scores, change, length, entry, exit, share)
        if value[row] == -np.inf:
            continue
        for draw in range(len(uniform)):
            mass, _ = _last(exit, length, share)
            c, e = _pick(share, labels, mass * uniform[draw, row, 0, 0]), length
            while e > 0:
                low = max(0, e - longest)
                mass, _ = _weights(entry[c, low:e], scores[c, longest - (e - low) :], share)
                begin = low + _pick(share, e - low, mass * uniform[draw, row, e - 1, 1])
                for t in range(begin, e):
                    label[draw, row, t], first[draw, row, t] = c, False
                first[draw, row, begin] = True
                if begin:
                    mass, _ = _changes(exit, change, c, begin, share)
                    c = _pick(share, labels, mass * uniform[draw, row, begin, 0])
                e = begin


@njit(cache=True, nogil=True)
def _pick(share, count, left):
    """The first index up to which positive shares add up to more than ``left``."""
    pick = 0
    for j in range(count):
        if share[j] > 0.0 and left >= 0.0:
            pick = j
            left -= share[j]
    return pick
