"""Areas of cells in km2: on the sphere where a grid is in degrees, else by the units of its CRS."""

from __future__ import annotations

import numpy as np

from maxent._rows import Array
from maxent.species.crs import is_geographic, parsed_crs
from maxent.species.layers.grid import EARTH_RADIUS, Grid, Window


def cell_areas(grid: Grid, window: Window | None = None) -> Array:
    """km2 of the cells of a window, (height, 1) or, of a grid that is turned, (height, width).

    In degrees a cell between meridians and parallels has R^2 dlon (sin(north) - sin(south)).
    Other coordinates are lengths: without a CRS, metres.

    >>> grid = Grid("EPSG:4326", (1.0, 0.0, 0.0, 0.0, -1.0, 90.0), width=360, height=180)
    >>> round(float(cell_areas(grid).sum()) * 360 / 510_065_881.7, 6)  # the sphere's surface
    1.0
    >>> cell_areas(Grid(None, (500.0, 0.0, 0.0, 0.0, -500.0, 3e6), width=2, height=1))
    array([[0.25]])
    """
    row, column, height, width = window or Window(0, 0, grid.height, grid.width)
    a, b, _, d, e, _ = grid.transform
    if not is_geographic(grid.crs, grid.bounds):
        metres = 1.0 if grid.crs is None else parsed_crs(grid.crs).linear_units_factor[1]
        return np.full((height, 1), abs(a * e - b * d) * metres**2 / 1e6)
    rows = np.arange(row, row + height)
    if b == d == 0:
        _, edges = grid.coordinates(np.append(rows, row + height), 0)
        sines = np.sin(np.radians(np.clip(edges, -90.0, 90.0)))
        return EARTH_RADIUS**2 * np.radians(abs(a)) * np.abs(np.diff(sines))[:, None]
    columns = np.arange(column, column + width)
    _, latitude = grid.coordinates(rows[:, None] + 0.5, columns[None, :] + 0.5)
    return (
        EARTH_RADIUS**2 * np.radians(1.0) ** 2 * abs(a * e - b * d) * np.cos(np.radians(latitude))
    )
