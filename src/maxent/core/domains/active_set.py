"""Projection onto a polytope known only through its argmax oracle.

Wolfe's minimum-norm-point method, the active-set method of SparseMAP (Fenchel-Young paper,
§8.3): a small set of vertices, the exact least-squares weights on their affine hull, and a
line back to the hull whenever a weight turns negative. Finite, and exact to rounding.

Rows advance together, so that one (threaded) call of the oracle serves all rows not yet done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxent.rows.arrays import Array, Ragged, Rows, uneven

_MAX_STEPS = 100_000


@dataclass(frozen=True, eq=False)
class Support:
    """The vertices whose mixture is a projected point, and their weights.

    vertices : sparse matrix (n, size), affinely independent; weights : (n,), positive, at most 1,
    with a sum of 1 up to n roundings.
    """

    vertices: Any
    weights: Array

    def point(self) -> Array:
        """The mixture, V' weights; no entry leaves the range of the vertices' by a rounding."""
        from maxent.core.kernels.active_set import mixture

        rows, point = self.vertices, np.empty(self.vertices.shape[1])
        mixture(rows.indptr, rows.indices, rows.data, self.weights, point)
        return point


def support_of(room: Any, count: int, size: int) -> Support:
    """The support that a hull of the kernels holds; fewer than no vertices: it never settled."""
    if count < 0:
        raise _never_settled()
    index, value, used = (part[:count] for part in room[:3])
    inside = np.arange(index.shape[1]) < used[:, None]
    indptr = np.concatenate([[0], np.cumsum(used)])
    vertices = sparse.csr_array((value[inside], index[inside], indptr), shape=(count, size))
    weights = room.weights[:count] / room.weights[:count].sum()
    return Support(vertices, np.minimum(weights, 1.0))


def project_by_argmax(argmax: Callable[[Rows], Rows], theta: Rows) -> Rows:
    """Project each row of ``theta``; ``argmax`` takes and returns a batch of rows.

    An entry of -inf keeps out the vertices that use it, as it does in ``argmax``.
    """
    return mixtures(support_by_argmax(argmax, theta), theta)


def mixtures(supports: Sequence[Support], template: Rows) -> Rows:
    """The points of the supports, in the shape and type of the rows they were projected from."""
    points = [support.point().astype(template.dtype) for support in supports]
    return _join(points, template) if points else template


def support_by_argmax(
    argmax: Callable[[Rows], Rows], theta: Rows, start: Sequence[Support] | None = None
) -> list[Support]:
    """The supports of the projections, from those of similar rows where they are known."""
    return [support_of(h.room, h.count, h.theta.size) for h in _hulls(argmax, theta, start, None)]


def small_supports_by_argmax(
    argmax: Callable[[Rows], Rows], theta: Rows, most: Sequence[int]
) -> list[Support | None]:
    """The supports of the projections; None for a row that comes to hold more than ``most``."""
    return [
        support_of(hull.room, hull.count, hull.theta.size) if hull.count <= number else None
        for hull, number in zip(_hulls(argmax, theta, None, most), most, strict=True)
    ]


def _hulls(
    argmax: Callable[[Rows], Rows],
    theta: Rows,
    start: Sequence[Support] | None,
    most: Sequence[int] | None,
) -> list[_Hull]:
    """The active sets of all rows at the nearest points, or at the first with more vertices."""
    rows = _split(theta)
    starts = [None] * len(rows) if start is None else start
    limits = [_MAX_STEPS] * len(rows) if most is None else most
    hulls = [
        _Hull(row.astype(np.float64), s, limit)
        for row, s, limit in zip(rows, starts, limits, strict=True)
    ]
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
        raise _never_settled()
    return hulls


def max_steps() -> int:
    """Steps after which an active set is taken to run in circles."""
    return _MAX_STEPS


def _never_settled() -> RuntimeError:
    return RuntimeError(
        f"the active set did not settle in {_MAX_STEPS} steps; check that argmax returns a best "
        "vertex for every row"
    )


def _split(batch: Rows) -> list[Array]:
    return batch.rows() if uneven(batch) else list(batch)


def _join(rows: list[Array], template: Rows) -> Rows:
    return Ragged.from_rows(rows) if uneven(template) else np.array(rows)


class _Hull:
    """The active vertices of one row and the nearest point of their convex hull."""

    def __init__(self, theta: Array, start: Support | None, most: int) -> None:
        from maxent.core.kernels.active_set import hull, resume

        self.theta, self.most = theta, most
        self.direction = theta.copy()  # theta - point
        self.count, self.shift = 0, 1.0
        self.room = hull(16, 1, theta.size)
        if start is None:
            return
        for vertex in start.vertices.toarray():
            self._store(vertex)
            self.count += 1
        self.room.weights[: self.count] = start.weights
        self.shift = _squares(start.vertices.toarray()[0])
        self.count = resume(theta, self.direction, self.room, self.shift, self.count)

    def _store(self, vertex: Array) -> None:
        """Write a vertex into the next free row, making room where there is none."""
        from maxent.core.kernels.active_set import larger, store

        if store(vertex, self.room, self.count):
            return
        capacity, width = self.room.index.shape
        capacity = 2 * capacity if self.count == capacity else capacity
        self.room = larger(self.room, capacity, max(width, int(np.count_nonzero(vertex))))
        store(vertex, self.room, self.count)

    def advance(self, vertex: Array) -> bool:
        """Take in a best vertex; False if the point is optimal or the set too large."""
        from maxent.core.kernels.active_set import OPTIMAL, advance

        if self.count == 0:
            self.shift = _squares(vertex)
        self._store(vertex)
        count = advance(self.theta, self.direction, self.room, self.shift, self.count)
        if count == OPTIMAL:
            return False
        self.count = count
        return count <= self.most


def _squares(vertex: Array) -> float:
    return float((vertex * vertex).sum()) or 1.0
