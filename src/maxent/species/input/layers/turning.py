"""Layers on both sides of the date line: the same places, though x says they are a turn apart.

A layer from 0 to 360 degrees beside one from -180 to 180 has the same cells in another order. Such
a layer is read with its columns in the order of the others; a layer of a part of the earth is
taken as lying a turn further east or west. No value changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxent.species.input.crs import same_crs
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.placement import SAME, same_grid
from maxent.species.input.layers.sources import FileSource


def turned(sources: Sequence[FileSource], like: Grid | None, notes: list[str]) -> list[FileSource]:
    """The layers beside the grid asked for, or beside the one that reaches least far around."""
    if like is None:
        if all(same_grid(source.grid, sources[0].grid) for source in sources[1:]):
            return list(sources)
        like = min(
            (source.grid for source in sources),
            key=lambda grid: (
                round((grid.bounds[2] - grid.bounds[0]) / grid.cell_size[0]) * grid.cell_size[0],
                -sum(same_grid(grid, other.grid) for other in sources),
            ),
        )
    return [_beside(source, like, notes) for source in sources]


def _beside(source: FileSource, like: Grid, notes: list[str]) -> FileSource:
    grid = source.grid
    a, b, _, d, _, _ = grid.transform
    if b or d or a <= 0 or not same_crs(grid.crs, like.crs):
        return source
    around = Earth.under(grid).turn
    (west, _, east, _), (wanted, _, end, _) = grid.bounds, like.bounds
    slack = SAME * a
    if not around or (west <= wanted + slack and east >= end - slack):
        return source
    if abs(east - west - around) <= slack:  # all around the earth
        column = int(np.floor((wanted - west) / a + SAME))
        moved = replace(
            source,
            grid=_shifted(grid, column * a),
            shift=(0, column % grid.width),
            around=grid.width,
        )
        how = "its columns in the order of"
    else:
        # the first of those that share most: where it lies, if no turn is better
        k = max(
            (0, -1, 1),
            key=lambda k: max(0.0, min(east + k * around, end) - max(west + k * around, wanted)),
        )
        if not k:
            return source
        moved = replace(source, grid=_shifted(grid, k * around), turned=True)
        how = "a turn around the earth away, beside"
    left, _, right, _ = moved.grid.bounds
    notes.append(
        f"{source.label}: x {west:.10g} to {east:.10g} is read as {left:.10g} to {right:.10g}, "
        f"{how} the other layers"
    )
    return moved


def _shifted(grid: Grid, by: float) -> Grid:
    a, b, c, d, e, f = grid.transform
    return replace(grid, transform=(a, b, c + by, d, e, f))
