"""Occurrences: records of species, read from tables and vector files.

``read_occurrences`` knows the columns of common tables (Darwin Core, GBIF, maxent's own).
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.results import Origin
from maxent.species.input import file_access
from maxent.species.input.crs import (
    WGS84,
    check_crs,
    is_geographic,
    mostly_degrees,
    short_crs,
    transformed,
)
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.records import selection
from maxent.species.input.records.archives import (
    open_table,
    origin_notes,
    serious_flags,
    told_by_records,
)
from maxent.species.input.records.columns import (
    SPECIES_OPTION,
    Asked,
    Columns,
    chosen_columns,
    listed,
)
from maxent.species.input.records.names import file_species, find_name, one_spelling
from maxent.species.input.records.text_table import (
    Table,
    check_file,
    check_records,
    frame_numbers,
    is_number,
    most_decimals,
    no_number,
    texts,
)
from maxent.species.libraries import geo

NO_DATE, NO_TIME = -1, -2  # the step of a record without a date, or without layers of its time
_VECTOR = {".gpkg", ".geojson", ".json", ".shp", ".parquet"}


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Records of one or more species.

    Attributes
    ----------
    species : array (n_records,)
        Names.
    x : array (n_records,)
        x or longitude, NaN where missing.
    y : array (n_records,)
        y or latitude, NaN where missing.
    crs : str or None
        Their coordinate reference system, None where it is not known.
    row : array (n_records,)
        Line of the file (the header is line 1) or position in the frame, for messages.
    source : str
        Name of the file, or "frame".
    notes : tuple of str
        What was assumed in reading.
    columns : str
        Which ones hold the names and the places.
    uncertainty : array (n_records,) or None
        Uncertainty of the places in metres, NaN where not said; None without such a column.
    absences : Occurrences or None
        The records of absence, by a column of presence and absence; None without any.
    decimals : array (n_records,) or None
        Decimals that x or y are written with, whichever has more; None where they are no degrees.
    flags : array (n_records,) or None
        What GBIF found wrong with the place of a record, "" where nothing; None where it does not
        say.
    origin : Origin or None
        Citation, licences and flags, as far as the file says.
    pooled : bool
        Whether no column holds species: all records are of one, named after the file.
    step : array (n_records,) or None
        The time at which the layers of each are read, below 0 where there is none; None where
        layers have no time.

    Examples
    --------
    >>> records = Occurrences.from_frame({"taxon": ["a", "b", "a"], "x": [1, 2, 3], "y": [7, 8, 9]})
    >>> records.names(), records.of_species("a").x
    (['a', 'b'], array([1., 3.]))
    """

    species: Array
    x: Array
    y: Array
    crs: str | None
    row: Array
    source: str
    notes: tuple[str, ...] = ()
    columns: str = ""
    uncertainty: Array | None = None
    absences: Occurrences | None = None
    decimals: Array | None = None
    flags: Array | None = None
    origin: Origin | None = None
    pooled: bool = False
    step: Array | None = None

    def __len__(self) -> int:
        return len(self.species)

    def names(self) -> list[str]:
        """The species, in order of appearance."""
        return list(dict.fromkeys(self.species.tolist()))

    def of_species(self, name: str) -> Occurrences:
        """The records of one species, also if its name is in another case or spaced otherwise."""
        found = find_name(name, self.names())
        if found is None:
            raise ValueError(f"{self.source}: no record of {name!r}; it has {listed(self.names())}")
        return self.take(np.flatnonzero(self.species == found))

    def of_one(self, name: str) -> Occurrences:
        """All records as those of one species."""
        return replace(self, species=np.full(len(self), name, dtype=object))

    def take(self, index: Array) -> Occurrences:
        """Some of the records, by position or mask."""
        return replace(
            self,
            species=self.species[index],
            x=self.x[index],
            y=self.y[index],
            row=self.row[index],
            uncertainty=None if self.uncertainty is None else self.uncertainty[index],
            decimals=None if self.decimals is None else self.decimals[index],
            flags=None if self.flags is None else self.flags[index],
            step=None if self.step is None else self.step[index],
        )

    def cells(self, grid: Grid) -> Array:
        """The cell of each record, ``OUTSIDE`` beyond the grid; with times, that of its step.

        Cells of step k are counted on from k times the size of the grid.
        """
        cell = grid.cells_at(self.x, self.y)
        if self.step is None:
            return cell
        timed = cell + grid.size * self.step
        return np.where((cell == OUTSIDE) | (self.step < 0), OUTSIDE, timed)

    def summary(self) -> str:
        """How many records of how many species, and the columns that they were read from."""
        origin = f": {self.columns}" if self.columns else ""
        return f"{self.source}: {len(self)} records of {len(self.names())} species{origin}"

    def label(self, record: int) -> str:
        """File, row and coordinates of a record, for messages."""
        shown = (
            "missing" if np.isnan(v) else f"{v:.10g}" for v in (self.x[record], self.y[record])
        )
        return f"{self.source}, row {self.row[record]}: ({', '.join(shown)})"

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        species: str | None = None,
        x: str | None = None,
        y: str | None = None,
        crs: str | None = None,
        presence: str | None = None,
        basis: Sequence[str] = (),
        max_uncertainty: float | None = None,
        absent: bool = False,
        source: str = "frame",
    ) -> Occurrences:
        """Records of a table in memory: pandas, or geopandas with a geometry of points.

        The arguments are those of :func:`read_occurrences`.
        """
        names = list(frame if isinstance(frame, Mapping) else getattr(frame, "columns", ()))
        if not names:
            raise TypeError(
                "expected a pandas or geopandas frame with columns, got "
                f"{type(frame).__name__}; files are read by read_occurrences"
            )
        header = [str(c) for c in names]
        points: Any = getattr(frame, "geometry", None)
        geometry = x is None and y is None and hasattr(points, "geom_type")
        row = np.arange(len(frame[names[0]]))
        check_records(len(row), source)
        if geometry:
            frame, row, points = exploded(frame, points, source)

        def column(index: int) -> Array:
            return np.asarray(frame[names[index]], dtype=object)

        columns = chosen_columns(
            header,
            source,
            Asked(species, x, y, presence),
            lambda index: texts(column(index)),
            geometry=geometry,
        )
        if geometry:
            east, north = (np.asarray(v, dtype=np.float64) for v in (points.x, points.y))
            crs = crs or (None if points.crs is None else points.crs.to_string())
        else:
            east, north = (
                frame_numbers(column(index), row, header[index], source)
                for index in (columns.x, columns.y)
                if index is not None
            )
        text = {index: texts(column(index)) for index in columns.texts()}
        shown = ([f"{v:.15g}" for v in values.tolist()] for values in (east, north))
        if geometry:  # its own CRS goes before a column of datums
            columns = columns._replace(datum=None)
        return _assembled(
            _Fields(row, east, north, text, most_decimals(*shown)),
            columns,
            header,
            _Choice(tuple(basis), max_uncertainty, absent),
            crs,
            Origin(source),
        )

    def to_geopandas(self) -> Any:
        """A GeoDataFrame with a column ``species`` and points."""
        geopandas = geo("geopandas")
        points = geopandas.points_from_xy(self.x, self.y)
        return geopandas.GeoDataFrame({"species": self.species}, geometry=points, crs=self.crs)

    def to_crs(self, crs: str) -> Occurrences:
        """The records in another coordinate reference system."""
        if self.crs is None:
            raise ValueError(
                f"{self.source}: the coordinate reference system of the records is not known; "
                "give it with crs= (--crs)"
            )
        x, y = transformed(self.x, self.y, self.crs, crs)
        return replace(self, x=x, y=y, crs=crs)


