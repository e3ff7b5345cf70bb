"""What lies under a map: coasts, borders, a graticule, and how long a kilometre is.

The lines are Natural Earth's (public domain) for scales of 1 : 110 million and 1 : 50 million, as
``web/world.mjs`` writes them from the npm package world-atlas. They are cut and projected here, so
that pictures and pages have the same lines in any coordinate reference system, across the date line
too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import WGS84, is_geographic, parsed_crs
from maxent.species.input.layers.grid import Grid
from maxent.species.libraries import geo
from maxent.species.report.markup import resource

Lines = list[Array]
_FINE = 60.0  # degrees of latitude: a map that reaches no further has the finer lines
_LINES = 8  # meridians, or parallels, that a graticule has at most
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)
_DENSE = 0.5  # degrees between the corners of a line that is bent by a projection
_JUMP = 3e6  # metres between such corners: the line went around the earth
_LATTICE = 9  # places along each side at which the length of a unit is measured
_EDGE = 1e-3  # degrees beyond the box, so that a meridian along its side is drawn
_UNEVEN = 0.1  # of the length of a unit over a map, from which on a scale bar says where it holds
_TURNS = (-360.0, 0.0, 360.0)
_EARTH = (-180.0, -90.0, 180.0, 90.0)
Box = tuple[float, float, float, float]  # west, south, east, north


@dataclass(frozen=True, eq=False)
class World:
    """Lines in the coordinates of a map, and metres on the ground per unit of x.

    ``x`` and ``y`` are the columns and rows of ``metres``, NaN where the map is off the earth.
    """

    coast: Lines
    borders: Lines
    graticule: list[tuple[str, Array]]
    x: Array
    y: Array
    metres: Array

    def bar(self) -> tuple[float, str] | None:
        """A scale bar at the middle: its length in units of x, and what it stands for.

        It is the longest round one within a fifth of the map; None where nothing is known there.
        """
        middle = self.metres[_LATTICE // 2]
        here = float(middle[_LATTICE // 2])
        if not here > 0:
            return None
        most = here * float(np.ptp(self.x)) / 5
        ten = 10.0 ** np.floor(np.log10(most))
        metres = next(ten * part for part in (5, 2, 1) if ten * part <= most)
        words = f"{metres / 1e3:g} km" if metres >= 1e3 else f"{metres:g} m"
        known = self.metres[np.isfinite(self.metres)]
        even = np.ptp(known) <= _UNEVEN * here
        return metres / here, words if even else f"{words} at the middle"

    def metres_at(self, x: float, y: float) -> float:
        """Metres per unit of x at the place of the lattice that is nearest."""
        column, row = np.abs(self.x - x).argmin(), np.abs(self.y - y).argmin()
        return float(self.metres[row, column])

    def told(self) -> dict[str, Any]:
        """As a page is told it."""
        unit = 1e-5 * float(max(np.ptp(self.x), np.ptp(self.y)))
        digits = max(0, int(np.ceil(-np.log10(unit))))
        known = np.isfinite(self.metres)
        return {
            "coast": [_rounded(line, digits) for line in self.coast],
            "borders": [_rounded(line, digits) for line in self.borders],
            "graticule": [
                {"label": label, "line": _rounded(line, digits)} for label, line in self.graticule
            ],
            "x": self.x.tolist(),
            "y": self.y.tolist(),
            "metres": np.where(known, self.metres, 0.0).tolist(),
        }


def _rounded(line: Array, digits: int) -> list[list[float]]:
    return [[round(x, digits), round(y, digits)] for x, y in line.tolist()]


@lru_cache(maxsize=16)
def world(grid: Grid, margin: float = 0.0) -> World | None:
    """What lies under a grid and a ``margin`` around it, in shares of its sides.

    None where it is not known where on the earth the grid lies.

    >>> grid = Grid("EPSG:4326", (0.1, 0.0, 170.0, 0.0, -0.1, -34.0), width=200, height=140)
    >>> found = world(grid)
    >>> [label for label, _ in found.graticule][:3]  # across the date line
    ['175°E', '180°', '175°W']
    >>> round(found.metres_at(180.0, -41.0))  # in a degree of longitude
    84135
    """
    if grid.crs is None and not is_geographic(None, grid.bounds):
        return None
    view = _View.from_grid(grid, margin)
    kinds = _shipped("50m" if _View.from_grid(grid, 0.0).reach <= _FINE else "110m")
    drawn = {kind: view.placed(lines) for kind, lines in kinds.items()}
    return World(drawn["coast"], drawn["borders"], _graticule(view), *view.ground())


@dataclass(frozen=True, eq=False)
class _View:
    """A frame of a map, and the box of degrees that holds it; its longitudes may go beyond 180."""

    system: Any
    frame: Box
    box: Box

    @classmethod
    def from_grid(cls, grid: Grid, margin: float) -> _View:
        system = geo("pyproj").CRS.from_wkt(parsed_crs(grid.crs or WGS84).to_wkt())
        west, south, east, north = grid.bounds
        across, up = margin * (east - west), margin * (north - south)
        frame = (west - across, south - up, east + across, north + up)
        return cls(system, frame, _degrees(system, frame))

    @property
    def widest(self) -> float:
        west, south, east, north = self.box
        return max(east - west, north - south)

    @property
    def reach(self) -> float:
        """The longer side on the ground, in degrees of latitude."""
        west, south, east, north = self.box
        across = (east - west) * np.cos(np.radians((south + north) / 2))
        return float(max(across, north - south))

    def placed(self, lines: Any) -> Lines:
        """Lines in degrees as those of the map, cut at its edges."""
        shapely = geo("shapely")
        turned = np.concatenate([_shifted(lines, turn) for turn in _TURNS])
        west, south, east, north = self.box
        near = _parts(shapely.clip_by_rect(turned, west - _EDGE, south, east + _EDGE, north))
        if self.system.is_geographic:
            near = _shifted(near, -_first_meridian(self.system))
        else:
            near = self._projected(shapely.segmentize(near, _DENSE))
        return [shapely.get_coordinates(p) for p in _parts(shapely.clip_by_rect(near, *self.frame))]

    def _projected(self, lines: Any) -> Any:
        """Broken where a line leaves the map or jumps to its other side."""
        shapely = geo("shapely")
        places, of = shapely.get_coordinates(lines, return_index=True)
        moved = np.stack(_transformer(WGS84, self.system).transform(*places.T), axis=1)
        known = np.isfinite(moved).all(axis=1)
        metres = self.system.axis_info[0].unit_conversion_factor
        far = np.hypot(*np.diff(moved[known], axis=0).T) * metres > _JUMP
        number = np.cumsum(np.diff(of[known], prepend=0) != 0) + np.cumsum(~known)[known]
        number[1:] += np.cumsum(far)
        _, number, sizes = np.unique(number, return_inverse=True, return_counts=True)
        kept = sizes[number] > 1
        _, number = np.unique(number[kept], return_inverse=True)
        return shapely.linestrings(moved[known][kept], indices=number)

    def at_edge(self, place: Array) -> bool:
        """Whether a place lies on the frame."""
        west, south, east, north = self.frame
        slack = 1e-6 * max(east - west, north - south)
        away = np.abs([place[0] - west, place[0] - east, place[1] - south, place[1] - north])
        return bool(away.min() < slack)

    def ground(self) -> tuple[Array, Array, Array]:
        """A lattice of places, and the metres on the ground per unit of x at each."""
        west, south, east, north = self.frame
        x, y = (np.linspace(a, b, _LATTICE) for a, b in ((west, east), (south, north)))
        columns, rows = np.meshgrid(x, y)
        step = 1e-3 * (east - west)
        places = np.stack([columns, rows, columns + step, rows])
        if not self.system.is_geographic:
            back = _transformer(self.system, WGS84)
            places = np.concatenate([back.transform(*places[:2]), back.transform(*places[2:])])
        known = np.isfinite(places).all(axis=0) & (np.abs(places[1]) <= 90)
        metres = np.full(known.shape, np.nan)
        metres[known] = np.asarray(self.system.get_geod().inv(*places[:, known])[2]) / step
        return x, y, metres


def _degrees(system: Any, frame: Box) -> Box:
    """The longitudes and latitudes of a frame."""
    if system.is_geographic:
        first = _first_meridian(system)
        west, south, east, north = frame
        return west + first, max(south, -90.0), east + first, min(north, 90.0)
    try:
        found = _transformer(system, WGS84).transform_bounds(*frame, densify_pts=31)
    except geo("pyproj").exceptions.ProjError:
        return _EARTH
    west, south, east, north = found
    if not np.isfinite(found).all():  # the frame goes beyond the earth
        return _EARTH
    return west, south, east if east > west else east + 360.0, north


def _first_meridian(system: Any) -> float:
    return float(system.prime_meridian.longitude)


@lru_cache(maxsize=16)
def _transformer(source: Any, target: Any) -> Any:
    return geo("pyproj").Transformer.from_crs(source, target, always_xy=True)


def _shifted(lines: Any, turn: float) -> Any:
    return geo("shapely").transform(lines, lambda places: places + np.array([turn, 0.0]))


def _parts(lines: Any) -> Any:
    """The lines in what cutting left; corners that touch an edge are none."""
    shapely = geo("shapely")
    parts = shapely.get_parts(lines)
    return parts[(shapely.get_type_id(parts) == 1) & ~shapely.is_empty(parts)]


def _graticule(view: _View) -> list[tuple[str, Array]]:
    """Meridians and parallels at a round distance; those with names begin at an edge."""
    shapely = geo("shapely")
    west, south, east, north = view.box
    step = next((s for s in _STEPS if view.widest / s <= _LINES), _STEPS[-1])
    made = []
    for i in range(int(np.ceil(west / step - 1e-9)), int(np.floor(east / step + 1e-9)) + 1):
        x = (i * step + 180.0) % 360.0 - 180.0
        made.append((_named(x, "EW", 180.0), [(x, south), (x, north)]))
    for i in range(int(np.ceil(south / step - 1e-9)), int(np.floor(north / step + 1e-9)) + 1):
        turns = ((max(west, t - 180.0) - t, min(east, t + 180.0) - t) for t in _TURNS)
        for a, b in turns:
            if b > a:
                made.append((_named(i * step, "NS"), [(a, i * step), (b, i * step)]))
    found: list[tuple[str, Array]] = []
    for label, line in dict.fromkeys((label, tuple(line)) for label, line in made):
        for part in view.placed(shapely.linestrings([line])):
            along = part if view.at_edge(part[0]) else part[::-1]
            seen = any(label == other for other, _ in found)
            found.append(("" if seen or not view.at_edge(along[0]) else label, along))
    return found


def _named(degrees: float, letters: str, end: float = 90.0) -> str:
    """A meridian or a parallel.

    >>> _named(-7.5, "EW"), _named(0.0, "NS"), _named(-180.0, "EW", 180.0)
    ('7.5°W', '0°', '180°')
    """
    size = abs(round(degrees, 6))
    return f"{size:g}°" + ("" if size in (0, end) else letters[int(degrees < 0)])


# -- as they are shipped ---------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _shipped(resolution: str) -> dict[str, Any]:
    """Coasts and borders in degrees, as lines of shapely."""
    told = json.loads(resource("bundle/world.json"))[resolution]
    return {kind: _decoded(texts) for kind, texts in told.items()}


def _decoded(texts: list[str]) -> Any:
    """Lines from letters, see ``web/world.mjs``: differences in hundredths of a degree."""
    letters = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).astype(np.int64) - 63
    last = letters < 32
    first = np.flatnonzero(np.concatenate([[True], last[:-1]]))
    place = np.arange(letters.size) - np.repeat(first, np.diff([*first, letters.size]))
    coded = np.add.reduceat((letters & 31) << (5 * place), first)
    steps = np.where(coded % 2, -(coded + 1) // 2, coded // 2).reshape(-1, 2)
    ends = np.cumsum([len(text) for text in texts])
    of = np.searchsorted(ends, first[::2], side="right")
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    places = np.cumsum(steps, axis=0)  # each line begins at its first corner
    before = np.concatenate([[[0, 0]], places])[starts]
    return geo("shapely").linestrings((places - before[of]) / 100.0, indices=of)
