"""SWD: samples with data, the tables of species, coordinates and variables that need no rasters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent._rows import Array
from maxent.species.extras import geo
from maxent.species.records.columns import SPECIES_NAMES, X_NAMES, Y_NAMES, listed, recognised
from maxent.species.records.text_table import MISSING, Table, check_file
from maxent.species.results import Sample

NODATA = -9999  # how maxent's own tables mark a missing value


@dataclass(frozen=True, eq=False)
class SWD:
    """Rows of a species (or of the background) with their environment.

    Attributes
    ----------
    species : (rows,) names.
    coordinates : (rows, 2), None where the table does not have them for every row.
    X : a table, one column per variable.
    source : name of the file.
    notes : what was left out in reading.
    """

    species: Array
    coordinates: Array | None
    X: Any
    source: str
    notes: tuple[str, ...] = ()


def read_swd(path: str | Path, *, categorical: Iterable[str] = ()) -> SWD:
    """Read a table of species, x, y and variables.

    The column of species is recognised by its name, else the first; those of coordinates by their
    names, else the second and third; all others are variables. Rows with a missing variable
    (blank, NaN or -9999) are left out, with a note.

    Parameters
    ----------
    path : the file, separated by commas, tabs or semicolons.
    categorical : names of the variables that hold categories, as numbers or text.
    """
    path = Path(path)
    check_file(path)
    table = Table.open(path)
    species, x, y = _layout(table)
    variables = [j for j in range(len(table.header)) if j not in (species, x, y)]
    names = [table.header[j] for j in variables]
    chosen = _chosen(categorical, names, path)
    text = [species, *(j for j in variables if table.header[j] in chosen)]
    numbers = [x, y, *(j for j in variables if table.header[j] not in chosen)]
    columns = _read_columns(table, text, numbers)
    lost = np.zeros(len(columns[species]), dtype=bool)
    for j in variables:
        lost |= _missing(columns[j])
    notes = [*table.notes, *_dropped(lost, path.name)]
    if lost.all():
        raise ValueError(
            f"{path}: every row lacks a variable (blank, NaN or {NODATA}); leave out the variable "
            f"with the most gaps, which is {_most_gaps(columns, variables, table.header)!r}"
        )
    kept = {j: column[~lost] for j, column in columns.items()}
    coordinates = np.column_stack([kept[x], kept[y]])
    incomplete = int(np.isnan(coordinates).any(axis=1).sum())
    if 0 < incomplete < len(coordinates):
        notes.append(f"{path.name}: {incomplete} rows without coordinates, so places are not used")
    X = {table.header[j]: _levels(kept[j]) if j in text else kept[j] for j in variables}
    return SWD(
        kept[species],
        None if incomplete else coordinates,
        geo("pandas").DataFrame(X),
        path.name,
        tuple(notes),
    )


def swd_sample(samples: SWD, background: SWD, name: str, categorical: Iterable[str] = ()) -> Sample:
    """The rows of the background (counts 0), then those of one species (counts 1)."""
    mine = samples.species == name
    if not mine.any():
        known = list(dict.fromkeys(samples.species.tolist()))
        raise ValueError(f"{samples.source}: no row of {name!r}; it has {listed(known)}")
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


def write_swd(
    path: str | Path, species: Sequence[str] | Array, coordinates: Array | None, X: Any
) -> None:
    """Write a table that :func:`read_swd` reads; missing values are written as -9999."""
    pandas = geo("pandas")
    blank = np.full(len(X), "", dtype=object)
    places = (blank, blank) if coordinates is None else np.asarray(coordinates).T
    head = pandas.DataFrame({"species": np.asarray(species), "x": places[0], "y": places[1]})
    table = pandas.concat([head, X.reset_index(drop=True)], axis=1)
    text = table.to_csv(index=False, na_rep=str(NODATA), lineterminator="\n")
    io.write_atomically(path, text.encode())


def _layout(table: Table) -> tuple[int, int, int]:
    """Columns of species, x and y."""
    header = table.header
    x, y = recognised(header, X_NAMES), recognised(header, Y_NAMES)
    if x is None or y is None:
        x, y = 1, 2
    species = recognised(header, SPECIES_NAMES)
    species = 0 if species is None else species
    if len(header) < 4 or species in (x, y):
        raise ValueError(
            f"{table.path}: the columns are {listed(header)}; expected species, x, y and at least "
            "one variable, in this order"
        )
    return species, x, y


def _chosen(categorical: Iterable[str], names: Sequence[str], path: Path) -> set[str]:
    chosen = set(categorical)
    unknown = sorted(chosen.difference(names))
    if unknown:
        raise ValueError(
            f"{path}: categorical variable {unknown[0]!r} (--categorical) is not among the "
            f"variables {listed(names)}"
        )
    return chosen


def _read_columns(table: Table, text: Sequence[int], numbers: Sequence[int]) -> dict[int, Array]:
    parts: dict[int, list[Array]] = {j: [] for j in (*text, *numbers)}
    for lines, batch in table.batches([*text, *numbers]):
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
    return {j: np.concatenate(part) for j, part in parts.items()}


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
