"""From records and layers to samples: the region that species share, and the cells of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import CleaningStep, Origin, Sample, Selection
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.layers.hints import hints
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.places import PLACE, looks_at_places
from maxent.species.input.records.cleaning import NOT_STUDIED, Cleaned, clean, making_region
from maxent.species.input.records.names import find_name
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.records.study_files import StudyChoice
from maxent.species.input.records.swd import SWD, shared_places, swd_rows
from maxent.species.input.times.dated_layers import DatedLayers
from maxent.species.input.times.record_dates import dates_of_file
from maxent.species.input.times.series import looks_dated
from maxent.species.input.times.settings import TimeSettings
from maxent.species.input.times.timing import Timing
from maxent.species.study.background import draw_background, why_no_cell
from maxent.species.study.effort import RecordEffort
from maxent.species.study.in_time import InTime, cells_in_time, with_steps
from maxent.species.study.kinds import Kinds
from maxent.species.study.study_region import StudyRegion

GROUPED = "cells with records of"  # in the note on a background of a target group
_FEW_CELLS = 100  # a background of fewer is worth a word


@dataclass(frozen=True, eq=False)
class Region:
    """The cells that the species of one run share: background, and every cell with a record.

    Attributes
    ----------
    grid : Grid
        Grid of the layers.
    categorical : tuple of str
        Names of the layers that hold categories.
    labels : dict
        File and band of each layer.
    X : table
        Values of each cell, sorted by cell.
    cell : array (n_cells,)
        Index of each cell in the grid.
    background : array (n_cells,)
        Which of them stand for the region.
    bias : array (n_cells,) or None
        Sampling effort in each, None where it is not taken out of the density.
    n_known : int or None
        Cells of the grid (of the study region) where every layer is known, None where not all of
        them were read.
    notes : tuple of str
        For the reader of the report.
    study : StudyRegion or None
        Where background is drawn from, None for everywhere.
    effort : str or None
        File of the bias raster, None without one.
    kernel : RecordEffort or None
        The effort that the records themselves tell of, None where it was not asked for.
    timing : Timing or None
        How time was treated, None where layers have none; cells are then those of steps, see
        ``Occurrences.cells``.
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
    study: StudyRegion | None = None
    effort: str | None = None
    kernel: RecordEffort | None = None
    timing: Timing | None = None

    def known(self, cells: Array) -> Array:
        """Whether these cells have a value in every layer."""
        place = np.minimum(np.searchsorted(self.cell, cells), self.cell.size - 1)
        return np.asarray(self.cell[place] == cells)

    def rows(self, cells: Array) -> Array:
        """The rows of these cells, which must be known."""
        return np.searchsorted(self.cell, cells)

    def centres(self, rows: Array | slice = slice(None)) -> tuple[Array, Array]:
        """x and y of the cells of some rows."""
        return self.grid.centres(self.cell[rows] % self.grid.size)

    def with_places(self) -> Region:
        """With the coordinates of the cells among their values."""
        if looks_at_places(self.X.columns):
            raise ValueError(
                f"--spatial adds layers called {' and '.join(PLACE)}, and there are some; rename "
                "them"
            )
        places = dict(zip(PLACE, self.centres(), strict=True))
        labels = self.labels | dict.fromkeys(PLACE, "coordinates of the cells")
        return replace(self, X=self.X.assign(**places), labels=labels)

    def of_places(self, group: Occurrences, name: str) -> Region:
        """With the cells of some of the records as background, in place of those of all."""
        places = np.isin(self.cell, group.cells(self.grid))
        others = [note for note in self.notes if GROUPED not in note]
        count = int(places.sum())
        said = [f"background: the {count} {GROUPED} {name} in {group.source}"]
        if count < _FEW_CELLS:
            said.append(_few_cells(f"{group.source}, {name}", count))
        return replace(self, background=places & self.background, notes=(*others, *said))


