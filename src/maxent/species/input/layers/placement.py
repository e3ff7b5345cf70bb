"""How two grids lie to each other: the same cells, one a part of the other, or an overlap."""

from __future__ import annotations

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import projected, same_crs
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid, Window

SAME = 0.01  # cells: grids that differ by less are one grid
_LATTICE = 64  # steps along each side of a grid that is compared with one in another CRS


def same_grid(one: Grid, other: Grid) -> bool:
    """Whether two grids have the same cells, to a hundredth of a cell."""
    if (one.width, one.height) != (other.width, other.height) or not same_crs(one.crs, other.crs):
        return False
    off = np.subtract(one.positions(*corners(other)), one.positions(*corners(one)))
    return bool(np.abs(off).max() <= SAME)


def corners(grid: Grid) -> tuple[Array, Array]:
    """Coordinates of the four corners, from the first row to the last."""
    height, width = grid.height, grid.width
    return grid.coordinates([0, 0, height, height], [0, width, 0, width])


def shift(grid: Grid, part: Grid) -> tuple[int, int] | None:
    """The row and column of a grid where a part of its cells begins, None if it is no part."""
    rows, columns = grid.positions(*corners(part)[:2])
    row, column = int(np.rint(rows[0])), int(np.rint(columns[0]))
    inside = 0 <= row <= grid.height - part.height and 0 <= column <= grid.width - part.width
    cut = grid.crop(Window(row, column, part.height, part.width))
    return (row, column) if inside and same_grid(cut, part) else None


def cover(grid: Grid, source: Grid) -> Window | None:
    """The rectangle of cells of a grid that a source may cover, None if there is none."""
    if same_crs(grid.crs, source.crs):
        rows, columns = grid.positions(*corners(source))
    else:
        rows, columns = _reach(grid, source)
    if not rows.size:
        return None
    edge = 1e-6
    top, left = (max(0, int(np.floor(v.min() + edge))) for v in (rows, columns))
    bottom = min(grid.height, int(np.ceil(rows.max() - edge)))
    right = min(grid.width, int(np.ceil(columns.max() - edge)))
    if top >= bottom or left >= right:
        return None
    return Window(top, left, bottom - top, right - left)


def _reach(grid: Grid, source: Grid) -> tuple[Array, Array]:
    """Positions in a grid of points that a source in another CRS covers.

    Sampled from both sides: a source that reaches around the earth has corners that the CRS of
    the grid knows nothing of, and a small one may lie between the points of the grid.
    """
    assert grid.crs is not None
    assert source.crs is not None  # an unknown CRS counts as equal to any other
    rows, columns = _lattice(grid)
    row, column = source.positions(
        *projected(*grid.coordinates(rows, columns), grid.crs, source.crs)
    )
    covered = (row >= 0) & (row <= source.height) & (column >= 0) & (column <= source.width)
    down, across = grid.height / _LATTICE, grid.width / _LATTICE
    rows, columns = rows[covered], columns[covered]
    x, y = projected(*source.coordinates(*_lattice(source)), source.crs, grid.crs)
    around = Earth.under(grid).turn  # a grid may go on beyond the date line
    turns = (-around, 0.0, around) if around else (0.0,)
    row, column = grid.positions(np.concatenate([x + k for k in turns]), np.tile(y, len(turns)))
    inside = (row >= 0) & (row <= grid.height) & (column >= 0) & (column <= grid.width)
    row, column = row[inside], column[inside]
    # the edge of the source lies beyond its outermost points, by less than one step
    return (
        np.concatenate([rows - down, rows + down, row - 1, row + 1]),
        np.concatenate([columns - across, columns + across, column - 1, column + 1]),
    )


def _lattice(grid: Grid) -> tuple[Array, Array]:
    rows = np.linspace(0, grid.height, _LATTICE + 1)
    columns = np.linspace(0, grid.width, _LATTICE + 1)
    return np.repeat(rows, columns.size), np.tile(columns, rows.size)
