"""Distances and areas on the earth of shapes in the coordinates of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import WGS84, is_geographic, metres_per_unit
from maxent.species.input.layers.grid import Grid
from maxent.species.libraries import geo

FURTHEST = 5000.0  # km: no circle holds both poles
_VERTICES = 90  # of a circle: its sides are within 0.1 % of the distance
_STEPS = 8  # circles along an outline, per distance
_DEGREE = 111.0  # km, at most


def buffered(shape: Any, km: float, grid: Grid) -> Any:
    """All places of the grid within a distance of a shape in its coordinates.

    Along geodesics where they are degrees (circles around points, and around points an eighth of
    the distance apart along outlines), also across the date line and around poles; else in the
    plane of the map. A grid without CRS that is not in degrees is taken to be in metres.
    """
    shapely = geo("shapely")
    if not is_geographic(grid.crs, grid.bounds):
        return shapely.buffer(shape, 1e3 * km / metres_per_unit(grid.crs), quad_segs=_VERTICES // 4)
    line = shapely.boundary(shape) if shape.area else shape  # points and lines have no inside
    line = shapely.segmentize(shapely.simplify(line, km / 200 / _DEGREE), km / _STEPS / _DEGREE)
    points = shapely.get_coordinates(line)
    circles = shapely.polygons(_circles(np.unique(points, axis=0), km, _geod(grid)))
    united = shapely.union_all([*circles, shape])
    frame = shapely.box(*grid.bounds)
    turns = [
        shapely.transform(united, lambda places, turn=turn: places + np.array([turn, 0.0]))
        for turn in (-360.0, 0.0, 360.0)
    ]
    return shapely.union_all(shapely.intersection(turns, frame))


def _geod(grid: Grid) -> Any:
    return geo("pyproj").CRS.from_user_input(grid.crs or WGS84).get_geod()


def _circles(centres: Array, km: float, geod: Any) -> list[Array]:
    """The outline of every circle, with longitudes that go on beyond 180 degrees."""
    n = len(centres)
    longitude, latitude = np.repeat(centres, _VERTICES, axis=0).T
    azimuth = np.tile(np.linspace(0, 360, _VERTICES, endpoint=False), n)
    x, y, _ = geod.fwd(longitude, latitude, azimuth, np.full(n * _VERTICES, 1e3 * km))
    step = (np.asarray(x) - longitude + 180) % 360 - 180
    rings = np.stack([longitude + step, np.asarray(y)], axis=-1).reshape(n, _VERTICES, 2)
    outlines = list(rings)
    for pole in (-90.0, 90.0):
        far = geod.inv(*centres.T, centres[:, 0], np.full(n, pole))[2]
        for i in np.flatnonzero(np.asarray(far) < 1e3 * km):
            outlines[i] = _over_pole(rings[i], centres[i, 0], pole)
    return outlines


def _over_pole(ring: Array, longitude: float, pole: float) -> Array:
    """The outline of a circle around a pole: all longitudes, from its edge to the pole."""
    edge = ring[np.argsort(ring[:, 0])]
    west, east = longitude - 180, longitude + 180
    end = np.interp(east, [edge[-1, 0], edge[0, 0] + 360], [edge[-1, 1], edge[0, 1]])
    return np.array([(west, pole), (west, end), *edge, (east, end), (east, pole)])


def area_km2(shape: Any, grid: Grid) -> float:
    """The area on the earth of a shape in the coordinates of a grid.

    By an equal-area projection of its outline; without any CRS, in the plane, of metres.
    """
    shapely = geo("shapely")
    if is_geographic(grid.crs, grid.bounds):
        # straight sides in degrees are curves in the other projection
        shape = shapely.segmentize(shape, 0.25)
        return _projected_area(shape, grid.crs or WGS84, "+proj=cea +over")
    if grid.crs is None:
        return float(shape.area) / 1e6
    west, south, east, north = shape.bounds
    shape = shapely.segmentize(shape, max(east - west, north - south) / 500)
    middle = shape.centroid
    to_degrees = geo("pyproj").Transformer.from_crs(grid.crs, WGS84, always_xy=True)
    longitude, latitude = to_degrees.transform(middle.x, middle.y)
    return _projected_area(shape, grid.crs, f"+proj=laea +lat_0={latitude} +lon_0={longitude}")


def _projected_area(shape: Any, crs: str, projection: str) -> float:
    transformer = geo("pyproj").Transformer.from_crs(crs, projection, always_xy=True)
    moved = geo("shapely").transform(
        shape, lambda places: np.column_stack(transformer.transform(*places.T))
    )
    return float(moved.area) / 1e6
