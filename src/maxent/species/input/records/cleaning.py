"""Cleaning: what a fit cannot use is taken out, step by step, with examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxent.rows.arrays import Array
from maxent.species.fitting.results import CleaningStep
from maxent.species.input.crs import complete
from maxent.species.input.layers.geodesy import Earth, Neighbours
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.records import doubts as doubtful
from maxent.species.input.records.occurrences import NO_DATE, NO_TIME, Occurrences

if TYPE_CHECKING:
    from maxent.species.input.layers.layers import Layers
    from maxent.species.input.times.dated_layers import DatedLayers

_EXAMPLES = 5
_ORDERS = 10  # random orders that thinning tries


@dataclass(frozen=True, eq=False)
class Cleaned:
    """Records that a fit can use.

    Attributes
    ----------
    occurrences : Occurrences
        Records of one species, in the CRS of the grid.
    cell : array (n_records,)
        The cell of each record.
    steps : list of CleaningStep
        What was taken out and why, in order.
    notes : list of str
        What was assumed.
    lost : list of Occurrences
        The records of each step.
    doubts : dict of str
        Why a record is doubtful, by its row in the file, whether it was taken out or not.
    """

    occurrences: Occurrences
    cell: Array
    steps: list[CleaningStep]
    notes: list[str]
    lost: list[Occurrences]
    doubts: dict[int, str] = field(default_factory=dict)


_MISSED = "missing coordinates"
_BEYOND = "outside the layers"
_UNDATED = "without a date"
_OTHER_TIME = "outside the times of the layers"
_TIMELESS = {NO_DATE: _UNDATED, NO_TIME: _OTHER_TIME}
NOT_STUDIED = "outside the study region"
_UNKNOWN = "in the sea or under nodata"
_DUPLICATE = "duplicates in a cell"
_CLOSE = "closer than"
_ADVICE = {
    _MISSED: "Fill in the coordinates",
    _BEYOND: "Check the coordinate reference system (--crs) and the columns (--x, --y), or give "
    "layers that cover the records",
    _UNDATED: "Fill in the dates, or keep these records (--undated mean)",
    _OTHER_TIME: "Give layers of their times, or keep these records (--outside-times nearest)",
    NOT_STUDIED: "Give a wider study region (--buffer), or check its coordinate reference system",
    _UNKNOWN: "Check the nodata values of the layers, and whether the coordinates are precise "
    "enough for their cells",
    _DUPLICATE: "Add records from other cells, or give finer layers",
    **dict.fromkeys(doubtful.KINDS, "Check these records, or keep them: do without --clean"),
}


def clean(
    occurrences: Occurrences,
    grid: Grid,
    known: Callable[[Array], Array],
    *,
    within: Callable[[Array, Array], Array] | None = None,
    keep_duplicates: bool = False,
    thin_km: float | None = None,
    minimum: int = 3,
    seed: int = 0,
    drop_doubtful: bool = False,
) -> Cleaned:
    """Take out the records of one species that a fit on the grid cannot use.

    In this order: missing coordinates, doubtful places where asked for, no time where layers have
    times, outside the layers, outside the study region, in cells without values, all but the first
    of each cell (and time), too close to each other.

    Parameters
    ----------
    occurrences : Occurrences
        Records of one species, brought to the grid by :func:`located`.
    grid : Grid
        The grid of the layers.
    known : callable
        For cells, whether every layer has a value there.
    within : callable, default None
        For x and y, whether a record lies in the study region; None for everywhere.
    keep_duplicates : bool, default False
        Whether to count every record of a cell, not only the first.
    thin_km : float, default None
        Smallest distance between two records.
    minimum : int, default 3
        Smallest number of records to continue with.
    seed : int, default 0
        Seed of the random choice in thinning.
    drop_doubtful : bool, default False
        Whether records in doubtful places (0, 0; perhaps a lost minus sign; centroids, capitals,
        institutions; few decimals) are taken out; else notes tell of them.
    """
    cleaned = sifted(
        occurrences,
        grid,
        known,
        within=within,
        keep_duplicates=keep_duplicates,
        thin_km=thin_km,
        seed=seed,
        drop_doubtful=drop_doubtful,
    )
    check_enough(cleaned, occurrences, grid, minimum)
    return cleaned


def check_enough(cleaned: Cleaned, given: Occurrences, grid: Grid, minimum: int) -> None:
    """Refuse records that are too few for a fit, or all in one place."""
    rest, steps = cleaned.occurrences, cleaned.steps
    _check_places(cleaned, grid, given, several=minimum > 1)
    if len(rest) < minimum:
        raise ValueError(
            f"{rest.species[0]}: {len(rest)} of {len(given)} records can be used, at least "
            f"{minimum} are needed{_losses(steps)}. {_advice(steps)}"
        )


def sifted(
    occurrences: Occurrences,
    grid: Grid,
    known: Callable[[Array], Array],
    *,
    within: Callable[[Array, Array], Array] | None = None,
    keep_duplicates: bool = False,
    thin_km: float | None = None,
    seed: int = 0,
    drop_doubtful: bool = False,
) -> Cleaned:
    """What :func:`clean` leaves, also where that is too little for a fit."""
    steps: list[CleaningStep] = []
    lost_records: list[Occurrences] = []
    notes: list[str] = []

    def without(
        records: Occurrences, lost: Array, what: str, why: dict[int, str] | None = None
    ) -> Occurrences:
        where = np.flatnonzero(lost)
        if where.size:
            examples = tuple(records.label(i) for i in where[:_EXAMPLES])
            if why is not None:
                told = (why[int(records.row[i])] for i in where)
                examples = tuple(f"{e}, {w}" for e, w in zip(examples, told, strict=False))
            steps.append(CleaningStep(what, int(where.size), examples))
            lost_records.append(records.take(where))
        return records.take(~lost)

    rest = without(occurrences, ~complete(occurrences.x, occurrences.y), _MISSED)
    found = doubtful.doubts(rest, grid)
    doubts = {int(rest.row[i]): doubt.words for i, doubt in (found or {}).items()}
    if not drop_doubtful:
        notes += doubtful.in_words(rest, found or {})
    elif found is None:
        raise ValueError(
            "clean (--clean) needs longitudes and latitudes, and the layers do not state their "
            "coordinate reference system; give it with --layers-crs"
        )
    else:
        reason = np.array([found[i].kind if i in found else "" for i in range(len(rest))])
        for kind in doubtful.KINDS:
            mine = reason == kind
            rest, reason = without(rest, mine, kind, doubts), reason[~mine]
    for step, what in _TIMELESS.items():
        if rest.step is not None:
            rest = without(rest, rest.step == step, what)
    rest = without(rest, rest.cells(grid) == OUTSIDE, _BEYOND)
    if within is not None and len(rest):
        rest = without(rest, ~within(rest.x, rest.y), NOT_STUDIED)
    if len(rest):
        rest = without(rest, ~np.asarray(known(rest.cells(grid)), dtype=bool), _UNKNOWN)
    if not keep_duplicates:
        rest = without(rest, _repeated(rest.cells(grid)), _DUPLICATE)
    if thin_km is not None and len(rest):
        earth = Earth.under(grid)
        if earth.crs is None:
            notes.append(
                f"the layers do not state their unit: thinned as if {thin_km:g} km were "
                f"{1e3 * thin_km:g}"
            )
        kept = _thinned(earth.within(rest.x, rest.y, thin_km), seed)
        crowded = ~np.isin(np.arange(len(rest)), kept)
        rest = without(rest, crowded, f"{_CLOSE} {thin_km:g} km to another")
    return Cleaned(rest, rest.cells(grid), steps, notes, lost_records, doubts)


def making_region(records: Occurrences, layers: Layers | DatedLayers, drop_doubtful: bool) -> Array:
    """Which records of a species a study region is made around: a wrong place must not widen it.

    Those on cells with data and, with ``drop_doubtful``, in no doubtful place.
    """
    there = layers.known_at(records.x, records.y)
    if records.step is not None:
        there &= records.step >= 0
    if drop_doubtful:
        there[list(doubtful.doubts(records, layers.grid) or ())] = False
    return there


def _repeated(cell: Array) -> Array:
    """Which records are not the first of their cell."""
    repeated = np.ones(len(cell), dtype=bool)
    repeated[np.unique(cell, return_index=True)[1]] = False
    return repeated


def _check_places(cleaned: Cleaned, grid: Grid, given: Occurrences, several: bool) -> None:
    """Some record must be left; where ``several`` are needed they must not all share one cell."""
    rest, steps = cleaned.occurrences, cleaned.steps
    name = given.species[0] if len(given) else given.source
    if not len(rest):
        raise ValueError(
            f"{name}: none of {len(given)} records can be used{_losses(steps)}. {_advice(steps)}"
        )
    # those that are no longer there because others were so near
    near = [lost for step, lost in zip(steps, cleaned.lost, strict=True) if _is_near(step)]
    cells = np.concatenate([part.cells(grid) for part in (rest, *near)])
    if several and len(cells) > 1 and len(np.unique(cells)) == 1:
        width, height = grid.cell_size
        before = [step for step in steps if not _is_near(step)]
        raise ValueError(
            f"{name}: all {len(cells)} records lie in one cell of {width:g} x {height:g} "
            f"({rest.label(0)}){_losses(before)}; a fit needs records from several places: give "
            "finer layers, or check whether the coordinates were rounded"
        )


def _is_near(step: CleaningStep) -> bool:
    return step.what == _DUPLICATE or step.what.startswith(_CLOSE)


def _losses(steps: list[CleaningStep]) -> str:
    lost = [f"{s.records} {s.what} ({s.examples[0]})" for s in steps]
    return f": {'; '.join(lost)}" if lost else ""


def _advice(steps: list[CleaningStep]) -> str:
    """What to do about the commonest loss."""
    worst = max(steps, key=lambda step: step.records, default=None)
    if worst is None:
        return "Add records of this species"
    return _ADVICE.get(worst.what, "Thin to a smaller distance (--thin)")


def thin(
    x: ArrayLike, y: ArrayLike, distance: float, *, crs: str | None = None, seed: int = 0
) -> Array:
    """Indices of a maximal set of points of which no two are closer than ``distance``.

    Points are taken greedily in random order; of several orders the one that keeps most is
    returned.

    Parameters
    ----------
    x : array (n_points,)
        x, or longitude.
    y : array (n_points,)
        y, or latitude.
    distance : float
        Smallest distance: in km along geodesics with a CRS, else in the unit of x and y.
    crs : str, default None
        The CRS of x and y, such as EPSG:4326; None for lengths in a plane.
    seed : int, default 0
        Seed of the orders.

    Examples
    --------
    >>> thin([0.0, 1.0, 2.0, 9.0], [0.0, 0.0, 0.0, 0.0], 1.5)
    array([0, 2, 3])
    >>> thin([179.9, -179.9], [-16.0, -16.0], 30.0, crs="EPSG:4326").size  # 21 km apart
    1
    """
    if not distance > 0:
        raise ValueError(f"the thinning distance must be positive, got {distance:g}")
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if crs is None:
        x, y = 1e3 * x, 1e3 * y  # as if the unit were km
    return _thinned(Earth(crs).within(x, y, distance), seed)


def _thinned(places: Neighbours, seed: int) -> Array:
    """Places of which no two are close: the best of several random orders."""
    crowd = places.may_have()
    alone, crowded = np.flatnonzero(~crowd), np.flatnonzero(crowd)
    rng = np.random.default_rng(seed)
    among = places.take(crowded)
    kept = max((_greedy(among, crowded.size, rng) for _ in range(_ORDERS)), key=len)
    return np.sort(np.concatenate([alone, crowded[kept]]))


def _greedy(places: Neighbours, n: int, rng: np.random.Generator) -> Array:
    """Points taken in random order, each of which rules its neighbours out."""
    free = np.ones(n, dtype=bool)
    kept = []
    for i in rng.permutation(n):
        if free[i]:
            kept.append(i)
            free[places.of(i)] = False
    return np.array(kept, dtype=np.int64)