def survey(
    layers: Layers | DatedLayers,
    occurrences: Occurrences,
    settings: Settings | None = None,
    *,
    bias: Layers | None = None,
    group: Occurrences | None = None,
    study: StudyRegion | None = None,
    in_time: InTime | None = None,
) -> Region:
    """Read what all species need from the layers, in one pass.

    Parameters
    ----------
    layers : Layers or DatedLayers
        The layers.
    occurrences : Occurrences
        Records of all species, in the CRS of the layers.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    bias : Layers, default None
        A raster of sampling effort on the same grid.
    group : Occurrences, default None
        Records, of a target group or of chosen places, whose cells are the background instead of a
        random draw (with ``bias_kernel`` of the settings, whose density is the effort).
    study : StudyRegion, default None
        The region that background is drawn from.
    in_time : InTime, default None
        The times of dated layers that are in use.
    """
    settings = settings or Settings()
    kernel = None
    if settings.bias_kernel is not None:
        if bias is not None:
            raise ValueError(
                "a bias raster (--bias) and the density of records (--bias-kernel) are two kinds "
                "of effort; give one of them"
            )
        told = occurrences if group is None else group
        kernel = RecordEffort.from_records(
            told.x, told.y, layers.grid, told.source, settings.bias_kernel
        )
        bias, group = Layers([kernel], notes=[f"effort: {kernel.label}"]), None
    _check_one_background(bias, group, settings)
    cells = occurrences.cells(layers.grid)
    if in_time is not None:
        in_time.check(settings)
        chosen = _cells_in_time(in_time, cells, bias, group, study, settings)
    elif isinstance(layers, DatedLayers):
        raise ValueError("layers with times need the steps of records: give in_time=")
    elif group is None:
        what = "sampling effort" if kernel is None else "the density of records"
        chosen = _drawn_cells(layers, cells, bias, what, study, settings)
    else:
        chosen = _cells_of_records(layers, cells, group, study)
    if settings.bias != "prior":
        chosen = replace(chosen, effort=None)
    if chosen.effort is not None:
        if not ((chosen.effort > 0) & chosen.background).any():
            first = layers if isinstance(layers, Layers) else layers.at(layers.steps()[0])
            raise ValueError(why_no_cell(first, bias, chosen.n_known or 0))
        chosen = _visited_cells(chosen, chosen.effort > 0)
    assumed = [*layers.notes, *(() if bias is None else bias.notes), *chosen.notes]
    return Region(
        layers.grid,
        layers.categorical,
        layers.labels(),
        chosen.X,
        chosen.cell,
        chosen.background,
        chosen.effort,
        chosen.n_known,
        (*assumed, *hints(chosen.X, layers.categorical, layers.grid)),
        study,
        None if bias is None else next(iter(bias.labels().values())),
        kernel,
        None
        if in_time is None
        else in_time.timing(chosen.cell, chosen.background, group is not None),
    )


@dataclass(frozen=True, eq=False)
class _ChosenCells:
    """Cells of records and background: their values, and which of them are background."""

    X: Any
    cell: Array
    background: Array
    effort: Array | None
    n_known: int | None
    notes: tuple[str, ...]


def _check_one_background(
    bias: Layers | None, group: Occurrences | None, settings: Settings
) -> None:
    if bias is not None and group is not None:
        raise ValueError(
            "a bias raster (--bias) and the cells of records (--target-group, "
            "--background-records) are two ways to choose the background; give one of them"
        )
    if bias is None and settings.bias != Settings.bias:
        raise ValueError(
            f'bias="{settings.bias}" (--bias-as) says what a bias raster is for; give one (--bias)'
        )


def _cells_in_time(
    in_time: InTime,
    cells: Array,
    bias: Layers | None,
    group: Occurrences | None,
    study: StudyRegion | None,
    settings: Settings,
) -> _ChosenCells:
    """The cells of records and background at all times in use."""
    found = cells_in_time(in_time, cells, settings, bias=bias, group=group, study=study)
    count, steps = int(found.background.sum()), int((in_time.shares > 0).sum())
    notes = []
    if group is not None:
        if not count:
            raise ValueError(
                f"{group.source}: none of its {len(group)} records lies on a cell with data at its "
                "time, so there is no background; check its coordinates and dates"
            )
        notes.append(f"background: the {count} {GROUPED} {group.source}, at their own times")
        notes += [_few_cells(group.source, count)] if count < _FEW_CELLS else []
    else:
        how = {"records": "in time like the records", "uniform": "evenly over the times"}
        notes.append(
            f"background: {count} cells drawn {how[in_time.times.background_times]}, at "
            f"{steps} times"
        )
        if settings.background is not None and count < settings.background:
            notes.append(
                f"all cells with data at some of the times are background, {count} in all, fewer "
                f"than the {settings.background} asked for"
            )
    notes += [] if study is None else [study.describe()]
    return _ChosenCells(found.X, found.cell, found.background, found.effort, None, tuple(notes))


