"""Visits on the cells of layers, and what a fit of several kinds of records is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxent.density import Source
from maxent.rows.arrays import Array
from maxent.species.fitting.record_kinds import KM2, SourceFile
from maxent.species.fitting.results import Origin, Sample
from maxent.species.fitting.settings import Settings
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.names import find_name
from maxent.species.input.records.site_records import (
    SiteRecords,
    check_effect,
    read_sites,
    unlooked,
)
from maxent.species.input.source_settings import COUNTS, PRESENCES, SURVEY, SourceSettings
from maxent.species.libraries import geo
from maxent.species.study.samples import Prepared, Region


@dataclass(frozen=True, eq=False)
class PlacedSites:
    """Visits, and the layers at them.

    Attributes
    ----------
    records : SiteRecords
        The visits.
    X : table
        The layers at each.
    name : str
        What the source is called.
    """

    records: SiteRecords
    X: Any
    name: str

    def of_species(self, name: str) -> PlacedSites | None:
        """The visits that looked for a species, None without any."""
        places = self.records.places
        if places.pooled:
            return replace(self, records=replace(self.records, places=places.of_one(name)))
        index = np.flatnonzero(places.species == _spelled(name, self.records))
        if not index.size:
            return None
        return replace(self, records=self.records.take(index), X=_rows(self.X, index))

    def source(self, names: Sequence[str], own_scale: bool, size: float | None) -> Source:
        """Its part of the fit, on some of the layers."""
        told = self.records
        return Source(
            told.kind,
            self.X[list(names)],
            told.value,
            area=1.0 if told.size is None else told.size,
            visits=told.visits,
            size=np.inf if size is None or told.kind == SURVEY else size,
            own_scale=own_scale,
            name=self.name,
        )

    def digest(self) -> list[Any]:
        """What results depend on."""
        told = self.records
        return [
            *(self.name, told.kind, told.unit, told.places.species.tolist()),
            *(told.places.x, told.places.y, told.value, told.size, told.visits),
        ]

    def file(self) -> SourceFile:
        """What the report says of it."""
        told = self.records
        sizes = np.full(1, np.nan) if told.size is None else told.size
        return SourceFile(
            self.name,
            told.kind,
            told.unit,
            float(sizes.min()),
            float(np.median(sizes)),
            float(sizes.max()),
            len(told),
            float((told.value if told.kind == SURVEY else told.value > 0).sum()),
        )


@dataclass(frozen=True, eq=False)
class Kinds:
    """What a species has beside presences: visits, and how they are to be used.

    Attributes
    ----------
    settings : SourceSettings
        What the fit is told of sources.
    sites : tuple of PlacedSites
        The visits, by file.
    presences : bool
        Whether the sample holds presences and background; else it holds the visits.
    mass : array (n_rows,) or None
        What multiplies the default density in the rows of the sample: areas of cells, effort.
    effort : dict of array (n_rows,)
        Layers of effort at the rows of the sample.
    """

    settings: SourceSettings
    sites: tuple[PlacedSites, ...]
    presences: bool
    mass: Array | None = None
    effort: Mapping[str, Array] = field(default_factory=dict)

    def scale(self) -> tuple[str, list[bool], list[str]]:
        """The unit of the intensity, which sites have another one, and what to say of these.

        It is km2 where a file knows areas, else that of the first file. Files whose visits are of
        another unit tell where the species is, and not how many there are.
        """
        telling = [site for site in self.sites if self._two_sided(site)] or list(self.sites)
        units = [site.records.unit for site in telling]
        unit = KM2 if KM2 in units else units[0]
        first = next(site for site in telling if site.records.unit == unit)
        own, notes = [], []
        for site in self.sites:
            other = site.records.unit != unit or (not unit and site is not first)
            own.append(other)
            if other:
                theirs = site.records.unit or "visit"
                notes.append(
                    f"{site.name}: its size is told in {theirs}, that of {first.name} in "
                    f"{unit or 'visits of its own'}: it tells where there are more, not how many"
                )
        return unit, own, notes

    @staticmethod
    def _two_sided(site: PlacedSites) -> bool:
        told = site.records
        return bool(told.value.any()) and not (
            told.kind == SURVEY and bool((told.value == told.visits).all())
        )

    def typical(self, unit: str) -> float:
        """The median visit of the sources that tell the scale."""
        sizes = [
            site.records.size
            for site in self.sites
            if site.records.size is not None and site.records.unit == unit
        ]
        return float(np.median(np.concatenate(sizes))) if unit and sizes else 1.0

    def sources(self, X: Any, counts: Array) -> list[Source]:
        """All of them, with the rows of a sample as presences and background."""
        names = list(X.columns)
        _, own, _ = self.scale()
        made = []
        if self.presences:
            made.append(
                Source(
                    PRESENCES,
                    X,
                    counts,
                    area=1.0 if self.mass is None else self.mass,
                    effort=dict(self.effort) or None,
                    name=PRESENCES,
                )
            )
        pairs = zip(self.sites, own, strict=True)
        return [*made, *(s.source(names, o, self.settings.count_size) for s, o in pairs)]


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
        placed.append(PlacedSites(here, _rows(X, np.flatnonzero(known)), name))
    return placed


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
        return visits, (sources or SourceSettings()) if visits else None
    return [(sources.kind, records), *visits], sources


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
    prepared: Prepared, placed: Sequence[PlacedSites], settings: SourceSettings, grid: Grid
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
        kinds=Kinds(settings, tuple(mine), True, _mass(sample, grid), effort) if mine else None,
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
        _rows(X, first),
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


def _spelled(name: str, records: SiteRecords) -> str:
    return find_name(name, records.names()) or ""


def _names(read: Sequence[SiteRecords]) -> list[str]:
    """Names of files, numbered where two share one."""
    files = [sites.source for sites in read]
    return [
        name if files.count(name) == 1 else f"{name} {files[: i + 1].count(name)}"
        for i, name in enumerate(files)
    ]


def _rows(X: Any, index: Array) -> Any:
    return X.iloc[index].reset_index(drop=True)


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
