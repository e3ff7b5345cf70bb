"""Sorting and isotonic regression, one row at a time: projections onto permutahedra.

Scores s and weights w in falling order are cut into blocks of neighbours. Within a block the
projection p moves with its scores, between blocks the order is strict:

    Euclidean   p_i = s_i - mean(s_B) + mean(w_B)                        i in block B
    entropic    p_i = exp(s_i) sum(w_B) / sum(exp(s_B))

The blocks are those of the isotonic regression min_v sum_i phi(s_i, w_i; v_i), v falling (Lim and
Wright 2016, Prop. 1), found by pooling adjacent violators. All sums are in float64, and scores are
measured from the first of their block, so that no digits are lost to their size.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# how p follows from the scores: jumps with their order, Euclidean or Kullback-Leibler projection
HARD, EUCLIDEAN, ENTROPIC = 0, 1, 2

FORBIDDEN = -1  # block of an entry whose score is -inf

_SHORT = 32  # rows that insertion sorts fastest
_LONG = 2048  # rows from which the longer table of digits of 11 bits pays
_DIGITS = 1 << 11
_HUGE = 1e300  # scores are cut here, so that differences of them are no NaN


@njit(cache=True, nogil=True)
def _scratch(size):
    """Room for the order of a row, twice, and for its keys, twice; counters of digits."""
    order, key = np.empty((2, size), np.int32), np.empty((2, size), np.uint64)
    return order, key, np.empty((8, _DIGITS), np.int32)


@njit(cache=True, nogil=True)
def _falling_order(bits, order, key, counts):
    """Entries of a row of floats, given as unsigned integers, from the largest down; stable.

    By digits of their bits from the last to the first: the work grows like the row, not n log n.
    """
    size, width = bits.size, 8 * bits.itemsize
    sign = np.uint64(1) << np.uint64(width - 1)
    magnitude = sign - np.uint64(1)
    here, there = key[0], key[1]
    entry, other = order[0], order[1]
    for i in range(size):
        b = np.uint64(bits[i])
        if b == sign:  # -0 ties with 0
            b = np.uint64(0)
        here[i] = b if b & sign else b ^ magnitude  # grows as the float falls
        entry[i] = i
    if size <= _SHORT:
        for i in range(1, size):
            k, j = here[i], i
            while j > 0 and here[j - 1] > k:
                here[j], entry[j] = here[j - 1], entry[j - 1]
                j -= 1
            here[j], entry[j] = k, i
        return entry
    digit = 11 if size >= _LONG else 8
    mask = np.uint64((1 << digit) - 1)
    passes = (width + digit - 1) // digit
    for t in range(passes):
        counts[t, : 1 << digit] = 0
    for i in range(size):
        for t in range(passes):
            counts[t, (here[i] >> np.uint64(t * digit)) & mask] += 1
    for t in range(passes):
        shift, place = np.uint64(t * digit), counts[t]
        if place[(here[0] >> shift) & mask] == size:
            continue  # a digit that all share
        before = 0
        for c in range(1 << digit):
            before, place[c] = before + place[c], before
        for i in range(size):
            c = (here[i] >> shift) & mask
            there[place[c]], other[place[c]] = here[i], entry[i]
            place[c] += 1
        here, there = there, here
        entry, other = other, entry
    return entry


@njit(cache=True, nogil=True)
def _euclidean_blocks(s, w, n, first, excess):
    """Write where blocks start; return how many. v = s - w is averaged where it would rise.

    excess[b] is what the mean of v in block b exceeds the block's first score by.
    """
    count = 0
    for i in range(n):
        start, total, mean = i, -w[i], -w[i]
        while count > 0:
            a = first[count - 1]
            if not (s[a] - s[start]) + (excess[count - 1] - mean) < 0.0:
                break
            total += excess[count - 1] * (start - a) + (i + 1 - start) * (s[start] - s[a])
            start = a
            mean = total / (i + 1 - a)
            count -= 1
        first[count], excess[count] = start, mean
        count += 1
    first[count] = n
    return count


@njit(cache=True, nogil=True)
def _entropic_blocks(s, log_w, n, first, excess, top, bottom):
    """The same for v = log(sum exp(s_B) / sum w_B); top and bottom are these sums, from the first.

    A weight of 0 (logarithm -inf) joins the block before it.
    """
    count = 0
    for i in range(n):
        start, above, below, ratio = i, 1.0, 1.0, 0.0
        while count > 0:
            a = first[count - 1]
            rise = (s[a] - s[start]) - (log_w[a] - log_w[start]) + (excess[count - 1] - ratio)
            if not rise < 0.0:
                break
            above = top[count - 1] + above * math.exp(s[start] - s[a])
            below = bottom[count - 1] + below * math.exp(log_w[start] - log_w[a])
            start, ratio = a, math.log(above / below)
            count -= 1
        first[count], excess[count], top[count], bottom[count] = start, ratio, above, below
        count += 1
    first[count] = n
    return count


@njit(cache=True, nogil=True)
def _levels(s, n, w):
    """Scores replaced by levels so far apart that blocks are ties: the limit of large scores."""
    gap, last = 1.0 + 2.0 * (w[0] - w[n - 1]), s[0]
    s[0] = 0.0
    for i in range(1, n):
        level = s[i - 1] if s[i] == last else s[i - 1] - gap
        last, s[i] = s[i], level


@njit(cache=True, nogil=True)
def argmax_rows(bits, w, out, start, stop):
    """Write w in the order of the scores."""
    order, key, counts = _scratch(bits.shape[1])
    for r in range(start, stop):
        entry = _falling_order(bits[r], order, key, counts)
        for i in range(w.size):
            out[r, entry[i]] = w[i]


@njit(cache=True, nogil=True)
def project_rows(theta, bits, scale, w, kind, p, block, start, stop):
    """Project scale * theta onto the permutahedron of w; block says which entries move together.

    A score of -inf takes a weight 0 from the end of w; NaN, +inf and more -inf than there are
    zeros make their row NaN.
    """
    size = w.size
    order, key, counts = _scratch(size)
    s, excess = np.empty(size), np.empty(size)
    top, bottom = np.empty(size), np.empty(size)
    first = np.empty(size + 1, np.int64)
    log_w = np.empty(size)
    if kind == ENTROPIC:
        for i in range(size):
            log_w[i] = math.log(w[i]) if w[i] > 0.0 else -np.inf
    needed = size  # entries before the zeros at the end of w
    while needed > 0 and w[needed - 1] == 0.0:
        needed -= 1
    for r in range(start, stop):
        entry = _falling_order(bits[r], order, key, counts)
        factor = scale[r % scale.size]
        n, sound = size, True
        for i in range(size):
            x = np.float64(theta[r, entry[i]])
            sound = sound and x < np.inf
            if x == -np.inf:
                n = i
                break
            s[i] = min(max(factor * x, -_HUGE), _HUGE)
        if not sound or n < needed:
            for i in range(size):
                p[r, i], block[r, i] = np.nan, FORBIDDEN
            continue
        for i in range(n, size):
            p[r, entry[i]], block[r, entry[i]] = 0.0, FORBIDDEN
        if n == 0:
            continue
        if kind == HARD:
            _levels(s, n, w)
        if kind == ENTROPIC:
            blocks = _entropic_blocks(s, log_w, n, first, excess, top, bottom)
        else:
            blocks = _euclidean_blocks(s, w, n, first, excess)
        for b in range(blocks):
            a, z = first[b], first[b + 1]
            if z == a + 1:
                p[r, entry[a]], block[r, entry[a]] = w[a], b
                continue
            weight, total = 0.0, 0.0
            for i in range(a, z):
                weight += w[i]
                excess[i] = math.exp(s[i] - s[a]) if kind == ENTROPIC else s[i] - s[a]
                total += excess[i]
            for i in range(a, z):
                if kind == ENTROPIC:
                    p[r, entry[i]] = excess[i] / total * weight
                else:
                    p[r, entry[i]] = excess[i] + (weight - total) / (z - a)
                block[r, entry[i]] = b


@njit(cache=True, nogil=True)
def sort_rows(theta, bits, step, kind, p, order_out, block, start, stop):
    """Soft falling order: weights 0, -step, -2 step ... projected onto the permutahedron of theta.

    The entropic kind does so for the exponentials, in logarithms. Rows with NaN or infinity become
    NaN. order_out are the entries in falling order, block is by place in that order.
    """
    size = theta.shape[1]
    order, key, counts = _scratch(size)
    s, w, excess = np.empty(size), np.empty(size), np.empty(size)
    top, bottom = np.empty(size), np.empty(size)
    first = np.empty(size + 1, np.int64)
    for r in range(start, stop):
        entry = _falling_order(bits[r], order, key, counts)
        fall = step[r % step.size]
        sound = True
        for i in range(size):
            order_out[r, i] = entry[i]
            w[i] = theta[r, entry[i]]
            sound = sound and math.isfinite(w[i])
            s[i] = max(-fall * i, -_HUGE)
        if not sound:
            for i in range(size):
                p[r, i], block[r, i] = np.nan, 0
            continue
        if kind == ENTROPIC:
            blocks = _entropic_blocks(s, w, size, first, excess, top, bottom)
        else:
            blocks = _euclidean_blocks(s, w, size, first, excess)
        for b in range(blocks):
            a, z = first[b], first[b + 1]
            if kind == ENTROPIC:
                # log sum exp(w_B) - log sum exp(s_B), both measured from the first of the block
                level = w[a] + math.log(bottom[b] / top[b])
            else:
                total = 0.0
                for i in range(a, z):
                    total += (w[i] - w[a]) - (s[i] - s[a])
                level = w[a] + total / (z - a)
            for i in range(a, z):
                p[r, i], block[r, i] = s[i] - s[a] + level, b


@njit(cache=True, nogil=True)
def project_jvp_rows(block, p, v, kind, out, start, stop):
    """Jacobian of the projection times v: v less its mean in each block, the entropic one under p.

    The Jacobian is symmetric, so this is its vector product from either side.
    """
    size = block.shape[1]
    total, mass, members = np.empty(size), np.empty(size), np.empty(size, np.int64)
    for r in range(start, stop):
        total[:], mass[:], members[:] = 0.0, 0.0, 0
        for i in range(size):
            b = block[r, i]
            if b != FORBIDDEN:
                share = np.float64(p[r, i]) if kind == ENTROPIC else 1.0
                total[b] += share * v[r, i]
                mass[b] += share
                members[b] += 1
        for i in range(size):
            b = block[r, i]
            if b == FORBIDDEN or members[b] == 1 or mass[b] == 0.0:
                out[r, i] = 0.0
            else:
                share = np.float64(p[r, i]) if kind == ENTROPIC else 1.0
                out[r, i] = share * (v[r, i] - total[b] / mass[b])


@njit(cache=True, nogil=True)
def sort_vjp_rows(theta, order, block, g, kind, out, start, stop):
    """Jacobian of the soft order, transposed, times g: block means of g at the sorted entries.

    The entropic kind shares the sum of g by the softmax of a block's scores.
    """
    size = order.shape[1]
    for r in range(start, stop):
        a = 0
        while a < size:
            z, total, mass = a, 0.0, 0.0
            largest = np.float64(theta[r, order[r, a]])
            while z < size and block[r, z] == block[r, a]:
                total += g[r, z]
                mass += math.exp(theta[r, order[r, z]] - largest) if kind == ENTROPIC else 1.0
                z += 1
            for i in range(a, z):
                entry = order[r, i]
                share = math.exp(theta[r, entry] - largest) if kind == ENTROPIC else 1.0
                out[r, entry] = total * share / mass
            a = z