def _drawn_cells(
    layers: Layers,
    cells: Array,
    bias: Layers | None,
    effort: str,
    study: StudyRegion | None,
    settings: Settings,
) -> _ChosenCells:
    """The cells of records, and a background drawn at random or in proportion to the effort."""
    weighted = bias is not None and settings.bias == "background"
    drawn = draw_background(
        layers,
        settings.background,
        at=cells,
        bias=bias,
        weighted=weighted,
        within=study,
        seed=settings.seed,
        verbose=settings.verbose,
    )
    notes = []
    if settings.background is not None and drawn.n_known < settings.background:
        where = "" if study is None else " of the study region"
        notes.append(f"all {drawn.n_known} cells{where} with data are background")
    if weighted and int(drawn.background.sum()) == drawn.n_known:
        notes.append(
            f"every cell is background, so that {effort} changes nothing: draw "
            "fewer (--background 1000), or take it out of the density (--bias-as prior)"
        )
    if study is not None:
        notes.append(f"{study.describe()}, {drawn.n_known} cells with data")
    return _ChosenCells(
        drawn.X, drawn.cell, drawn.background, drawn.bias, drawn.n_known, tuple(notes)
    )


def _cells_of_records(
    layers: Layers, cells: Array, group: Occurrences, study: StudyRegion | None
) -> _ChosenCells:
    """The cells of records, and as background those of a target group or of chosen places."""
    notes = []
    if study is not None:
        group = group.take(study.contains(group.x, group.y))
        notes.append(study.describe())
    places = layers.grid.cells_at(group.x, group.y)
    cell = np.unique(np.concatenate([cells, places]))
    cell = cell[cell != OUTSIDE]
    X, known = layers.read_cells(cell)
    background = np.isin(cell, places)
    if not (known & background).any():
        raise ValueError(
            f"{group.source}: none of its {len(group)} records lies on a cell with data, so "
            "there is no background; check its coordinates"
            + ("" if study is None else " and the study region")
        )
    X, cell, background = X[known].reset_index(drop=True), cell[known], background[known]
    count = int(background.sum())
    notes.append(f"background: the {count} {GROUPED} {group.source}")
    if count < _FEW_CELLS:
        notes.append(_few_cells(group.source, count))
    return _ChosenCells(X, cell, background, None, None, tuple(notes))


def _few_cells(source: str, count: int) -> str:
    return (
        f"{source}: a background of {count} cells says little of the region; a target group should "
        "have hundreds: add records of similar species, or draw the background at random (without "
        "--target-group and --background-records)"
    )


def _visited_cells(chosen: _ChosenCells, visited: Array) -> _ChosenCells:
    """Without the cells that nobody looked at."""
    assert chosen.effort is not None
    notes = chosen.notes
    if not visited.all():
        left_out = int((~visited).sum())
        notes += (
            f"{left_out} cells without sampling effort are left out, and the records on them",
        )
    return replace(
        chosen,
        X=chosen.X[visited].reset_index(drop=True),
        cell=chosen.cell[visited],
        background=chosen.background[visited],
        effort=chosen.effort[visited],
        notes=notes,
    )


