"""A quadratic programme over a product of simplices, one for each row, with sparse planes."""

from __future__ import annotations

import numpy as np

from maxent._support.compiling.kernels import njit


@njit(cache=True, nogil=True)
def _height(values, indices, offsets, k, w):
    total = 0.0
    for i in range(offsets[k], offsets[k + 1]):
        total += values[i] * w[indices[i]]
    return total


@njit(cache=True, nogil=True)
def _push(values, indices, offsets, k, amount, scale, w):
    for i in range(offsets[k], offsets[k + 1]):
        w[indices[i]] += amount * scale[indices[i]] * values[i]


@njit(cache=True, nogil=True)
def simplices_quadratic(
    rows, values, indices, offsets, entropies, scale, mixture, w, room, passes, tol
):
    """min 1/2 ||sum a_k m_k - mu||^2_scale + sum a_k o_k, the a_k of each row summing to its own.

    Row i has the planes rows[i] to rows[i + 1]. By pairs of planes of a row, in place: ``mixture``
    (a), and w = -scale (sum a_k m_k - mu) follows. Return the last gap, a sum over the rows.
    """
    widest = 0
    for i in range(len(rows) - 1):
        widest = max(widest, rows[i + 1] - rows[i])
    heights = np.empty(widest)
    total = np.inf
    for _ in range(passes):
        total = 0.0
        for i in range(len(rows) - 1):
            first, last = rows[i], rows[i + 1]
            for k in range(first, last):
                heights[k - first] = _height(values, indices, offsets, k, w) - entropies[k]
            for turn in range(last - first):
                best, worst, mean, mass = first, -1, 0.0, 0.0
                for k in range(first, last):
                    height = heights[k - first]
                    if height > heights[best - first]:
                        best = k
                    if mixture[k] > 0.0 and (worst < 0 or height < heights[worst - first]):
                        worst = k
                    mean += mixture[k] * height
                    mass += mixture[k]
                if turn == 0:
                    total += max(mass * heights[best - first] - mean, 0.0)
                ahead = heights[best - first] - heights[worst - first]
                if not ahead > 1e-2 * tol:
                    break
                # room = scale (m_best - m_worst), 0 again afterwards
                _push(values, indices, offsets, best, 1.0, scale, room)
                _push(values, indices, offsets, worst, -1.0, scale, room)
                curved = _height(values, indices, offsets, best, room)
                curved -= _height(values, indices, offsets, worst, room)
                step = mixture[worst]
                if ahead < step * curved:
                    step = ahead / curved
                for k in range(first, last):
                    heights[k - first] -= step * _height(values, indices, offsets, k, room)
                for k in (best, worst):
                    for j in range(offsets[k], offsets[k + 1]):
                        room[indices[j]] = 0.0
                _push(values, indices, offsets, best, -step, scale, w)
                _push(values, indices, offsets, worst, step, scale, w)
                mixture[best] += step
                mixture[worst] = mixture[worst] - step if step < mixture[worst] else 0.0
        if total <= tol:
            break
    return total
