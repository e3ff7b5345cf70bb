"""Cells: the rows of a table as continuous variables and coded categories, and their schema."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent import io
from maxent._support.threads import all_finite, over_rows
from maxent.rows.arrays import Array

_MARKS = ("NAType", "NaTType")
_SQUARES_EXACT = 400  # powers of two up to which squares and products of columns are exact
UNKNOWN = -1  # code of a level that was not there at the fit


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of a table by column: continuous ``values`` (variables, cells), level ``codes``."""

    values: Array
    codes: Array

    @property
    def n_cells(self) -> int:
        """Number of rows."""
        return int(self.values.shape[1])

    def take(self, rows: Array) -> Cells:
        """Some of the rows."""
        return Cells(
            np.ascontiguousarray(self.values[:, rows]), np.ascontiguousarray(self.codes[:, rows])
        )

    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""
        low = self.values.min(axis=1, initial=np.inf).astype(np.float64)
        return low, self.values.max(axis=1, initial=-np.inf).astype(np.float64)


@io.register
@dataclass(frozen=True)
class Schema:
    """Which columns a table has, which are categorical and what their levels are.

    >>> schema = Schema.from_table(np.array([[1.0, 3.0], [2.0, 5.0]]), categorical=[1])
    >>> schema.continuous, schema.levels
    (('x0',), ((3.0, 5.0),))
    """

    names: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    levels: tuple[tuple[Any, ...], ...] = field(default=())

    def __post_init__(self) -> None:
        unknown = [name for name in self.categorical if name not in self.names]
        if unknown:
            raise ValueError(f"the categorical columns {unknown} are not among {self.names}")
        if len(set(self.categorical)) < len(self.categorical):
            raise ValueError(f"categorical columns must differ, got {self.categorical}")
        check_levels(self.categorical, self.levels)

    @property
    def continuous(self) -> tuple[str, ...]:
        """Names of the other columns, in order."""
        return tuple(name for name in self.names if name not in self.categorical)

    @property
    def n_raw(self) -> int:
        """Raw features: the continuous columns, and the levels of the others."""
        return len(self.continuous) + sum(map(len, self.levels))

    @classmethod
    def from_table(cls, X: Any, categorical: Iterable[Any] = ()) -> Schema:
        """The schema of a table: category and string columns, and those named, are categorical."""
        names = _names(X)
        chosen = {_column_name(c, names) for c in categorical}
        chosen |= {name for j, name in enumerate(names) if _is_category(X, j)}
        ordered = tuple(name for name in names if name in chosen)
        levels = tuple(_levels(_column(X, names.index(name)), name) for name in ordered)
        return cls(tuple(names), ordered, levels)

    def read(self, X: Any, missing: bool = False) -> Cells:
        """The cells of a table with this schema; ``missing`` lets missing values pass.

        Columns of the names of the fit are read by name, in whatever order they come, others by
        place. Levels that were not seen at the fit get no effect, with a warning.
        """
        names = _names(X)
        if len(names) != len(self.names):
            raise ValueError(
                f"X has {len(names)} columns, the model was fitted with {len(self.names)}: "
                f"{', '.join(self.names[:10])}"
            )
        count = _length(X)
        place = list(range(len(names)))
        if len(set(names)) == len(names) and set(names) == set(self.names):
            place = [names.index(name) for name in self.names]
        order = [j for j, name in enumerate(self.names) if name not in self.categorical]
        columns = [(j, _column(X, place[j])) for j in order]
        kind = np.result_type(np.float32, *(_float_type(c, self.names[j]) for j, c in columns))
        values = np.empty((len(order), count), dtype=kind)

        def copy(start: int, stop: int) -> None:
            for row, (_, column) in enumerate(columns):
                values[row, start:stop] = column[start:stop]

        over_rows(copy, count, len(order))
        if not all_finite(values) and not (missing and not np.isinf(values).any()):
            raise ValueError(self._complaint(values))
        codes = np.empty((len(self.categorical), count), dtype=np.int32)
        for row, (name, levels) in enumerate(zip(self.categorical, self.levels, strict=True)):
            column = _column(X, place[self.names.index(name)])
            lost = _missing(column)
            if lost.any() and not missing:
                raise ValueError(
                    f"column {name!r} of X contains missing values, NaN or None: {int(lost.sum())} "
                    'rows. Drop them, give them a level of their own, or use missing="drop"'
                )
            codes[row] = UNKNOWN
            codes[row, ~lost] = _encode(column[~lost], name, levels)
        return Cells(values, codes)

    def _complaint(self, values: Array) -> str:
        wrong = np.asarray(~np.isfinite(values))
        names = [name for v, name in enumerate(self.continuous) if wrong[v].any()]
        endless = bool(np.isinf(values).any())
        return (
            f"Input X contains {'infinity' if endless else 'NaN'}: {int(wrong.any(axis=0).sum())} "
            f"rows, in {', '.join(names[:10])}. Drop them, impute them"
            + ("" if endless else ', or use missing="drop"')
        )


def check_levels(names: Sequence[str], levels: Sequence[Any]) -> None:
    """Complain unless there is a tuple of different plain levels for every categorical column."""
    if len(names) != len(levels):
        raise ValueError(f"{len(names)} categorical columns need as many levels, got {len(levels)}")
    for name, known in zip(names, levels, strict=True):
        if not (isinstance(known, tuple) and len(set(known)) == len(known)):
            raise ValueError(f"the levels of {name!r} must be a tuple without repetitions")


