"""Hulls and buffers around places of a grid, and polygons brought to it from elsewhere.

Shapes are in the coordinates of a grid. Where these go around the earth, along longitudes or x of a
cylindrical map, a shape may reach beyond the date line, and stands for the places a full turn away
as well: :func:`on_grid` brings them all home.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import short_crs
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid
from maxent.species.libraries import geo

FURTHEST = 5000.0  # km: no circle holds both poles
_VERTICES = 90  # of a circle: its sides are within 0.1 % of the distance
_STEPS = 8  # circles along an outline, per distance
_SIDE = 0.1  # degrees along the sides of a hull: straight on any map to some metres
_LATTICE = 65  # places along each side of a grid that say how far it reaches
_HAIR = 1e-7  # degrees, 1 cm: rounding must not leave the corners of a hull outside
_SEAM = 1e-9  # degrees between the two sides of the meridian that cuts a map
_NARROW = 60.0  # degrees: a polygon is not taken to cross the date line if it were wider


def on_grid(shape: Any, grid: Grid) -> Any:
    """The part of a shape that a grid covers, also by full turns around the earth."""
    shapely = geo("shapely")
    corners = grid.coordinates([0, 0, grid.height, grid.height], [0, grid.width, grid.width, 0])
    frame = shapely.Polygon(np.column_stack(corners))
    turn = Earth.under(grid).turn
    west, _, east, _ = shape.bounds
    if not turn or not np.isfinite([west, east]).all():
        return shapely.intersection(shape, frame)
    left, _, right, _ = grid.bounds
    turns = np.arange(np.ceil((left - east) / turn), np.floor((right - west) / turn) + 1)
    moved = [shapely.intersection(_shifted(shape, turn * k), frame) for k in turns]
    return moved[0] if len(moved) == 1 else shapely.union_all(moved)


def _shifted(shape: Any, by: float) -> Any:
    step = np.array([by, 0.0])
    return geo("shapely").transform(shape, lambda places: places + step) if by else shape


# -- hulls -----------------------------------------------------------------------------------------


def hull(x: Array, y: Array, grid: Grid) -> Any:
    """The smallest convex shape that holds places of a grid; None where that is all the earth.

    Its sides are the shortest ways along the ellipsoid (great ellipses), so that it is the same on
    every map, across the date line and over a pole; on a map without an earth they are straight. A
    line or point where places have no area between them.
    """
    shapely, earth = geo("shapely"), Earth.under(grid)
    if earth.is_plane:
        return shapely.convex_hull(shapely.multipoints(np.column_stack([x, y])))
    directions = earth.space(x, y)
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    middle = _facing(directions)
    if middle is None:
        return None
    # seen from the centre of the earth, the shortest ways are straight
    plane = np.linalg.svd(middle[None])[2][1:]
    seen = directions @ plane.T / (directions @ middle)[:, None]
    flat = shapely.convex_hull(shapely.multipoints(seen))
    if flat.area <= 1e-9 * flat.length:  # some mm wide
        flat = shapely.LineString(seen[_ends(seen)]) if flat.length else shapely.Point(seen[0])
    else:
        flat = shapely.buffer(flat, np.radians(_HAIR), join_style="mitre")

    corners = middle + shapely.get_coordinates(flat) @ plane
    line = np.column_stack(earth.from_space(_along(corners)))
    line[:, 0] = _continuous(line[:, 0])
    if flat.geom_type == "Point":
        return _mapped(shapely.Point(line[0]), grid)
    if flat.geom_type == "LineString":
        return _mapped(shapely.LineString(line), grid)
    pole = next((p for p in (-90.0, 90.0) if _sees(flat, middle, plane, p)), None)
    ring = line if pole is None else _over_pole(line[:-1], pole)
    return _mapped(shapely.Polygon(ring), grid)


def _facing(directions: Array) -> Array | None:
    """A direction from which all others can be seen, less than 90 degrees away; None without."""
    middle = directions.mean(axis=0)
    size = np.linalg.norm(middle)
    if size > 0 and (directions @ middle).min() > 0.05 * size:
        return np.asarray(middle / size)
    from scipy.optimize import linprog

    # the largest t with u . direction >= t, |u| <= 1
    upper = np.column_stack([-directions, np.ones(len(directions))])
    found = linprog([0, 0, 0, -1], upper, np.zeros(len(upper)), bounds=[(-1, 1)] * 4)
    if not found.success or found.x[3] < 1e-3:
        return None
    return np.asarray(found.x[:3] / np.linalg.norm(found.x[:3]))


def _along(corners: Array) -> Array:
    """Directions from corner to corner along great circles, in small steps of equal angles."""
    corners = corners / np.linalg.norm(corners, axis=1)[:, None]
    parts = []
    for one, other in pairwise(corners):
        angle = np.arctan2(np.linalg.norm(np.cross(one, other)), one @ other)
        steps = angle * np.linspace(0, 1, int(np.ceil(np.degrees(angle) / _SIDE)) + 1)[:-1, None]
        parts.append((np.sin(angle - steps) * one + np.sin(steps) * other) / np.sin(angle))
    return np.concatenate([*parts, corners[-1:]])


def _ends(points: Array) -> Array:
    """Of points on a line, the first and the last."""
    along = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
    place = points @ along
    return np.array([place.argmin(), place.argmax()])


def _sees(flat: Any, middle: Array, plane: Array, pole: float) -> bool:
    axis = np.array([0.0, 0.0, np.sign(pole)])
    ahead = float(axis @ middle)
    return ahead > 0 and bool(geo("shapely").contains_xy(flat, *(plane @ axis / ahead)))


def _continuous(longitude: Array) -> Array:
    """Longitudes along a line, which go on beyond 180 degrees."""
    step = np.diff(longitude)
    return np.concatenate([longitude[:1], longitude[0] + np.cumsum((step + 180) % 360 - 180)])


def _over_pole(ring: Array, pole: float) -> Array:
    """The outline of a shape around a pole: all longitudes, from its edge to the pole."""
    edge = ring if ring[-1, 0] > ring[0, 0] else ring[::-1]
    first = edge[0]
    around = [*edge, (first[0] + 360.0, first[1])]
    return np.array([*around, (first[0] + 360.0, pole), (first[0], pole)])


# -- buffers ---------------------------------------------------------------------------------------


def buffered(shape: Any, km: float, grid: Grid) -> Any:
    """All places within a distance of a shape in the coordinates of a grid.

    Along geodesics: circles around points, and around points an eighth of the distance apart along
    outlines. On a map without an earth, in its plane.
    """
    shapely, earth = geo("shapely"), Earth.under(grid)
    line = shapely.boundary(shape) if shape.area else shape  # points and lines have no inside
    if earth.is_plane:
        unit = float(earth.linear_scale([0.0], [0.0])[0])
        return shapely.buffer(shape, km / unit, quad_segs=_VERTICES // 4)
    unit = _km_per_unit(line, earth)
    line = shapely.segmentize(shapely.simplify(line, km / 200 / unit), km / _STEPS / unit)
    points = shapely.get_coordinates(line)
    # one place may have many coordinates, above all a pole
    same = np.rint(earth.space(*points.T) / (km / 1000))
    points = points[np.unique(same, axis=0, return_index=True)[1]]
    outlines = _circles(np.column_stack(earth.degrees(*points.T)), km, earth.geod)
    which = np.repeat(np.arange(len(outlines)), [len(ring) for ring in outlines])
    circles = shapely.polygons(shapely.linearrings(np.concatenate(outlines), indices=which))
    return shapely.union_all([_mapped(shapely.union_all(circles), grid), shape])


def _km_per_unit(line: Any, earth: Earth) -> float:
    """At most, along a line."""
    if earth.in_degrees:
        return float(np.radians(360.0 / earth.turn) * earth.geod.a**2 / earth.geod.b / 1e3)
    return earth.largest_scale(line)


def _circles(centres: Array, km: float, geod: Any) -> list[Array]:
    """The outline of every circle in degrees, with longitudes that go on beyond 180 degrees."""
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
            edge = rings[i][np.argsort(rings[i][:, 0])]
            outlines[i] = _over_pole(edge, pole)
    return outlines


# -- from degrees to a map -------------------------------------------------------------------------


def _mapped(shape: Any, grid: Grid) -> Any:
    """A shape of longitudes and latitudes, which may go on beyond 180, in a grid's coordinates.

    On a map that is not made of them only as far as the grid reaches, with some margin, and cut at
    the meridian where the map ends on both sides.
    """
    shapely, earth = geo("shapely"), Earth.under(grid)
    if earth.in_degrees:
        return shapely.transform(
            shape, lambda places: np.column_stack(earth.coordinates(*places.T))
        )
    reach = _reach(grid, earth)
    west, _, east, _ = shape.bounds
    turns = range(int(np.floor((reach[0] - east) / 360)), int((reach[2] - west) // 360) + 1)
    parts = [shapely.intersection(_shifted(shape, 360.0 * k), shapely.box(*reach)) for k in turns]
    parts = [part for part in parts if not part.is_empty]
    moved = [shapely.transform(shapely.segmentize(part, _SIDE), _finite(earth)) for part in parts]
    moved = [part if part.is_valid else shapely.make_valid(part) for part in moved]
    if shape.area and any(_cut(part, reach) for part in parts):
        # the two sides of the cut are one place where the map goes on, as around a pole
        hair = 1e-3 / float(np.nanmedian(earth.linear_scale(*_lattice(grid)))) / 1e3
        moved = [shapely.buffer(part, hair, join_style="mitre") for part in moved]
        return shapely.buffer(shapely.union_all(moved), -hair, join_style="mitre")
    return shapely.union_all(moved)


def _finite(earth: Earth) -> Callable[[Array], Array]:
    def moved(places: Array) -> Array:
        found = np.column_stack(earth.coordinates(*places.T))
        if not np.isfinite(found).all():
            raise ValueError(
                f"a shape around longitude {places[0, 0]:.4g}, latitude {places[0, 1]:.4g} lies "
                f"beyond the reach of {short_crs(earth.crs)}, the coordinate reference system of "
                "the layers; cut the layers to where it holds, or give them in degrees"
            )
        return found

    return moved


def _cut(part: Any, reach: Sequence[float]) -> bool:
    """Whether a part touches the meridian where the map is cut."""
    west, _, east, _ = part.bounds
    whole = reach[2] - reach[0] > 360 - 1e-6
    return bool(whole and (west - reach[0] < 1e-6 or reach[2] - east < 1e-6))


def _lattice(grid: Grid) -> tuple[Array, Array]:
    rows, columns = np.meshgrid(
        np.linspace(0, grid.height, _LATTICE), np.linspace(0, grid.width, _LATTICE)
    )
    return grid.coordinates(rows.ravel(), columns.ravel())


def _reach(grid: Grid, earth: Earth) -> tuple[float, float, float, float]:
    """Longitudes, counted from the middle of the map, and latitudes of a grid, and some more."""
    longitude, latitude = earth.degrees(*_lattice(grid))
    known = np.isfinite(longitude) & np.isfinite(latitude)
    if not known.any():
        raise ValueError(
            f"the layers, {grid.describe()}, lie beyond the reach of their coordinate reference "
            f"system, {short_crs(grid.crs)}; check it (--layers-crs)"
        )
    away = (longitude[known] - earth.middle + 180) % 360 - 180
    west, east = float(away.min()), float(away.max())
    south, north = float(latitude[known].min()), float(latitude[known].max())
    for pole in (-90.0, 90.0):
        row, column = grid.positions(*earth.coordinates([earth.middle], [pole]))
        if 0 <= row[0] <= grid.height and 0 <= column[0] <= grid.width:
            west, east = -180.0, 180.0
            south, north = min(south, pole), max(north, pole)
    margin = 1 + (east - west) / 16
    if east - west + 2 * margin >= 360:
        west, east, margin = -180 + _SEAM, 180 - _SEAM, 0.0
    up = 1 + (north - south) / 16
    return (
        earth.middle + max(west - margin, -180 + _SEAM),
        max(south - up, -90.0),
        earth.middle + min(east + margin, 180 - _SEAM),
        min(north + up, 90.0),
    )


# -- polygons from elsewhere -----------------------------------------------------------------------


def brought(shapes: Array, crs: str, grid: Grid) -> Array:
    """Polygons of a CRS in the coordinates of a grid that has another; empty where it is not.

    Their sides stay where they are: straight in the CRS that they come from.

    Parameters
    ----------
    shapes : array of shapes
        Polygons.
    crs : str
        Their CRS.
    grid : Grid
        The grid.
    """
    shapely = geo("shapely")
    assert grid.crs is not None
    earth, source = Earth(grid.crs), Earth(crs)
    west, south, east, north = shapely.total_bounds(shapes)
    side = max(east - west, north - south) / 1000
    if source.in_degrees:
        side = min(side, source.turn / 360)  # turns are told from steps of less than half a turn
    degrees = earth.degrees_of(source)
    return np.array(
        [_mapped(_rounded(shape, side, degrees, source), grid) for shape in shapes], dtype=object
    )


def _rounded(
    shape: Any, side: float, degrees: Callable[[Array, Array], tuple[Array, Array]], source: Earth
) -> Any:
    """A polygon in degrees, whose longitudes go on beyond 180."""
    shapely = geo("shapely")

    def ring(line: Any) -> Any:
        # the very ends of a map are not places
        places = shapely.get_coordinates(shapely.segmentize(line, side))
        moved = np.column_stack(degrees(*places.T))
        moved = moved[np.isfinite(moved).all(axis=1)]
        if len(moved) < 4:
            raise ValueError(
                f"a polygon (x {places[:, 0].min():.6g} to {places[:, 0].max():.6g}) lies beyond "
                f"the reach of {short_crs(source.crs)}, its own coordinate reference system"
            )
        moved[:, 0] = _continuous(moved[:, 0])
        if abs(moved[-1, 0] - moved[0, 0]) > 180:  # once around
            inside = shapely.Polygon(line)
            poles = {p: source.coordinates([source.middle], [p]) for p in (-90.0, 90.0)}
            held = [p for p, (px, py) in poles.items() if shapely.intersects_xy(inside, px, py)[0]]
            pole = held[0] if held else 90.0 if moved[:, 1].mean() > 0 else -90.0
            moved = _over_pole(moved[:-1], pole)
        made = shapely.Polygon(moved)
        return made if made.is_valid else shapely.make_valid(made)

    parts = []
    for part in _polygons(shape):
        whole = ring(part.exterior)
        for hole in part.interiors:
            gap = ring(hole)
            middle = whole.centroid.x - gap.centroid.x
            whole = shapely.difference(whole, _shifted(gap, 360 * np.round(middle / 360)))
        parts.append(whole)
    return shapely.union_all(parts)


def across_the_line(shapes: Array, turn: float) -> tuple[Array, list[str]]:
    """Polygons in degrees with sides that jump over the date line, and what was made of them.

    A side from 177 to -179 degrees is taken to go the short way if that makes the polygon narrow;
    otherwise polygons are as they are drawn.

    Parameters
    ----------
    shapes : array of shapes
        Polygons.
    turn : float
        Once around the earth: 360, or 400 where longitudes are grads.
    """
    shapely = geo("shapely")
    said, made = [], shapes.copy()
    for i, shape in enumerate(shapes):
        lines = [ring for part in _polygons(shape) for ring in _rings(part)]
        steps = np.concatenate([np.abs(np.diff(line[:, 0])) for line in lines])
        long = (steps > turn / 2) & (steps < turn * 359 / 360)
        if not long.any():
            continue
        short = shapely.union_all(
            [shapely.make_valid(_unjumped(part, turn)) for part in _polygons(shape)]
        )
        west, _, east, _ = short.bounds
        jump = f"polygon {i + 1} has a side {steps[long].max():.4g} degrees long"
        if (east - west) * 360 / turn <= _NARROW:
            made[i] = short
            said.append(
                f"{jump}: taken to cross the date line, from {west:.6g} to {east:.6g}; if it goes "
                "around the earth, give it more vertices"
            )
        else:
            said.append(f"{jump}: taken as it is drawn, not across the date line")
    return made, said


def _polygons(shape: Any) -> list[Any]:
    """The polygons that a shape is made of, without lines that mending may have left."""
    shapely = geo("shapely")
    parts = shapely.get_parts(shapely.get_parts(shape))
    return [part for part in parts if part.geom_type == "Polygon"]


def _rings(part: Any) -> list[Array]:
    shapely = geo("shapely")
    return [shapely.get_coordinates(ring) for ring in (part.exterior, *part.interiors)]


def _unjumped(part: Any, turn: float) -> Any:
    outline, *holes = _rings(part)
    for line in (outline, *holes):
        line[:, 0] = _continuous(line[:, 0] * 360 / turn) * turn / 360
    return geo("shapely").Polygon(outline, holes)