def read_occurrences(
    path: str | Path,
    *,
    species: str | None = None,
    x: str | None = None,
    y: str | None = None,
    crs: str | None = None,
    presence: str | None = None,
    basis: Sequence[str] = (),
    max_uncertainty: float | None = None,
    absent: bool = False,
) -> Occurrences:
    """Read records of species from a file.

    Tables are separated by commas, tabs or semicolons, whatever their name ends in, and may be
    packed (.gz); files ending in .gpkg, .geojson, .json, .shp or .parquet are read by geopandas or
    pandas, those with a geometry must hold points. Darwin Core archives and the zipped tables of
    GBIF are read as they are downloaded, and ``Occurrences.origin`` holds their citation and
    licences. Spellings of one name (case, spaces) are one species.

    Parameters
    ----------
    path : path
        The file.
    species : str, default None
        Name of the column of species; None recognises those of Darwin Core (scientificName), of
        maxent's own files (species) and other common ones, and takes three columns of other names
        as species, x, y. Without a usual name the first column of text holds the species, with a
        note; without any, or with "none", all records are of one, named after the file.
    x : str, default None
        Name of the column of x; None recognises decimalLongitude, dd long and other common ones.
    y : str, default None
        Name of the column of y; None recognises decimalLatitude, dd lat and other common ones.
    crs : str, default None
        CRS of the coordinates. None is what the file or its column geodeticDatum says; degrees in
        columns of longitude and latitude are EPSG:4326; else it is not known.
    presence : str, default None
        Name of the column of presence (1) and absence (0), "none" for no such column; None
        recognises occurrenceStatus, presence, pr_ab and other common names, where all entries say
        presence or absence. Absences are left out, see ``Occurrences.absences``.
    basis : sequence of str, default ()
        Bases of record to use, such as "HUMAN_OBSERVATION"; all of them if empty.
    max_uncertainty : float, default None
        Metres; records known to be less certain of their place are left out.
    absent : bool, default False
        Whether the file is one of absences: take those that a column of presence and absence marks,
        or all where none does.
    """
    path = Path(path)
    check_file(path)
    how: dict[str, Any] = {"basis": basis, "max_uncertainty": max_uncertainty, "crs": crs}
    how["absent"] = absent
    if is_vector(path):
        frame, notes = read_vector(path)
        records = Occurrences.from_frame(
            frame, species=species, x=x, y=y, presence=presence, source=path.name, **how
        )
        return replace(records, notes=(*notes, *records.notes))
    table, origin = open_table(path)
    columns = chosen_columns(table.header, str(path), Asked(species, x, y, presence), table.peek)
    records = _assembled(
        _read_fields(table, columns),
        columns,
        table.header,
        _Choice(tuple(basis), max_uncertainty, absent),
        crs,
        origin,
    )
    return replace(records, notes=(*table.notes, *records.notes))


