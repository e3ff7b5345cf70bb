"""Global homotopy: all 2n lines in their order along a vertical line that sweeps over nu (§7).

Neighbours in the order swap where they cross, mu(nu) is one more member of the order between the
lines below and above it. A priority queue holds when neighbours cross: O(log n) a crossing and O(n)
memory, and at most O(n^2) crossings however many segments mu(nu) has.
"""

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.relaxation.kernels.homotopy import (
    add_segment,
    crossing,
    first_segment,
    lowest_of_minus,
    move,
    next_of,
    start,
)
from maxent.relaxation.kernels.tournament import first_place, new_tournament, set_time


@njit(cache=True, nogil=True)
def _set_slot(tree, slot, place, order, rho, height):
    """When the lines at slot and slot + 1 cross; the path keeps the two around it apart."""
    if slot < 0 or slot >= order.size - 1:
        return
    below, above = order[slot], order[slot + 1]
    when = np.inf
    if slot != place - 1:
        n = rho.size
        rate = rho[below % n] - rho[above % n]
        if rate > 0.0:
            when = (height[above] - height[below]) / rate
    set_time(tree, slot, when)


@njit(cache=True, nogil=True)
def sweep(u, q, m, fixed, limit):
    """The path, from all crossings of the lines u mu - q nu = 1 (numbers j) and -1 (n + j)."""
    n = u.size
    rho = q / u
    height = np.concatenate((1.0 / u, -1.0 / u))
    by_slope = np.argsort(np.concatenate((rho, rho)), kind="mergesort")
    order = by_slope[np.argsort(height[by_slope], kind="mergesort")]
    sums, counts, state = start(u, q, m, fixed)
    segments, k = first_segment(n, sums)
    tree = new_tournament(2 * n - 1)
    place = n  # of the path: this many lines are below it
    for slot in range(2 * n - 1):
        _set_slot(tree, slot, place, order, rho, height)
    nu = 0.0
    while True:
        row, up, best = -1, True, limit
        if counts[0] == 0:
            row = lowest_of_minus(nu, u, q, state) if fixed > 0.0 else -1
            if row < 0:
                break
        else:
            for side in (0, 1):  # the line above, the line below
                at = place - side
                if 0 <= at < 2 * n:
                    j = order[at] % n
                    when, rises = next_of(u[j], q[j], state[j], sums)
                    if rises == (side == 0) and when < best:
                        best, row, up = when, j, rises
            if tree[1] < best:
                slot = first_place(tree)
                order[slot], order[slot + 1] = order[slot + 1], order[slot]
                for i in range(slot - 1, slot + 2):
                    _set_slot(tree, i, place, order, rho, height)
                continue
            if row < 0:
                break
            sign = (state[row] if state[row] != 0 else (1 if up else -1)) * 1.0
            nu = max(nu, crossing(u[row], q[row], sign, sums))
        place += 1 if up else -1
        for i in range(place - 2, place + 1):
            _set_slot(tree, i, place, order, rho, height)
        move(row, up, u, q, m, sums, counts, state)
        segments, k = add_segment(segments, k, nu, sums)
    return segments[:k].copy()
