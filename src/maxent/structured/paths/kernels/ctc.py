"""Alignments of connectionist temporal classification (CTC), one pair of scores and target per row.

The states of a target y_1, ..., y_S are blank, y_1, blank, ..., y_S, blank. A position stays in its
state, goes on to the next, or passes over a blank between two labels that differ.
"""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.core.kernels.exponential import exponential, exponential_parts

_LN2 = 0.6931471805599453
_EXPONENT = 4503599627370496.0 + 1023.0  # 2^52 and more: n is added in the last bits
_LEAST_POWER = -500.0
_LEAST_SHARE = 1e-150  # about 2^-500: products of the two are no subnormal numbers, which are slow


@njit(cache=True, nogil=True, error_model="numpy")
def _label(target, blank, state):
    return target[state // 2] if state % 2 else blank


@njit(cache=True, nogil=True, error_model="numpy")
def _skips(target, state):
    """Whether a path may come to a state from two before it."""
    return state % 2 == 1 and state > 1 and target[state // 2] != target[state // 2 - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _before(row, target, state):
    """The messages from the states that may come before one, -inf where there is none."""
    stay = row[state]
    step = row[state - 1] if state > 0 else -np.inf
    skip = row[state - 2] if _skips(target, state) else -np.inf
    return stay, step, skip


@njit(cache=True, nogil=True, error_model="numpy")
def _power(n):
    """2^n for a whole n up to 0, and 0 where it is of no matter beside 1."""
    at = (n if n > _LEAST_POWER else -1023.0) + _EXPONENT
    return np.int64(np.float64(at).view(np.int64) << 52).view(np.float64)


@njit(cache=True, nogil=True, error_model="numpy")
def _normalised(mass, power):
    """A mass 2^power as one from 1 to 2, times another power; that of 0 is -inf."""
    if mass == 0.0:
        return 0.0, -np.inf
    bits = np.float64(mass).view(np.int64)
    n = (bits >> 52) - 1023
    return np.int64(bits - (n << 52)).view(np.float64), power + n


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_of_blank(blank, power, label, label_power):
    """The sum of what comes to a blank, its power of two, and the shares of stay and step."""
    top = max(power, label_power)
    stay, step = blank * _power(power - top), label * _power(label_power - top)
    total = stay + step
    whole = total if total > 0.0 else 1.0
    return total, top, stay / whole, step / whole


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_of_label(label, label_power, blank, power, far, far_power):
    """The sum of what comes to a label, its power of two, the shares of stay, step and skip."""
    top = max(label_power, power, far_power)
    stay, step = label * _power(label_power - top), blank * _power(power - top)
    skip = far * _power(far_power - top)
    total = stay + step + skip
    whole = total if total > 0.0 else 1.0
    return total, top, stay / whole, step / whole, skip / whole


@njit(cache=True, nogil=True, error_model="numpy")
def _band(t, length, size):
    """The pairs of states from which a path that can be at t comes to the end."""
    return max(0, size - length + t), min(size, t) + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(scores, target, blank, lanes, shares):
    """Write the shares of the ways into each state; log-partition and shares of the two ends.

    ``lanes`` holds the mass and the power of each blank and of the label behind it; before the
    first there is room for one pair.
    """
    length, size = len(scores), len(target)
    lanes[:, 0::2], lanes[:, 1::2] = 0.0, -np.inf
    lanes[1, 0], lanes[1, 1] = 1.0, 0.0  # a blank before the first position
    for t in range(length):
        own, own_power = exponential_parts(scores[t, blank])
        first, last = _band(t, length, size)
        for j in range(last - 1, first - 1, -1):  # backwards: what comes before is still of t - 1
            mass, power = lanes[j + 1, 0], lanes[j + 1, 1]
            label, label_power = lanes[j + 1, 2], lanes[j + 1, 3]
            before, before_power = lanes[j, 2], lanes[j, 3]
            total, top, stay, step = _sum_of_blank(mass, power, before, before_power)
            shares[t, j, 0], shares[t, j, 1] = stay, step
            lanes[j + 1, 0], lanes[j + 1, 1] = _normalised(total * own, top + own_power)
            if j < size:
                if j == 0 or target[j] == target[j - 1]:
                    before, before_power = 0.0, -np.inf
                total, top, stay, step, skip = _sum_of_label(
                    label, label_power, mass, power, before, before_power
                )
                shares[t, j, 2], shares[t, j, 3], shares[t, j, 4] = stay, step, skip
                score, score_power = exponential_parts(scores[t, target[j]])
                lanes[j + 1, 2], lanes[j + 1, 3] = _normalised(total * score, top + score_power)
    blank_mass, blank_power = lanes[size + 1, 0], lanes[size + 1, 1]
    total, top, stay, step = _sum_of_blank(blank_mass, blank_power, lanes[size, 2], lanes[size, 3])
    return (top * _LN2 + np.log(total) if total > 0.0 else -np.inf), stay, step


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(target, blank, shares, here, mean):
    """Write the probabilities of labels; ``here`` holds those of the states at the end."""
    length, size = len(mean), len(target)
    for t in range(length - 1, -1, -1):
        first, last = _band(t, length, size)
        blanks = 0.0
        for j in range(first, last):
            b, x = min(here[j + 1, 0], 1.0), min(here[j + 1, 1], 1.0)
            b, x = b if b > _LEAST_SHARE else 0.0, x if x > _LEAST_SHARE else 0.0
            blanks += b
            here[j + 1, 0] = b * shares[t, j, 0]
            here[j, 1] += b * shares[t, j, 1]
            if j < size:
                mean[t, target[j]] += x
                here[j + 1, 0] += x * shares[t, j, 3]
                here[j + 1, 1] = x * shares[t, j, 2]
                here[j, 1] += x * shares[t, j, 4]
        for j in range(first, min(last, size)):
            mean[t, target[j]] = min(mean[t, target[j]], 1.0)
        mean[t, blank] = min(blanks, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(scores, target, blank, lanes, shares, mean):
    """The log-partition over alignments; their probabilities of labels are written into zeros."""
    size = len(target)
    value, blank_share, label_share = _forward(scores, target, blank, lanes, shares)
    if value > -np.inf:
        here = lanes[:, :2]
        here[:] = 0.0
        here[size + 1, 0], here[size, 1] = blank_share, label_share
        _backward(target, blank, shares, here, mean)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def ctc_rows(scores, targets, lengths, sizes, blank, value, mean, start, stop):
    """Write log-partitions over alignments and probabilities of labels; -inf where there is none.

    Each state has a mass from 1 to 2 and a power of two of its own, so that no range of scores is
    too wide: what comes into a state has the same future, and of two masses there the smaller is
    of no matter where it is below 2^-500 of the other. Probabilities are shares of shares from the
    last position back, so that nothing cancels.
    """
    _, most, _ = scores.shape
    pairs = targets.shape[1] + 1
    lanes, shares = np.empty((pairs + 1, 4)), np.empty((most, pairs, 5))
    for row in range(start, stop):
        length, target = lengths[row], targets[row, : sizes[row]]
        value[row] = _sums(scores[row, :length], target, blank, lanes, shares, mean[row, :length])


@njit(cache=True, nogil=True, error_model="numpy")
def ctc_loss_rows(scores, targets, lengths, sizes, blank, value, slope, start, stop):
    """Write log-partitions over all sequences less those of ``ctc_rows``, and their gradient.

    The value is inf where there is no alignment, NaN where scores are NaN or +inf.
    """
    _, most, labels = scores.shape
    pairs = targets.shape[1] + 1
    lanes, shares = np.empty((pairs + 1, 4)), np.empty((most, pairs, 5))
    exact, mean = np.empty((most, labels)), np.empty((most, labels))
    for row in range(start, stop):
        length, target = lengths[row], targets[row, : sizes[row]]
        for t in range(length):
            for i in range(labels):
                exact[t, i], mean[t, i] = scores[row, t, i], 0.0
        aligned = _sums(exact[:length], target, blank, lanes, shares, mean[:length])
        total = 0.0
        for t in range(length):
            total += _softmax(exact[t])
            for i in range(labels):
                slope[row, t, i] = exact[t, i] - mean[t, i]
        slope[row, length:] = 0.0
        value[row] = np.inf if aligned == -np.inf and total < np.inf else total - aligned


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _softmax(x):
    """log sum exp of scores, which are replaced by their softmax, or by 0 where all are -inf."""
    top = -np.inf
    for i in range(len(x)):
        top = max(top, x[i])
    if top == -np.inf:
        return _nothing(x)
    total = 0.0
    for i in range(len(x)):
        x[i] = exponential(x[i] - top)
        total += x[i]
    for i in range(len(x)):
        x[i] /= total
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _nothing(x):
    """-inf for scores of -inf, NaN where one is NaN; they are replaced by 0."""
    total = -np.inf
    for i in range(len(x)):
        total += x[i]
        x[i] = 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy")
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
