"""Grid: where the cells of a map lie. Pure arithmetic, no geographic library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxent import io
from maxent.rows.arrays import Array

OUTSIDE = -1  # the index of a point that no cell holds


class Window(NamedTuple):
    """A rectangle of cells.

    Attributes
    ----------
    row : int
        First row.
    column : int
        First column.
    height : int
        Rows.
    width : int
        Columns.
    """

    row: int
    column: int
    height: int
    width: int


@io.register
@dataclass(frozen=True)
class Grid:
    """Cells in rows, usually from north to south.

    The corner of the cell (row, col) lies at `x = a col + b row + c`, `y = d col + e row + f`.

    Parameters
    ----------
    crs : str or None
        Coordinate reference system as WKT or authority code, None where it is not known.
    transform : tuple of float
        a, b, c, d, e, f.
    width : int
        Columns.
    height : int
        Rows.

    Examples
    --------
    >>> grid = Grid(None, (0.5, 0.0, -10.0, 0.0, -0.5, 5.0), width=4, height=3)
    >>> grid.cells_at([-9.9, -8.1, 7.0], [4.9, 3.6, 0.0])
    array([ 0, 11, -1])
    >>> grid.centres([0])
    (array([-9.75]), array([4.75]))
    """

    crs: str | None
    transform: tuple[float, ...]
    width: int
    height: int

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.width * self.height

    @property
    def cell_size(self) -> tuple[float, float]:
        """Lengths of the sides of a cell."""
        a, b, _, d, e, _ = self.transform
        return float(np.hypot(a, d)), float(np.hypot(b, e))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Smallest x, smallest y, largest x, largest y."""
        height, width = self.height, self.width
        x, y = self.coordinates([0, 0, height, height], [0, width, 0, width])
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())

    def coordinates(self, row: ArrayLike, column: ArrayLike) -> tuple[Array, Array]:
        """Where positions lie: whole numbers are the corners of cells."""
        a, b, c, d, e, f = self.transform
        row, column = np.asarray(row, dtype=np.float64), np.asarray(column, dtype=np.float64)
        return c + a * column + b * row, f + d * column + e * row

    def positions(self, x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Row and column of points, with fractions: the inverse of :meth:`coordinates`."""
        a, b, c, d, e, f = self.transform
        determinant = a * e - b * d
        with np.errstate(invalid="ignore"):  # points that a projection does not reach
            dx = np.asarray(x, dtype=np.float64) - c
            dy = np.asarray(y, dtype=np.float64) - f
            return (a * dy - d * dx) / determinant, (e * dx - b * dy) / determinant

    def cells_at(self, x: ArrayLike, y: ArrayLike) -> Array:
        """The cell of each point, row by row from 0; ``OUTSIDE`` for points beyond the grid."""
        row, column = map(np.floor, self.positions(x, y))
        inside = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        index = np.full(inside.shape, OUTSIDE, dtype=np.int64)
        index[inside] = row[inside].astype(np.int64) * self.width + column[inside].astype(np.int64)
        return index

    def centres(self, index: ArrayLike) -> tuple[Array, Array]:
        """Coordinates of the centres of cells."""
        row, column = np.divmod(np.asarray(index, dtype=np.int64), self.width)
        return self.coordinates(row + 0.5, column + 0.5)

    def crop(self, window: Window) -> Grid:
        """The grid of a rectangle of its cells."""
        a, b, _, d, e, _ = self.transform
        x, y = self.coordinates(window.row, window.column)
        return Grid(self.crs, (a, b, float(x), d, e, float(y)), window.width, window.height)

    def describe(self) -> str:
        """Size, resolution and extent in words."""
        dx, dy = self.cell_size
        west, south, east, north = self.bounds
        side = f"{dx:.10g}" if np.isclose(dx, dy) else f"{dx:.10g} x {dy:.10g}"
        return (
            f"{self.width} x {self.height} cells of {side}, x {west:.10g} to {east:.10g}, "
            f"y {south:.10g} to {north:.10g}"
        )
