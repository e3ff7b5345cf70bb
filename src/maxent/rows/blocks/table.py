"""BlockTable: a table in blocks with what belongs to its rows, as estimators receive it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.rows.blocks.engine import Blocks

# modules that register their own tables, by the package of the type that is met
_LAZY = {"dask": "maxent.rows.dask.registered", "xarray": "maxent.rows.dask.rasters"}


@dataclass(eq=False)
class Part:
    """The rows of one block: a table X and arrays with an entry per row, by name.

    Attributes
    ----------
    number : int
        Number of the block.
    X : table
        The rows.
    columns : dict of array
        Arrays with an entry per row, by name.
    """

    number: int
    X: Any
    columns: dict[str, Any]

    def n_rows(self) -> int:
        """Number of rows."""
        return int(np.shape(self.X)[0])

    def lengths(self) -> dict[int, int]:
        """Number of rows, by the number of the block."""
        return {self.number: self.n_rows()}

    def layout(self) -> dict[int, tuple[str, ...] | int]:
        """Names of the columns, or how many there are, by the number of the block."""
        names = getattr(self.X, "columns", None)
        width = int(np.shape(self.X)[1]) if names is None else tuple(str(name) for name in names)
        return {self.number: width}

    def check_columns(self) -> None:
        """Refuse columns that do not have one entry per row."""
        for name, values in self.columns.items():
            if np.shape(values)[:1] != (self.n_rows(),):
                raise ValueError(
                    f"{name} has {np.shape(values)[0]} entries and X {self.n_rows()} rows: give "
                    "both the same chunks or partitions"
                )


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Blocks of rows.

    Parameters
    ----------
    blocks : Blocks
        Blocks of :class:`Part`.
    columns : tuple of str, default ()
        Names of what comes with the rows (y, sample_weight ...).
    """

    blocks: Blocks
    columns: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...] | int:
        """Names of the columns, or their number; an error where blocks differ."""
        if not len(self.blocks):
            raise ValueError("X has no block: a table needs at least one row")
        self.blocks.reduce("check_columns", merge=lambda a, b: a)
        layouts = self.blocks.reduce("layout", merge=_both)
        (first, expected), *others = sorted(layouts.items())
        for number, found in others:
            if found != expected:
                raise ValueError(
                    f"block {number} has the columns {_said(found)}, block {first} has "
                    f"{_said(expected)}: give all blocks the same columns in the same order"
                )
        return expected

    def lengths(self) -> list[int]:
        """Number of rows of each block."""
        lengths = self.blocks.reduce("lengths", merge=_both) or {}
        return [lengths[number] for number in sorted(lengths)]

    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.blocks.reduce("n_rows", merge=add))


def _both(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    return one | other


def _said(columns: tuple[str, ...] | int) -> str:
    return f"{columns} columns" if isinstance(columns, int) else ", ".join(columns[:20])


def is_blocked(X: Any) -> bool:
    """Whether a table comes in blocks: a BlockTable, a collection of dask, an xarray Dataset."""
    if isinstance(X, BlockTable):
        return True
    package = type(X).__module__.split(".")[0]
    return package in _LAZY


def load_tables(X: Any) -> None:
    """Load the module that registers tables of this type."""
    package = type(X).__module__.split(".")[0]
    if package not in _LAZY:
        return
    try:
        importlib.import_module(_LAZY[package])
    except ImportError as error:
        raise ImportError(f"a table of {package} needs dask: pip install maxent[dask]") from error


@singledispatch
def _table(X: Any, columns: dict[str, Any]) -> BlockTable:
    raise TypeError(f"expected a table in blocks, got {type(X).__name__}")


def block_table(X: Any, **columns: Any) -> BlockTable:
    """The table X in blocks, with what belongs to its rows.

    Parameters
    ----------
    X : table
        The table, of dask or in blocks already.
    **columns : array
        Arrays in the same blocks (None: left out), or numpy arrays, which are cut.
    """
    load_tables(X)
    return _table(X, {name: given for name, given in columns.items() if given is not None})


register = _table.register


@register
def _(X: BlockTable, columns: dict[str, Any]) -> BlockTable:
    if not columns:
        return X
    cut = cut_columns(columns, X.lengths())
    return BlockTable(X.blocks.apply(with_columns, cut), (*X.columns, *columns))


def with_columns(part: Part, columns: dict[str, Any]) -> Part:
    """The rows with more columns."""
    return Part(part.number, part.X, part.columns | columns)


def cut_columns(columns: dict[str, Any], lengths: Sequence[int]) -> list[dict[str, Array]]:
    """Arrays in memory as one dict for each block."""
    ends = np.cumsum([0, *lengths])
    for name, values in columns.items():
        if np.shape(values)[:1] != (ends[-1],):
            raise ValueError(
                f"{name} must have one entry per row of X, {ends[-1]}, got shape {np.shape(values)}"
            )
    return [
        {name: np.asarray(values)[start:stop] for name, values in columns.items()}
        for start, stop in pairwise(ends)
    ]