# -- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Regions:
    """The region of each species: one that all share, or one around the records of each.

    ``shared`` is None where each has its own, which is read when it is asked for; ``by_species``
    are those of the species of groups, each with the places of its group.
    """

    shared: Region | None
    layers: LayerFiles
    settings: Settings
    bias: str | None = None
    group: Occurrences | None = None
    study: StudyChoice | None = None
    by_species: Mapping[str, Region] = field(default_factory=dict)
    dated: Dated | None = None

    def region_of(self, records: Occurrences, test: Occurrences | None = None) -> Region:
        """The region of the records of a species."""
        if self.by_species and len(records):
            return self.by_species[records.names()[0]]
        if self.shared is not None:
            return self.shared
        assert self.study is not None
        with ExitStack() as files:
            opened: Layers | DatedLayers
            in_time = None
            if self.dated is None:
                opened = files.enter_context(self.layers.open())
            else:
                opened = files.enter_context(DatedLayers.open(self.layers, self.dated.times))
                in_time = replace(self.dated.in_time, layers=opened)
            effort = open_effort(files, self.bias, self.layers, opened)
            where = making_region(records, opened, self.settings.clean)
            if not where.any():
                study = None  # cleaning says why none can be used
            else:
                study = self.study.around(records.x[where], records.y[where], opened.grid)
            asked = records if test is None else together(records, test)
            return survey(
                opened,
                asked,
                self.settings,
                bias=effort,
                group=self.group,
                study=study,
                in_time=in_time,
            )


@dataclass(frozen=True, eq=False)
class Dated:
    """What was asked of time, and the times in use (of layers that are closed by now)."""

    times: TimeSettings
    in_time: InTime


def open_effort(
    files: ExitStack, bias: str | None, layers: LayerFiles, opened: Layers | DatedLayers
) -> Layers | None:
    """A bias raster on the grid of the layers, open as long as ``files``; None without one."""
    if bias is None:
        return None
    return files.enter_context(
        Layers.open(
            bias,
            like=opened.grid,
            resampling="nearest",  # no effort is none, also beside cells that were visited
            crs=layers.crs,
            nodata=layers.nodata,
        )
    )


@dataclass(frozen=True, eq=False)
class Surveyed:
    """The records of files, and what they and the background need from the layers."""

    regions: Regions
    records: Occurrences
    tests: Occurrences | None
    group: Occurrences | None
    notes: tuple[str, ...]
    grid: Grid

    def tests_of(self, species: str) -> Occurrences | None:
        """The test records of a species, None without any."""
        if self.tests is None or find_name(species, self.tests.names()) is None:
            return None
        return self.tests.of_species(species)


def survey_files(
    records: RecordFile,
    layers: LayerFiles,
    settings: Settings,
    *,
    test: RecordFile | None = None,
    bias: str | None = None,
    group: RecordFile | None = None,
    study: StudyFiles | None = None,
    times: TimeSettings | None = None,
) -> Surveyed:
    """Read all records, then all that is needed from the layers in one pass.

    With ``times`` whose ``date_column`` is given, each record has the layers of its own time.
    """
    with ExitStack() as files:
        opened: Layers | DatedLayers
        if times is None or times.date_column is None:
            opened = files.enter_context(layers.open())
        else:
            opened = files.enter_context(DatedLayers.open(layers, times))
        everything, notes = records.read(opened.grid)
        if isinstance(opened, Layers):
            notes += looks_dated(opened.names)
        read: dict[str, Occurrences | None] = {"test": None, "group": None}
        for name, file in (("test", test), ("group", group)):
            if file == records:
                read[name] = everything
            elif file is not None:
                read[name], more = file.read(opened.grid)
                notes += more
        dated = None
        if isinstance(opened, DatedLayers) and times is not None:
            assert times.date_column is not None
            given = [(records, everything), (test, read["test"]), (group, read["group"])]
            (everything, read["test"], read["group"]), in_time, more = with_steps(
                [
                    None
                    if file is None or one is None
                    else (one, dates_of_file(file.path, times.date_column, one))
                    for file, one in given
                ],
                opened,
                times,
            )
            notes += more
            dated = Dated(times, in_time)
        tests, others = read["test"], read["group"]
        if settings.bias_kernel is not None and others is None:
            others = everything  # test records tell nothing of effort
        choice, more = (study or StudyFiles()).read(opened.grid)
        notes += more
        shared = None
        if choice is None or not choice.by_species:
            effort = open_effort(files, bias, layers, opened)
            asked = everything if tests is None else together(everything, tests)
            nowhere = np.empty(0)
            fixed = None if choice is None else choice.around(nowhere, nowhere, opened.grid)
            shared = survey(
                opened,
                asked,
                settings,
                bias=effort,
                group=others,
                study=fixed,
                in_time=None if dated is None else dated.in_time,
            )
    regions = Regions(shared, layers, settings, bias, others, choice, dated=dated)
    return Surveyed(regions, everything, tests, others, tuple(notes), opened.grid)


