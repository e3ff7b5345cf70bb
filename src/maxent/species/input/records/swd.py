"""SWD: samples with data, the tables of species, coordinates and variables that need no rasters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Sample
from maxent.species.input.records import selection
from maxent.species.input.records.columns import (
    NO_COLUMN,
    SPECIES_NAMES,
    SPECIES_OPTION,
    X_NAMES,
    Y_NAMES,
    Asked,
    listed,
    named,
    presence_column,
    recognised,
)
from maxent.species.input.records.names import file_species, find_name, one_spelling
from maxent.species.input.records.text_table import MISSING, Table, check_file, is_number
from maxent.species.libraries import geo

NODATA = -9999  # how maxent's own tables mark a missing value


@dataclass(frozen=True, eq=False)
class SWD:
    """Rows of a species (or of the background) with their environment.

    Attributes
    ----------
    species : array (n_rows,)
        Names.
    coordinates : array (n_rows, 2) or None
        x and y, None where the table does not have them for every row, or has 0 in all of them;
        NaN in some rows where all rows were asked for.
    X : table
        One column per variable.
    source : str
        Name of the file.
    notes : tuple of str
        What was left out in reading.
    columns : str
        Which ones hold what.
    absences : SWD or None
        The rows of absence, by a column of presence and absence; None without any.
    row : array (n_rows,) or None
        Line of the file (the header is line 1).
    others : table or None
        All other columns as text, where the variables were named.
    pooled : bool
        Whether no column holds species: all rows are of one, named after the file.
    """

    species: Array
    coordinates: Array | None
    X: Any
    source: str
    notes: tuple[str, ...] = ()
    columns: str = ""
    absences: SWD | None = None
    row: Array | None = None
    others: Any = None
    pooled: bool = False

    def names(self) -> list[str]:
        """The species, in order of appearance."""
        return list(dict.fromkeys(map(str, self.species)))

    def take(self, rows: Array) -> SWD:
        """Some of the rows, by a mask."""
        coordinates = None if self.coordinates is None else self.coordinates[rows]
        X = self.X[rows].reset_index(drop=True)
        return replace(
            self,
            species=self.species[rows],
            coordinates=coordinates,
            X=X,
            row=None if self.row is None else self.row[rows],
            others=None if self.others is None else self.others[rows].reset_index(drop=True),
        )

    def of_one(self, name: str) -> SWD:
        """All rows as those of one species."""
        return replace(self, species=np.full(len(self.species), name, dtype=object))

    def summary(self) -> str:
        """How many rows, and the columns that they were read from."""
        return f"{self.source}: {len(self.species)} rows: {self.columns}"


def read_swd(
    path: str | Path,
    *,
    categorical: Iterable[str] = (),
    species: str | None = None,
    x: str | None = None,
    y: str | None = None,
    presence: str | None = None,
    background: bool = False,
    absent: bool = False,
    variables: Sequence[str] | None = None,
) -> SWD:
    """Read a table of species, x, y and variables.

    The column of species is recognised by its name, else it is the first if that holds text;
    without any, all rows are of one species, named after the file. Columns of coordinates are
    recognised by their names alone, so that a table may do without them; x and y that are 0 in
    every row are none. The others are variables. Rows with a missing variable (blank, NaN or
    -9999) are left out, with a note.

    Parameters
    ----------
    path : path
        The file, separated by commas, tabs or semicolons.
    categorical : iterable of str, default ()
        Names of the variables that hold categories, as numbers or text.
    species : str, default None
        Name of the column of species, "none" for no such column, as for
        :func:`read_occurrences`.
    x : str, default None
        Name of the column of x.
    y : str, default None
        Name of the column of y.
    presence : str, default None
        Name of the column of presence (1) and absence (0), as for ``read_occurrences``.
    background : bool, default False
        Whether the rows are background points, whatever a column of presence says.
    absent : bool, default False
        Whether they are absences: those that a column of presence marks, or all where none does.
    variables : sequence of str, default None
        Names of the variables, as of a model. All other columns are then kept as text, in
        ``SWD.others``, and so are all rows, with NaN for what is missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> sites = pathlib.Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = sites.write_text("plot,rain\\nP1,3.5\\nP2,-9999\\n", encoding="utf-8")
    >>> rows = read_swd(sites, variables=["rain"])
    >>> rows.row, rows.X["rain"].tolist(), rows.others["plot"].tolist()
    (array([2, 3]), [3.5, nan], ['P1', 'P2'])
    """
    path = Path(path)
    check_file(path)
    table = Table.open(path)
    layout = _layout(table, Asked(species, x, y, presence), variables)
    names = [table.header[j] for j in layout.variables]
    chosen = _chosen(categorical, names, path)
    text = [j for j in layout.variables if table.header[j] in chosen]
    text += [j for j in (layout.species, layout.presence, *layout.others) if j is not None]
    numbers = [*layout.places, *(j for j in layout.variables if table.header[j] not in chosen)]
    line, columns = _read_columns(table, text, numbers)
    lost = np.zeros(len(line), dtype=bool)
    for j in layout.variables:
        lost |= _missing(columns[j])
    if lost.all():
        raise ValueError(
            f"{path}: every row lacks a variable (blank, NaN or {NODATA}); leave out the variable "
            f"with the most gaps, which is {_most_gaps(columns, layout.variables, table.header)!r}"
        )
    if variables is not None:
        return _every_row(table, layout, line, columns, lost, text)
    notes = [*table.notes, *_dropped(lost, path.name)]
    kept = {j: column[~lost] for j, column in columns.items()}
    coordinates = None
    if layout.places:
        coordinates = np.column_stack([kept[j] for j in layout.places])
        incomplete = int(np.isnan(coordinates).any(axis=1).sum())
        if 0 < incomplete < len(coordinates):
            notes.append(
                f"{path.name}: {incomplete} rows without coordinates, so places are not used"
            )
        if not incomplete and not coordinates.any():
            notes.append(f"{path.name}: x and y are 0 in every row, so places are not used")
            incomplete = len(coordinates)
        coordinates = None if incomplete else coordinates
    X = {table.header[j]: _levels(kept[j]) if j in text else kept[j] for j in layout.variables}
    spelled, said = one_spelling(_species(layout, kept, path, int((~lost).sum())), path.name)
    rows = SWD(
        spelled,
        coordinates,
        geo("pandas").DataFrame(X),
        path.name,
        (*notes, *said),
        layout.described(table.header),
        row=line[~lost],
        pooled=layout.species is None,
    )
    if layout.presence is None or background:
        return rows
    column = table.header[layout.presence]
    if absent:
        codes = selection.statuses(kept[layout.presence].tolist(), column, path.name)
        wanted, left = selection.marked_absences(codes, column, path.name)
        return replace(rows.take(wanted == selection.PRESENCE), notes=(*rows.notes, *left))
    return _presences(rows, kept[layout.presence], column)


def _species(layout: _Layout, columns: dict[int, Array], path: Path, n: int) -> Array:
    """The name of each row, that of the file without a column."""
    if layout.species is not None:
        return columns[layout.species]
    return np.full(n, file_species(path.name), dtype=object)


def _every_row(
    table: Table,
    layout: _Layout,
    line: Array,
    columns: dict[int, Array],
    lost: Array,
    text: Sequence[int],
) -> SWD:
    """All rows of a table whose variables were named, NaN where they lack one."""
    pandas = geo("pandas")
    X = {}
    for j in layout.variables:
        levels = _levels(columns[j][~lost]) if j in text else columns[j][~lost]
        kind = object if levels.dtype.kind == "O" else np.float64
        X[table.header[j]] = np.full(len(lost), np.nan, dtype=kind)
        X[table.header[j]][~lost] = levels
    name = table.path.name
    notes = list(table.notes)
    if lost.any():
        notes.append(
            f"{name}: {lost.sum()} of {len(lost)} rows lack a variable; nothing is predicted there"
        )
    places = [columns[j] for j in layout.places]
    return SWD(
        _species(layout, columns, table.path, len(lost)),
        np.column_stack(places) if places else None,
        pandas.DataFrame(X),
        name,
        tuple(notes),
        layout.described(table.header),
        row=line,
        others=pandas.DataFrame({table.header[j]: columns[j] for j in layout.others}),
        pooled=layout.species is None,
    )


def _presences(rows: SWD, status: Array, column: str) -> SWD:
    """The rows of presence, with those of absence beside them."""
    codes = selection.statuses(status.tolist(), column, rows.source)
    notes = selection.status_notes(codes, column, rows.source)
    absent = codes == selection.ABSENCE
    return replace(
        rows.take(codes == selection.PRESENCE),
        notes=(*rows.notes, *notes),
        absences=rows.take(absent) if absent.any() else None,
    )


def swd_sample(samples: SWD, background: SWD, name: str, categorical: Iterable[str] = ()) -> Sample:
    """The rows of the background (counts 0), then those of one species (counts 1).

    Parameters
    ----------
    samples : SWD
        Rows of species with their environment.
    background : SWD
        Rows of the background.
    name : str
        The species.
    categorical : sequence of str, default ()
        Names of the variables that hold categories.
    """
    found = find_name(name, samples.names())
    if found is None:
        raise ValueError(f"{samples.source}: no row of {name!r}; it has {listed(samples.names())}")
    mine = samples.species == found
    _check_variables(samples, background)
    chosen = set(categorical)
    columns = {}
    for column in samples.X.columns:
        parts = [np.asarray(background.X[column]), np.asarray(samples.X[column])[mine]]
        if column in chosen and any(part.dtype.kind == "O" for part in parts):
            parts = [np.array([str(v) for v in part], dtype=object) for part in parts]
        columns[column] = np.concatenate(parts)
    coordinates = None
    if samples.coordinates is not None and background.coordinates is not None:
        coordinates = np.concatenate([background.coordinates, samples.coordinates[mine]])
    is_background = np.repeat([True, False], [len(background.X), int(mine.sum())])
    return Sample(
        geo("pandas").DataFrame(columns),
        (~is_background).astype(np.int64),
        coordinates,
        background=is_background,
    )


class SharedPlaces(NamedTuple):
    """The rows of a background and of all species, alike ones once, and the counts of each species.

    ``sample`` has the records of all species as counts; ``row`` is its row of each row of samples.
    """

    sample: Sample
    row: Array

    def of_rows(self, mine: Array) -> Sample:
        """The same places with the records that ``mine`` marks among the rows of samples."""
        counts = np.bincount(self.row[mine], minlength=len(self.sample.counts))
        return replace(self.sample, counts=counts)


def shared_places(samples: SWD, background: SWD, categorical: Iterable[str] = ()) -> SharedPlaces:
    """The places of species that are fitted together: rows that agree in all columns are one.

    Parameters
    ----------
    samples : SWD
        Rows of species with their environment.
    background : SWD
        Rows of the background.
    categorical : sequence of str, default ()
        Names of the variables that hold categories.
    """
    everything = replace(samples, species=np.full(len(samples.species), "", dtype=object))
    rows = swd_sample(everything, background, "", categorical)
    table = rows.X
    if rows.coordinates is not None:
        table = table.assign(**{" x": rows.coordinates[:, 0], " y": rows.coordinates[:, 1]})
    at = table.groupby(list(table.columns), sort=False).ngroup().to_numpy()
    first = np.unique(at, return_index=True)[1]
    own = at[len(background.X) :]
    places = replace(
        rows.take(first),
        counts=np.bincount(own, minlength=first.size),
        background=np.ones(first.size, dtype=bool),
    )
    return SharedPlaces(places, own)


def swd_rows(table: SWD, name: str, like: Sample) -> Sample | None:
    """The rows of one species as test records, None without any; columns as in a sample."""
    found = find_name(name, table.names())
    if found is None:
        return None
    mine = table.take(table.species == found)
    lacking = [column for column in like.X.columns if column not in mine.X.columns]
    if lacking:
        raise ValueError(f"{table.source} has no column {listed(lacking)}, which the samples have")
    columns = {}
    for column in like.X.columns:
        values = np.asarray(mine.X[column])
        words = np.asarray(like.X[column]).dtype.kind == "O"
        columns[column] = np.array([str(v) for v in values], dtype=object) if words else values
    n = len(mine.species)
    return Sample(
        geo("pandas").DataFrame(columns),
        np.ones(n, dtype=np.int64),
        mine.coordinates,
        background=np.zeros(n, dtype=bool),
    )


def write_swd(
    path: str | Path, species: Sequence[str] | Array, coordinates: Array | None, X: Any
) -> None:
    """Write a table that :func:`read_swd` reads; missing values are written as -9999.

    Parameters
    ----------
    path : path
        The file.
    species : sequence of str
        Name of each row.
    coordinates : array (n_rows, 2) or None
        x and y of each row; None for none.
    X : table
        One column per variable.
    """
    pandas = geo("pandas")
    blank = np.full(len(X), "", dtype=object)
    places = (blank, blank) if coordinates is None else np.asarray(coordinates).T
    head = pandas.DataFrame({"species": np.asarray(species), "x": places[0], "y": places[1]})
    table = pandas.concat([head, X.reset_index(drop=True)], axis=1)
    text = table.to_csv(index=False, na_rep=str(NODATA), lineterminator="\n")
    io.write_atomically(path, text.encode())


class _Layout(NamedTuple):
    """Positions of columns; ``pooled``: why there is none of species."""

    species: int | None
    places: tuple[int, ...]
    presence: int | None
    variables: list[int]
    others: list[int]
    pooled: str = ""

    def described(self, header: Sequence[str]) -> str:
        """In words, which columns hold what."""
        places = "no coordinates (name them with --x and --y)"
        if self.places:
            places = "coordinates from {!r} and {!r}".format(*(header[j] for j in self.places))
        variables = listed([header[j] for j in self.variables], 6)
        names = self.pooled or f"species from column {header[self.species or 0]!r}"
        return f"{names}, {places}, variables {variables}"


def _layout(table: Table, asked: Asked, variables: Sequence[str] | None) -> _Layout:
    """Which columns hold what: places by their names alone, the species by its name or first."""
    header, where = table.header, str(table.path)
    if variables is not None:
        lacking = [name for name in variables if name not in header]
        if lacking:
            raise ValueError(
                f"{table.path.name} has no column {listed(lacking)}, which the model needs"
            )

    def column(name: str | None, option: str, known: Sequence[str]) -> int | None:
        found = recognised(header, known) if name is None else named(header, name, option, where)
        mine = found is not None and variables is not None and header[found] in variables
        return None if mine and name is None else found

    x, y = column(asked.x, "x= (--x)", X_NAMES), column(asked.y, "y= (--y)", Y_NAMES)
    places = () if x is None or y is None else (x, y)
    presence = None
    if variables is None:
        presence, _ = presence_column(header, where, asked, None, table.peek)
    species, pooled = None, "all of one species, named after the file"
    if asked.species != NO_COLUMN or NO_COLUMN in header:
        species = column(asked.species, SPECIES_OPTION, SPECIES_NAMES)
        if variables is None and species is None and 0 not in (*places, presence):
            species = None if _all_numbers(table.peek(0)) else 0
        pooled += "" if species is not None else ", as no column of species was found"
    taken = (species, *places, presence)
    free = [j for j in range(len(header)) if j not in taken]
    used = free if variables is None else [header.index(name) for name in variables]
    if species in places or not used:
        raise ValueError(
            f"{table.path}: the columns are {listed(header)}; expected at least one variable "
            "beside species, x and y (which may be missing). Name those that are not recognised "
            "with --species-column, --x and --y"
        )
    others = [j for j in free if j not in used]
    return _Layout(species, places, presence, used, others, pooled if species is None else "")


def _all_numbers(values: Sequence[str]) -> bool:
    return all(is_number(value.replace(",", ".", 1)) for value in values)


def _chosen(categorical: Iterable[str], names: Sequence[str], path: Path) -> set[str]:
    chosen = set(categorical)
    unknown = sorted(chosen.difference(names))
    if unknown:
        raise ValueError(
            f"{path}: categorical variable {unknown[0]!r} (--categorical) is not among the "
            f"variables {listed(names)}"
        )
    return chosen


def _read_columns(
    table: Table, text: Sequence[int], numbers: Sequence[int]
) -> tuple[Array, dict[int, Array]]:
    """The line of each row, and the columns."""
    line: list[int] = []
    parts: dict[int, list[Array]] = {j: [] for j in (*text, *numbers)}
    for lines, batch in table.batches([*text, *numbers]):
        line += lines
        for j, values in zip(text, batch, strict=False):
            parts[j].append(np.array([v.strip() for v in values], dtype=object))
        for j, values in zip(numbers, batch[len(text) :], strict=True):
            read, wrong = table.numbers(values)
            if wrong is not None:
                raise ValueError(
                    f"{table.path}, line {lines[wrong]}: {table.header[j]!r} is {values[wrong]!r}, "
                    "expected a number; if the column holds categories, name it in categorical= "
                    "(--categorical)"
                )
            parts[j].append(read)
    return np.array(line), {j: np.concatenate(part) for j, part in parts.items()}


def _check_variables(samples: SWD, background: SWD) -> None:
    for one, other in ((samples, background), (background, samples)):
        lacking = [name for name in one.X.columns if name not in other.X.columns]
        if lacking:
            raise ValueError(
                f"{other.source} has no column {listed(lacking)}, which {one.source} has; samples "
                "and background need the same variables"
            )


def _missing(column: Array) -> Array:
    if column.dtype.kind != "O":
        return np.isnan(column) | (column == NODATA)
    return np.array([v.lower() in MISSING or v == str(NODATA) for v in column], dtype=bool)


def _dropped(lost: Array, source: str) -> list[str]:
    if not lost.any():
        return []
    return [f"{source}: {lost.sum()} of {len(lost)} rows left out, a variable is missing there"]


def _most_gaps(columns: dict[int, Array], variables: Sequence[int], header: Sequence[str]) -> str:
    return header[max(variables, key=lambda j: int(_missing(columns[j]).sum()))]


def _levels(column: Array) -> Array:
    """Categories as numbers where all of them are, integers where possible; else as text."""
    try:
        numbers = column.astype(np.float64)
    except ValueError:
        return column
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers
