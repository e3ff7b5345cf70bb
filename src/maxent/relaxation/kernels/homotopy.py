"""The relaxation path mu(nu), event by event: what all ways of finding the next event share.

Rows j have the prior u_j > 0, the observation q_j and the multiplicity m_j; state is -1, 0 or 1
for I_-, I_0 and I_+. ``sums`` holds U, Q and M of (9) as pairs of doubles (high, low); ``counts``
how many rows are in I_0, how many of them have q_j > 0 (with none, U or Q is exactly 0), and the
sum of their numbers, which is the last row's when one is left. Rows with u_j = 0 and q_j > 0 stay
in I_0 to the end of the path, so that they are just an amount of Q, ``fixed``.
"""

import numpy as np

from maxent._support.compiling.copying import copy, copy_block
from maxent._support.compiling.kernels import njit

TIE = 1e-14  # events closer than this share of nu are one
PARALLEL = 2.0**-50  # share of Q u_j within which it equals U q_j: the row neither rises nor falls
BOUNDARY = 1.0 - 2.0**-40  # a last row further from I_0's middle is at its boundary
ROUNDING = 2.0**-50  # share of the terms of mu that it may be off by
_SPLIT = 134217729.0  # 2^27 + 1


@njit(cache=True, helper=True, nogil=True)
def two_sum(a, b):
    """a + b, and its rounding error."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


@njit(cache=True, helper=True, nogil=True)
def two_product(a, b):
    """a b, and its rounding error."""
    p = a * b
    c = _SPLIT * a
    high_a = c - (c - a)
    low_a = a - high_a
    c = _SPLIT * b
    high_b = c - (c - b)
    low_b = b - high_b
    return p, ((high_a * high_b - p) + high_a * low_b + low_a * high_b) + low_a * low_b


@njit(cache=True, helper=True, nogil=True)
def add_product(sums, k, a, b):
    """Add a b to the pair k."""
    product, product_error = two_product(a, b)
    total, error = two_sum(sums[2 * k], product)
    low = sums[2 * k + 1] + (error + product_error)
    high = total + low
    sums[2 * k] = high
    sums[2 * k + 1] = low - (high - total)


@njit(cache=True, helper=True, nogil=True)
def scaled_difference(high, low, a, high_2, low_2, b):
    """(high, low) a - (high_2, low_2) b to about twice the digits of a double."""
    p, e = two_product(high, a)
    r, f = two_product(high_2, b)
    total, error = two_sum(p, -r)
    return total + (error + ((e + low * a) - (f + low_2 * b)))


@njit(cache=True, nogil=True)
def crossing(u, q, sign, sums):
    """The nu at which mu(nu) meets the line u mu - q nu = sign, (17)."""
    above = scaled_difference(sums[4], sums[5], u, sums[0], sums[1], -sign)
    below = scaled_difference(sums[2], sums[3], u, sums[0], sums[1], q)
    return above / below


@njit(cache=True, nogil=True)
def level(nu, sums):
    """mu at nu on the current segment, (15)."""
    return scaled_difference(sums[2], sums[3], nu, sums[4], sums[5], 1.0) / sums[0]


@njit(cache=True, nogil=True)
def start(u, q, m, fixed):
    """Sums, counts and states at nu = 0, (16)."""
    sums = np.zeros(6)
    counts = np.zeros(3, dtype=np.int64)
    for j in range(u.size):
        add_product(sums, 0, m[j], u[j])
        add_product(sums, 1, m[j], q[j])
        counts[0] += 1
        counts[1] += q[j] > 0.0
        counts[2] += j
    add_product(sums, 1, fixed, 1.0)
    counts[1] += fixed > 0.0
    return sums, counts, np.zeros(u.size, dtype=np.int8)


@njit(cache=True, nogil=True)
def move(j, up, u, q, m, sums, counts, state):
    """Row j goes to the next state, up or down (§6).

    A single row left in I_0 is parallel to mu(nu): where it is at its boundary, I_0 is empty.
    """
    _move(j, up, u, q, m, sums, counts, state)
    if counts[0] == 1:
        last = counts[2]
        alone = counts[1] == (q[last] > 0.0)
        if alone and abs(sums[4]) >= m[last] * BOUNDARY:
            _move(last, sums[4] < 0.0, u, q, m, sums, counts, state)


@njit(cache=True, nogil=True)
def _move(j, up, u, q, m, sums, counts, state):
    change = 1.0 if state[j] != 0 else -1.0
    add_product(sums, 2, m[j], 1.0 if up else -1.0)
    add_product(sums, 0, change * m[j], u[j])
    add_product(sums, 1, change * m[j], q[j])
    counts[0] += np.int64(change)
    counts[2] += np.int64(change) * j
    if q[j] > 0.0:
        counts[1] += np.int64(change)
    if counts[0] == 0:
        sums[0] = 0.0
        sums[1] = 0.0
    if counts[1] == 0:
        sums[2] = 0.0
        sums[3] = 0.0
    state[j] += 1 if up else -1


@njit(cache=True, helper=True, nogil=True)
def first_segment(n, sums):
    """The segment from nu = 0: a row (nu, sums), with room for as many as most paths have."""
    segments = np.empty((n + n // 8 + 16, 7))
    segments[0, 0] = 0.0
    copy(sums, segments[0, 1:])
    return segments, 1


@njit(cache=True, helper=True, nogil=True)
def add_segment(segments, k, nu, sums):
    """Begin a segment at nu, or change the last one where it begins at nu."""
    if nu <= segments[k - 1, 0] * (1.0 + TIE):
        copy(sums, segments[k - 1, 1:])
        return segments, k
    if k == segments.shape[0]:
        larger = np.empty((2 * k, segments.shape[1]))
        copy_block(segments, larger)
        segments = larger
    segments[k, 0] = nu
    copy(sums, segments[k, 1:])
    return segments, k + 1


@njit(cache=True, helper=True, nogil=True)
def lowest_of_minus(nu, u, q, state):
    """The row of I_- whose line is the lowest at nu; -1 without any.

    Where I_0 is empty but for rows without prior mass, mu jumps up to that line.
    """
    best, row = np.inf, -1
    for j in range(u.size):
        if state[j] == -1 and (nu * q[j] - 1.0) / u[j] < best:
            best, row = (nu * q[j] - 1.0) / u[j], j
    return row


@njit(cache=True, helper=True, nogil=True)
def next_of(u, q, state, sums):
    """(nu, rises) of a row's next event on the current line, by plain doubles; inf without one."""
    rate = sums[2] * u - sums[0] * q
    if abs(rate) <= PARALLEL * (sums[2] * u):
        return np.inf, False
    if rate > 0.0:
        if state == 1:
            return np.inf, True
        return (sums[4] * u + (sums[0] if state == 0 else -sums[0])) / rate, True
    if state == -1:
        return np.inf, False
    return (sums[4] * u - (sums[0] if state == 0 else -sums[0])) / rate, False


