"""From records and layers to samples: the region that species share, and the cells of each."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxent._rows import Array
from maxent.species.inputs import LayerFiles, RecordFile
from maxent.species.layers.background import draw_background, why_no_cell
from maxent.species.layers.grid import OUTSIDE, Grid
from maxent.species.layers.hints import hints
from maxent.species.layers.layers import Layers
from maxent.species.records.cleaning import Cleaned, clean
from maxent.species.records.occurrences import Occurrences
from maxent.species.results import CleaningStep, Sample, Selection
from maxent.species.settings import Settings


@dataclass(frozen=True, eq=False)
class Region:
    """The cells that the species of one run share: background, and every cell with a record.

    Attributes
    ----------
    grid, categorical, labels : of the layers.
    X, cell : values and index of each cell, sorted by cell.
    background : which of them stand for the region.
    bias : sampling effort in each, None where it is not taken out of the density.
    n_known : cells of the grid where every layer is known, None where not all of them were read.
    effort : file of the bias raster, None without one.
    notes : for the reader of the report.
    """

    grid: Grid
    categorical: tuple[str, ...]
    labels: dict[str, str]
    X: Any
    cell: Array
    background: Array
    bias: Array | None
    n_known: int | None
    notes: tuple[str, ...] = ()
    effort: str | None = None

    def known(self, cells: Array) -> Array:
        """Whether these cells have a value in every layer."""
        place = np.minimum(np.searchsorted(self.cell, cells), self.cell.size - 1)
        return np.asarray(self.cell[place] == cells)

    def rows(self, cells: Array) -> Array:
        """The rows of these cells, which must be known."""
        return np.searchsorted(self.cell, cells)


def survey(
    layers: Layers,
    occurrences: Occurrences,
    settings: Settings | None = None,
    *,
    bias: Layers | None = None,
    group: Occurrences | None = None,
) -> Region:
    """Read what all species need from the layers, in one pass.

    ``occurrences`` (in the CRS of the layers) are the records of all species; ``bias`` a raster
    of sampling effort on the same grid; ``group`` the records, of a target group or of chosen
    places, whose cells are the background instead of a random draw.
    """
    settings = settings or Settings()
    if bias is not None and group is not None:
        raise ValueError(
            "a bias raster (--bias) and the cells of records (--target-group, "
            "--background-records) are two ways to choose the background; give one of them"
        )
    if bias is None and settings.bias != Settings.bias:
        raise ValueError(
            f'bias="{settings.bias}" (--bias-as) says what a bias raster is for; give one (--bias)'
        )
    grid = layers.grid
    cells = grid.cells_at(occurrences.x, occurrences.y)
    notes = [*layers.notes, *(() if bias is None else bias.notes)]
    if group is None:
        drawn = draw_background(
            layers,
            settings.background,
            at=cells,
            bias=bias,
            weighted=bias is not None and settings.bias == "background",
            seed=settings.seed,
            verbose=settings.verbose,
        )
        X, cell, background = drawn.X, drawn.cell, drawn.background
        effort, n_known = drawn.bias, drawn.n_known
        if settings.background is not None and n_known < settings.background:
            notes.append(f"all {n_known} cells with data are background")
    else:
        places = grid.cells_at(group.x, group.y)
        cell = np.unique(np.concatenate([cells, places]))
        cell = cell[cell != OUTSIDE]
        X, known = layers.at(cell)
        background = np.isin(cell, places)
        if not (known & background).any():
            raise ValueError(
                f"{group.source}: none of its {len(group)} records lies on a cell with data, so "
                "there is no background; check its coordinates"
            )
        X, cell, background = X[known].reset_index(drop=True), cell[known], background[known]
        effort, n_known = None, None
        notes.append(
            f"background: the {int(background.sum())} cells with records of {group.source}"
        )
    if settings.bias != "prior":
        effort = None
    if effort is not None:
        visited = effort > 0
        if not (visited & background).any():
            raise ValueError(why_no_cell(layers, bias, n_known or 0))
        if not visited.all():
            notes.append(
                f"{int((~visited).sum())} cells without sampling effort are left out, and the "
                "records on them"
            )
        X, cell = X[visited].reset_index(drop=True), cell[visited]
        background, effort = background[visited], effort[visited]
    notes += hints(X, layers.categorical, grid)
    return Region(
        grid,
        layers.categorical,
        layers.labels(),
        X,
        cell,
        background,
        effort,
        n_known,
        tuple(notes),
        None if bias is None else next(iter(bias.labels().values())),
    )


# -- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Surveyed:
    """The records of files, and what they and the background need from the layers."""

    region: Region
    records: Occurrences
    tests: Occurrences | None
    group: Occurrences | None
    notes: tuple[str, ...]

    def tests_of(self, species: str) -> Occurrences | None:
        """The test records of a species, None without any."""
        if self.tests is None or species not in self.tests.names():
            return None
        return self.tests.of(species)


def survey_files(
    records: RecordFile,
    layers: LayerFiles,
    settings: Settings,
    *,
    test: RecordFile | None = None,
    bias: str | None = None,
    group: RecordFile | None = None,
) -> Surveyed:
    """Read all records, then all that is needed from the layers in one pass."""
    with ExitStack() as files:
        opened = files.enter_context(layers.open())
        everything, notes = records.read(opened.grid)
        read: dict[str, Occurrences | None] = {"test": None, "group": None}
        for name, file in (("test", test), ("group", group)):
            if file is not None:
                read[name], more = file.read(opened.grid)
                notes += more
        effort = None
        if bias is not None:
            effort = files.enter_context(
                Layers.open(
                    bias,
                    like=opened.grid,
                    resampling="nearest",  # no effort is none, also beside cells that were visited
                    crs=layers.crs,
                    nodata=layers.nodata,
                )
            )
        tests = read["test"]
        asked = everything if tests is None else _together(everything, tests)
        region = survey(opened, asked, settings, bias=effort, group=read["group"])
    return Surveyed(region, everything, tests, read["group"], tuple(notes))


def _together(one: Occurrences, other: Occurrences) -> Occurrences:
    """Two sets of records in the same CRS, to look up their cells."""
    return replace(
        one,
        species=np.concatenate([one.species, other.species]),
        x=np.concatenate([one.x, other.x]),
        y=np.concatenate([one.y, other.y]),
        row=np.concatenate([one.row, other.row]),
    )


# -- one species ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A species ready to be fitted.

    ``effort`` is the file of a bias raster; ``selection`` says which variables were left out.
    """

    species: str
    train: Sample
    test: Sample | None
    records: dict[str, Array]
    cleaning: list[CleaningStep]
    notes: list[str]
    effort: str | None = None
    selection: Selection | None = None


