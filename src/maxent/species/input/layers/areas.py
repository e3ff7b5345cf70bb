"""Areas of cells: on the sphere where a grid is in degrees, else by the units of its CRS."""

from __future__ import annotations

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import parsed_crs
from maxent.species.input.layers.grid import EARTH_RADIUS, Grid


def cell_areas(grid: Grid) -> Array | None:
    """Square kilometres of a cell in each row; None where the CRS is not known or axes are turned.

    In degrees R^2 dlon |sin(north) - sin(south)|, on a sphere of the mean radius.

    >>> world = Grid("EPSG:4326", (90.0, 0.0, -180.0, 0.0, -90.0, 90.0), 4, 2)
    >>> round(4 * float(cell_areas(world).sum()) / (4 * np.pi * EARTH_RADIUS**2), 12)
    1.0
    """
    if grid.crs is None:
        return None
    crs = parsed_crs(grid.crs)
    a, b, _, d, e, top = grid.transform
    if not crs.is_geographic:
        _, metres = crs.linear_units_factor
        return np.full(grid.height, abs(a * e - b * d) * (metres / 1000) ** 2)
    if b or d:
        return None
    edges = np.clip(top + e * np.arange(grid.height + 1), -90, 90)
    return EARTH_RADIUS**2 * np.radians(abs(a)) * np.abs(np.diff(np.sin(np.radians(edges))))
