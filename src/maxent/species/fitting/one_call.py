"""One call from records and layers to the result of a species; no file is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxent.species.fitting.joint import Joint, SpeciesGroup, fit_group
from maxent.species.fitting.kinds import check_kinds
from maxent.species.fitting.one_species import fit_species
from maxent.species.fitting.results import SpeciesResult
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile, chosen_species
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.columns import listed
from maxent.species.input.records.locating import located
from maxent.species.input.records.names import find_name
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.source_settings import NOT_IN_TIME, PRESENCES, SourceSettings
from maxent.species.input.times.dated_layers import DatedLayers
from maxent.species.input.times.record_dates import (
    AUTO,
    RecordDates,
    dates_given,
    dates_of_file,
    dates_of_frame,
)
from maxent.species.input.times.settings import TimeSettings
from maxent.species.study.groups import groups_of, regions_of_groups
from maxent.species.study.in_time import with_steps
from maxent.species.study.samples import Region, prepare, survey, together
from maxent.species.study.sites import (
    prepare_sites,
    read_visits,
    region_of_sites,
    visits_given,
    with_sites,
)


def fit(
    records: Any,
    layers: Any,
    settings: Settings | None = None,
    *,
    species: str | None = None,
    categorical: tuple[str, ...] | list[str] = (),
    test: Any = None,
    bias: Any = None,
    group: Any = None,
    dates: Any = None,
    times: TimeSettings | None = None,
    surveys: Any = (),
    counts: Any = (),
    sources: SourceSettings | None = None,
    **changes: Any,
) -> SpeciesResult:
    """Fit one species to layers: what ``maxent fit`` does, without its files.

    With ``joint=True`` all species of the records are fitted as one problem, over the cells with
    any record unless ``group`` or ``bias`` say otherwise, and the result is that of one of them.

    Parameters
    ----------
    records : path, RecordFile, frame or Occurrences
        A file, a ``RecordFile`` (which names columns), a pandas or geopandas frame, or
        ``Occurrences``.
    layers : path, sequence of paths, LayerFiles, Dataset or Layers
        Files and folders, ``LayerFiles``, an xarray Dataset or DataArray, or ``Layers``.
    settings : Settings, default None
        See ``Settings``; None is ``Settings()``.
    species : str, default None
        Which one, where the records have several.
    categorical : tuple of str or list of str, default ()
        Names of the layers of categories, where ``layers`` does not say.
    test : as records, default None
        Records for testing.
    bias : as layers, default None
        Layer of sampling effort.
    group : as records, default None
        Records whose cells are the background (or whose density is the effort, with
        ``bias_kernel``).
    dates : str or array (n_records,), default None
        The dates of the records, by which each has the layers of its own time: a column (those of
        year, month and day with commas between, or "auto"), or one date for each record. Layers of
        which several times are there are known by their names (``heat_2003``, ``heat_2004``), or
        are a dimension of dates of an xarray object.
    times : TimeSettings, default None
        How dates and times are used; None is ``TimeSettings("auto")`` where there are dates.
    surveys : file or frame, or a sequence of them, default ()
        Surveys with absences, to be fitted with the records: see ``SourceSettings``.
    counts : file or frame, or a sequence of them, default ()
        Counts, to be fitted with the records.
    sources : SourceSettings, default None
        How surveys and counts are read and used. Its ``kind`` says that ``records`` are a survey,
        or counts, themselves.
    **changes : object
        Settings to replace, by name.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> rng = np.random.default_rng(0)
    >>> heat = xr.DataArray(rng.normal(size=(20, 20)), {"y": np.arange(20), "x": np.arange(20)})
    >>> y, x = np.nonzero(heat.values > 1)
    >>> hot = fit({"species": ["Aa bb"] * len(x), "x": x, "y": y}, heat.to_dataset(name="heat"),
    ...           features="lq", bootstrap=0, cv="none")
    >>> hot
    <SpeciesResult: Aa bb, 62 records, 400 background points, AUC 0.923, gain 1.486>
    """
    settings = replace(settings or Settings(verbose=0), **changes)
    visits, sources = visits_given(records, _several(surveys), _several(counts), sources)
    if sources is not None:
        held_out = test is not None or settings.test_share > 0
        check_kinds(settings, held_out=held_out, presences=sources.kind == PRESENCES)
    times = _times(dates, times)
    with ExitStack() as files:
        if times is not None and sources is not None:
            raise ValueError(NOT_IN_TIME)
        opened: Any
        if times is None:
            opened = _layers(layers, categorical, files)
        else:
            opened = files.enter_context(_dated_layers(layers, categorical, times))
        if sources is not None and sources.kind != PRESENCES:
            if not (test is None and bias is None and group is None):
                raise ValueError(
                    "test, bias and group are for presences: surveys and counts say themselves "
                    "where people looked"
                )
            return _fit_visits(opened, visits, sources, settings, species)
        everything, notes = _records(records, opened.grid)
        tests = group_records = in_time = None
        if test is not None:
            tests, more = _records(test, opened.grid)
            notes += more
        if group is not None:
            group_records, more = _records(group, opened.grid)
            notes += more
        if times is not None:
            assert isinstance(opened, DatedLayers)
            given = [(everything, records), (tests, test), (group_records, group)]
            (everything, tests, group_records), in_time, more = with_steps(
                [None if r is None else (r, _dates(dates, of, r, times)) for r, of in given],
                opened,
                times,
            )
            notes += more
        own_places = group is None and bias is None and settings.bias_kernel is None
        by_records = settings.joint and own_places
        if (settings.bias_kernel is not None or by_records) and group_records is None:
            group_records = everything
        effort = None if bias is None else _layers(bias, (), files, like=opened.grid)
        name = _one(everything, species)
        placed, more = ([], []) if sources is None else read_visits(visits, sources, opened)
        notes += more
        asked = everything if tests is None else together(everything, tests)
        region = survey(opened, asked, settings, bias=effort, group=group_records, in_time=in_time)
        region = region.with_places() if settings.spatial else region
    joint = None
    if settings.joint:
        of_species = _groups(records, everything, settings.group_column)
        if by_records:
            places, more = regions_of_groups(region, everything, of_species)
            region, notes = places.get(name, region), [*notes, *more]
        joint = _joint(everything, of_species, region, settings, name)
    mine = None
    if tests is not None and find_name(name, tests.names()) is not None:
        mine = tests.of_species(name)
    ready = prepare(region, everything.of_species(name), settings, mine)
    if sources is not None:
        ready = with_sites(ready, placed, sources, region)
        if ready.kinds is None:
            raise ValueError("; ".join(ready.notes[-len(placed) :]))
    result, _ = fit_species(
        replace(ready, notes=[*notes, *ready.notes]),
        settings,
        categorical=region.categorical,
        labels=region.labels,
        grid=region.grid,
        joint=joint,
    )
    return result


def _times(dates: Any, times: TimeSettings | None) -> TimeSettings | None:
    """What is asked of time, None without dates."""
    if dates is None:
        return None if times is None or times.date_column is None else times
    column = dates if isinstance(dates, str) else AUTO
    return replace(times or TimeSettings(column), date_column=column)


def _dated_layers(
    given: Any, categorical: tuple[str, ...] | list[str], times: TimeSettings
) -> DatedLayers:
    """Layers as ``fit`` takes them, with their times."""
    if isinstance(given, Layers):
        return DatedLayers.from_layers(given, times.length)
    if hasattr(given, "dims"):
        opened = Layers.from_xarray(given)
        return DatedLayers.from_layers(opened, times.length, categorical)
    if not isinstance(given, LayerFiles):
        paths = [given] if isinstance(given, str | Path) else given
        given = LayerFiles(tuple(str(path) for path in paths), tuple(categorical))
    return DatedLayers.open(given, times)


def _dates(dates: Any, given: Any, records: Occurrences, times: TimeSettings) -> RecordDates:
    """The dates of some records, from where these come from."""
    column = times.date_column or AUTO
    if dates is not None and not isinstance(dates, str):
        return dates_given(dates, records)
    if isinstance(given, Occurrences):
        raise ValueError(
            "dates names a column of a file or a frame, and Occurrences have none: give one date "
            "for each of the records"
        )
    if isinstance(given, RecordFile):
        given = given.path
    if isinstance(given, str | Path):
        return dates_of_file(str(given), column, records)
    return dates_of_frame(given, column, records)


def _fit_visits(
    layers: Layers,
    visits: Sequence[tuple[str, Any]],
    sources: SourceSettings,
    settings: Settings,
    species: str | None,
) -> SpeciesResult:
    """The result of visits alone."""
    placed, notes = read_visits(visits, sources, layers)
    region = region_of_sites(placed, layers)
    first = placed[0].records
    name = _one(first.places, species)
    ready = prepare_sites(name, placed, settings, sources, region)
    result, _ = fit_species(
        replace(ready, notes=[*notes, *ready.notes]),
        settings,
        categorical=region.categorical,
        labels=region.labels,
        grid=region.grid,
    )
    return result


def _several(given: Any) -> list[Any]:
    """One file or frame, or a list of them."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _groups(given: Any, records: Occurrences, column: str | None) -> dict[str, str]:
    """The group of each species of the records."""
    if len(records.names()) < 2:
        raise ValueError(
            f"joint lends strength between several species, and {records.source} has one: "
            f"{records.names()[0]}"
        )
    grouped = None
    if column is not None:
        if isinstance(given, Occurrences):
            raise ValueError(
                "group_column names a column of a file or a frame, and Occurrences have none; give "
                "one of these"
            )
        if isinstance(given, str | Path):
            given = RecordFile(str(given))
        if isinstance(given, RecordFile):
            grouped = replace(given, species=column).occurrences()
        else:
            grouped = Occurrences.from_frame(given, species=column)
    return groups_of(records, grouped, column, records.names())


