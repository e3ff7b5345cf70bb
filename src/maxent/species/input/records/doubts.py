"""Records in doubtful places: left there by a typing error, a geocoder or a museum.

They may be right, so a fit says what it found and leaves them out only where it is told to.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
import scipy

from maxent.rows.arrays import Array
from maxent.species.input.crs import WGS84, is_geographic, transformed
from maxent.species.input.layers.geodesy import Earth, cell_metres
from maxent.species.input.layers.grid import Grid
from maxent.species.input.records.occurrences import Occurrences

ZERO = "at 0, 0"
SIGN = "perhaps with a lost minus sign"
FLAGGED = "flagged by GBIF"
FEW_DECIMALS = "of few decimals"
# what stands at a place of the table, and how near (km) a record is to be called there
_NEAR = {
    "institution": ("at an institution", 1.5),
    "capital": ("at a capital", 1.5),
    "country": ("at the centroid of a country", 3.0),
    "province": ("at the centroid of a province", 3.0),
}
KINDS = (ZERO, SIGN, *(words for words, _ in _NEAR.values()), FLAGGED, FEW_DECIMALS)
_NOTHING = 1e-3  # degrees within which coordinates are 0
_SHOWN = 3  # records that a note names

_LEAST = 5  # records that tell where a species lives
_ODD = 0.05  # the largest share of records on the other side of a line to be called odd
_FAR, _BESIDE, _MUCH_NEARER = 500.0, 50.0, 1 / 20  # km, km, share


class Doubt(NamedTuple):
    """Why a record is doubtful: one of ``KINDS``, and more words."""

    kind: str
    words: str


def doubts(records: Occurrences, grid: Grid) -> dict[int, Doubt] | None:
    """What is doubtful, by the position of a record of one species; None where none can be known.

    The records are in the CRS of the grid. Each has one reason at most.
    """
    places = _degrees(records, grid)
    if places is None:
        return None
    found: dict[int, Doubt] = {}
    for search in (_at_zero, _at_places, _mirrored):  # the last by what the others leave
        known = np.flatnonzero(np.isfinite(places).all(axis=1))
        known = np.setdiff1d(known, list(found))
        found |= {int(known[i]): doubt for i, doubt in search(places[known])}
    if records.flags is not None:
        for i in np.flatnonzero(records.flags != ""):
            found.setdefault(int(i), Doubt(FLAGGED, str(records.flags[i])))
    for at, doubt in _rounded(records, places, grid):
        found.setdefault(at, doubt)
    return dict(sorted(found.items()))


def in_words(records: Occurrences, found: dict[int, Doubt]) -> list[str]:
    """A note for each kind: how many records there are, and which are the first."""
    name = records.names()[0] if len(records) else records.source
    notes = []
    for kind in KINDS:
        mine = [i for i, doubt in found.items() if doubt.kind == kind]
        if not mine:
            continue
        shown = "; ".join(f"{records.label(i)}, {found[i].words}" for i in mine[:_SHOWN])
        more = f"; and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        records_ = "record" if len(mine) == 1 else "records"
        notes.append(
            f"{name}: {len(mine)} {records_} {kind} ({shown}{more}). Check them, or leave them out "
            "with --clean"
        )
    return notes


def _degrees(records: Occurrences, grid: Grid) -> Array | None:
    """Longitude and latitude of each record, NaN where missing."""
    x, y = records.x, records.y
    if not is_geographic(grid.crs, grid.bounds):
        if grid.crs is None:
            return None
        x, y = transformed(x, y, grid.crs, WGS84)
    return np.column_stack([(x + 180) % 360 - 180, y])


def _at_zero(places: Array) -> Iterator[tuple[int, Doubt]]:
    for i in np.flatnonzero((np.abs(places) < _NOTHING).all(axis=1)):
        yield int(i), Doubt(ZERO, "in the Gulf of Guinea, where blank coordinates end up")


# -- lost minus signs ------------------------------------------------------------------------------


def _mirrored(places: Array) -> Iterator[tuple[int, Doubt]]:
    """Few records far from all others that another sign would put among them."""
    found: dict[int, tuple[float, Doubt]] = {}
    if len(places) < _LEAST:
        return iter(())
    east, north = places[:, 0] > 0, places[:, 1] > 0
    lines = (("longitude", (-1, 1), east), ("latitude", (1, -1), north))
    for what, turn, side in lines:
        for mine in (side, ~side):
            _odd_ones(found, places, mine, ~mine, np.array(turn), what)
    for right in (True, False):
        for up in (True, False):
            mine, others = (east == right) & (north == up), (east != right) & (north != up)
            _odd_ones(found, places, mine, others, np.array([-1, -1]), "longitude and latitude")
    return ((i, doubt) for i, (_, doubt) in found.items())


def _odd_ones(
    found: dict[int, tuple[float, Doubt]],
    places: Array,
    mine: Array,
    others: Array,
    turn: Array,
    what: str,
) -> None:
    """Add records that a turn brings nearer to the others than any turn before it."""
    odd = np.flatnonzero(mine)
    if not 0 < odd.size <= max(1, _ODD * len(places)) or not others.any():
        return
    nearest = _nearest(places[others])
    here, there = nearest(places[odd]), nearest(places[odd] * turn)
    for i, far, near in zip(odd, here, there, strict=True):
        if far > _FAR and near < max(_BESIDE, _MUCH_NEARER * far):
            words = (
                f"{far:,.0f} km from the others, {near:,.0f} km with the sign of its {what} changed"
            )
            if near < found.get(int(i), (np.inf,))[0]:
                found[int(i)] = near, Doubt(SIGN, words)


def _nearest(places: Array) -> Callable[[Array], Array]:
    """The distance in km from the nearest of some places."""
    earth = Earth(WGS84)
    tree = scipy.spatial.KDTree(earth.space(*places.T))

    def distances(points: Array) -> Array:
        at = tree.query(earth.space(*points.T))[1]
        return earth.distances(*points.T, *places[at].T)

    return distances


# -- capitals, institutions, centroids -------------------------------------------------------------


class _Places(NamedTuple):
    kind: list[str]
    name: list[str]
    degrees: Array


@cache
def _places() -> _Places:
    text = resources.files(__package__).joinpath("places.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    at = np.array([[float(row["longitude"]), float(row["latitude"])] for row in rows])
    return _Places([row["kind"] for row in rows], [row["name"] for row in rows], at)


def _at_places(places: Array) -> Iterator[tuple[int, Doubt]]:
    if not len(places):
        return
    table, earth = _places(), Earth(WGS84)
    tree, points = scipy.spatial.KDTree(earth.space(*table.degrees.T)), earth.space(*places.T)
    widest = max(km for _, km in _NEAR.values())  # chords are shorter than geodesics
    near = np.isfinite(tree.query(points, distance_upper_bound=widest)[0])
    for i in np.flatnonzero(near):
        at = np.array(tree.query_ball_point(points[i], widest))
        km = earth.distances(*np.tile(places[i], (len(at), 1)).T, *table.degrees[at].T)
        for nearest in np.argsort(km, kind="stable"):
            kind, radius = _NEAR[table.kind[at[nearest]]]
            if km[nearest] <= radius:
                yield int(i), Doubt(kind, f"{km[nearest]:.1f} km from {_of(table, at[nearest])}")
                break


def _of(table: _Places, j: int) -> str:
    whole = table.kind[j] in ("country", "province")
    return f"{'the point that maps give for ' if whole else ''}{table.name[j]}"


# -- few decimals ----------------------------------------------------------------------------------


def _rounded(records: Occurrences, places: Array, grid: Grid) -> Iterator[tuple[int, Doubt]]:
    """Degrees with so few decimals that the record may lie in another cell."""
    side = cell_metres(grid)
    if records.decimals is None or side is None:
        return
    known = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
    x, y = np.where(known, places.T, 0.0)
    half = 0.5 * 10.0 ** -records.decimals.astype(np.float64)
    error = Earth(WGS84).distances(x, y, x, y - np.copysign(half, y))  # not beyond a pole
    for i in np.flatnonzero(known & (error > side / 1e3)):
        n = int(records.decimals[i])
        yield (
            int(i),
            Doubt(
                FEW_DECIMALS,
                f"{n or 'no'} decimal{'' if n == 1 else 's'} in degrees: uncertain by "
                f"{error[i]:.2g} km, more than a cell ({side / 1e3:.2g} km)",
            ),
        )
