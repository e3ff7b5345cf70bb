"""Distances and areas on the earth: the one place where coordinates become km and km2.

Coordinates of any CRS stand for places on its ellipsoid. A place there is a point of space, whose
chords know neither date line nor pole; exact distances are those of geodesics. Coordinates of
unknown places, or of a CRS without an earth under it, are lengths in a plane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent.rows.arrays import Array
from maxent.species.input import file_access
from maxent.species.input.crs import WGS84, is_geographic
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.libraries import geo

_STEP = 2.0  # km: derivatives by differences of so much are right to 1e-7
_AREA_ERROR = 1e-5  # of interpolated areas of cells, relative
_NODES = (5, 9, 17, 33)  # of an interpolated window, along each side
_FEWEST = 24  # cells along a side: smaller windows are computed cell by cell
_PIECES = 64  # at most, along the longer side of a shape whose area is added up
_PIECE = 30.0  # km: the areal scale changes evenly within them, to 1e-6
_NEARLY_ALL = 0.98  # chords below this share of a distance belong to shorter ways


@lru_cache(maxsize=64)
def _system(crs: str) -> Any:
    file_access.check_crs(crs)
    return geo("pyproj").CRS.from_user_input(crs)


@dataclass(frozen=True)
class Earth:
    """The ellipsoid under the coordinates of a CRS.

    Parameters
    ----------
    crs : str or None
        The CRS; None where coordinates are lengths in metres, in a plane.

    Examples
    --------
    >>> earth = Earth("EPSG:4326")
    >>> round(float(earth.distances([179.5], [0.0], [-179.5], [0.0])[0]), 3)
    111.319
    >>> mercator = Earth("EPSG:3857")  # 1000 of its metres at 60 degrees north
    >>> round(float(mercator.distances([0.0], [8399737.9], [1000.0], [8399737.9])[0]), 3)
    0.501
    """

    crs: str | None

    @classmethod
    def under(cls, grid: Grid) -> Earth:
        """That of a grid; without a CRS it is WGS 84 where coordinates look like degrees."""
        return cls.of(grid.crs, grid.bounds)

    @classmethod
    def of(cls, crs: str | None, bounds: Sequence[float]) -> Earth:
        """That of a CRS, or of coordinates within bounds (w, s, e, n) where it is not known."""
        return _kept(WGS84 if crs is None and is_geographic(None, bounds) else crs)

    # -- what kind of coordinates ------------------------------------------------------------------

    @cached_property
    def _system(self) -> Any:
        return None if self.crs is None else _system(self.crs)

    @cached_property
    def _geographic(self) -> Any:
        """The longitudes and latitudes that a CRS is made of."""
        system = self._system
        if system is None:
            return None
        while system.is_bound or (system.is_geographic and system.is_derived):
            system = system.source_crs  # such as that of a rotated pole
        return system.geodetic_crs

    @property
    def is_plane(self) -> bool:
        """Whether no ellipsoid is known."""
        return self._geographic is None

    @cached_property
    def in_degrees(self) -> bool:
        """Whether coordinates are longitudes and latitudes, in degrees or another angle."""
        system = self._system
        if self.is_plane:
            return False
        while system.is_bound:
            system = system.source_crs
        return bool(system.is_geographic and not system.is_derived)

    @cached_property
    def _degrees_per_unit(self) -> float:
        """Of longitudes and latitudes; some systems count in grads."""
        return float(np.degrees(self._geographic.axis_info[0].unit_conversion_factor))

    @cached_property
    def _km_per_unit(self) -> float:
        """Of lengths in the plane of the map."""
        axes = [] if self._system is None else self._system.axis_info
        return (axes[0].unit_conversion_factor if axes else 1.0) / 1e3

    @cached_property
    def geod(self) -> Any:
        """pyproj's geodesics on the ellipsoid."""
        return self._geographic.get_geod()

    @cached_property
    def _to_degrees(self) -> Any:
        return geo("pyproj").Transformer.from_crs(self._system, self._geographic, always_xy=True)

    @cached_property
    def _from_degrees(self) -> Any:
        return geo("pyproj").Transformer.from_crs(self._geographic, self._system, always_xy=True)

    @cached_property
    def middle(self) -> float:
        """The longitude in degrees from which a map reaches 180 degrees to both sides."""
        operation = None if self.in_degrees else self._system.coordinate_operation
        for value in () if operation is None else operation.params:
            if value.name.startswith("Longitude of"):
                return float(np.degrees(value.value * value.unit_conversion_factor))
        return 0.0

    @cached_property
    def turn(self) -> float:
        """How far along x lies the same place again, once around the earth; 0 for nowhere."""
        if self.is_plane:
            return 0.0
        if self.in_degrees:
            return 360.0 / self._degrees_per_unit
        if self._system.is_geographic:  # with a rotated pole
            return 360.0
        edge = self.middle + np.array([-180 + 1e-9, 180 - 1e-9])
        (west, east), y = self.coordinates(edge, [0.0, 0.0])
        around = float(east - west)
        x, y = self.coordinates(self.middle + np.array([-60.0, 10.0]), [-35.0, 40.0])
        with np.errstate(invalid="ignore"):
            here, there = self.space(x, y), self.space(x + around, y)
            same = np.allclose(here, there, atol=1e-3)
            return around if np.isfinite(around) and around > abs(x[1] - x[0]) and same else 0.0

    # -- places ------------------------------------------------------------------------------------

    def degrees(self, x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Longitudes and latitudes of places; infinite for those that the map does not reach."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if not self.in_degrees:
            x, y = self._to_degrees.transform(x, y)
        return np.asarray(x) * self._degrees_per_unit, np.asarray(y) * self._degrees_per_unit

    def coordinates(self, longitude: ArrayLike, latitude: ArrayLike) -> tuple[Array, Array]:
        """The inverse of :meth:`degrees`."""
        x = np.asarray(longitude, dtype=np.float64) / self._degrees_per_unit
        y = np.asarray(latitude, dtype=np.float64) / self._degrees_per_unit
        if not self.in_degrees:
            x, y = self._from_degrees.transform(x, y)
        return np.asarray(x), np.asarray(y)

    def degrees_of(self, other: Earth) -> Callable[[Array, Array], tuple[Array, Array]]:
        """How the coordinates of another CRS become longitudes and latitudes of this one."""
        pyproj = geo("pyproj")
        moved = pyproj.Transformer.from_crs(other._system, self._geographic, always_xy=True)

        def degrees(x: Array, y: Array) -> tuple[Array, Array]:
            longitude, latitude = moved.transform(x, y)
            return longitude * self._degrees_per_unit, latitude * self._degrees_per_unit

        return degrees

    def space(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Points of space in km, (n, 3): those of the ellipsoid; in a plane (n, 2).

        A chord is shorter than the way along the ellipsoid by 0.03 % at 500 km.
        """
        if self.is_plane:
            places = np.column_stack([np.ravel(x), np.ravel(y)])
            return np.asarray(places, dtype=np.float64) * self._km_per_unit
        longitude, latitude = map(np.radians, self.degrees(np.ravel(x), np.ravel(y)))
        a, b = self.geod.a / 1e3, self.geod.b / 1e3
        with np.errstate(invalid="ignore"):
            across, up = np.cos(latitude), np.sin(latitude)
            normal = a**2 / np.sqrt((a * across) ** 2 + (b * up) ** 2)
            return np.column_stack(
                [
                    normal * across * np.cos(longitude),
                    normal * across * np.sin(longitude),
                    (b / a) ** 2 * normal * up,
                ]
            )

    def from_space(self, points: Array) -> tuple[Array, Array]:
        """Longitude and latitude of the places in these directions from the earth's centre."""
        x, y, z = points.T
        ratio = (self.geod.a / self.geod.b) ** 2
        return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(ratio * z, np.hypot(x, y)))

    # -- distances ---------------------------------------------------------------------------------

    def distances(self, x: ArrayLike, y: ArrayLike, to_x: ArrayLike, to_y: ArrayLike) -> Array:
        """km between places, one by one, along geodesics of the ellipsoid."""
        if self.is_plane:
            step = self.space(to_x, to_y) - self.space(x, y)
            return np.hypot(*step.T)
        here, there = self.degrees(x, y), self.degrees(to_x, to_y)
        return np.asarray(self.geod.inv(*here, *there)[2]) / 1e3

    def within(self, x: Array, y: Array, km: float) -> Neighbours:
        """Which of some places are closer to each other than a distance."""
        return Neighbours(self, np.asarray(x, np.float64), np.asarray(y, np.float64), km)

    def flat(self, x: ArrayLike, y: ArrayLike, around: Array | None = None) -> Array:
        """Places in km in a plane of equal areas (Lambert, azimuthal) around some of them, (n, 2).

        Parameters
        ----------
        x : array (n,)
            x of the places.
        y : array (n,)
            y of the places.
        around : array of bool (n,), default None
            Those in whose middle the plane touches the earth; None for all.
        """
        if self.is_plane:
            return self.space(x, y)
        return np.column_stack(self._plane(x, y, around)(*self.degrees(x, y)))

    def unflat(self, lines: Array, x: ArrayLike, y: ArrayLike, around: Array | None) -> Array:
        """Coordinates of points (n, 2) of the plane that :meth:`flat` makes of places."""
        if self.is_plane:
            return np.asarray(lines) / self._km_per_unit
        plane = self._plane(x, y, around)
        return np.column_stack(self.coordinates(*plane(*np.asarray(lines).T, inverse=True)))

    def _plane(self, x: ArrayLike, y: ArrayLike, around: Array | None) -> Any:
        middle = self.space(x, y)[slice(None) if around is None else around].mean(axis=0)
        if not np.linalg.norm(middle) > 1.0:  # km: all around the earth, and no side is nearer
            middle = np.array([1.0, 0.0, 0.0])
        (longitude,), (latitude,) = self.from_space(middle[None])
        return geo("pyproj").Proj(
            f"+proj=laea +lon_0={longitude:.17g} +lat_0={latitude:.17g} "
            f"+a={self.geod.a!r} +b={self.geod.b!r} +units=km"
        )

    def unrolled(self, x: ArrayLike, around: Array | None = None) -> Array:
        """x without its jump at the date line, where places lie on both sides of it.

        Cut in the middle of the widest gap between places, so that they are neighbours along the
        smaller arc.

        Parameters
        ----------
        x : array (n,)
            x of the places.
        around : array of bool (n,), default None
            Those that say where the gap is; None for all.
        """
        x = np.asarray(x, dtype=np.float64)
        if not self.turn:
            return x
        marks = np.sort(x if around is None else x[around])
        gaps = np.diff(marks)
        if not gaps.size or gaps.max() <= self.turn - (marks[-1] - marks[0]):
            return x
        widest = int(gaps.argmax())
        cut = (marks[widest] + marks[widest + 1]) / 2
        return x + self.turn * (x < cut)

    def side_by_side(self, x: ArrayLike) -> Array:
        """x for a map of places alone: unrolled where all lie within half a turn, else as given."""
        x = np.asarray(x, dtype=np.float64)
        together = self.unrolled(x)
        return together if np.ptp(together) <= self.turn / 2 else x

    # -- areas -------------------------------------------------------------------------------------

    def zones(self, latitude: ArrayLike) -> Array:
        """km2 of the ellipsoid from the equator to latitudes, per radian of longitude.

        Parameters
        ----------
        latitude : array
            In degrees; negative areas south of the equator.
        """
        sine = np.sin(np.radians(np.clip(latitude, -90, 90)))
        a, b = self.geod.a / 1e3, self.geod.b / 1e3
        if a == b:
            return np.asarray(a**2 * sine)
        e = np.sqrt(1 - (b / a) ** 2)
        return np.asarray(b**2 / 2 * (sine / (1 - (e * sine) ** 2) + np.arctanh(e * sine) / e))

    def areal_scale(self, x: ArrayLike, y: ArrayLike) -> Array:
        """km2 on the ground of a square unit of the map; NaN where there is no ground.

        The area between the derivatives of points of space along x and y.
        """
        x, y = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (x, y))
        if self.is_plane:
            return np.full(x.size, self._km_per_unit**2)
        along, up = (self._derivative(x, y, *axis) for axis in ((1.0, 0.0), (0.0, 1.0)))
        return np.asarray(np.linalg.norm(np.cross(along, up), axis=1))

    def linear_scale(self, x: ArrayLike, y: ArrayLike) -> Array:
        """km on the ground of a unit of the map, at most, by places; NaN where there is none."""
        x, y = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (x, y))
        if self.is_plane:
            return np.full(x.size, self._km_per_unit)
        along, up = (self._derivative(x, y, *axis) for axis in ((1.0, 0.0), (0.0, 1.0)))
        # the largest singular value of the two
        first, second, mixed = (along**2).sum(1), (up**2).sum(1), (along * up).sum(1)
        spread = np.hypot((first - second) / 2, mixed)
        return np.asarray(np.sqrt((first + second) / 2 + spread))

    def largest_scale(self, shape: Any) -> float:
        """km on the ground of a unit of the map, at most, around a shape in its coordinates."""
        west, south, east, north = shape.bounds
        x, y = np.meshgrid(np.linspace(west, east, 17), np.linspace(south, north, 17))
        corners = geo("shapely").get_coordinates(shape)
        some = corners[:: max(1, len(corners) // 500)]
        places = np.concatenate([np.column_stack([x.ravel(), y.ravel()]), some])
        return float(np.nanmax(self.linear_scale(*places.T)))

    def _derivative(self, x: Array, y: Array, dx: float, dy: float) -> Array:
        """Of points of space in a direction; from one side where the map ends on the other."""
        step = 0.01 if self._system.is_geographic else _STEP / self._km_per_unit
        low, high = (self.space(x + s * step * dx, y + s * step * dy) for s in (-1, 1))
        slope = (high - low) / (2 * step)
        lost = ~np.isfinite(slope).all(axis=1)
        if lost.any():
            middle = self.space(x[lost], y[lost])
            sides = (high[lost] - middle) / step, (middle - low[lost]) / step
            slope[lost] = np.where(np.isfinite(sides[0]), sides[0], sides[1])
        return np.asarray(slope)


@lru_cache(maxsize=16)
def _kept(crs: str | None) -> Earth:
    """One for all who ask: it takes time to find out about a CRS."""
    return Earth(crs)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Places and which of them are closer to each other than a distance.

    Chords of space find them; only those whose chords leave doubt are measured along geodesics.
    """

    earth: Earth
    x: Array
    y: Array
    km: float

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self.earth.space(self.x, self.y))

    @cached_property
    def _limit(self) -> float:
        return self.km * (1 - 1e-12)  # rounding must not join places at the distance itself

    @cached_property
    def _sure(self) -> float:
        """Chords up to here belong to ways below the distance."""
        if self.earth.is_plane:
            return self._limit
        radius = self.earth.geod.b / 1e3
        return _NEARLY_ALL * 2 * radius * float(np.sin(min(self.km / radius, np.pi) / 2))

    def may_have(self) -> Array:
        """Which places may have others that close: all that have, and few more."""
        tree = self._tree
        return np.asarray(tree.query_ball_point(tree.data, self._limit, return_length=True) > 1)

    def of(self, i: int) -> Array:
        """The places closer to the i-th than the distance, itself among them."""
        tree = self._tree
        near = np.array(tree.query_ball_point(tree.data[i], self._limit), dtype=np.int64)
        if self.earth.is_plane:
            return near
        chord = np.linalg.norm(tree.data[near] - tree.data[i], axis=1)
        doubt = chord > self._sure
        if not doubt.any():
            return near
        asked = near[doubt]
        here = np.full(asked.size, self.x[i]), np.full(asked.size, self.y[i])
        way = self.earth.distances(*here, self.x[asked], self.y[asked])
        return np.concatenate([near[~doubt], asked[way < self._limit]])

    def take(self, rows: Array) -> Neighbours:
        """Some of the places."""
        return Neighbours(self.earth, self.x[rows], self.y[rows], self.km)


# -- areas of cells --------------------------------------------------------------------------------


def cell_areas(grid: Grid) -> CellAreas | None:
    """Square kilometres of cells; None where the CRS is not known.

    Parameters
    ----------
    grid : Grid
        The grid.

    Examples
    --------
    >>> world = Grid("EPSG:4326", (90.0, 0.0, -180.0, 0.0, -90.0, 90.0), 4, 2)
    >>> round(float(cell_areas(world).read(Window(0, 0, 2, 4)).sum()))  # of WGS 84
    510065622
    """
    return None if grid.crs is None else CellAreas(grid, Earth(grid.crs))


@dataclass(frozen=True, eq=False)
class CellAreas:
    """Square kilometres of the cells of a grid on the ellipsoid of its CRS.

    Rows of longitudes and latitudes are zones of the ellipsoid. Elsewhere a cell is its square on
    the map times the areal scale, which is smooth: it is interpolated (cubic splines, integrated
    over each cell) where that is right to 1 in 100,000, checked between the nodes, and
    computed cell by cell where it is not. Cells beyond the reach of the map have no area.

    Attributes
    ----------
    grid : Grid
        The grid.
    earth : Earth
        The ellipsoid under it.
    """

    grid: Grid
    earth: Earth

    @cached_property
    def by_row(self) -> bool:
        """Whether all cells of a row have the same area."""
        _, b, _, d, _, _ = self.grid.transform
        return self.earth.in_degrees and not (b or d)

    def read(self, window: Window) -> Array:
        """The areas in a window, (height, width)."""
        shape = window.height, window.width
        if self.by_row:
            return np.broadcast_to(self._rows(window)[:, None], shape)
        if self.earth.is_plane:
            return np.full(shape, self._cell * self.earth.areal_scale([0.0], [0.0])[0])
        areas = np.empty(shape)
        self._fill(areas, window)
        return areas

    @property
    def _cell(self) -> float:
        """The square of a cell on the map."""
        a, b, _, d, e, _ = self.grid.transform
        return abs(a * e - b * d)

    def _rows(self, window: Window) -> Array:
        a, _, _, _, e, top = self.grid.transform
        edges = top + e * np.arange(window.row, window.row + window.height + 1)
        unit = 360.0 / self.earth.turn
        return np.asarray(
            np.radians(unit * abs(a)) * np.abs(np.diff(self.earth.zones(unit * edges)))
        )

    def _fill(self, areas: Array, window: Window) -> None:
        row, column, height, width = window
        small = min(height, width) <= _FEWEST and height * width <= 4 * _FEWEST**2
        made = None if small else self._interpolated(window)
        if made is not None:
            areas[:] = made
        elif small:
            rows, columns = np.indices((height, width)) + 0.5
            scale = self._scale(row + rows, column + columns)
            areas[:] = self._cell * np.nan_to_num(scale)
        elif height >= width:
            half = height // 2
            self._fill(areas[:half], Window(row, column, half, width))
            self._fill(areas[half:], Window(row + half, column, height - half, width))
        else:
            half = width // 2
            self._fill(areas[:, :half], Window(row, column, height, half))
            self._fill(areas[:, half:], Window(row, column + half, height, width - half))

    def _scale(self, rows: Array, columns: Array) -> Array:
        x, y = self.grid.coordinates(rows, columns)
        return self.earth.areal_scale(x, y).reshape(np.shape(rows))

    def _interpolated(self, window: Window) -> Array | None:
        """None where splines are not exact enough, or where the map ends within the window."""
        from scipy.interpolate import CubicSpline

        row, column, height, width = window
        nodes = _NODES[0]
        for nodes in _NODES:
            down = np.linspace(row, row + height, 2 * nodes - 1)
            across = np.linspace(column, column + width, 2 * nodes - 1)
            scale = self._scale(*np.meshgrid(down, across, indexing="ij"))
            if not np.isfinite(scale).any() and max(height, width) <= 16 * (2 * nodes - 2):
                return np.zeros((height, width))  # beyond the map
            if not np.isfinite(scale).all():
                if np.isfinite(scale).any():
                    return None
                continue
            every, known = slice(None, None, 2), scale[::2, ::2]
            between = CubicSpline(down[every], known)(down)
            between = CubicSpline(across[every], between, axis=1)(across)
            if np.abs(between / scale - 1).max() <= _AREA_ERROR:
                return self._cell * self._integrals(window, down, across, scale)
        return None

    @staticmethod
    def _integrals(window: Window, down: Array, across: Array, scale: Array) -> Array:
        """Over each cell, of the splines through values at nodes."""
        from scipy.interpolate import CubicSpline

        row, column, height, width = window
        weights = [
            np.diff(CubicSpline(nodes, np.eye(nodes.size)).antiderivative()(edges), axis=0)
            for nodes, edges in (
                (down, np.arange(row, row + height + 1)),
                (across, np.arange(column, column + width + 1)),
            )
        ]
        return np.asarray(weights[0] @ scale @ weights[1].T)


def cell_metres(grid: Grid) -> float | None:
    """The longer side of the cell in the middle of a grid, None where its unit is not known."""
    earth = Earth.under(grid)
    if earth.crs is None:
        return None
    row, column = grid.height // 2, grid.width // 2
    x, y = grid.coordinates([row, row + 1, row + 0.5, row + 0.5],
                            [column + 0.5, column + 0.5, column, column + 1])  # fmt: skip
    return 1e3 * float(earth.distances(x[::2], y[::2], x[1::2], y[1::2]).max())


# -- areas of shapes -------------------------------------------------------------------------------


def area_km2(shape: Any, grid: Grid) -> float:
    """The area on the earth of a shape in the coordinates of a grid.

    Straight sides are straight in these coordinates. In longitudes and latitudes it is that of the
    shape over zones of the ellipsoid; on other maps pieces of it are added up, each times the areal
    scale in its middle. Without any CRS it is that of the plane, in metres.
    """
    shapely, earth = geo("shapely"), Earth.under(grid)
    if not earth.in_degrees:
        parts = shapely.get_parts(shape)
        found = [_pieces(part, _PIECE / earth.largest_scale(part)) for part in parts if part.area]
        pieces = np.concatenate([np.empty(0, object), *found])
        middle = shapely.centroid(pieces)
        scale = earth.areal_scale(shapely.get_x(middle), shapely.get_y(middle))
        return float(np.nansum(shapely.area(pieces) * scale))
    unit = 360.0 / earth.turn
    shape = shapely.segmentize(shape, 0.25 / unit)  # a straight side is a curve over zones
    zones = shapely.transform(
        shape,
        lambda places: np.column_stack(
            [np.radians(unit * places[:, 0]), earth.zones(unit * places[:, 1])]
        ),
    )
    return float(zones.area)


def _pieces(shape: Any, side: float) -> Array:
    """A shape in pieces, cut in halves until none is longer than a side, or a small part of all."""
    shapely = geo("shapely")
    west, south, east, north = shape.bounds
    longest = max(side, max(east - west, north - south) / _PIECES)
    pieces = np.array([shape])
    for axis in (0, 1):
        while True:
            bounds = shapely.bounds(pieces)
            long = bounds[:, 2 + axis] - bounds[:, axis] > longest
            if not long.any():
                break
            cut, bounds = pieces[long], bounds[long]
            middle = (bounds[:, axis] + bounds[:, 2 + axis]) / 2
            halves = []
            for side in (axis, 2 + axis):
                half = bounds.copy()
                half[:, side] = middle
                halves.append(shapely.intersection(cut, shapely.box(*half.T)))
            pieces = np.concatenate([pieces[~long], *halves])
            pieces = pieces[shapely.area(pieces) > 0]
    return pieces
