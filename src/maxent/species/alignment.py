"""Alignment: the one grid of layers that come on several, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxent._rows import Array
from maxent.species._crs import projected, same_crs, short_crs
from maxent.species._extras import geo
from maxent.species.grid import Grid, Window

if TYPE_CHECKING:
    from maxent.species.sources import Source

ALIGN = ("refuse", "first", "finest", "coarsest")
SAME = 0.01  # cells: grids that differ by less are one grid
_LATTICE = 64  # steps along each side of a grid where another CRS is looked at


def resamplings() -> list[str]:
    """Ways to resample, by GDAL's names."""
    # GDAL does not warp with "gauss"
    return [r.name for r in geo("rasterio").enums.Resampling if r.name != "gauss"]


def same_grid(one: Grid, other: Grid) -> bool:
    """Whether two grids have the same cells, to a hundredth of a cell."""
    if (one.width, one.height) != (other.width, other.height) or not same_crs(one.crs, other.crs):
        return False
    off = np.subtract(one.positions(*_corners(other)), one.positions(*_corners(one)))
    return bool(np.abs(off).max() <= SAME)


def _corners(grid: Grid) -> tuple[Array, Array]:
    height, width = grid.height, grid.width
    return grid.coordinates([0, 0, height, height], [0, width, 0, width])


def shift(grid: Grid, part: Grid) -> tuple[int, int] | None:
    """The row and column of a grid where a part of its cells begins, None if it is no part."""
    rows, columns = grid.positions(*_corners(part)[:2])
    row, column = int(np.rint(rows[0])), int(np.rint(columns[0]))
    inside = 0 <= row <= grid.height - part.height and 0 <= column <= grid.width - part.width
    cut = grid.crop(Window(row, column, part.height, part.width))
    return (row, column) if inside and same_grid(cut, part) else None


def share_crs(sources: Sequence[Source], like: Grid | None, notes: list[str]) -> None:
    """Files that do not say their CRS take that of the others."""
    known = next((s.grid.crs for s in sources if s.grid.crs is not None), None)
    whose = "the other layers"
    if known is None and like is not None:
        known, whose = like.crs, "the grid asked for"
    silent = [s for s in sources if s.grid.crs is None]
    if known is None or not silent:
        return
    notes.append(
        f"{', '.join(s.label for s in silent)}: no coordinate reference system in the file; "
        f"taken to be that of {whose} ({short_crs(known)})"
    )
    for source in silent:
        source.grid = replace(source.grid, crs=known)


def with_crs(like: Grid, sources: Sequence[Source]) -> Grid:
    """The grid asked for, after a look whether every layer has a part in it."""
    grid = like if like.crs is not None else replace(like, crs=sources[0].grid.crs)
    for source in sources:
        if _cover(grid, source.grid) is None:
            raise ValueError(apart(source, f"the grid asked for, {grid.describe()}"))
    return grid


def target_grid(sources: Sequence[Source], align: str, notes: list[str]) -> Grid:
    """The grid for all layers: that of one of them, cut to what all cover."""
    first = _reference(sources, align)
    odd = [s for s in sources if not same_grid(s.grid, first.grid)]
    if not odd:
        return first.grid
    if align == "refuse":
        first = max(sources, key=lambda s: sum(same_grid(s.grid, o.grid) for o in sources))
        odd = [s for s in sources if not same_grid(s.grid, first.grid)]
        alike = [s for s in odd if same_crs(s.grid.crs, first.grid.crs)]
        lost = next((s for s in alike if _cover(first.grid, s.grid) is None), None)
        if lost is not None:
            raise ValueError(apart(lost, f"{first.label}, {first.grid.describe()}"))
        raise ValueError(
            f"{odd[0].label} is not on the grid of the other layers: {difference(odd[0], first)}. "
            'Resample it, or let align="first", "finest" or "coarsest" (--align) do so'
        )
    grid = first.grid
    for source in odd:
        window = _cover(grid, source.grid)
        if window is None:
            raise ValueError(apart(source, f"the layers before it, {grid.describe()}"))
        grid = grid.crop(window)
    if grid != first.grid:
        notes.append(f"layers cut to what all of them cover: {grid.describe()}")
    return grid


def _reference(sources: Sequence[Source], align: str) -> Source:
    def area(source: Source) -> float:
        """Of a cell in the middle, in the units of the first layer."""
        grid = source.grid
        x, y = _corners(grid.crop(Window(grid.height // 2, grid.width // 2, 1, 1)))
        crs = sources[0].grid.crs
        if crs is not None and grid.crs is not None and not same_crs(crs, grid.crs):
            x, y = projected(x, y, grid.crs, crs)
        across, down = (x[1] - x[0], y[1] - y[0]), (x[2] - x[0], y[2] - y[0])
        return float(abs(across[0] * down[1] - across[1] * down[0]))

    if align == "finest":
        return min(sources, key=area)
    if align == "coarsest":
        return max(sources, key=area)
    return sources[0]


def difference(odd: Source, first: Source) -> str:
    """In what a layer's grid differs from another's."""
    one, other = odd.grid, first.grid
    if not same_crs(one.crs, other.crs):
        return f"it is in {short_crs(one.crs)}, {first.label} in {short_crs(other.crs)}"
    return f"it has {one.describe()}; {first.label} has {other.describe()}"


def apart(source: Source, other: str) -> str:
    """The words for a layer that covers nothing of the others."""
    return (
        f"{source.label} does not overlap {other}: it covers {source.grid.describe()} in "
        f"{short_crs(source.grid.crs)}; check its coordinate reference system and extent"
    )


def _cover(grid: Grid, source: Grid) -> Window | None:
    """The rectangle of cells of a grid that a source may cover, None if there is none."""
    if same_crs(grid.crs, source.crs):
        rows, columns = grid.positions(*_corners(source))
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

    Looked at from both sides: a source that reaches around the earth has corners that the CRS of
    the grid knows nothing of, and a small one may lie between the points of the grid.
    """
    assert grid.crs is not None
    assert source.crs is not None  # an unknown CRS is like any other
    rows, columns = _lattice(grid)
    row, column = source.positions(
        *projected(*grid.coordinates(rows, columns), grid.crs, source.crs)
    )
    covered = (row >= 0) & (row <= source.height) & (column >= 0) & (column <= source.width)
    down, across = grid.height / _LATTICE, grid.width / _LATTICE
    rows, columns = rows[covered], columns[covered]
    row, column = grid.positions(
        *projected(*source.coordinates(*_lattice(source)), source.crs, grid.crs)
    )
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
