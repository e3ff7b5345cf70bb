"""A grid as pages know it."""

from __future__ import annotations

from typing import Any

from maxent.species.input.crs import is_geographic, parsed_crs, short_crs
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid


def grid_facts(grid: Grid) -> dict[str, Any]:
    """What a map on a page needs to know of a grid."""
    return {
        "transform": list(grid.transform),
        "width": grid.width,
        "height": grid.height,
        "crs": None if grid.crs is None else short_crs(grid.crs),
        "definition": None if grid.crs is None else parsed_crs(grid.crs).to_string(),
        "geographic": is_geographic(grid.crs, grid.bounds),
        "turn": Earth.under(grid).turn,
        "words": grid.describe(),
    }
