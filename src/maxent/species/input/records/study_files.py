"""What a study region is made of: polygons of a file, or the records of a species."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import is_geographic, same_crs, short_crs
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.outlines import (
    across_the_line,
    brought,
    buffered,
    hull,
    on_grid,
)
from maxent.species.input.records.occurrences import read_vector
from maxent.species.libraries import geo
from maxent.species.study.study_region import StudyRegion


@dataclass(frozen=True, eq=False)
class StudyChoice:
    """How to make the study region of a species.

    Attributes
    ----------
    kind : "polygons", "ecoregions", "hull" or "buffer"
        What it is made of.
    polygons : array of shapes
        Shapes in the coordinates of the grid, of the first two kinds; longitudes may lie full
        turns away from it.
    source : str
        Their file.
    buffer : float or None
        km around them or around the records, None for none.
    """

    kind: str
    polygons: Array
    source: str
    buffer: float | None

    @property
    def by_species(self) -> bool:
        """Whether each species has a region of its own."""
        return self.kind != "polygons"

    def around(self, x: Array, y: Array, grid: Grid) -> StudyRegion:
        """The study region of records at these places."""
        shape, words = getattr(self, f"_{self.kind}")(x, y, grid)
        if self.buffer is not None:
            shape = buffered(shape, self.buffer, grid)
            if self.kind != "buffer":
                words += f", and {self.buffer:g} km around"
        return StudyRegion.from_shape(self.kind, words, shape, grid)

    def _polygons(self, x: Array, y: Array, grid: Grid) -> tuple[Any, str]:
        words = f"the {len(self.polygons)} polygons" if len(self.polygons) > 1 else "the polygon"
        return geo("shapely").union_all(self.polygons), f"{words} of {self.source}"

    def _ecoregions(self, x: Array, y: Array, grid: Grid) -> tuple[Any, str]:
        shapely = geo("shapely")
        points = shapely.points(x, y)
        home = [on_grid(polygon, grid) for polygon in self.polygons]
        _, found = shapely.STRtree(home).query(points, predicate="intersects")
        holding = np.unique(found)
        if not holding.size:
            raise ValueError(
                f"{self.source}: none of its {len(self.polygons)} polygons holds one of the "
                f"{len(x)} records; check its coordinate reference system"
            )
        n, known = len(holding), len(self.polygons)
        words = f"the {n} of {known} polygons of {self.source} that hold records"
        return shapely.union_all(self.polygons[holding]), words

    def _hull(self, x: Array, y: Array, grid: Grid) -> tuple[Any, str]:
        shape = hull(x, y, grid)
        words = f"the convex hull of {len(x)} records"
        if shape is None:
            whole = geo("shapely").box(*grid.bounds)
            return whole, f"{words}, which lie all around the earth: all of it"
        if shape.area == 0 and self.buffer is None:
            raise ValueError(
                f"the convex hull of {len(x)} records on a line has no area; widen it with buffer= "
                "(--buffer)"
            )
        return shape, words

    def _buffer(self, x: Array, y: Array, grid: Grid) -> tuple[Any, str]:
        points = geo("shapely").multipoints(np.column_stack([x, y]))
        return points, f"{self.buffer:g} km around {len(x)} records"


def read_polygons(path: str, grid: Grid) -> tuple[Array, list[str]]:
    """The polygons of a file in the coordinates of a grid, and notes on how they got there.

    Parameters
    ----------
    path : str
        The file.
    grid : Grid
        The grid of the layers.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file; give a GeoPackage, GeoJSON or shapefile")
    shapely = geo("shapely")
    frame, notes = read_vector(Path(path), "polygons")
    shapes = np.asarray(frame.geometry) if hasattr(frame, "geometry") else np.empty(0, object)
    shapes = shapes[~(shapely.is_missing(shapes) | shapely.is_empty(shapes))]
    kinds = sorted({shape.geom_type for shape in shapes})
    if not len(shapes) or not set(kinds) <= {"Polygon", "MultiPolygon"}:
        raise ValueError(
            f"{path}: expected polygons, got {', '.join(kinds) or 'no shapes'}; for a region "
            "around records use --buffer or --hull"
        )
    said = list(notes)
    crs = None if frame.crs is None else frame.crs.to_string()
    if crs is None:
        said.append(
            f"{path}: no coordinate reference system given, taken to be that of the layers, "
            f"{short_crs(grid.crs)}"
        )
    elif grid.crs is None and frame.crs.is_geographic != is_geographic(None, grid.bounds):
        raise ValueError(
            f"{path}: the polygons are in {short_crs(crs)}, and the layers ({grid.describe()}) do "
            "not state their coordinate reference system; give it with --layers-crs"
        )
    own = Earth.of(crs or grid.crs, shapely.total_bounds(shapes))
    if own.in_degrees:
        shapes, jumps = across_the_line(shapes, own.turn)
        said += [f"{path}: {jump}" for jump in jumps]
    broken = ~shapely.is_valid(shapes)
    if broken.any():
        shapes[broken] = shapely.make_valid(shapes[broken])
        said.append(f"{path}: {int(broken.sum())} polygons that cross themselves were mended")
    if crs is not None and grid.crs is not None and not same_crs(crs, grid.crs):
        shapes = brought(shapes, crs, grid)
        said.append(f"{path}: reprojected from {short_crs(crs)} to {short_crs(grid.crs)}")
    return shapes, said
