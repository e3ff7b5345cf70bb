"""Occurrences: records of species, read from tables and vector files.

``read_occurrences`` knows the columns of common tables (Darwin Core, GBIF, maxent's own).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent._rows import Array
from maxent.species.crs import (
    WGS84,
    check_crs,
    is_geographic,
    mostly_degrees,
    short_crs,
    transformed,
)
from maxent.species.extras import geo
from maxent.species.records.text_table import (
    Table,
    check_file,
    check_records,
    frame_numbers,
    is_number,
    no_number,
    texts,
)

# names of columns in lower case without spaces and marks, the likeliest first
SPECIES_NAMES = (
    "species",
    "scientificname",
    "taxon",
    "taxonname",
    "speciesname",
    "binomial",
    "name",
)
_LONGITUDE = ("decimallongitude", "longitude", "long", "lon", "lng", "ddlong", "ddlon")
_LATITUDE = ("decimallatitude", "latitude", "lat", "ddlat")
X_NAMES = (*_LONGITUDE, "x", "xcoord", "easting")
Y_NAMES = (*_LATITUDE, "y", "ycoord", "northing")
_SPECIES_OPTION = "species= (--species-column)"
_DATUM = ("geodeticdatum", "datum", "crs")

_VECTOR = {".gpkg", ".geojson", ".json", ".shp"}


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Records of one or more species.

    Attributes
    ----------
    species : (records,) names.
    x, y : coordinates, NaN where missing.
    crs : their coordinate reference system, None where it is not known.
    row : line of the file (the header is line 1) or position in the frame, for messages.
    source : name of the file, or "frame".
    notes : what was assumed in reading.

    >>> records = Occurrences.from_frame({"taxon": ["a", "b", "a"], "x": [1, 2, 3], "y": [7, 8, 9]})
    >>> records.names(), records.of("a").x
    (['a', 'b'], array([1., 3.]))
    """

    species: Array
    x: Array
    y: Array
    crs: str | None
    row: Array
    source: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.species)

    def names(self) -> list[str]:
        """The species, in order of appearance."""
        return list(dict.fromkeys(self.species.tolist()))

    def of(self, name: str) -> Occurrences:
        """The records of one species."""
        mine = np.flatnonzero(self.species == name)
        if not mine.size:
            raise ValueError(f"{self.source}: no record of {name!r}; it has {listed(self.names())}")
        return self.take(mine)

    def take(self, index: Array) -> Occurrences:
        """Some of the records, by position or mask."""
        return replace(
            self,
            species=self.species[index],
            x=self.x[index],
            y=self.y[index],
            row=self.row[index],
        )

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
        points = getattr(frame, "geometry", None)
        if x is None and y is None and hasattr(points, "geom_type"):
            return _from_points(frame, points, header, species, crs, source)

        def column(index: int) -> Array:
            return np.asarray(frame[names[index]], dtype=object)

        def text(index: int | None) -> list[str] | None:
            return None if index is None else texts(column(index))

        check_records(len(column(0)), source)
        columns = _chosen_columns(
            header, source, species, x, y, lambda index: is_number(texts(column(index)[:1])[0])
        )
        row = np.arange(len(column(0)))
        east, north = (
            frame_numbers(column(index), row, header[index], source)
            for index in (columns.x, columns.y)
        )
        fields = _Fields(row, text(columns.species), east, north, text(columns.datum))
        return _assembled(fields, columns.degrees, crs, source)

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
) -> Occurrences:
    """Read records of species from a file.

    Tables are separated by commas, tabs or semicolons, whatever their name ends in; files ending
    in .gpkg, .geojson, .json or .shp are read by geopandas and must hold points.

    Parameters
    ----------
    path : the file.
    species, x, y : names of the columns; None recognises those of Darwin Core (scientificName,
        decimalLongitude, decimalLatitude), of maxent's own files (species, dd long, dd lat) and
        other common ones, and takes three columns of other names as species, x, y. Without a
        column of species all records are of one, named after the file.
    crs : of the coordinates. None: what the file or its column geodeticDatum says; degrees in
        columns of longitude and latitude are EPSG:4326; else not known.
    """
    path = Path(path)
    check_file(path)
    if is_vector(path):
        frame, notes = read_vector(path)
        records = Occurrences.from_frame(
            frame, species=species, x=x, y=y, crs=crs, source=path.name
        )
        return replace(records, notes=(*notes, *records.notes))
    table = Table.open(path)
    columns = _chosen_columns(
        table.header,
        str(path),
        species,
        x,
        y,
        lambda index: table.numbers([table.first[index]])[1] is None,
    )
    records = _assembled(_read_fields(table, columns), columns.degrees, crs, path.name)
    return replace(records, notes=(*table.notes, *records.notes))


# -- columns -------------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """Positions of the columns in use; None where a table has none."""

    species: int | None
    x: int
    y: int
    datum: int | None
    degrees: bool  # whether the names say longitude and latitude


class _Fields(NamedTuple):
    """The columns in use, read."""

    row: Array
    species: list[str] | None
    x: Array
    y: Array
    datum: list[str] | None


