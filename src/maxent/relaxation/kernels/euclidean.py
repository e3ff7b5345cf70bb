"""The relaxation path with half the squared distance in place of relative entropy.

p_j = clip(u_j + tau, max(q_j - 1/nu, 0), q_j + 1/nu); the level is t = nu tau, and with
d_j = q_j - u_j a row leaves I_0 at t = nu d_j + 1, at t = nu d_j - 1 or, for the bound at 0, at
t = -nu u_j: as for a uniform prior, with one state more.
"""

import numpy as np

from maxent._support.compiling.kernels import njit
from maxent.relaxation.kernels.homotopy import PARALLEL, add_product, add_segment, first_segment

MINUS, ZERO_BOUND, FREE, PLUS = -1, -2, 0, 1


@njit(cache=True, nogil=True)
def _contribute(sums, u, q, m, state, sign):
    """Add (sign 1) or take away (-1) what a row gives to the sums U, Q and M."""
    if state == FREE:
        add_product(sums, 0, sign * m, 1.0)
        add_product(sums, 1, sign * m, q)
        add_product(sums, 1, -sign * m, u)
    elif state == ZERO_BOUND:
        add_product(sums, 1, sign * m, q)
    else:
        add_product(sums, 2, sign * m, 1.0 * state)


@njit(cache=True, nogil=True)
def _rate(s, d):
    rate = s - d
    return 0.0 if abs(rate) <= PARALLEL * (abs(s) + abs(d)) else rate


@njit(cache=True, nogil=True)
def _next(u, q, state, s, b):
    """(nu, new state) of a row's next event on the line t = s nu + b."""
    rate = _rate(s, q - u)
    to_zero = _rate(s, -u)
    if state == PLUS:
        return ((1.0 - b) / rate, FREE) if rate < 0.0 else (np.inf, PLUS)
    if state == MINUS:
        return ((-1.0 - b) / rate, FREE) if rate > 0.0 else (np.inf, MINUS)
    if state == ZERO_BOUND:
        leave = 1.0 / q if q > 0.0 else np.inf
        back = -b / to_zero if to_zero > 0.0 else np.inf
        return (back, FREE) if back < leave else (leave, MINUS)
    when, new = np.inf, FREE
    if rate > 0.0:
        when, new = (1.0 - b) / rate, PLUS
    elif rate < 0.0:
        when, new = (-1.0 - b) / rate, MINUS
    if to_zero < 0.0 and -b / to_zero < when:
        when, new = -b / to_zero, ZERO_BOUND
    return when, new


@njit(cache=True, nogil=True)
def _lowest_bound(nu, u, q, state):
    """The row at a lower bound whose line is the lowest; -1 without any."""
    lowest, row = np.inf, -1
    for j in range(u.size):
        if state[j] < 0:
            bound = max(nu * (q[j] - u[j]) - 1.0, -nu * u[j])
            if bound < lowest:
                lowest, row = bound, j
    return row


@njit(cache=True, nogil=True)
def euclidean(u, q, m):
    """Every row is asked for its next event: O(n) an event."""
    n = u.size
    sums = np.zeros(6)
    state = np.zeros(n, dtype=np.int64)
    free = n
    for j in range(n):
        _contribute(sums, u[j], q[j], m[j], FREE, 1.0)
    segments, k = first_segment(n, sums)
    nu = 0.0
    while free > 0:
        s, b = (sums[2] + sums[3]) / sums[0], -(sums[4] + sums[5]) / sums[0]
        best, row, new = np.inf, -1, FREE
        for j in range(n):
            when, change = _next(u[j], q[j], state[j], s, b)
            if when < best:
                best, row, new = when, j, change
        if row < 0:
            break
        nu = max(nu, best)
        _contribute(sums, u[row], q[row], m[row], state[row], -1.0)
        _contribute(sums, u[row], q[row], m[row], new, 1.0)
        free += (new == FREE) - (state[row] == FREE)
        state[row] = new
        if free == 0:
            sums[0] = sums[1] = 0.0
            row = _lowest_bound(nu, u, q, state) if sums[2] > 0.0 else -1
            if row >= 0:  # rows at 0 lose mass to the observation: the level jumps to the next row
                _contribute(sums, u[row], q[row], m[row], state[row], -1.0)
                _contribute(sums, u[row], q[row], m[row], FREE, 1.0)
                state[row], free = FREE, 1
        segments, k = add_segment(segments, k, nu, sums)
    return segments[:k].copy()