# -- columns -------------------------------------------------------------------------------------


class _Fields(NamedTuple):
    """The columns in use, read: rows, places, texts by column, and decimals of the places."""

    row: Array
    x: Array
    y: Array
    text: dict[int, list[str]]
    decimals: Array


class _Choice(NamedTuple):
    """Which records of a file to use; ``absent``: those of absence."""

    basis: tuple[str, ...]
    max_uncertainty: float | None
    absent: bool = False


def _read_fields(table: Table, columns: Columns) -> _Fields:
    places = [column for column in (columns.x, columns.y) if column is not None]
    wanted = columns.texts()
    lines: list[int] = []
    numbers: list[list[Array]] = [[], []]
    decimals: list[Array] = []
    text: dict[int, list[str]] = {column: [] for column in wanted}
    for line, batch in table.batches([*places, *wanted]):
        for which, values in enumerate(batch[:2]):
            read, wrong = table.numbers(values)
            if wrong is not None:
                name = table.header[places[which]]
                raise no_number(f"{table.path}, line {line[wrong]}", name, values[wrong])
            numbers[which].append(read)
        decimals.append(most_decimals(*batch[:2]))
        for column, values in zip(wanted, batch[2:], strict=True):
            text[column] += values
        lines += line
    check_records(len(lines), str(table.path))
    x, y = (np.concatenate(parts) for parts in numbers)
    return _Fields(np.array(lines), x, y, text, np.concatenate(decimals))


