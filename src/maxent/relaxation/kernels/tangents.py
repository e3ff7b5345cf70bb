"""The next event of the relaxation path as a tangent to convex hulls.

On a line mu = s nu + b, row j is the point (rho_j, a_j) = (q_j/u_j, 1/u_j), and its next event is a
slope from (s, b) or (s, -b) to (rho_j, +-a_j). Rows are sorted by rho and cut into blocks. A block
whose rho are all below s has only rising rows (those of I_0 at height a_j, of I_- at -a_j), one
above only falling rows: in either case one lower hull holds its next event for every line.

Not every block is asked at every event. While the slope of the path stays in a window
[s_low, s_high], the path stays in the wedge from the current point with these slopes, and a block's
first contact with the wedge is a time before which none of its rows has an event: its deadline.
Blocks wait in a tournament by deadline; only those whose deadline comes before the best event found
are asked. When the slope leaves the window all deadlines are set anew; the width of the window
follows from which of the two costs more.
"""

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.relaxation.kernels.homotopy import (
    add_segment,
    crossing,
    first_segment,
    level,
    lowest_of_minus,
    move,
    next_of,
    start,
)
from maxent.relaxation.kernels.tournament import first_place, new_tournament, set_time

EARLY = 1e-10  # share of nu by which deadlines are set before their computed times
NARROWEST = 2.0**-46  # window, as a share of s
WIDEST = 1.0
BELOW, ACROSS, ABOVE = -1, 0, 1


@njit(cache=True, nogil=True)
def _side(block, size, rho, s_low, s_high):
    first, last = block * size, min((block + 1) * size, rho.size) - 1
    if rho[last] < s_low:
        return BELOW
    if rho[first] > s_high:
        return ABOVE
    return ACROSS


@njit(cache=True, nogil=True)
def _build_hull(block, size, side, rho, a, state, hull, height):
    """Lower hull of the rows that can move on this side; heights are kept; how many rows."""
    first, last = block * size, min((block + 1) * size, rho.size)
    count = 0
    for i in range(last - first):
        j = first + i if side == BELOW else last - 1 - i  # toward s
        if state[j] == 0:
            y = a[j]
        elif state[j] == side:
            y = -a[j]
        else:
            continue
        x = rho[j] if side == BELOW else -rho[j]
        while count > 0:
            k = hull[first + count - 1]
            x_k = rho[k] if side == BELOW else -rho[k]
            y_k = height[first + count - 1]
            if x_k == x:
                if y_k <= y:
                    break
            elif count > 1:
                i_k = hull[first + count - 2]
                x_i = rho[i_k] if side == BELOW else -rho[i_k]
                y_i = height[first + count - 2]
                if (y_k - y_i) * (x - x_i) < (y - y_i) * (x_k - x_i):
                    break
            else:
                break
            count -= 1
        if count > 0 and rho[hull[first + count - 1]] == rho[j]:
            continue  # a higher point over the last one
        hull[first + count] = j
        height[first + count] = y
        count += 1
    return count


@njit(cache=True, nogil=True)
def _tangent(first, count, side, rho, hull, height, s, b):
    """(nu, row) of the first contact of mu = s nu + b with the lines of a hull."""
    if count == 0:
        return np.inf, -1
    low, high = 0, count - 1
    while low < high:
        k = (low + high) >> 1
        here, there = hull[first + k], hull[first + k + 1]
        gap_here, gap_there = height[first + k] + side * b, height[first + k + 1] + side * b
        if gap_here * abs(s - rho[there]) <= gap_there * abs(s - rho[here]):
            high = k
        else:
            low = k + 1
    j = hull[first + low]
    return (height[first + low] + side * b) / abs(s - rho[j]), j


@njit(cache=True, nogil=True)
def _wedge_contact(block, size, rho, a, state, nu, mu, s_low, s_high):
    """First contact of the wedge from (nu, mu) with the lines of a block that lies across s."""
    nearest = np.inf
    for j in range(block * size, min((block + 1) * size, rho.size)):
        offset = rho[j] * nu - mu
        if state[j] <= 0 and rho[j] < s_high:
            gap = offset + (a[j] if state[j] == 0 else -a[j])
            nearest = min(nearest, gap / (s_high - rho[j]))
        if state[j] >= 0 and rho[j] > s_low:
            gap = (a[j] if state[j] == 0 else -a[j]) - offset
            nearest = min(nearest, gap / (rho[j] - s_low))
    return nu + max(nearest, 0.0)


