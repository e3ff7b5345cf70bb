"""Records brought to the grid of the layers: their CRS stated, guessed or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import (
    WGS84,
    complete,
    is_geographic,
    mostly_degrees,
    same_crs,
    short_crs,
    transformed,
)
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.records.occurrences import Occurrences

_FEW, _NEARLY_ALL = 0.1, 0.9  # shares of records on the grid that betray swapped coordinates


def located(occurrences: Occurrences, grid: Grid) -> tuple[Occurrences, list[str]]:
    """All records of a file in the CRS of a grid, and notes on what that took.

    Records in another CRS are reprojected; those in an unknown one are taken to be in that of the
    grid, or in degrees (EPSG:4326) where the grid is projected and that fits them. Longitudes a
    full turn away are turned back. Coordinates that look exchanged, or like metres on a grid in
    degrees, are refused.

    Parameters
    ----------
    occurrences : Occurrences
        All records of a file.
    grid : Grid
        The grid of the layers.
    """
    x, y = occurrences.x, occurrences.y
    notes = list(occurrences.notes)
    if not complete(x, y).any():
        return replace(occurrences, crs=grid.crs, notes=()), notes
    geographic = is_geographic(grid.crs, grid.bounds)
    crs, note = _system(occurrences, grid, geographic)
    notes += note

    def placed(x: Array, y: Array) -> tuple[Array, Array, int]:
        if crs is not None and grid.crs is not None and not same_crs(crs, grid.crs):
            x, y = transformed(x, y, crs, grid.crs)
        return _turned(x, y, grid)

    new_x, new_y, turned = placed(x, y)
    on_grid = _share(grid, new_x, new_y)
    if on_grid <= _FEW and _share(grid, *placed(y, x)[:2]) >= _NEARLY_ALL:
        outside = grid.cells_at(new_x, new_y) == OUTSIDE
        raise ValueError(_swapped(occurrences.take(outside), grid))
    if on_grid == 0:
        _check_units(occurrences, grid, crs, geographic)
    if turned:
        notes.append(
            f"{occurrences.source}: {turned} longitudes turned by 360 degrees onto the grid"
        )
    return replace(occurrences, x=new_x, y=new_y, crs=grid.crs, notes=()), notes


def _system(occurrences: Occurrences, grid: Grid, geographic: bool) -> tuple[str | None, list[str]]:
    """The CRS to read the records in, and what to say about it."""
    source, crs = occurrences.source, occurrences.crs
    if crs is None and not geographic and _is_degrees_for(occurrences, grid):
        if grid.crs is None:
            return WGS84, []
        return WGS84, [
            f"{source}: wrong CRS detected and reprojected: the records are in degrees, the layers "
            f"in {short_crs(grid.crs)}; taken as {WGS84}"
        ]
    if crs is None and grid.crs is not None:
        return None, [
            f"{source}: no coordinate reference system given, taken to be that of the layers, "
            f"{short_crs(grid.crs)}"
        ]
    if same_crs(crs, grid.crs):
        return crs, []
    return crs, [
        f"{source}: {len(occurrences)} records reprojected from {short_crs(crs)} to "
        f"{short_crs(grid.crs)}, the CRS of the layers"
    ]


def _is_degrees_for(occurrences: Occurrences, grid: Grid) -> bool:
    """Whether records without a CRS are degrees, not coordinates of a projected grid.

    They lie off the grid, or the grid is so large that all degrees would be a speck of it.
    """
    x, y = occurrences.x, occurrences.y
    west, south, east, north = grid.bounds
    speck = east - west > 100 * 360 and north - south > 100 * 180
    degrees = mostly_degrees(x, y) or mostly_degrees(y, x)  # the order is checked later
    return degrees and (speck or _share(grid, x, y) < 0.5)


def _share(grid: Grid, x: Array, y: Array) -> float:
    """The share of the records with coordinates that lie on the grid."""
    known = complete(x, y)
    return float((grid.cells_at(x[known], y[known]) != OUTSIDE).mean())


def _turned(x: Array, y: Array, grid: Grid) -> tuple[Array, Array, int]:
    """Longitudes, or x of a cylindrical map, that a full turn brings onto the grid."""
    x, count = x.copy(), 0
    around = Earth.under(grid).turn
    for turn in (-around, around) if around else ():
        off = np.flatnonzero(grid.cells_at(x, y) == OUTSIDE)
        back = off[grid.cells_at(x[off] + turn, y[off]) != OUTSIDE]
        x[back] += turn
        count += len(back)
    return x, y, count


def _example(occurrences: Occurrences) -> str:
    return occurrences.label(int(np.argmax(complete(occurrences.x, occurrences.y))))


def _extent(grid: Grid) -> str:
    west, south, east, north = grid.bounds
    return f"x {west:.6g} to {east:.6g}, y {south:.6g} to {north:.6g}"


def _swapped(occurrences: Occurrences, grid: Grid) -> str:
    return (
        f"longitude and latitude (x and y) look swapped: {_example(occurrences)} lies outside the "
        f"layers ({_extent(grid)}), but inside when exchanged, like nearly all records. Name the "
        "column of longitudes with x= (--x) and that of latitudes with y= (--y)"
    )


def _check_units(occurrences: Occurrences, grid: Grid, crs: str | None, geographic: bool) -> None:
    """Refuse degrees beside metres where one of the two sides does not state its CRS."""
    degrees = mostly_degrees(occurrences.x, occurrences.y)
    if crs is None and geographic and not degrees:
        raise ValueError(
            f"{_example(occurrences)}: not degrees, while the layers are in degrees "
            f"({_extent(grid)}). These look like metres of a projected coordinate reference "
            "system: give it with crs= (--crs), for example EPSG:32633"
        )
    if grid.crs is None and degrees != geographic:
        here, there = ("degrees", "metres") if degrees else ("metres", "degrees")
        raise ValueError(
            f"{_example(occurrences)}: the records are in {here}, the layers seem to be in {there} "
            f"({_extent(grid)}) and do not state their coordinate reference system; write it into "
            "the raster files, or give it with crs= (--layers-crs) of the layers"
        )