def _assembled(
    fields: _Fields,
    columns: Columns,
    header: Sequence[str],
    choice: _Choice,
    crs: str | None,
    origin: Origin,
) -> Occurrences:
    """Records of what was read: their CRS stated, those not asked for left out."""

    def text(column: int | None) -> list[str] | None:
        return None if column is None else fields.text[column]

    row, x, y, _, decimals = fields
    source = origin.source
    species = _species(text(columns.species), row, source)
    notes = columns.notes
    if crs is None:
        crs, x, y, said = stated_crs(text(columns.datum), x, y, columns.degrees, source)
        notes += said
    else:
        check_crs(crs)
    status = np.full(len(row), selection.PRESENCE)
    if columns.presence is not None:
        name = header[columns.presence]
        status = selection.statuses(fields.text[columns.presence], name, source)
        if choice.absent:
            status, said = selection.marked_absences(status, name, source)
        else:
            said = selection.status_notes(status, name, source)
        notes += said
    elif columns.individuals is not None and not choice.absent:
        counted = fields.text[columns.individuals]
        status, said = selection.zero_counts(counted, header[columns.individuals], source)
        notes += said
    uncertainty = _metres(text(columns.uncertainty))
    asked = status == selection.PRESENCE
    basis, said = selection.of_basis(text(columns.basis), choice.basis, source, asked)
    certain, more = selection.certain(uncertainty, choice.max_uncertainty, source, asked)
    used = np.ones(len(row), dtype=bool)
    for kept in (basis, certain):
        used &= True if kept is None else kept
    present = used & asked
    species, spelled = one_spelling(species, source, present)
    if not present.any():
        raise ValueError(f"{source}: no record is left: {'; '.join((*said, *more))}")
    in_degrees = mostly_degrees(x, y) if crs is None else is_geographic(crs, ())
    everything = Occurrences(
        species,
        x,
        y,
        crs,
        row,
        source,
        columns=columns.described(header),
        uncertainty=uncertainty,
        decimals=decimals if in_degrees else None,
        flags=serious_flags(text(columns.flags)),
        pooled=columns.species is None,
    )
    absent = used & (status == selection.ABSENCE)
    nameless = present & (species == "") & (not choice.absent)
    kept = present & ~nameless
    of_records = [text(c) for c in (columns.licence, columns.dataset, columns.flags)]
    origin = told_by_records(origin, *(_only(values, kept) for values in of_records))
    left = _left_nameless(nameless, row, source)
    return replace(
        everything.take(kept),
        notes=(*notes, *said, *more, *spelled, *left, *origin_notes(origin)),
        origin=origin,
        absences=everything.take(absent) if absent.any() else None,
    )


def _species(values: list[str] | None, row: Array, source: str) -> Array:
    """Names of the species, blank where there is none."""
    species = np.empty(len(row), dtype=object)
    if values is None:
        species[:] = file_species(source)
        return species
    species[:] = [value.strip() for value in values]
    if (species == "").all():
        raise ValueError(
            f"{source}: the column of species is blank in every record; name another one with "
            f"{SPECIES_OPTION}"
        )
    return species


def _only(values: list[str] | None, kept: Array) -> list[str]:
    return [] if values is None else [v for v, keep in zip(values, kept, strict=True) if keep]


def _left_nameless(nameless: Array, row: Array, source: str) -> tuple[str, ...]:
    if not nameless.any():
        return ()
    return (
        f"{source}: {nameless.sum()} records without a species name left out, the first in row "
        f"{row[nameless][0]}",
    )


def _metres(values: list[str] | None) -> Array | None:
    """Uncertainties; what is no number is not said."""
    if values is None:
        return None
    metres = np.array([float(v) if is_number(v) else np.nan for v in values])
    return None if np.isnan(metres).all() else metres


# -- vector files --------------------------------------------------------------------------------


def is_vector(path: Path) -> bool:
    """Whether a file is read by pandas or geopandas as a whole, by its name."""
    return path.suffix.lower() in _VECTOR


def read_vector(path: Path, what: str = "records") -> tuple[Any, tuple[str, ...]]:
    """The first layer of a vector file, and a note where there are others."""
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path), ()
    geopandas = geo("geopandas")
    try:
        file_access.check_vector(path)
        names = list(geopandas.list_layers(path)["name"])
        frame = geopandas.read_file(path, layer=names[0] if names else None)
    except file_access.ReachError:
        raise
    except Exception as error:  # each reading engine has classes of its own
        raise OSError(
            f"{path}: not a vector file that can be read ({error}); write it again, or export the "
            f"{what} {'as CSV' if what == 'records' else 'as GeoPackage'}"
        ) from error
    if len(names) < 2:
        return frame, ()
    return frame, (
        f"{path.name}: More than one layer; {names[0]!r} was read, not {listed(names[1:])}",
    )


