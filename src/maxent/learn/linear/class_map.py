"""ClassMap: features of a sample that count for one class each, as a feature map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from maxent._support.threads import one_blas_thread, sum_of_parts
from maxent.core.maps import ColumnMap
from maxent.features.base import Bound
from maxent.rows.arrays import Array, Rows

_BLOCK = 1024  # samples whose columns are written out at once: they stay in cache
_WORK = 64  # multiplications that count as much as one entry of an elementwise pass


class Ones(Bound):
    """The constant feature, whatever the sample."""

    n_features = 1

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += w."""
        theta += w[0]

    def moments(self, p: Array) -> Array:
        """sum_i p_i."""
        return np.array([p.sum()])

    squares = moments  # 1 is its own square

    def restrict(self, index: Array) -> Ones:
        """Itself."""
        return self

    def take(self, cells: Array) -> Ones:
        """Itself."""
        return self

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """out = root."""
        out[0] = root[start:stop]


class ClassPart(NamedTuple):
    """Features phi(x) that count for the class ``output``; ``numbers`` are theirs among all."""

    bound: Bound
    output: int
    numbers: Array


class ClassMap(ColumnMap):
    """scores[i, y] = sum_j w_j phi_j(x_i) [y = y_j] (structural paper, §3).

    The features stay with their bounds; columns are written out in blocks of samples, for the
    Gram matrix of a working set alone.
    """

    n_rows: int

    def __init__(self, parts: Sequence[ClassPart], n_rows: int, n_outputs: int) -> None:
        self.parts = sorted(parts, key=lambda part: part.output)
        self.n_rows, self.n_outputs = n_rows, n_outputs
        self._cuts = [0, *accumulate(part.numbers.size for part in self.parts)]
        self.n_features = self._cuts[-1]

    def __repr__(self) -> str:
        return (
            f"ClassMap({self.n_rows} samples, {self.n_features} features, {self.n_outputs} classes)"
        )

    def scores(self, w: Array) -> Array:
        """sum_j w_j phi_j [y = y_j] for every sample and class."""
        theta = np.zeros((self.n_outputs, self.n_rows))
        for bound, output, numbers in self.parts:
            if w[numbers].any():
                bound.add_scores(w[numbers], theta[output])
        return np.ascontiguousarray(theta.T)

    def moments(self, p: Rows) -> Array:
        """sum_i p[i, y_j] phi_j(x_i)."""
        by_class = np.ascontiguousarray(p.T, dtype=np.float64)
        moments = np.empty(self.n_features)
        for bound, output, numbers in self.parts:
            moments[numbers] = bound.moments(by_class[output])
        return moments

    def ranges(self) -> tuple[Array, Array]:
        """0 and 1: features are scaled, and 0 for all other classes."""
        return np.zeros(self.n_features), np.ones(self.n_features)

    def restrict(self, index: Array) -> ClassMap:
        """The features ``index`` (increasing), still with their bounds."""
        if index.size == self.n_features:
            return self
        place = np.full(self.n_features, -1)
        place[index] = np.arange(index.size)
        parts = []
        for bound, output, mine in self.parts:
            kept = np.flatnonzero(place[mine] >= 0)
            if kept.size:
                parts.append(ClassPart(bound.restrict(kept), output, place[mine[kept]]))
        return ClassMap(parts, self.n_rows, self.n_outputs)

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """C_y' diag(d_y) C_y within each class y, less the rank ones u_y u_y' over all of them."""
        size, starts = self.n_features, range(0, self.n_rows, _BLOCK * every)
        output = np.repeat([p.output for p in self.parts], [p.numbers.size for p in self.parts])
        rows = [(y, slice(*np.searchsorted(output, [y, y + 1]))) for y in np.unique(output)]
        ones = np.ones(self.n_rows)

        def part(first: int, last: int) -> Array:
            total, block = np.zeros((size, size)), np.empty((size, _BLOCK))
            for start in starts[first:last]:
                stop = min(start + _BLOCK, self.n_rows)
                columns = self._write(ones, start, stop, block)
                for y, mine in rows:
                    scaled = columns[mine] * diagonal[start:stop, y]
                    total[mine, mine] += scaled @ columns[mine].T
                if spike is not None:
                    edge = columns * spike[start:stop].T[output]
                    total -= edge @ edge.T
            return total

        with one_blas_thread():
            total = sum_of_parts(part, len(starts), _BLOCK * size**2 // _WORK)
        seen = sum(min(_BLOCK, self.n_rows - start) for start in starts)
        gram = np.empty((size, size))
        order = np.concatenate([part.numbers for part in self.parts])
        gram[np.ix_(order, order)] = total * (self.n_rows / seen)
        return gram

    def _write(self, root: Array, start: int, stop: int, block: Array) -> Array:
        columns = block[:, : stop - start]
        for part, (first, last) in zip(self.parts, pairwise(self._cuts), strict=True):
            part.bound.write(root, start, stop, columns[first:last])
        return columns
