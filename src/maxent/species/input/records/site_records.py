"""SiteRecords: visits that looked for species, and what they found: surveys and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import CleaningStep, Origin
from maxent.species.input.crs import check_crs
from maxent.species.input.files import RecordFile
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.records import sizes
from maxent.species.input.records.archives import open_table
from maxent.species.input.records.columns import (
    ABSENT,
    COUNT_NAMES,
    NO_COLUMN,
    PRESENCE_NAMES,
    PRESENT,
    Asked,
    Columns,
    bare,
    chosen_columns,
    listed,
    named,
    recognised,
)
from maxent.species.input.records.locating import located
from maxent.species.input.records.names import file_species, one_spelling
from maxent.species.input.records.occurrences import (
    Occurrences,
    exploded,
    is_vector,
    read_vector,
    stated_crs,
)
from maxent.species.input.records.rows import rows_named
from maxent.species.input.records.text_table import (
    MISSING,
    check_file,
    check_records,
    frame_numbers,
    is_number,
    no_number,
    texts,
)
from maxent.species.input.source_settings import COUNTS, SURVEY, SourceSettings

_FOUND_NAMES = (*PRESENCE_NAMES, "detected", "detections", "detection", "found", "ndetections")
_VISIT_NAMES = ("visits", "nvisits", "numvisits", "numberofvisits", "surveys", "nsurveys",
                "occasions", "noccasions", "replicates")  # fmt: skip
_EXAMPLES = 5
_PRESENT, _ABSENT = PRESENT - {"1", "1.0"}, ABSENT - {"0", "0.0"}  # in words


@dataclass(frozen=True, eq=False)
class SiteRecords:
    """Visits of one kind, and what they found.

    Attributes
    ----------
    kind : "survey" or "counts"
        What ``value`` is.
    places : Occurrences
        Species looked for and place of each visit.
    value : array (n_visits,)
        Of a survey how many of the visits found the species, of counts individuals.
    size : array (n_visits,) or None
        Area or effort, None where the file says nothing of it.
    visits : array (n_visits,)
        Visits that a row of a survey stands for.
    unit : str
        That of ``size``: "km2", "hours" ...; "" where there is none.
    notes : tuple of str
        What was assumed in reading.
    steps : tuple of CleaningStep
        What was left out.
    header : tuple of str
        Names of the columns.
    used : frozenset of str
        The fields of ``SourceSettings`` that it was read by.
    """

    kind: str
    places: Occurrences
    value: Array
    size: Array | None
    visits: Array
    unit: str = ""
    notes: tuple[str, ...] = ()
    steps: tuple[CleaningStep, ...] = ()
    header: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.value)

    @property
    def source(self) -> str:
        """Name of the file."""
        return self.places.source

    def names(self) -> list[str]:
        """The species looked for, in order of appearance."""
        return self.places.names()

    def take(self, index: Array) -> SiteRecords:
        """Some of the visits, by position or mask."""
        return replace(
            self,
            places=self.places.take(index),
            value=self.value[index],
            size=None if self.size is None else self.size[index],
            visits=self.visits[index],
        )

    def without(self, lost: Array, what: str) -> SiteRecords:
        """Without some visits, which a step and a note tell of."""
        if not lost.any():
            return self
        index = np.flatnonzero(lost)
        examples = tuple(self.places.label(int(i)) for i in index[:_EXAMPLES])
        step = CleaningStep(f"{self.source}: {what}", index.size, examples)
        note = f"{self.source}: {index.size} of {len(self)} visits left out, {what} (the first in "
        note += f"row {self.places.row[index[0]]})"
        kept = self.take(~lost)
        return replace(kept, notes=(*self.notes, note), steps=(*self.steps, step))

    def summary(self) -> str:
        """How many visits, how many found something, and the columns that this was read from."""
        what = "a survey" if self.kind == SURVEY else "counts"
        found = int((self.value > 0).sum())
        return (
            f"{self.source}: {what} of {len(self)} {'visit' if len(self) == 1 else 'visits'} for "
            f"{len(self.names())} species, {found} of which found one: {self.places.columns}"
        )

    def on(self, grid: Grid) -> SiteRecords:
        """The visits in the CRS of a grid, without those that lie beyond it."""
        places, notes = located(self.places, grid)
        said = (*self.notes, *notes)
        here = replace(self, places=replace(places, notes=()), notes=said)
        here = here.without(
            ~(np.isfinite(places.x) & np.isfinite(places.y)), "as coordinates are missing"
        )
        cells = grid.cells_at(here.places.x, here.places.y)
        return here.without(cells == OUTSIDE, "outside the layers")


def read_sites(given: Any, kind: str, settings: SourceSettings | None = None) -> SiteRecords:
    """Read a survey with absences, or counts.

    The file has a row for each visit (or for each site, with a column of ``visits``) and species.
    Columns of species and place are recognised as by ``read_occurrences``. A survey says what was
    found in a column of presence (0 and 1, or words, or how many of the visits found the species),
    counts in one of individuals.

    Parameters
    ----------
    given : RecordFile, path or frame
        The file, or a table in memory.
    kind : "survey" or "counts"
        What it holds.
    settings : SourceSettings, default None
        Names of columns that are not to be recognised.

    Examples
    --------
    >>> table = {"x": [1, 2, 3], "y": [7, 8, 9], "presence": [0, 1, 1], "plot_ha": [2, 2, 4]}
    >>> sites = read_sites(table, "survey", SourceSettings(area_column="plot_ha", area_unit="ha"))
    >>> sites.value, sites.size, sites.unit
    (array([0., 1., 1.]), array([0.02, 0.02, 0.04]), 'km2')
    """
    settings = settings or SourceSettings()
    if isinstance(given, str | Path):
        given = RecordFile(str(given))
    if isinstance(given, RecordFile):
        opened = _opened_file(given)
    else:
        given, opened = RecordFile(""), _opened_frame(given, "frame")
    asked, notes = _lenient(given, opened.header, opened.source)
    found = recognised(opened.header, _FOUND_NAMES)
    if kind == SURVEY and asked.presence is None and found is not None:  # whatever it holds
        asked = asked._replace(presence=opened.header[found])
    columns = chosen_columns(
        opened.header, opened.source, asked, opened.column, geometry=opened.points is not None
    )
    return _assembled(opened, kind, given, columns, settings, (*opened.notes, *notes))


def header_of(path: Path) -> list[str]:
    """The names of the columns of a file."""
    check_file(path)
    if is_vector(path):
        return [str(column) for column in read_vector(path)[0].columns]
    return list(open_table(path)[0].header)


def has_column(file: RecordFile, name: str) -> bool:
    """Whether a file has a column of this name; also where it is for its reader to complain of."""
    try:
        header = header_of(Path(file.path))
    except (OSError, ValueError):
        return True
    return name == NO_COLUMN or bare(name) in {bare(column) for column in header}


def counts_alone(header: Sequence[str]) -> bool:
    """Whether a table has a column of counts and none of presence and absence."""
    return recognised(header, COUNT_NAMES) is not None and recognised(header, _FOUND_NAMES) is None


# -- tables in one form ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Opened:
    """A table whose columns are texts or numbers, wherever it comes from."""

    header: list[str]
    row: Array
    source: str
    column: Callable[[int], list[str]]
    numbers: Callable[[int], Array]
    points: Any = None
    origin: Origin | None = None
    notes: tuple[str, ...] = ()


def _opened_file(file: RecordFile) -> _Opened:
    path = Path(file.path)
    check_file(path)
    if is_vector(path):
        frame, notes = read_vector(path)
        return replace(_opened_frame(frame, path.name), notes=notes)
    table, origin = open_table(path)
    lines: list[int] = []
    cells: list[list[str]] = [[] for _ in table.header]
    for rows, batch in table.batches(range(len(table.header))):
        lines += rows
        for known, more in zip(cells, batch, strict=True):
            known += more
    check_records(len(lines), file.path)
    row = np.array(lines)

    def numbers(position: int) -> Array:
        read, wrong = table.numbers(cells[position])
        if wrong is not None:
            where = f"{file.path}, line {row[wrong]}"
            raise no_number(where, table.header[position], cells[position][wrong])
        return read

    return _Opened(
        table.header,
        row,
        origin.source,
        lambda position: [value.strip() for value in cells[position]],
        numbers,
        origin=origin,
        notes=table.notes,
    )


def _opened_frame(frame: Any, source: str) -> _Opened:
    names = list(frame if isinstance(frame, Mapping) else getattr(frame, "columns", ()))
    if not names:
        raise TypeError(
            "expected a file, or a pandas or geopandas frame with columns, got "
            f"{type(frame).__name__}"
        )
    row = np.arange(len(frame[names[0]]))
    check_records(len(row), source)
    points: Any = getattr(frame, "geometry", None)
    points = points if hasattr(points, "geom_type") else None
    if points is not None:
        frame, row, points = exploded(frame, points, source)
    header = [str(name) for name in names]

    def values(position: int) -> Array:
        return np.asarray(frame[names[position]], dtype=object)

    return _Opened(
        header,
        row,
        source,
        lambda position: texts(values(position)),
        lambda position: frame_numbers(values(position), row, header[position], source),
        points,
        Origin(source),
    )


def _lenient(file: RecordFile, header: list[str], source: str) -> tuple[Asked, list[str]]:
    """The columns named for the first file, as far as this one has them; what to say of others."""
    bares = {bare(name) for name in header}
    kept: dict[str, str | None] = {}
    notes = []
    for name, flag in (("species", "--species-column"), ("x", "--x"), ("y", "--y"),
                       ("presence", "--presence-column")):  # fmt: skip
        asked = getattr(file, name)
        there = asked is None or asked == NO_COLUMN or bare(asked) in bares
        kept[name] = asked if there else None
        if not there:
            notes.append(
                f"{source}: no column {asked!r} ({flag}), so the column is recognised by its name"
            )
    return Asked(**kept), notes


# -- what the columns say --------------------------------------------------------------------------


def _assembled(
    opened: _Opened,
    kind: str,
    file: RecordFile,
    columns: Columns,
    settings: SourceSettings,
    notes: tuple[str, ...],
) -> SiteRecords:
    header, source = opened.header, opened.source
    if opened.points is not None:
        x, y = (np.asarray(v, dtype=np.float64) for v in (opened.points.x, opened.points.y))
        crs = file.crs or (None if opened.points.crs is None else opened.points.crs.to_string())
    else:
        assert columns.x is not None
        assert columns.y is not None
        x, y, crs = opened.numbers(columns.x), opened.numbers(columns.y), file.crs
    if crs is None:
        datum = None if columns.datum is None else opened.column(columns.datum)
        crs, x, y, said = stated_crs(datum, x, y, columns.degrees, source)
        notes += said
    else:
        check_crs(crs)
    taken = [j for j in (columns.species, columns.x, columns.y) if j is not None]
    visits, said_visits = _visits(opened, kind, settings)
    value, said_value = _values(opened, kind, columns, taken, settings)
    size, unit, said_size = _sizes(opened, settings)
    species = np.empty(len(x), dtype=object)
    named_after = columns.species is None
    species[:] = file_species(source) if named_after else opened.column(columns.species or 0)
    species, spelled = one_spelling(species, source)
    words = f"{columns.described(header)}, {said_value}{said_visits}"
    places = Occurrences(
        species,
        x,
        y,
        crs,
        opened.row,
        source,
        columns=words,
        origin=opened.origin,
        pooled=columns.species is None,
    )
    read = SiteRecords(
        kind,
        places,
        value,
        size,
        visits,
        unit,
        (*notes, *columns.notes, *spelled, *said_size),
        header=tuple(header),
        used=frozenset(_used(header, kind, settings)),
    )
    if file.leave_out:
        left = np.isin(opened.row, rows_named(file.leave_out))
        read = read.without(left, "as asked for (--leave-out)")
    if not places.pooled:
        read = read.without(read.places.species == "", "as they name no species")
    read = read.without(~np.isfinite(read.value), "as they do not say what was found")
    return _checked(read)


def _used(header: Sequence[str], kind: str, settings: SourceSettings) -> Iterator[str]:
    """The settings that say something of a file."""
    bares = {bare(name) for name in header}
    for name in ("count_column", "visits_column", "area_column"):
        asked = getattr(settings, name)
        if asked is not None and bare(asked) in bares:
            yield from () if name == "visits_column" and kind != SURVEY else (name,)
    column = _size_column(header, settings)
    if column is None and settings.site_area is not None:
        yield from ("site_area", "area_unit")
    elif column is not None and not column.known:
        yield "area_unit"


def _checked(read: SiteRecords) -> SiteRecords:
    """Without visits of no known size; what cannot be a count or a number of finds is refused."""
    if read.size is not None:
        read = read.without(~np.isfinite(read.size), "as their area or effort is missing")
    if read.size is not None:
        read = read.without(read.size == 0, "as their area or effort is 0, which tells nothing")
    if read.size is not None and (read.size < 0).any():
        below = int(np.argmax(read.size < 0))
        raise ValueError(f"{read.places.label(below)}: an area or effort below 0; correct the file")
    for wrong, what in (
        (read.value < 0, "below 0"),
        (read.value != np.floor(read.value), "not a whole number"),
    ):
        if wrong.any():
            first = int(np.argmax(wrong))
            word = "a count" if read.kind == COUNTS else "what a survey found"
            raise ValueError(
                f"{read.places.label(first)}: {word} is {read.value[first]:g}, {what}; "
                + (
                    "counts are individuals: densities times their areas are"
                    if read.kind == COUNTS
                    else "it is 0 or 1, or how many of the visits found the species"
                )
            )
    if read.kind == SURVEY and (read.value > read.visits).any():
        first = int(np.argmax(read.value > read.visits))
        raise ValueError(
            f"{read.places.label(first)}: found {read.value[first]:g} times in "
            f"{read.visits[first]:g} visits; a survey says 0 or 1, or how many of its visits found "
            "the species (--visits-column). Individuals are counts: give the file with --counts"
        )
    if not len(read):
        raise ValueError(f"{read.source}: no visit is left: {'; '.join(read.notes)}")
    return replace(read, notes=(*read.notes, *_doubts(read)))


def _doubts(read: SiteRecords) -> Iterator[str]:
    """What a survey says that may mean something else."""
    if read.kind != SURVEY or not read.value.any():
        return
    if (read.value == read.visits).all():
        yield (
            f"{read.source}: every visit found a species. Where visits in vain were not written "
            "down this is no survey but presences: give it as the records"
        )
    elif read.visits.max() > 1 and read.value.max() <= 1:
        yield (
            f"{read.source}: up to {read.visits.max():g} visits, and never found more than once: "
            "1 is taken as found by one of the visits. If it means by any of them, take the column "
            "of visits out, and give the area or effort of all visits together"
        )


def _visits(opened: _Opened, kind: str, settings: SourceSettings) -> tuple[Array, str]:
    header, asked = opened.header, settings.visits_column
    if kind != SURVEY:
        return np.ones(len(opened.row)), ""
    position = None
    if asked is None:
        position = recognised(header, _VISIT_NAMES)
    elif bare(asked) in {bare(name) for name in header}:
        position = named(header, asked, "visits_column (--visits-column)", opened.source)
    if position is None:
        return np.ones(len(opened.row)), ""
    visits = opened.numbers(position)
    wrong = np.isfinite(visits) & ((visits < 1) | (visits != np.floor(visits)))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"{opened.source}, row {opened.row[first]}: {header[position]!r} is {visits[first]:g}, "
            "expected a number of visits, 1 or more; sites without a visit are left out of a survey"
        )
    unknown = int((~np.isfinite(visits)).sum())
    said = f", visits from {header[position]!r}"
    said += f" ({unknown} of them blank, taken as 1)" if unknown else ""
    return np.where(np.isfinite(visits), visits, 1.0), said


def _values(
    opened: _Opened,
    kind: str,
    columns: Columns,
    taken: Sequence[int],
    settings: SourceSettings,
) -> tuple[Array, str]:
    """What was found, and the column that says it in words."""
    header, source = opened.header, opened.source
    count = _count_column(opened, taken, settings)
    found = columns.presence
    if kind == COUNTS:
        if count is None:
            found = recognised(header, _FOUND_NAMES)
            hint = "" if found is None else (
                f"; {header[found]!r} says presence and absence: give the file with --survey"
            )  # fmt: skip
            raise ValueError(
                f"{source}: no column of counts recognised; the columns are {listed(header)}. Name "
                f"it with count_column (--count-column){hint}"
            )
        return opened.numbers(count), f"counts from {header[count]!r}"
    if found is not None:
        return _finds(opened, found), f"presence from {header[found]!r}"
    if count is None:
        raise ValueError(
            f"{source}: no column of presence and absence recognised; the columns are "
            f"{listed(header)}. Name it with presence= (--presence-column)"
        )
    counted = opened.numbers(count)
    said = f"presence where {header[count]!r} is above 0 (its counts tell more with --counts)"
    return np.where(np.isfinite(counted), counted > 0, np.nan), said


def _count_column(opened: _Opened, taken: Sequence[int], settings: SourceSettings) -> int | None:
    header, asked = opened.header, settings.count_column
    if asked is not None and bare(asked) in {bare(name) for name in header}:
        return named(header, asked, "count_column (--count-column)", opened.source)
    free = [name for j, name in enumerate(header) if j not in taken]
    position = recognised(free, COUNT_NAMES)
    return None if position is None else header.index(free[position])


def _finds(opened: _Opened, position: int) -> Array:
    """How many visits found the species: numbers, or words."""
    written = opened.column(position)
    meaning: dict[str, float] = {}
    for text in dict.fromkeys(written):
        word = text.strip().casefold()
        if word in _PRESENT or word in _ABSENT:
            meaning[text] = float(word in _PRESENT)
        elif is_number(word):
            meaning[text] = float(word)
        elif word in MISSING:
            meaning[text] = np.nan
        else:
            raise ValueError(
                f"{opened.source}, row {opened.row[written.index(text)]}: "
                f"{opened.header[position]!r} is {text!r}, expected presence (1) or absence (0), "
                "or how many visits found the species"
            )
    return np.array([meaning[text] for text in written])


def _sizes(opened: _Opened, settings: SourceSettings) -> tuple[Array | None, str, tuple[str, ...]]:
    """Areas or effort, their unit, and what to say of it."""
    header, source = opened.header, opened.source
    column = _size_column(header, settings)
    if column is None:
        return _without_sizes(opened, settings)
    name = header[column.position]
    values, unit, factor, known = opened.numbers(column.position), *column[1:]
    if not unit:
        return _written_units(opened, values, name)
    if not known and settings.area_unit is not None:
        unit, factor, known = sizes.KM2, sizes.AREA_UNITS[settings.area_unit], True
    others = _unused_sizes(header, column, settings, source)
    if known:
        return values * factor, unit, (f"{source}: {_sized(name, unit, factor)}", *others)
    return (
        values,
        unit,
        (
            *others,
            f"{source}: column {name!r} says how large visits were, but not in which unit: the "
            f"intensity is per unit of {name!r} (km2, ha or m2 with --area-unit; name another "
            "column with --area-column)",
        ),
    )


def _size_column(header: Sequence[str], settings: SourceSettings) -> sizes.SizeColumn | None:
    asked = settings.area_column
    if asked is None or bare(asked) not in {bare(name) for name in header}:
        return sizes.size_column(header)
    return sizes.named_size(header, [bare(name) for name in header].index(bare(asked)))


def _unused_sizes(
    header: Sequence[str], used: sizes.SizeColumn, settings: SourceSettings, source: str
) -> tuple[str, ...]:
    """Further columns that tell a size, unless one was asked for."""
    if settings.area_column is not None and bare(settings.area_column) == bare(
        header[used.position]
    ):
        return ()
    others = [header[c.position] for c in sizes.size_columns(header) if c.position != used.position]
    if not others:
        return ()
    return (
        f"{source}: {listed(others, 3)} could be the size of visits too, and is not used (another "
        "column with --area-column)",
    )


def _sized(name: str, unit: str, factor: float) -> str:
    if unit != sizes.KM2:
        times = "" if factor == 1 else f" times {factor:.4g}"
        return f"effort in {unit}, from column {name!r}{times}"
    written = next(word for word, one in sizes.AREA_UNITS.items() if one == factor)
    return f"areas in {written}, from column {name!r}"


def _without_sizes(
    opened: _Opened, settings: SourceSettings
) -> tuple[Array | None, str, tuple[str, ...]]:
    source = opened.source
    if settings.site_area is not None:
        given = settings.area_unit or sizes.KM2
        km2 = settings.site_area * sizes.AREA_UNITS[given]
        said = f"{source}: every visit is taken to be of {settings.site_area:g} {given}"
        return np.full(len(opened.row), km2), sizes.KM2, (said,)
    return (
        None,
        "",
        (
            f"{source}: no column of areas or effort among {listed(opened.header)}, so every visit "
            "counts alike (name one with --area-column, or the area of all with --site-area)",
        ),
    )


def _written_units(opened: _Opened, values: Array, name: str) -> tuple[Array, str, tuple[str, ...]]:
    """Darwin Core: each row says its unit."""
    position = sizes.unit_column(opened.header)
    assert position is not None
    words = opened.column(position)
    known = {word: sizes.unit_in_words(word) for word in dict.fromkeys(words)}
    units = {found[0] for found in known.values() if found is not None}
    odd = [word for word, found in known.items() if found is None and word]
    if odd or len(units) > 1:
        raise ValueError(
            f"{opened.source}: {opened.header[position]!r} holds "
            f"{listed(list(dict.fromkeys(w for w in words if w)), 5)}, expected units of area "
            "(km2, ha, m2) or one of effort (hours, minutes, km, nights); write one column of "
            "areas in km2 and name it with --area-column"
        )
    if not units:
        return values * np.nan, sizes.KM2, ()
    factors = {word: np.nan if found is None else found[1] for word, found in known.items()}
    unit = units.pop()
    said = f"{opened.source}: sizes in {unit}, from columns {name!r} and "
    said += f"{opened.header[position]!r}"
    return values * np.array([factors[word] for word in words]), unit, (said,)


def check_effect(read: Sequence[SiteRecords], settings: SourceSettings) -> None:
    """Refuse names of columns that no file has, and sizes that no file needs."""
    used = frozenset().union(*(sites.used for sites in read))
    files = listed([sites.source for sites in read], 5)
    for name in ("count_column", "visits_column", "area_column"):
        asked = getattr(settings, name)
        if asked is not None and name not in used:
            columns = listed(list(dict.fromkeys(c for sites in read for c in sites.header)))
            reason = (
                "visits are those of a survey"
                if name == "visits_column" and all(sites.kind != SURVEY for sites in read)
                else f"the columns of {files} are {columns}"
            )
            flag = f"{name} (--{name.replace('_', '-')})"
            raise ValueError(f"no column {asked!r}, as {flag} says: {reason}")
    if settings.site_area is not None and "site_area" not in used:
        raise ValueError(
            f"site_area (--site-area) has no effect: {files} say how large their visits were"
        )
    if settings.area_unit is not None and "area_unit" not in used:
        raise ValueError(f"area_unit (--area-unit) has no effect: no area of {files} lacks a unit")
    if settings.count_size is not None and all(sites.kind != COUNTS for sites in read):
        raise ValueError("count_size (--count-size) has no effect without counts (--counts)")


def unlooked(name: str, read: SiteRecords) -> str:
    """What to say of a file whose visits did not look for a species."""
    return (
        f"{read.source}: none of its visits names {name!r}, so it tells nothing of it (visits in "
        f"vain need rows of the species too); it has {listed(read.names(), 5)}"
    )
