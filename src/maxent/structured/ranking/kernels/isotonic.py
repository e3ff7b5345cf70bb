"""Sorting and isotonic regression, one row at a time: projections onto permutahedra.

Scores s and weights w in falling order are cut into blocks of neighbours, each of which shares the
sum of its weights:

    Euclidean   p_i = s_i - mean(s_B) + mean(w_B)                        i in block B
    entropic    p_i = exp(s_i) sum(w_B) / sum(exp(s_B))

The blocks are those of an isotonic regression of the dual variables (Lim and Wright 2016), found by
pooling adjacent violators. All sums are in float64, and scores are measured from the first of their
block, so that no digits are lost to their size.
"""

from __future__ import annotations

import math

import numpy as np

from maxent._support.compiling.kernels import njit

# how p follows from the scores: jumps with their order, Euclidean or Kullback-Leibler projection
HARD, EUCLIDEAN, ENTROPIC = 0, 1, 2

FORBIDDEN = -1  # block of an entry whose score is -inf

_SHORT = 32  # rows that insertion sorts fastest
_LONG = 2048  # rows from which the longer table of digits of 11 bits pays
_HUGE = 1e300  # scores are cut here, so that differences of them are no NaN
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@njit(cache=True, nogil=True)
def _scratch(size):
    """Room to sort a row in: its order, its keys, keys with their entries twice, counters."""
    order, key = np.empty(size, np.int32), np.empty(size, np.uint64)
    return order, key, np.empty((2, size), np.uint64), np.empty((4, 1 << 11), np.int32)


@njit(cache=True, nogil=True)
def _falling_order(bits, order, key, packed, counts):
    """Write the entries of a row of floats, given as unsigned integers, largest first; stable.

    By digits of 32 bits from the last to the first, so that the work grows like the row. Of 64
    bits the upper half mostly decides; what ties in it is put right by insertion.
    """
    size, width = bits.size, 8 * bits.itemsize
    sign = np.uint64(1) << np.uint64(width - 1)
    magnitude = sign - np.uint64(1)
    for i in range(size):
        b = np.uint64(bits[i])
        if b == sign:  # -0 ties with 0
            b = np.uint64(0)
        key[i] = b if b & sign else b ^ magnitude  # grows as the float falls
        order[i] = i
    if size <= _SHORT:
        _insert(key, order, size * size)
        return
    if width == 32:
        _by_digits(key, np.uint64(0), order, packed, counts)
        return
    _by_digits(key, _32, order, packed, counts)
    if not _insert(key, order, 4 * size):
        for i in range(size):
            order[i] = i
        _by_digits(key, np.uint64(0), order, packed, counts)
        _by_digits(key, _32, order, packed, counts)


@njit(cache=True, nogil=True)
def _insert(key, order, budget):
    """Sort the order by the keys; False, half done, where that takes more moves than the budget."""
    for i in range(1, order.size):
        entry = order[i]
        k, j = key[entry], i
        while j > 0 and key[order[j - 1]] > k:
            order[j] = order[j - 1]
            j -= 1
        order[j] = entry
        budget -= i - j
        if budget < 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _by_digits(key, shift, order, packed, counts):
    """Sort the order by the 32 bits of the keys from ``shift`` on; what ties stays as it is."""
    size = order.size
    here, there = packed[0], packed[1]
    for i in range(size):
        here[i] = ((key[order[i]] >> shift) << _32) | np.uint64(order[i])
    digit = 11 if size >= _LONG else 8
    mask = np.uint64((1 << digit) - 1)
    passes = (32 + digit - 1) // digit
    counts[:passes, : 1 << digit] = 0
    for i in range(size):
        rest = here[i] >> _32
        for t in range(passes):
            counts[t, rest & mask] += 1
            rest >>= np.uint64(digit)
    for t in range(passes):
        low, place = np.uint64(32 + t * digit), counts[t]
        if place[(here[0] >> low) & mask] == size:
            continue  # a digit that all share
        before = 0
        for c in range(1 << digit):
            before, place[c] = before + place[c], before
        for i in range(size):
            c = (here[i] >> low) & mask
            there[place[c]] = here[i]
            place[c] += 1
        here, there = there, here
    for i in range(size):
        order[i] = np.int32(here[i] & _LOW)


@njit(cache=True, nogil=True)
def _euclidean_blocks(s, w, n, first, excess):
    """Write where blocks start; return how many. v = s - w is averaged where it would rise.

    excess[b] is the sum of v in block b, less its first score for each entry. A block takes in
    what follows as long as that rises above its mean, then looks back.
    """
    count, i = 0, 0
    while i < n:
        start, total, size = i, -w[i], 1.0
        i += 1
        while True:
            while i < n:
                value = (s[i] - s[start]) - w[i]
                if not total < size * value:
                    break
                total += value
                size += 1.0
                i += 1
            if count == 0:
                break
            a = first[count - 1]
            before, shifted = float(start - a), total + size * (s[start] - s[a])
            if not excess[count - 1] * size < before * shifted:
                break
            total = excess[count - 1] + shifted
            start, size = a, size + before
            count -= 1
        first[count], excess[count] = start, total
        count += 1
    first[count] = n
    return count


