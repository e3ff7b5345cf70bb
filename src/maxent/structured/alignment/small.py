"""Marginals of a few small alignments, all of one size at once, in plain numpy.

Kernels take seconds to compile, more than a small fit takes by itself. Sums over paths are taken in
logarithms, cell by cell along the diagonals i + j = 0, 1, ..., so that nothing overflows.
"""

from __future__ import annotations

import numpy as np

from maxent.rows.arrays import Array


def align_few(scores: Array, inside: Array) -> tuple[Array, Array]:
    """Log-partitions, -inf without a path, and marginals of scores (k, n, m) inside a band."""
    count, n, m = scores.shape
    scores = np.where(inside, scores, -np.inf)
    forward = np.full((count, n + 1, m + 1), -np.inf)  # [i + 1, j + 1]: over paths to (i, j)
    forward[:, 0, 0] = 0.0
    origin = np.zeros((3, count, n, m))  # shares from the diagonal, above and the left
    diagonals = []
    for d in range(n + m - 1):
        i = np.arange(max(0, d - m + 1), min(n, d + 1))
        diagonals.append((i, d - i))
    with np.errstate(all="ignore"):  # -inf - -inf, where no path leads
        for i, j in diagonals:
            before = np.array([forward[:, i, j], forward[:, i, j + 1], forward[:, i + 1, j]])
            top = before.max(axis=0)
            weight = np.where(top > -np.inf, np.exp(before - top), 0.0)
            mass = weight.sum(axis=0)
            forward[:, i + 1, j + 1] = top + np.log(mass) + scores[:, i, j]
            origin[:, :, i, j] = np.where(mass > 0.0, weight / mass, 0.0)
    flow = np.zeros((count, n + 1, m + 1))
    flow[:, n, m] = 1.0
    for i, j in reversed(diagonals):
        here = flow[:, i + 1, j + 1] = np.minimum(flow[:, i + 1, j + 1], 1.0)
        shares = origin[:, :, i, j] * here
        # cells of one diagonal have different neighbours of each kind
        flow[:, i, j] += shares[0]
        flow[:, i, j + 1] += shares[1]
        flow[:, i + 1, j] += shares[2]
    mean = np.ascontiguousarray(flow[:, 1:, 1:])
    mean[:, 0, 0] = mean[:, -1, -1] = 1.0
    for axis in (0, 1):  # cells alone in their row or column are on every path
        mean[:, inside & (inside.sum(axis=axis, keepdims=True) == 1)] = 1.0
    return forward[:, n, m], mean