@njit(cache=True, nogil=True)
def _event_across(block, size, u, q, state, sums):
    best, row = np.inf, -1
    for j in range(block * size, min((block + 1) * size, u.size)):
        when, _ = next_of(u[j], q[j], state[j], sums)
        if when < best:
            best, row = when, j
    return best, row


@njit(cache=True, nogil=True)
def hull(u, q, m, fixed, limit, size):
    """The path over rows sorted by q / u, in blocks of ``size``."""
    n = u.size
    rho, a = q / u, 1.0 / u
    sums, counts, state = start(u, q, m, fixed)
    segments, k = first_segment(n, sums)
    n_blocks = (n + size - 1) // size
    tree = new_tournament(n_blocks)
    hulls, height = np.empty(n, dtype=np.int64), np.empty(n)
    count = np.zeros(n_blocks, dtype=np.int64)
    side = np.full(n_blocks, ACROSS, dtype=np.int64)
    stale = np.ones(n_blocks, dtype=np.bool_)
    asked = np.empty(n_blocks, dtype=np.int64)
    nu, mu, half, work = 0.0, 0.0, 0.05, 0
    s = sums[2] / sums[0]
    s_low, s_high = 1.0, 0.0  # no window yet
    n_asked = 0
    while True:
        anew = not (s_low <= s <= s_high)
        if anew or work > 4 * n_blocks + 64:
            if anew and work < n_blocks:
                half = min(2.0 * half, WIDEST)
            elif not anew:
                half = max(0.5 * half, NARROWEST)
            s_low, s_high = s / (1.0 + half), s * (1.0 + half)
            work, n_asked = 0, n_blocks
            for block in range(n_blocks):
                asked[block] = block
                now = _side(block, size, rho, s_low, s_high)
                stale[block] |= now != side[block]
                side[block] = now
        for i in range(n_asked):
            block = asked[i]
            first = block * size
            if side[block] == ACROSS:
                when = _wedge_contact(block, size, rho, a, state, nu, mu, s_low, s_high)
            else:
                if stale[block]:
                    count[block] = _build_hull(
                        block, size, side[block], rho, a, state, hulls, height
                    )
                    stale[block] = False
                edge = s_high if side[block] == BELOW else s_low
                when, _ = _tangent(
                    first, count[block], side[block], rho, hulls, height, edge, mu - edge * nu
                )
            set_time(tree, block, max(nu, when * (1.0 - EARLY)))
        best, row, n_asked = limit, -1, 0
        b = -sums[4] / sums[0]
        while tree[1] < best:
            block = first_place(tree)
            if side[block] == ACROSS:
                when, j = _event_across(block, size, u, q, state, sums)
                work += 1 + size // 32
            else:
                when, j = _tangent(
                    block * size, count[block], side[block], rho, hulls, height, s, b
                )
                work += 1
            if when < best:
                best, row = when, j
            set_time(tree, block, np.inf)
            asked[n_asked] = block
            n_asked += 1
        if row < 0:
            break
        up = rho[row] < s
        sign = (state[row] if state[row] != 0 else (1 if up else -1)) * 1.0
        nu = max(nu, crossing(u[row], q[row], sign, sums))
        mu = level(nu, sums)
        move(row, up, u, q, m, sums, counts, state)
        stale[row // size] = True
        segments, k = add_segment(segments, k, nu, sums)
        if counts[0] == 0:
            row = lowest_of_minus(nu, u, q, state) if fixed > 0.0 else -1
            if row < 0:
                break
            move(row, True, u, q, m, sums, counts, state)
            segments, k = add_segment(segments, k, nu, sums)
            mu = (nu * q[row] - 1.0) / u[row]
            stale[:] = True
            s_low, s_high = 1.0, 0.0
        s = sums[2] / sums[0]
    return segments[:k].copy()