@njit(cache=True, nogil=True)
def _entropic_blocks(s, base, mass, n, first, top, bottom):
    """The same for v = log(sum exp(s_B) / sum mass_B exp(base_B)).

    top and bottom are these sums, measured from the first of the block. A mass of 0 joins the
    block before it.
    """
    count, i = 0, 0
    while i < n:
        start, above, below = i, 1.0, mass[i]
        i += 1
        while True:
            while i < n:
                gain = math.exp((s[i] - s[start]) - (base[i] - base[start]))
                if not above * mass[i] < below * gain:
                    break
                shift = 1.0 if base[i] == base[start] else math.exp(base[i] - base[start])
                above += gain if shift == 1.0 else math.exp(s[i] - s[start])
                below += mass[i] * shift
                i += 1
            if count == 0:
                break
            a = first[count - 1]
            drop = math.exp(s[start] - s[a])
            shift = 1.0 if base[start] == base[a] else math.exp(base[start] - base[a])
            gain = drop
            if shift != 1.0:
                gain = math.exp((s[start] - s[a]) - (base[start] - base[a]))
            if not top[count - 1] * below < bottom[count - 1] * above * gain:
                break
            above = top[count - 1] + above * drop
            below = bottom[count - 1] + below * shift
            start = a
            count -= 1
        first[count], top[count], bottom[count] = start, above, below
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
    entry, key, packed, counts = _scratch(bits.shape[1])
    for r in range(start, stop):
        _falling_order(bits[r], entry, key, packed, counts)
        for i in range(w.size):
            out[r, entry[i]] = w[i]


@njit(cache=True, nogil=True)
def project_rows(theta, bits, scale, w, kind, p, block, start, stop):
    """Project scale * theta onto the permutahedron of w; block says which entries move together.

    A score of -inf takes a weight 0 from the end of w; NaN, +inf and more -inf than there are
    zeros make their row NaN.
    """
    size = w.size
    entry, key, packed, counts = _scratch(size)
    s, excess = np.empty(size), np.empty(size)
    top, bottom = np.empty(size), np.empty(size)
    first = np.empty(size + 1, np.int64)
    base = np.zeros(size)
    needed = size  # entries before the zeros at the end of w
    while needed > 0 and w[needed - 1] == 0.0:
        needed -= 1
    for r in range(start, stop):
        _falling_order(bits[r], entry, key, packed, counts)
        unit = scale[r % scale.size]
        n, sound = size, True
        for i in range(size):
            x = np.float64(theta[r, entry[i]])
            sound = sound and x < np.inf
            if x == -np.inf:
                n = min(n, i)
            s[i] = min(max(unit * x, -_HUGE), _HUGE)
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
            blocks = _entropic_blocks(s, base, w, n, first, top, bottom)
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
            factor, shift = 1.0, (weight - total) / (z - a)
            if kind == ENTROPIC:
                factor, shift = weight / total, 0.0
            for i in range(a, z):  # between the weights of the block, whatever rounding says
                inside = min(max(factor * excess[i] + shift, w[z - 1]), w[a])
                p[r, entry[i]], block[r, entry[i]] = inside, b


@njit(cache=True, nogil=True)
def sort_rows(theta, bits, step, kind, p, order_out, block, start, stop):
    """Soft falling order: weights 0, -step, -2 step ... projected onto the permutahedron of theta.

    The entropic kind does so for the exponentials, in logarithms. Rows with NaN or infinity become
    NaN. order_out are the entries in falling order, block is by place in that order.
    """
    size = theta.shape[1]
    entry, key, packed, counts = _scratch(size)
    s, w, excess, mass = np.empty(size), np.empty(size), np.empty(size), np.ones(size)
    top, bottom = np.empty(size), np.empty(size)
    first = np.empty(size + 1, np.int64)
    for r in range(start, stop):
        _falling_order(bits[r], entry, key, packed, counts)
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
            blocks = _entropic_blocks(s, w, mass, size, first, top, bottom)
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
def project_jvp_rows(block, p, v, scale, kind, out, start, stop):
    """scale times the Jacobian of the projection times v: v less its mean in each block.

    The entropic kind takes the mean under p and multiplies by p. The Jacobian is symmetric, so
    this is its product from either side.
    """
    size = block.shape[1]
    total, mass = np.empty(size), np.empty(size)
    for r in range(start, stop):
        last = FORBIDDEN
        for i in range(size):
            last = max(last, block[r, i])
        total[: last + 1], mass[: last + 1] = 0.0, 0.0
        for i in range(size):
            b = block[r, i]
            if b != FORBIDDEN:
                share = np.float64(p[r, i]) if kind == ENTROPIC else 1.0
                total[b] += share * v[r, i]
                mass[b] += share
        for b in range(last + 1):
            total[b] = total[b] / mass[b] if mass[b] > 0.0 else 0.0
        for i in range(size):
            b = block[r, i]
            share = np.float64(p[r, i]) if kind == ENTROPIC else 1.0
            out[r, i] = 0.0 if b == FORBIDDEN else scale * share * (v[r, i] - total[b])


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
