"""What a feature class looks at when it is fitted: ranges, values, products, occupied levels.

``CellsInMemory`` reads them from cells; a summary of a table that was never in one place has them
too (``maxent.features.summary``). So a class is fitted by the same lines in both cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxent._support.threads import over_rows
from maxent.features.cells import Cells, Schema, column_units, in_units
from maxent.rows.arrays import Array


@dataclass(frozen=True, eq=False)
class CellsView(ABC):
    """Cells as feature classes see them; v is the number of a continuous or categorical column.

    Parameters
    ----------
    cells : Cells
        The cells.
    schema : Schema
        Columns, which are categorical, and their levels.
    rows : array or slice
        ``cells[rows]`` are those with a presence, whatever is known of the others.
    """

    cells: Cells
    schema: Schema
    rows: Array | slice

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Number of cells."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""

    @abstractmethod
    def nearest_zero(self, v: int) -> float:
        """The smallest `|x|` of a variable."""

    @abstractmethod
    def values(self, v: int) -> Array:
        """The distinct values of a variable, increasing."""

    @abstractmethod
    def product_ranges(self, first: Array, second: Array) -> Array:
        """(2, pairs): least and most product of pairs of variables, in their ``column_units``."""

    def presence_values(self, v: int) -> Array:
        """The distinct values of a variable at the presences, increasing."""
        return np.unique(self.cells.values[v, self.rows]).astype(np.float64, copy=False)

    def occupied(self, v: int) -> Array:
        """Which levels of a categorical column have a presence."""
        levels = len(self.schema.levels[v])
        return np.bincount(self.cells.codes[v, self.rows], minlength=levels) > 0


@dataclass(frozen=True, eq=False)
class CellsInMemory(CellsView):
    """All cells in one place; ``rows`` are the indices of the occupied ones.

    >>> X = np.array([[3.0, 1.0], [2.0, 5.0], [2.0, 2.0]])
    >>> view = CellsInMemory(Schema.from_table(X).read(X), Schema.from_table(X), np.array([0]))
    >>> view.values(0), view.presence_values(0)
    (array([2., 3.]), array([3.]))
    """

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.cells.n_cells

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""
        return self.cells.ranges()

    def nearest_zero(self, v: int) -> float:
        """The smallest `|x|` of a variable."""
        return float(np.abs(self.cells.values[v]).min())

    def values(self, v: int) -> Array:
        """The distinct values of a variable, increasing."""
        return np.unique(self.cells.values[v]).astype(np.float64, copy=False)

    def product_ranges(self, first: Array, second: Array) -> Array:
        """(2, pairs): least and most product of pairs of variables, in their ``column_units``."""
        return product_ranges(self.cells, column_units(*self.ranges), first, second)


def product_ranges(cells: Cells, units: Array, first: Array, second: Array) -> Array:
    """(2, pairs): least and most product over cells of pairs of variables in given units."""
    from maxent._support.compiling.kernels import exact
    from maxent.features.kernels.cells import product_range

    values = in_units(cells.values, units)
    ranges = np.empty((2, len(first)))
    measure = exact(product_range, cells.n_cells, calls=len(first))

    def work(begin: int, end: int) -> None:
        for k in range(begin, end):
            ranges[:, k] = measure(values[first[k]], values[second[k]])

    over_rows(work, len(first), cells.n_cells)
    return ranges