def together(one: Occurrences, other: Occurrences) -> Occurrences:
    """Two sets of records in the same CRS, to look up their cells."""
    return replace(
        one,
        species=np.concatenate([one.species, other.species]),
        x=np.concatenate([one.x, other.x]),
        y=np.concatenate([one.y, other.y]),
        row=np.concatenate([one.row, other.row]),
        uncertainty=None,
        decimals=None,
        flags=None,
        step=None if one.step is None else np.concatenate([one.step, other.step]),
    )


# -- one species ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A species ready to be fitted.

    Attributes
    ----------
    species : str
        Name of the species.
    train : Sample
        Training records and background.
    test : Sample or None
        Records for testing, None without any.
    records : dict of array
        x, y and ``test`` (bool) of the records in use, and their ``step`` where layers have times.
    cleaning : list of CleaningStep
        What was taken out and why, in order.
    notes : list of str
        What was assumed.
    study : StudyRegion or None
        The region that background was drawn from, None for all of the layers.
    effort : str or None
        File of a bias raster.
    selection : Selection or None
        Which variables were left out.
    origins : list of Origin
        Where the records, and those for testing, come from.
    timing : Timing or None
        How time was treated, None where layers have none.
    kinds : Kinds or None
        Surveys and counts that are fitted with the presences, or without any.
    """

    species: str
    train: Sample
    test: Sample | None
    records: dict[str, Array]
    cleaning: list[CleaningStep]
    notes: list[str]
    study: StudyRegion | None = None
    effort: str | None = None
    selection: Selection | None = None
    origins: list[Origin] = field(default_factory=list)
    timing: Timing | None = None
    kinds: Kinds | None = None

    def new_notes(self, notes: Iterable[str], told: Collection[str]) -> list[str]:
        """Those of the notes that were not told yet; of the study region with the species' name."""
        new = [note for note in notes if note not in told]
        if self.study is None:
            return new
        said = self.study.describe()
        left = sum(step.records for step in self.cleaning if step.what.endswith(NOT_STUDIED))
        parts = [] if any(note.startswith(said) for note in told) else [said]
        parts += [f"{left} records outside the study region are left out"] if left else []
        mine = [f"{self.species}: {'; '.join(parts)}"] if parts else []
        return [*mine, *(note for note in new if not note.startswith(said))]


def prepare(
    region: Region,
    occurrences: Occurrences,
    settings: Settings | None = None,
    test: Occurrences | None = None,
) -> Prepared:
    """Clean the records of one species and put them on the cells of the region.

    Parameters
    ----------
    region : Region
        The cells that all species share.
    occurrences : Occurrences
        Records of the species.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    test : Occurrences, default None
        Records for testing.
    """
    settings = settings or Settings()
    name = occurrences.names()[0] if len(occurrences) else "species"
    cleaned = _cleaned(occurrences, region, settings, settings.minimum)
    notes, steps = list(region.notes) + cleaned.notes, list(cleaned.steps)
    records = cleaned.occurrences
    held = _held_out(len(records), settings)
    train_cell, test_cell = cleaned.cell[~held], cleaned.cell[held]
    x, y, step = records.x, records.y, records.step
    if test is not None:
        extra = _cleaned(test, region, settings, 1)
        notes += extra.notes
        steps += [replace(s, what=f"test records: {s.what}") for s in extra.steps]
        test_cell = extra.cell
        x, y = np.append(x, extra.occurrences.x), np.append(y, extra.occurrences.y)
        if step is not None and extra.occurrences.step is not None:
            step = np.append(step, extra.occurrences.step)
        held = np.append(held, np.ones(len(extra.occurrences), bool))
    sample = _sample(region, train_cell, region.background)
    if not (sample.counts == 0).any():
        raise ValueError(
            f"{name}: every background cell holds a record of it, so there is nothing to compare "
            "with: a target group needs records of other species too (--background-records), or "
            "draw the background at random"
        )
    tested = None
    if test_cell.size:
        tested = _sample(region, test_cell, np.zeros(region.cell.size, bool))
    kept = {"x": x, "y": y, "test": held} | ({} if step is None else {"step": step})
    read = [occurrences.origin, None if test is None else test.origin]
    origins = [origin for origin in read if origin is not None]
    return Prepared(
        name,
        sample,
        tested,
        kept,
        steps,
        notes,
        region.study,
        region.effort,
        origins=list({origin.source: origin for origin in origins}.values()),
        timing=region.timing,
    )


