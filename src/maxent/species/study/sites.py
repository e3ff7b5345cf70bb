"""Surveys and counts from files to samples: put on layers, and prepared with a species."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.record_kinds import KM2
from maxent.species.fitting.results import Origin, Sample
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import RecordFile
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.site_records import (
    SiteRecords,
    check_effect,
    has_column,
    read_sites,
    unlooked,
)
from maxent.species.input.source_settings import COUNTS, PRESENCES, SURVEY, SourceSettings
from maxent.species.libraries import geo
from maxent.species.study.kinds import Kinds, PlacedSites, table_rows
from maxent.species.study.samples import Prepared, Region


def place_sites(read: Sequence[SiteRecords], layers: Layers) -> list[PlacedSites]:
    """Files of visits on the cells of layers; those on cells without values are left out."""
    placed = []
    for sites, name in zip(read, _names(read), strict=True):
        here = sites.on(layers.grid)
        if not len(here):
            raise ValueError(
                f"{sites.source}: none of its {len(sites)} visits lies on the layers; check the "
                "coordinates (--x, --y) and their coordinate reference system (--crs)"
            )
        X, known = layers.read_cells(layers.grid.cells_at(here.places.x, here.places.y))
        here = here.without(~known, "in the sea or under nodata")
        if not len(here):
            raise ValueError(
                f"{sites.source}: none of its visits lies on a cell with data; check coordinates "
                "and the nodata values of the layers"
            )
        here = replace(here, notes=(*here.notes, *_too_large(here, layers.grid)))
        placed.append(PlacedSites(here, table_rows(X, np.flatnonzero(known)), name))
    return placed


def _too_large(sites: SiteRecords, grid: Grid) -> Iterator[str]:
    """What to say of areas beyond those of the cells that visits lie in."""
    areas = cell_areas(grid)
    if sites.size is None or sites.unit != KM2 or areas is None:
        return
    places = sites.places
    row, column = np.divmod(grid.cells_at(places.x, places.y), grid.width)
    middle = int(np.argsort(sites.size)[len(sites) // 2])
    cell = float(areas.read(Window(int(row[middle]), int(column[middle]), 1, 1))[0, 0])
    if sites.size[middle] > cell:
        yield (
            f"{sites.source}: half of the visits are of {sites.size[middle]:.4g} km2 or more, and "
            f"a cell of the layers is of {cell:.4g} km2; check the unit of areas"
        )


def visits_given(
    records: Any,
    surveys: Sequence[Any],
    counts: Sequence[Any],
    sources: SourceSettings | None,
) -> tuple[list[tuple[str, Any]], SourceSettings | None]:
    """Files of visits by kind, the records among them where these are visits."""
    visits = [*((SURVEY, file) for file in surveys), *((COUNTS, file) for file in counts)]
    if sources is None or sources.kind == PRESENCES:
        if not visits and sources is not None and sources != SourceSettings():
            raise ValueError(
                "how surveys and counts are read has no effect without any: give one (--survey, "
                "--counts), or say that the records are one (--kind)"
            )
        _check_once([file for _, file in visits])
        _check_presences(records, visits)
        return visits, (sources or SourceSettings()) if visits else None
    visits = [(sources.kind, records), *visits]
    _check_once([file for _, file in visits])
    return visits, sources


def _check_once(given: Sequence[Any]) -> None:
    """Refuse a file whose visits would count twice."""
    files = [path for path in map(_path, given) if path is not None]
    twice = next((path for path in files if files.count(path) > 1), None)
    if twice is not None:
        raise ValueError(
            f"{os.path.basename(twice)} is given twice, so that its visits would count twice; give "
            "it once"
        )


def _check_presences(records: Any, visits: Sequence[tuple[str, Any]]) -> None:
    """Refuse records the finds of which are those of a survey."""
    mine = _path(records)
    if mine is not None and mine in [_path(file) for _, file in visits]:
        raise ValueError(
            f"{os.path.basename(mine)} is given as presences and as visits, so that what was found "
            "would count twice; without other presences the records are the survey, or the counts, "
            "themselves (`--kind survey`, `--kind counts`)"
        )


def _path(given: Any) -> str | None:
    """The file of records, None for those in memory."""
    path = getattr(given, "path", given)
    return os.path.realpath(path) if isinstance(path, str | os.PathLike) else None


def without_column_of_surveys(given: RecordFile, visits: Sequence[tuple[str, Any]]) -> RecordFile:
    """Presences without a column of presence that was named for a survey, and is there alone."""
    if given.presence is None or has_column(given, given.presence):
        return given
    surveys = [file for kind, file in visits if kind == SURVEY and isinstance(file, RecordFile)]
    theirs = any(
        file.presence == given.presence and has_column(file, given.presence) for file in surveys
    )
    return replace(given, presence=None) if theirs else given


def read_visits(
    given: Sequence[tuple[str, Any]], settings: SourceSettings, layers: Layers
) -> tuple[list[PlacedSites], list[str]]:
    """Files or frames of visits, with their kinds, on layers; and what to say of them."""
    read = [read_sites(file, kind, settings) for kind, file in given]
    _check_effect(read, settings)
    placed = place_sites(read, layers)
    pairs = zip(read, placed, strict=True)
    return placed, [n for r, p in pairs for n in (r.summary(), *p.records.notes)]


def _check_effect(read: Sequence[SiteRecords], settings: SourceSettings) -> None:
    """Refuse what has no effect on these files."""
    presences = settings.kind == PRESENCES
    check_effect(read, settings)
    if settings.effort_layers and not presences:
        raise ValueError(
            "effort_layers (--effort-layer) has no effect without presences: a survey says itself "
            "where people looked"
        )
    if settings.weigh != "likelihood" and len(read) + presences < 2:
        raise ValueError("weigh (--weigh-sources) has no effect on one kind of records")


def with_sites(
    prepared: Prepared, placed: Sequence[PlacedSites], settings: SourceSettings, region: Region
) -> Prepared:
    """A species with presences, and the visits that looked for it."""
    mine, notes = _of_species(prepared.species, placed)
    sample, effort = prepared.train, {}
    lacking = [name for name in settings.effort_layers if name not in sample.X.columns]
    if lacking:
        raise ValueError(
            f"effort_layers (--effort-layer): no layer {lacking[0]!r}; there are "
            f"{', '.join(sample.X.columns)}"
        )
    of_categories = [name for name in settings.effort_layers if name in region.categorical]
    if of_categories:
        raise ValueError(
            f"effort_layers (--effort-layer): {of_categories[0]!r} holds categories, and effort is "
            "a number, such as a distance to roads; leave the layer out (--without) or keep it in "
            "the map"
        )
    kept = [name for name in sample.X.columns if name not in settings.effort_layers]
    if not kept:
        raise ValueError("every layer is one of effort (--effort-layer): none is left for the map")
    for name in settings.effort_layers:
        effort[name] = np.asarray(sample.X[name], dtype=np.float64)
    test = prepared.test
    told = [step for site in mine for step in site.records.steps]
    return replace(
        prepared,
        train=replace(sample, X=sample.X[kept]),
        test=None if test is None else replace(test, X=test.X[kept]),
        cleaning=[*prepared.cleaning, *told],
        notes=[*prepared.notes, *notes],
        origins=_with_origins(prepared.origins, mine),
        kinds=Kinds(settings, tuple(mine), True, _mass(sample, region.grid), effort)
        if mine
        else None,
    )


def prepare_sites(
    species: str,
    placed: Sequence[PlacedSites],
    settings: Settings,
    sources: SourceSettings,
    region: Region,
) -> Prepared:
    """A species of visits alone: its sample is the visits, those in vain being the background."""
    mine, notes = _of_species(species, placed)
    if not mine:
        raise ValueError(f"{species}: no visit looked for it; {'; '.join(notes)}")
    grid, pandas = region.grid, geo("pandas")
    places = [site.records.places for site in mine]
    x, y = (np.concatenate([getattr(p, axis) for p in places]) for axis in "xy")
    found = np.concatenate([site.records.value for site in mine]) > 0
    if found.sum() < settings.minimum:
        raise ValueError(
            f"{species}: {found.sum()} of {found.size} visits found it, at least "
            f"{settings.minimum} are needed (--minimum)"
        )
    vain = ~found if not found.all() else np.ones(found.size, dtype=bool)
    cells = grid.cells_at(x, y)
    sample = Sample(
        pandas.concat([site.X for site in mine], ignore_index=True),
        found.astype(np.float64),
        np.column_stack(grid.centres(cells)),
        None,
        vain,
        grid.crs,
    )
    return Prepared(
        species,
        sample,
        None,
        {"x": x[found], "y": y[found], "test": np.zeros(int(found.sum()), dtype=bool)},
        [step for site in mine for step in site.records.steps],
        [*region.notes, *notes],
        origins=_with_origins([], mine),
        kinds=Kinds(sources, tuple(mine), False),
    )


def region_of_sites(placed: Sequence[PlacedSites], layers: Layers) -> Region:
    """The cells that were visited, where no background is drawn."""
    pandas = geo("pandas")
    cell = np.concatenate(
        [layers.grid.cells_at(s.records.places.x, s.records.places.y) for s in placed]
    )
    cell, first = np.unique(cell, return_index=True)
    X = pandas.concat([site.X for site in placed], ignore_index=True)
    return Region(
        layers.grid,
        layers.categorical,
        layers.labels(),
        table_rows(X, first),
        cell,
        np.ones(cell.size, dtype=bool),
        None,
        None,
        tuple(layers.notes),
    )


def _of_species(name: str, placed: Sequence[PlacedSites]) -> tuple[list[PlacedSites], list[str]]:
    parts = [(site, site.of_species(name)) for site in placed]
    mine = [part for _, part in parts if part is not None]
    return mine, [unlooked(name, site.records) for site, part in parts if part is None]


def _with_origins(known: Sequence[Origin], sites: Sequence[PlacedSites]) -> list[Origin]:
    """Where records come from, each file once."""
    read = [*known, *(site.records.places.origin for site in sites)]
    return list({origin.source: origin for origin in read if origin is not None}.values())


def _names(read: Sequence[SiteRecords]) -> list[str]:
    """Names of files, numbered where two share one."""
    files = [sites.source for sites in read]
    return [
        name if files.count(name) == 1 else f"{name} {files[: i + 1].count(name)}"
        for i, name in enumerate(files)
    ]


def _mass(sample: Sample, grid: Grid) -> Array | None:
    """Areas of cells, where rows of the grid differ, times known effort; about 1 on average."""
    mass = None if sample.prior is None else np.asarray(sample.prior, dtype=np.float64)
    areas = cell_areas(grid)
    if areas is not None and areas.by_row and sample.coordinates is not None:
        rows = grid.cells_at(*sample.coordinates.T) // grid.width
        used, place = np.unique(rows, return_inverse=True)
        km2 = np.array([float(areas.read(Window(int(r), 0, 1, 1))[0, 0]) for r in used])[place]
        mass = km2 if mass is None else mass * km2
    return None if mass is None else mass / mass.mean()