@njit(cache=True, nogil=True)
def local(u, q, m, fixed, limit):
    """Every row is asked for its next event: O(n) an event (§6)."""
    n = u.size
    sums, counts, state = start(u, q, m, fixed)
    segments, k = first_segment(n, sums)
    nu = 0.0
    while True:
        row, up, best = -1, True, limit
        if counts[0] == 0:
            row = lowest_of_minus(nu, u, q, state) if fixed > 0.0 else -1
        else:
            for j in range(n):
                when, rises = next_of(u[j], q[j], state[j], sums)
                if when < best:
                    best, row, up = when, j, rises
            if row >= 0:
                sign = (state[row] if state[row] != 0 else (1 if up else -1)) * 1.0
                nu = max(nu, crossing(u[row], q[row], sign, sums))
        if row < 0:
            break
        move(row, up, u, q, m, sums, counts, state)
        segments, k = add_segment(segments, k, nu, sums)
    return segments[:k].copy()


@njit(cache=True, nogil=True)
def uniform(u, q, m):
    """The rows of a constant prior leave I_0 from the two ends of their order by q (§7).

    Rows come sorted by q, the smallest first; O(n) after the sort.
    """
    n = u.size
    sums, counts, state = start(u, q, m, 0.0)
    segments, k = first_segment(n, sums)
    nu, low, high = 0.0, 0, n - 1
    while low <= high and counts[0] > 0:
        rising, up = next_of(u[low], q[low], state[low], sums)
        falling, down = next_of(u[high], q[high], state[high], sums)
        rising = rising if up else np.inf
        falling = falling if not down else np.inf
        if min(rising, falling) == np.inf:
            break
        # the text prints + where U and Q decrease as a row enters I_+
        if falling <= rising:
            j, rises = high, False
            high -= 1
        else:
            j, rises = low, True
            low += 1
        nu = max(nu, crossing(u[j], q[j], 1.0 if rises else -1.0, sums))
        move(j, rises, u, q, m, sums, counts, state)
        segments, k = add_segment(segments, k, nu, sums)
    return segments[:k].copy()


@njit(cache=True, nogil=True)
def knot_levels(segments, out):
    """mu at the start of every segment.

    Both segments that meet there give it, the steeper one with fewer digits. As mu never falls,
    the digits of a flat segment also bound what the steep ones before and after it say.
    """
    count = segments.shape[0]
    error = np.empty(count)
    out[0], error[0] = 0.0, 0.0
    for k in range(1, count):
        nu, before, after = segments[k, 0], segments[k - 1, 1:], segments[k, 1:]
        if before[0] == 0.0 and after[0] == 0.0:
            # beyond an empty I_0 in proportion to nu
            share = nu / segments[k - 1, 0] if k > 1 else nu
            out[k], error[k] = out[k - 1] * share, error[k - 1] * share
            continue
        sums = before if before[0] >= after[0] else after
        out[k] = level(nu, sums)
        error[k] = ROUNDING * (abs(sums[2] * nu) + abs(sums[4])) / sums[0]
    least = 0.0
    for k in range(1, count):
        least = max(least, out[k] - error[k])
        out[k] = max(out[k], least)
    most = np.inf
    for k in range(count - 1, 0, -1):
        most = min(most, out[k] + error[k])
        out[k] = min(out[k], most)


@njit(cache=True, nogil=True)
def levels_at(nu, index, segments, knots, out):
    """mu at each nu, on its segment ``index``; beyond an empty I_0 in proportion to nu.

    A steep segment has few digits of mu: at its ends mu is that of the knots, where they are given.
    """
    for i in range(nu.size):
        k = index[i]
        if segments[k, 1] > 0.0:
            out[i] = level(nu[i], segments[k, 1:])
            if k < knots.size:
                out[i] = max(out[i], knots[k])
            if k + 1 < knots.size:
                out[i] = min(out[i], knots[k + 1])
        else:
            before = level(segments[k, 0], segments[k - 1, 1:]) if k > 0 else 1.0
            out[i] = before * (nu[i] / segments[k, 0]) if k > 0 else nu[i]
