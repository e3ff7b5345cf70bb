"""Visits on the cells of layers, and what a fit of several kinds of records is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxent.density import Source
from maxent.rows.arrays import Array
from maxent.species.fitting.record_kinds import KM2, SourceFile
from maxent.species.input.records.names import find_name
from maxent.species.input.records.site_records import (
    SiteRecords,
)
from maxent.species.input.source_settings import PRESENCES, SURVEY, SourceSettings


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
        return replace(self, records=self.records.take(index), X=table_rows(self.X, index))

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


def _spelled(name: str, records: SiteRecords) -> str:
    return find_name(name, records.names()) or ""


def table_rows(X: Any, index: Array) -> Any:
    """Some rows of a table."""
    return X.iloc[index].reset_index(drop=True)
