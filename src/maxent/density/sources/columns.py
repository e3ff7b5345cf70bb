"""Features that count for the entries of one source alone."""

from __future__ import annotations

import numpy as np

from maxent.features import Bound
from maxent.rows.arrays import Array


class SomeCells(Bound):
    """Bound features that are 0 but at some cells, which are in increasing order."""

    def __init__(self, bound: Bound, place: Array, n_cells: int) -> None:
        self.bound, self.place, self.n_cells = bound, place, n_cells
        self.n_features = bound.n_features

    def ranges(self) -> tuple[Array, Array]:
        """Those of the features, and 0."""
        low, high = self.bound.ranges()
        return np.minimum(low, 0), np.maximum(high, 0)

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += sum_j w_j f_j at the cells."""
        part = np.zeros(self.place.size)
        self.bound.add_scores(w, part)
        theta[self.place] += part

    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i) over the cells."""
        return self.bound.moments(np.ascontiguousarray(p[self.place]))

    def squares(self, p: Array) -> Array:
        """sum_i p_i f_j(i)^2 over the cells."""
        return self.bound.squares(np.ascontiguousarray(p[self.place]))

    def restrict(self, index: Array) -> SomeCells:
        """Some of the features."""
        return SomeCells(self.bound.restrict(index), self.place, self.n_cells)

    def take(self, cells: Array) -> SomeCells:
        """The same features on some of all cells."""
        where = np.full(self.n_cells, -1)
        where[self.place] = np.arange(self.place.size)
        place = np.flatnonzero(where[cells] >= 0)
        return SomeCells(self.bound.take(where[cells[place]]), place, cells.size)

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """out[j, i] = root_i f_j(i), 0 elsewhere."""
        first, last = np.searchsorted(self.place, (start, stop))
        out[:] = 0.0
        if last > first:
            part = np.empty((self.n_features, int(last - first)))
            self.bound.write(root[self.place], int(first), int(last), part)
            out[:, self.place[first:last] - start] = part