def _bare(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def recognised(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The column with the first of these names (bare: lower case, letters and digits)."""
    bare = [_bare(name) for name in header]
    return next((bare.index(name) for name in names if name in bare), None)


def _named(header: Sequence[str], name: str, option: str, where: str) -> int:
    if name in header:
        return list(header).index(name)
    position = recognised(header, [_bare(name)])
    if position is None:
        raise ValueError(
            f"{where}: no column {name!r}, as {option} says; the columns are {listed(header)}"
        )
    return position


def _chosen_columns(
    header: Sequence[str],
    where: str,
    species: str | None,
    x: str | None,
    y: str | None,
    holds_numbers: Callable[[int], bool],
) -> _Columns:
    def pick(name: str | None, option: str, known: Sequence[str]) -> int | None:
        return recognised(header, known) if name is None else _named(header, name, option, where)

    name = pick(species, _SPECIES_OPTION, SPECIES_NAMES)
    east, north = pick(x, "x= (--x)", X_NAMES), pick(y, "y= (--y)", Y_NAMES)
    nothing = name is None and east is None and north is None
    if nothing and len(header) == 3 and holds_numbers(1) and holds_numbers(2):
        return _Columns(0, 1, 2, None, degrees=False)
    if east is None or north is None:
        lacking = [f"{o} (--{o})" for o, column in (("x", east), ("y", north)) if column is None]
        raise ValueError(
            f"{where}: no column recognised for {' and '.join(lacking)}; the columns are "
            f"{listed(header)}. Name those of longitude and latitude with x= and y= (--x, --y)"
        )
    degrees = _bare(header[east]) in _LONGITUDE and _bare(header[north]) in _LATITUDE
    return _Columns(name, east, north, recognised(header, _DATUM), degrees)


def listed(names: Sequence[str], limit: int = 20) -> str:
    """Names in quotation marks, the first of them where there are many."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(str(name)) for name in names[:limit]) + more


def _read_fields(table: Table, columns: _Columns) -> _Fields:
    wanted = [columns.x, columns.y]
    wanted += [c for c in (columns.species, columns.datum) if c is not None]
    lines: list[int] = []
    parts: list[list[Any]] = [[] for _ in wanted]
    for line, batch in table.batches(wanted):
        for which, values in enumerate(batch[:2]):
            numbers, wrong = table.numbers(values)
            if wrong is not None:
                name = table.header[wanted[which]]
                raise no_number(f"{table.path}, line {line[wrong]}", name, values[wrong])
            parts[which].append(numbers)
        for part, values in zip(parts[2:], batch[2:], strict=True):
            part += values
        lines += line
    check_records(len(lines), str(table.path))
    text = iter(parts[2:])
    return _Fields(
        np.array(lines),
        None if columns.species is None else next(text),
        np.concatenate(parts[0]),
        np.concatenate(parts[1]),
        None if columns.datum is None else next(text),
    )


def _assembled(fields: _Fields, degrees: bool, crs: str | None, source: str) -> Occurrences:
    row, _, x, y, datum = fields
    species, notes = _species(fields.species, row, source)
    if crs is None:
        crs, x, y, said = _stated_crs(datum, x, y, degrees, source)
        notes += said
    else:
        check_crs(crs)
    return Occurrences(species, x, y, crs, row, source, notes).take(species != "")


def _species(values: list[str] | None, row: Array, source: str) -> tuple[Array, tuple[str, ...]]:
    """Names of the species, and what to say about records without one."""
    species = np.empty(len(row), dtype=object)
    if values is None:
        species[:] = Path(source).stem
        return species, ()
    species[:] = [value.strip() for value in values]
    nameless = species == ""
    if nameless.all():
        raise ValueError(
            f"{source}: the column of species is blank in every record; name another one with "
            f"{_SPECIES_OPTION}"
        )
    if not nameless.any():
        return species, ()
    return species, (
        f"{source}: {nameless.sum()} records without a species name left out, the first in row "
        f"{row[nameless][0]}",
    )


# -- vector files --------------------------------------------------------------------------------


def is_vector(path: Path) -> bool:
    """Whether a file is read by geopandas, by its name."""
    return path.suffix.lower() in _VECTOR


def read_vector(path: Path, what: str = "records") -> tuple[Any, tuple[str, ...]]:
    """The first layer of a vector file, and a note where there are others."""
    geopandas = geo("geopandas")
    try:
        names = list(geopandas.list_layers(path)["name"])
        frame = geopandas.read_file(path, layer=names[0] if names else None)
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


def _from_points(
    frame: Any,
    points: Any,
    header: Sequence[str],
    species: str | None,
    crs: str | None,
    source: str,
) -> Occurrences:
    check_records(len(frame), source)
    kinds = np.array(texts(points.geom_type), dtype=object)
    kinds[kinds == ""] = "Point"  # a missing one, without coordinates
    wrong = np.flatnonzero(kinds != "Point")
    if wrong.size:
        raise ValueError(
            f"{source}, row {wrong[0]}: geometry {kinds[wrong[0]]}, expected a Point in every row; "
            "take centroids or explode the parts first"
        )
    named = recognised(header, SPECIES_NAMES)
    if species is not None:
        named = _named(header, species, _SPECIES_OPTION, source)
    values = None if named is None else texts(np.asarray(frame.iloc[:, named], dtype=object))
    if crs is None:
        crs = None if points.crs is None else points.crs.to_string()
    else:
        check_crs(crs)
    row = np.arange(len(frame))
    names, notes = _species(values, row, source)
    x, y = (np.asarray(v, dtype=np.float64) for v in (points.x, points.y))
    return Occurrences(names, x, y, crs, row, source, notes).take(names != "")


# -- coordinate reference systems ----------------------------------------------------------------


def _stated_crs(
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
    with suppress(pyproj.exceptions.CRSError):
        system = pyproj.CRS.from_user_input(f"EPSG:{text}" if text.isdigit() else text)
        if system.is_geographic or system.is_projected:  # pyproj knows datums of heights too
            return str(system.to_string())
    return None
