"""StudyRegion: the places that a species could have been recorded from, as polygons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent import io
from maxent.rows.arrays import Array
from maxent.species.input.layers.geodesy import area_km2
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.outlines import on_grid
from maxent.species.libraries import geo


@io.register
@dataclass(frozen=True, eq=False)
class StudyRegion:
    """Polygons in the coordinates of the layers, from which alone background is drawn.

    Attributes
    ----------
    kind : "polygons", "ecoregions", "hull" or "buffer"
        What it is.
    description : str
        What it is made of, in words.
    crs : str or None
        CRS of the layers.
    polygons : tuple of tuple of array
        Of each polygon its outline and those of its holes, (vertices, 2) each.
    area : float
        km2 on the earth, of the part that the grid of the layers covers.

    Examples
    --------
    >>> from shapely import box
    >>> grid = Grid("EPSG:6933", (1000.0, 0.0, 0.0, 0.0, -1000.0, 5000.0), width=8, height=5)
    >>> region = StudyRegion.from_shape("polygons", "a square", box(0, 0, 3000, 3000), grid)
    >>> round(region.area, 3), region.contains([500, 3500], [500, 500])
    (9.0, array([ True, False]))
    >>> int(region.cells(grid, Window(0, 0, 5, 8)).sum())
    9
    """

    kind: str
    description: str
    crs: str | None
    polygons: tuple[tuple[Array, ...], ...]
    area: float

    @classmethod
    def from_shape(cls, kind: str, description: str, shape: Any, grid: Grid) -> StudyRegion:
        """The part of a shape, in the coordinates of a grid, that the grid covers.

        Where the coordinates go around the earth, also what lies full turns away.
        """
        shapely = geo("shapely")
        part = on_grid(shape, grid)
        pieces = [piece for piece in shapely.get_parts(part) if piece.area > 0]
        if not pieces:
            west, south, east, north = shape.bounds
            raise ValueError(
                f"study region, {description}: it covers x {west:.6g} to {east:.6g}, y "
                f"{south:.6g} to {north:.6g} and no part of the layers, {grid.describe()}; check "
                "its coordinate reference system"
            )
        polygons = tuple(
            tuple(shapely.get_coordinates(ring) for ring in (piece.exterior, *piece.interiors))
            for piece in pieces
        )
        area = area_km2(shapely.MultiPolygon(pieces), grid)
        return cls(kind, description, grid.crs, polygons, area)

    @cached_property
    def shape(self) -> Any:
        """A shapely MultiPolygon."""
        shapely = geo("shapely")
        return shapely.MultiPolygon(
            [shapely.Polygon(first, rest) for first, *rest in self.polygons]
        )

    def contains(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Which points lie inside, or on the edge."""
        shapely = geo("shapely")
        shapely.prepare(self.shape)
        return np.asarray(shapely.intersects_xy(self.shape, x, y), dtype=bool)

    def cells(self, grid: Grid, window: Window) -> Array:
        """Which cells of a window of the grid have their centre inside."""
        rasterio = geo("rasterio")
        features = geo("rasterio.features")
        return np.asarray(
            features.geometry_mask(
                [self.shape],
                (window.height, window.width),
                rasterio.Affine(*grid.crop(window).transform),
                invert=True,
            ),
            dtype=bool,
        )

    def in_words(self) -> str:
        """What it is made of, and its area."""
        return f"{self.description}, {self.area:,.0f} km²"

    def describe(self) -> str:
        """The same as a sentence."""
        return f"study region: {self.in_words()}"