def prepare(
    region: Region,
    occurrences: Occurrences,
    settings: Settings | None = None,
    test: Occurrences | None = None,
) -> Prepared:
    """Clean the records of one species and put them on the cells of the region."""
    settings = settings or Settings()
    name = occurrences.names()[0] if len(occurrences) else "species"
    cleaned = _cleaned(occurrences, region, settings, settings.minimum)
    notes, steps = list(region.notes) + cleaned.notes, list(cleaned.steps)
    records = cleaned.occurrences
    held = _held_out(len(records), settings)
    train_cell, test_cell = cleaned.cell[~held], cleaned.cell[held]
    x, y = records.x, records.y
    if test is not None:
        extra = _cleaned(test, region, settings, 1)
        notes += extra.notes
        steps += [replace(s, what=f"test records: {s.what}") for s in extra.steps]
        test_cell = extra.cell
        x, y = np.append(x, extra.occurrences.x), np.append(y, extra.occurrences.y)
        held = np.append(held, np.ones(len(extra.occurrences), bool))
    sample = _sample(region, train_cell, region.background)
    tested = None
    if test_cell.size:
        tested = _sample(region, test_cell, np.zeros(region.cell.size, bool))
    return Prepared(
        name, sample, tested, {"x": x, "y": y, "test": held}, steps, notes, region.effort
    )


def _cleaned(occurrences: Occurrences, region: Region, settings: Settings, minimum: int) -> Cleaned:
    return clean(
        occurrences,
        region.grid,
        region.known,
        keep_duplicates=settings.keep_duplicates,
        thin_km=settings.thin,
        minimum=minimum,
        seed=settings.seed,
    )


def _held_out(n: int, settings: Settings) -> Array:
    held = np.zeros(n, dtype=bool)
    count = round(settings.test_share * n)
    if count:
        if n - count < settings.minimum:
            raise ValueError(
                f"holding out {count} of {n} records leaves fewer than {settings.minimum}; lower "
                "the test share"
            )
        held[np.random.default_rng(settings.seed).permutation(n)[:count]] = True
    return held


def _sample(region: Region, cells: Array, background: Array) -> Sample:
    counts = np.bincount(region.rows(cells), minlength=region.cell.size).astype(np.float64)
    rows = np.flatnonzero(background | (counts > 0))
    prior = None if region.bias is None else region.bias[rows]
    x, y = region.grid.centres(region.cell[rows])
    return Sample(
        region.X.iloc[rows].reset_index(drop=True),
        counts[rows],
        np.column_stack([x, y]),
        prior,
        background[rows],
    )