def prepare_swd(
    name: str, sample: Sample, test: Sample | None, settings: Settings, notes: Sequence[str]
) -> Prepared:
    """A species of tables with data: its test rows are given, or a share of its own is held out."""
    presences = np.flatnonzero(sample.counts > 0)
    n = len(presences)
    held = np.zeros(n, dtype=bool)
    if test is None and settings.test_share:
        held[_drawn(n, settings)] = True
        test = replace(sample.take(presences[held]), background=np.zeros(held.sum(), dtype=bool))
        kept = np.ones(len(sample.counts), dtype=bool)
        kept[presences[held]] = False
        sample = sample.take(kept)
    return Prepared(name, sample, test, _records_of(sample, test), [], list(notes))


def prepare_swd_group(
    table: SWD,
    background: SWD,
    names: Sequence[str],
    tests: SWD | None,
    settings: Settings,
    categorical: Sequence[str],
    notes: Sequence[str],
) -> dict[str, Prepared]:
    """Species of one table that are fitted together: all of them over the same rows."""
    places = shared_places(table, background, categorical)
    found = {}
    for name in names:
        mine = np.flatnonzero(table.species == find_name(name, table.names()))
        kept = np.ones(mine.size, dtype=bool)
        test = None if tests is None else swd_rows(tests, name, places.sample)
        if test is None and settings.test_share:
            kept[_drawn(mine.size, settings)] = False
            at = places.row[mine[~kept]]
            nowhere = np.zeros(at.size, dtype=bool)
            test = replace(
                places.sample.take(at), counts=np.ones(at.size, dtype=int), background=nowhere
            )
        train = places.of_rows(mine[kept])
        records = _records_of(train, test)
        found[name] = Prepared(name, train, test, records, [], list(notes))
    return found


def _records_of(sample: Sample, test: Sample | None) -> dict[str, Array]:
    """Where the records of a table are, those for testing last."""
    if sample.coordinates is None:
        return {"x": np.empty(0), "y": np.empty(0), "test": np.empty(0, dtype=bool)}
    places = sample.coordinates[sample.counts > 0]
    marks = np.zeros(len(places), dtype=bool)
    if test is not None and test.coordinates is not None:
        places = np.concatenate([places, test.coordinates])
        marks = np.append(marks, np.ones(len(test.coordinates), dtype=bool))
    return {"x": places[:, 0], "y": places[:, 1], "test": marks}


def _cleaned(occurrences: Occurrences, region: Region, settings: Settings, minimum: int) -> Cleaned:
    return clean(
        occurrences,
        region.grid,
        region.known,
        within=None if region.study is None else region.study.contains,
        keep_duplicates=settings.keep_duplicates,
        drop_doubtful=settings.clean,
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
        held[_drawn(n, settings)] = True
    return held


def _drawn(n: int, settings: Settings) -> Array:
    """The records that are held out, at random."""
    count = round(settings.test_share * n)
    return np.random.default_rng(settings.seed).permutation(n)[:count]


def _sample(region: Region, cells: Array, background: Array) -> Sample:
    counts = np.bincount(region.rows(cells), minlength=region.cell.size).astype(np.float64)
    rows = np.flatnonzero(background | (counts > 0))
    prior = None if region.bias is None else region.bias[rows]
    x, y = region.centres(rows)
    return Sample(
        region.X.iloc[rows].reset_index(drop=True),
        counts[rows],
        np.column_stack([x, y]),
        prior,
        background[rows],
        region.grid.crs,
    )