def _joint(
    records: Occurrences,
    of_species: Mapping[str, str],
    region: Region,
    settings: Settings,
    name: str,
) -> Joint:
    """The part of one species in the fit of its group, without members of too few records."""
    samples = {}
    for member in (one for one, group in of_species.items() if group == of_species[name]):
        try:
            samples[member] = prepare(region, records.of_species(member), settings).train
        except ValueError:
            if member == name:
                raise
    together = SpeciesGroup.from_region(of_species[name], region, samples)
    return fit_group(together, settings)[1][name]


def _one(records: Occurrences, species: str | None) -> str:
    present = records.names()
    if species is None and len(present) > 1:
        raise ValueError(f"{records.source}: {len(present)} species; give species= as one of "
                         f"{listed(present)}")  # fmt: skip
    return chosen_species(present, () if species is None else (species,), records.source)[0]


def _records(given: Any, grid: Grid) -> tuple[Occurrences, list[str]]:
    """Records in the CRS of the grid, and notes on how they got there."""
    if isinstance(given, str | Path):
        given = RecordFile(str(given))
    if isinstance(given, RecordFile):
        return given.read(grid)
    records = given if isinstance(given, Occurrences) else Occurrences.from_frame(given)
    placed, notes = located(records, grid)
    return placed, [records.summary(), *notes]


def _layers(
    given: Any, categorical: tuple[str, ...] | list[str], files: ExitStack, like: Grid | None = None
) -> Layers:
    """Open layers; those opened here are closed with ``files``."""
    if isinstance(given, Layers):
        return given
    if isinstance(given, LayerFiles):
        return files.enter_context(given.open(like=like))
    if hasattr(given, "dims"):
        return Layers.from_xarray(given, categorical)
    return files.enter_context(Layers.open(given, categorical=categorical, like=like))