def read_column(path: str, name: str) -> dict[int, str]:
    """The text of a column in each row of a file, "" where there is none.

    Rows are those of ``Occurrences.row``. Names of columns are compared without regard to case.
    """
    if is_vector(Path(path)):
        frame, _ = read_vector(Path(path))
        header = [str(column) for column in frame.columns]
        values = texts(frame.iloc[:, _column_position(header, name, path)])
        return dict(enumerate(value.strip() for value in values))
    table, _ = open_table(Path(path))
    place = _column_position(table.header, name, path)
    return {
        row: value.strip()
        for rows, (column,) in table.batches([place])
        for row, value in zip(rows, column, strict=True)
    }


def _column_position(header: list[str], name: str, path: str) -> int:
    folded = [column.strip().lower() for column in header]
    if name.strip().lower() not in folded:
        raise ValueError(f"{path}: no column {name!r}; it has {', '.join(header)}")
    return folded.index(name.strip().lower())


def _read_parquet(path: Path) -> Any:
    """A table, or a layer of points where the file has a geometry."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files need pyarrow: pip install pyarrow") from error
    try:
        schema = parquet.read_schema(path)
        library = "geopandas" if b"geo" in (schema.metadata or {}) else "pandas"
        return geo(library).read_parquet(path)
    except (OSError, ValueError) as error:
        raise OSError(
            f"{path}: not a Parquet file that can be read ({error}); write it again, or export "
            "the records as CSV"
        ) from error


def exploded(frame: Any, points: Any, source: str) -> tuple[Any, Array, Any]:
    """The frame with one point per row, the row of each in the file, and the points."""
    kinds = np.array(texts(points.geom_type), dtype=object)
    kinds[kinds == ""] = "Point"  # a missing one, without coordinates
    wrong = np.flatnonzero(~np.isin(kinds, ["Point", "MultiPoint"]))
    if wrong.size:
        raise ValueError(
            f"{source}, row {wrong[0]}: geometry {kinds[wrong[0]]}, expected a Point in every row; "
            "take centroids first"
        )
    row = np.arange(len(frame))
    if (kinds == "MultiPoint").any():
        frame = frame.reset_index(drop=True).explode(index_parts=False)
        row = np.asarray(frame.index)
    return frame, row, frame.geometry


# -- coordinate reference systems ----------------------------------------------------------------


def stated_crs(
    datum: list[str] | None, x: Array, y: Array, degrees: bool, source: str
) -> tuple[str | None, Array, Array, tuple[str, ...]]:
    """The CRS that columns state, and all coordinates in it."""
    codes = np.array([] if datum is None else _datum_codes(datum), dtype=object)
    common = Counter(code for code in codes if code is not None).most_common()
    crs = common[0][0] if common else WGS84 if degrees else None
    if crs is None or (is_geographic(crs, ()) and not mostly_degrees(x, y)):
        return None, x, y, ()  # a datum alone does not say which projection
    notes = []
    x, y = x.copy(), y.copy()
    for other, count in common[1:]:
        mine = codes == other
        x[mine], y[mine] = transformed(x[mine], y[mine], other, crs)
        notes.append(
            f"{source}: {count} records reprojected from {short_crs(other)} to the commonest "
            f"datum, {short_crs(crs)}"
        )
    return crs, x, y, tuple(notes)


def _datum_codes(datum: list[str]) -> list[str | None]:
    codes = {text: _datum_code(text.strip()) for text in dict.fromkeys(datum)}
    return [codes[text] for text in datum]


def _datum_code(text: str) -> str | None:
    pyproj = geo("pyproj")
    with suppress(pyproj.exceptions.CRSError, file_access.ReachError):
        file_access.check_crs(text)
        system = pyproj.CRS.from_user_input(f"EPSG:{text}" if text.isdigit() else text)
        if system.is_geographic or system.is_projected:  # pyproj knows datums of heights too
            return str(system.to_string())
    return None
