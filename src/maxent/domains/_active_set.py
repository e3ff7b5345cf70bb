"""Projection onto a polytope known only through its argmax oracle.

Wolfe's minimum-norm-point method, the active-set method of SparseMAP (Fenchel-Young paper,
§8.3): a small set of vertices, the exact least-squares weights on their affine hull, and a
line back to the hull whenever a weight turns negative. Finite, and exact to rounding.

Rows advance together, so that one (threaded) call of the oracle serves all rows not yet done.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxent._rows import Array, Ragged, Rows, uneven

_MAX_STEPS = 100_000


def project_by_argmax(argmax: Callable[[Rows], Rows], theta: Rows) -> Rows:
    """Project each row of ``theta``; ``argmax`` takes and returns a batch of rows.

    An entry of -inf keeps out the vertices that use it, as it does in ``argmax``.
    """
    hulls = [_Hull(row.astype(np.float64)) for row in _split(theta)]
    active, moving = hulls, None
    for _ in range(_MAX_STEPS):
        if not active:
            break
        if moving is None or len(moving) > len(active):
            moving = _join([hull.direction for hull in active], theta)
            for hull, direction in zip(active, _split(moving), strict=True):
                hull.direction = direction
        vertices = _split(argmax(moving))
        active = [h for h, vertex in zip(active, vertices, strict=True) if h.advance(vertex)]
    else:
        raise RuntimeError(
            f"the active set did not settle in {_MAX_STEPS} steps; check that argmax returns a "
            "best vertex for every row"
        )
    points = [hull.point().astype(theta.dtype) for hull in hulls]
    return _join(points, theta) if points else theta


def _split(batch: Rows) -> list[Array]:
    return batch.rows() if uneven(batch) else list(batch)


def _join(rows: list[Array], template: Rows) -> Rows:
    return Ragged.from_rows(rows) if uneven(template) else np.array(rows)


class _Hull:
    """The active vertices of one row and the nearest point of their convex hull."""

    def __init__(self, theta: Array) -> None:
        self.theta = theta
        self.direction = theta  # theta - point; the projection gives it room of its own
        self.count = 0
        self.shift = 1.0
        self.index = np.empty((0, 0), np.int32)
        self.value = np.empty((0, 0))
        self.used = np.empty(0, np.int64)
        self.factor = np.empty((0, 0))
        self.weights = np.empty(0)

    def advance(self, vertex: Array) -> bool:
        """Take in a best vertex for the current direction; False if the point is optimal."""
        from maxent._kernels.active_set import FULL, OPTIMAL, advance

        if self.count == 0:
            self.shift = float((vertex * vertex).sum()) or 1.0
        while True:
            count = advance(
                vertex,
                self.theta,
                self.direction,
                self.index,
                self.value,
                self.used,
                self.factor,
                self.weights,
                self.shift,
                self.count,
            )
            if count == OPTIMAL:
                return False
            if count != FULL:
                self.count = count
                return True
            rows = max(16, 2 * self.count if self.count == len(self.used) else len(self.used))
            width = max(self.index.shape[1], int(np.count_nonzero(vertex)))
            self.index = _larger(self.index, (rows, width))
            self.value = _larger(self.value, (rows, width))
            self.used = _larger(self.used, (rows,))
            self.factor = _larger(self.factor, (rows, rows))
            self.weights = _larger(self.weights, (rows,))

    def point(self) -> Array:
        """The nearest point: the weighted sum of the vertices."""
        point = np.zeros(self.theta.size)
        for a in range(self.count):
            used = self.used[a]
            point[self.index[a, :used]] += self.weights[a] * self.value[a, :used]
        return point


def _larger(x: Array, shape: tuple[int, ...]) -> Array:
    """The array with room added at the end of its axes."""
    out = np.zeros(shape, x.dtype)
    out[tuple(slice(n) for n in x.shape)] = x
    return out