def missing_rows(X: Any) -> Array:
    """Which rows of a table have a missing value in any column."""
    missing = np.zeros(_length(X), dtype=bool)
    for j in range(len(_names(X))):
        missing |= _missing(_column(X, j))
    return missing


def _missing(column: Array) -> Array:
    """Which entries are NaN, None or a frame's own mark for a missing value."""
    if column.dtype.kind != "O":
        return np.asarray(column != column)
    return np.array([v is None or type(v).__name__ in _MARKS or v != v for v in column], dtype=bool)


def is_frame(X: Any) -> bool:
    """Whether X has named columns (pandas, polars ...)."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def take_rows(X: Any, rows: Any) -> Any:
    """Some rows of a frame or an array."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(rows, np.ndarray) and rows.dtype == bool:
        rows = np.flatnonzero(rows)  # a mask picks columns of a polars frame
    return X[rows]


def column_units(low: Array, high: Array) -> Array:
    """By what to divide each column so that squares and products of columns are ordinary numbers.

    Powers of two, so that no digit is lost; 1 for columns of any size one meets.

    >>> np.log2(column_units(np.array([-1.0, 0.0]), np.array([3.0, 2.0**600])))
    array([  0., 601.])
    """
    return np.ldexp(1.0, column_powers(low, high))


def column_powers(low: Array, high: Array) -> Array:
    """The powers of two that ``column_units`` are; 0 for a column without values."""
    power = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    power = np.minimum(power, np.finfo(np.float64).maxexp - 1)  # a larger one is no number
    return np.where((np.abs(power) > _SQUARES_EXACT) & (low <= high), power, 0)


def in_units(values: Array, units: Array) -> Array:
    """Columns, the rows of ``values``, in their units; a copy only where one is not 1."""
    return values if (units == 1).all() else values / units[:, None]


def constant_columns(cells: Cells, schema: Schema) -> list[str]:
    """The columns that have one value and so tell nothing."""
    return constant_within(schema, *cells.ranges())


def constant_within(schema: Schema, low: Array, high: Array) -> list[str]:
    """The columns that have one value where these are the ranges of the continuous ones."""
    names = [name for name, same in zip(schema.continuous, low == high, strict=True) if same]
    levels = zip(schema.categorical, schema.levels, strict=True)
    return names + [name for name, known in levels if len(known) < 2]


def not_used(columns: Sequence[str]) -> str:
    """What to tell a user whose table has constant columns."""
    return f"constant columns are not used: {', '.join(columns)}"


def _names(X: Any) -> list[str]:
    if is_frame(X):
        return [str(c) for c in X.columns]
    return [f"x{j}" for j in range(np.shape(X)[1])]


def _length(X: Any) -> int:
    return int(np.shape(X)[0])


def _column(X: Any, j: int) -> Array:
    if is_frame(X):
        return np.asarray(X[X.columns[j]])
    return np.asarray(X)[:, j]


def _column_name(column: Any, names: Sequence[str]) -> str:
    if isinstance(column, str) and column in names:
        return column
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return names[int(column)]
    raise ValueError(
        f"categorical column {column!r} is not in X; columns are {', '.join(names[:20])}"
    )


def _is_category(X: Any, j: int) -> bool:
    if is_frame(X) and "categor" in str(getattr(X[X.columns[j]], "dtype", "")).lower():
        return True
    column = _column(X, j)
    if column.dtype.kind in "US":
        return True
    if column.dtype.kind != "O":
        return False
    return any(isinstance(v, str) for v in column)


def _float_type(column: Array, name: str) -> Any:
    """float32 where that holds every value exactly, else float64."""
    kind = column.dtype
    if kind.kind == "O":
        try:
            column.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {name!r} holds {error}; give numbers, or name it in categorical="
            ) from error
        return np.float64
    if kind.kind not in "fiub":
        raise ValueError(f"column {name!r} has dtype {kind}, expected numbers or categories")
    small = kind.itemsize <= (4 if kind.kind == "f" else 2)
    return np.float32 if small else np.float64


def _levels(column: Array, name: str) -> tuple[Any, ...]:
    if column.dtype.kind == "O":
        present = list(column[~_missing(column)])
        try:
            return tuple(sorted(set(present)))
        except TypeError:
            raise ValueError(
                f"categorical column {name!r} mixes types: "
                f"{sorted({type(v).__name__ for v in present})}; use one type"
            ) from None
    if column.dtype.kind == "f":
        column = column[np.isfinite(column)]
    return tuple(np.unique(column).tolist())


def _encode(column: Array, name: str, levels: tuple[Any, ...]) -> Array:
    table = {level: code for code, level in enumerate(levels)}
    distinct, inverse = _distinct(column)
    code = np.array([table.get(_plain(level), UNKNOWN) for level in distinct], dtype=np.int32)
    if (code == UNKNOWN).any():
        new = [_plain(level) for level, c in zip(distinct, code, strict=True) if c == UNKNOWN]
        warnings.warn(
            f"{name}: levels {', '.join(map(repr, new[:10]))} were not there at the fit; they get "
            "no effect",
            stacklevel=3,
        )
    return code[inverse]


def _distinct(column: Array) -> tuple[list[Any], Array]:
    if column.dtype.kind == "O":
        seen: dict[Any, int] = {}
        inverse = np.array([seen.setdefault(v, len(seen)) for v in column], dtype=np.intp)
        return list(seen), inverse
    distinct, inverse = np.unique(column, return_inverse=True)
    return list(distinct), inverse


def _plain(level: Any) -> Any:
    return level.item() if isinstance(level, np.generic) else level
