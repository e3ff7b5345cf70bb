"""Summaries of blocks of rows: ranges, levels, means, values and products, and what merges them.

One pass over the data gives everything that the feature classes need, and a summary is small
whatever the number of rows; the operators are those of a fit with all rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np

from maxent._support.checks import masses
from maxent.features.base import FeatureClass, Operator, ViewedClass, joined
from maxent.features.cells import (
    Cells,
    Schema,
    column_powers,
    constant_within,
    is_frame,
)
from maxent.features.sketch import SIZE, QuantileSketch
from maxent.features.views import CellsView, product_ranges
from maxent.rows.arrays import Array


@dataclass(frozen=True, eq=False)
class TableSummary:
    """What feature classes and densities need to know of a table, of some of its rows.

    Attributes
    ----------
    schema : Schema
        Columns, which are categorical, and their levels, those of rows without weight too.
    dtype : dtype
        float32 or float64, that of the cells which ``Schema.read`` makes of the table.
    n_read : int
        Number of rows.
    n_rows : int
        Number of those with a positive weight, which all else is of.
    mass : float
        Sum of their weights.
    low : array (n_continuous,)
        Least value of each continuous column.
    high : array (n_continuous,)
        Largest value of each.
    nearest_zero : array (n_continuous,)
        Smallest absolute value of each.
    mean : array (n_continuous,)
        Weighted mean of each.
    level_mass : tuple of array
        Weight of every level of each categorical column.
    values : tuple of QuantileSketch or None
        The sketch of each continuous column, each row with mass 1; None if not asked for.
    products : array (2, n_pairs) or None
        Least and most product of every two continuous columns `i < j` in their ``column_units``;
        None if not asked for.
    block : str
        What to call the rows in a complaint.

    Notes
    -----
    All but the sketches is exact, and these are up to their ``size``. The products of a merge are
    rescaled by powers of two, which is exact unless one is below the least normal number.

    Examples
    --------
    >>> first = TableSummary.from_rows([[1.0, 3.0]])
    >>> second = TableSummary.from_rows([[2.0, -1.0], [6.0, 0.5]])
    >>> both = first.merge(second)
    >>> both.n_rows, both.low, both.high, both.mean.round(2)
    (3, array([ 1., -1.]), array([6., 3.]), array([3.  , 0.83]))
    """

    schema: Schema
    dtype: np.dtype[Any]
    n_read: int
    n_rows: int
    mass: float
    low: Array
    high: Array
    nearest_zero: Array
    mean: Array
    level_mass: tuple[Array, ...]
    values: tuple[QuantileSketch, ...] | None = None
    products: Array | None = None
    block: str = "a block"

    @classmethod
    def from_rows(
        cls,
        X: Any,
        categorical: Iterable[Any] = (),
        weight: Any = None,
        *,
        values: bool = False,
        products: bool = False,
        size: int = SIZE,
        block: Any = None,
    ) -> TableSummary:
        """The summary of a block of rows, a frame or an array; it may be empty.

        ``weight`` is the mass of each row. Give 0 where the prior is 0: such a row is no point of a
        density, which ``Points`` leaves out as well. ``block`` is the block's number or name.
        """
        X = X if is_frame(X) else np.asarray(X)
        called = "a block" if block is None else f"block {block}"
        try:
            schema = Schema.from_table(X, categorical)
            cells = schema.read(X)
            weight = masses("sample_weight", weight, cells.n_cells)
        except ValueError as error:
            if block is None:
                raise
            raise ValueError(f"{called}: {error}") from error
        n_read = cells.n_cells
        if not weight.all():
            cells, weight = cells.take(weight > 0), weight[weight > 0]
        low, high = cells.ranges()
        mass = float(weight.sum())
        codes = zip(cells.codes, schema.levels, strict=True)
        return cls(
            schema,
            cells.values.dtype,
            n_read,
            cells.n_cells,
            mass,
            low,
            high,
            np.array([np.abs(x).min(initial=np.inf) for x in cells.values], dtype=np.float64),
            cells.values @ (weight / mass if mass else weight),
            tuple(np.bincount(code, weight, minlength=len(levels)) for code, levels in codes),
            tuple(QuantileSketch.from_values(x, size=size) for x in cells.values)
            if values
            else None,
            _products(cells, low, high) if products else None,
            called,
        )

    def merge(self, other: TableSummary) -> TableSummary:
        """The summary of the rows of both.

        Levels become the union of both; columns that differ, or are categories in one and numbers
        in the other, are an error.
        """
        self._check_same(other)
        if not other.n_read or not self.n_read:  # an empty block says nothing of types
            return other if other.n_read else self
        schema = self._joint_schema(other)
        one, two = self.with_schema(schema), other.with_schema(schema)
        mass = self.mass + other.mass
        share = other.mass / mass if mass else 0.0
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        values, products = None, None
        if one.values is not None and two.values is not None:
            pairs = zip(one.values, two.values, strict=True)
            values = tuple(mine.merge(theirs) for mine, theirs in pairs)
        if one.products is not None and two.products is not None:
            mine, theirs = one._products_within(low, high), two._products_within(low, high)
            products = np.array([np.minimum(mine, theirs)[0], np.maximum(mine, theirs)[1]])
        levels = zip(one.level_mass, two.level_mass, strict=True)
        return TableSummary(
            schema,
            np.result_type(self.dtype, other.dtype),
            self.n_read + other.n_read,
            self.n_rows + other.n_rows,
            mass,
            low,
            high,
            np.minimum(self.nearest_zero, other.nearest_zero),
            (1 - share) * self.mean + share * other.mean,
            tuple(mine + theirs for mine, theirs in levels),
            values,
            products,
            self.block,
        )

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""
        return self.low, self.high

    @property
    def n_points(self) -> float:
        """The mass of all rows: how many points they count as."""
        return self.mass

    @property
    def constant(self) -> list[str]:
        """Columns that tell nothing, as they have one value."""
        return constant_within(self.schema, self.low, self.high)

    @property
    def rank_error(self) -> float:
        """The largest error of a sketch, as a share of the rows; 0 where all values are known."""
        return max((sketch.rank_error for sketch in self.values or ()), default=0.0)

    def mean_place(self) -> tuple[Array, tuple[Array, ...]]:
        """The mean of each continuous variable, and the shares of the levels of the others."""
        return self.mean, tuple(mass / self.mass for mass in self.level_mass)

    # -- merging -------------------------------------------------------------------------------

    def _check_same(self, other: TableSummary) -> None:
        mine, theirs = self.schema.names, other.schema.names
        if mine != theirs:
            raise ValueError(
                f"{_both(self, other)} have different columns: {_listed(mine)}, and "
                f"{_listed(theirs)}; give all blocks the same columns in one order"
            )
        for name in ("values", "products"):
            if (getattr(self, name) is None) != (getattr(other, name) is None):
                raise ValueError(
                    f"one summary has {name} and the other has not: ask for them of all blocks"
                )

    def _joint_schema(self, other: TableSummary) -> Schema:
        """One schema with the levels of both."""
        mine, theirs = self.schema, other.schema
        if mine == theirs:
            return mine
        differ = sorted(set(mine.categorical) ^ set(theirs.categorical), key=mine.names.index)
        if differ:
            raise ValueError(
                f"column {differ[0]!r} holds categories or text in one block and numbers in "
                f"another ({_both(self, other)}): use one type, or name it in categorical="
            )
        pairs = zip(mine.categorical, mine.levels, theirs.levels, strict=True)
        levels = tuple(
            _union(name, one, two, _both(self, other)) if one != two else one
            for name, one, two in pairs
        )
        return replace(mine, levels=levels)

    def with_schema(self, schema: Schema) -> TableSummary:
        """The same with more levels."""
        level_mass = []
        for mass, mine, levels in zip(
            self.level_mass, self.schema.levels, schema.levels, strict=True
        ):
            place = {level: code for code, level in enumerate(levels)}
            wider = np.zeros(len(levels))
            wider[[place[level] for level in mine]] = mass
            level_mass.append(wider)
        return replace(self, schema=schema, level_mass=tuple(level_mass))

    def _products_within(self, low: Array, high: Array) -> Array:
        """The products in the units of columns with wider ranges."""
        assert self.products is not None
        finer = column_powers(self.low, self.high) - column_powers(low, high)
        first, second = np.triu_indices(low.size, 1)
        return np.ldexp(self.products, finer[first] + finer[second])


def _products(cells: Cells, low: Array, high: Array) -> Array:
    first, second = np.triu_indices(low.size, 1)
    return product_ranges(cells, np.ldexp(1.0, column_powers(low, high)), first, second)


def _both(one: TableSummary, two: TableSummary) -> str:
    return "two blocks" if one.block == two.block else f"{one.block} and {two.block}"


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} columns ({', '.join(names[:10])}{', ...' if len(names) > 10 else ''})"


def _union(name: str, one: tuple[Any, ...], two: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    """The levels of both, as those of one column: floats where one of them has floats."""
    types = {type(level) for level in (*one, *two)}
    if len(types) > 1:
        if not all(issubclass(kind, Number) for kind in types):
            found = ", ".join(sorted(kind.__name__ for kind in types))
            raise ValueError(
                f"categorical column {name!r} mixes types over the blocks ({where}): {found}; "
                "use one type"
            )
        whole = float if float in types else int
        one, two = tuple(map(whole, one)), tuple(map(whole, two))
    return tuple(sorted({*one, *two}))


@dataclass(frozen=True, eq=False)
class _SummaryView(CellsView):
    """The presences, and a summary of all cells."""

    summary: TableSummary

    @property
    def n_cells(self) -> int:
        return self.cells.n_cells  # what there is to go through

    @property
    def ranges(self) -> tuple[Array, Array]:
        return self.summary.low, self.summary.high

    def nearest_zero(self, v: int) -> float:
        return float(self.summary.nearest_zero[v])

    def values(self, v: int) -> Array:
        """Those of the sketch, and of the presences where it leaves some out."""
        assert self.summary.values is not None
        sketch = self.summary.values[v]
        return sketch.values if sketch.exact else np.union1d(sketch.values, self.presence_values(v))

    def product_ranges(self, first: Array, second: Array) -> Array:
        assert self.summary.products is not None
        count = self.summary.low.size
        table = np.empty((2, count, count))
        table[:, *np.triu_indices(count, 1)] = self.summary.products
        return np.asarray(table[:, first, second])


def summary_options(classes: Sequence[FeatureClass]) -> dict[str, bool]:
    """What to ask of ``TableSummary.from_rows`` to fit these classes; an error where one cannot be.

    Parameters
    ----------
    classes : sequence of FeatureClass
        The feature classes.

    Examples
    --------
    >>> from maxent.features import Hinge, Linear
    >>> summary_options([Linear(), Hinge()]), summary_options([Hinge(20)])
    ({'values': True, 'products': False}, {'values': False, 'products': False})
    """
    wanted: set[str] = set()
    for kind in classes:
        wanted |= _viewed(kind).looks_at
    return {name: name in wanted for name in ("values", "products")}


def _viewed(kind: FeatureClass) -> ViewedClass:
    if isinstance(kind, ViewedClass) and type(kind).fit is ViewedClass.fit:
        return kind
    raise TypeError(
        f"{type(kind).__name__} is fitted to all cells at once, which these are too many for: "
        "fit a sample of them in memory (maxent fit: a number of --background cells); a class of "
        "your own can be derived from ViewedClass, with fit_view instead of fit"
    )


def fit_from_summary(
    classes: Sequence[FeatureClass], summary: TableSummary, presences: Cells
) -> list[Operator]:
    """The operators of these feature classes for the table of a summary.

    These are the operators that ``fit_operators`` gives for the whole table. Where a column has
    more distinct values than its sketch holds, each of their knots has one here that at most
    ``summary.rank_error`` and a step of the sketch, 1 / (size - 1), of the rows lie between.

    Parameters
    ----------
    classes : sequence of FeatureClass
        The feature classes.
    summary : TableSummary
        The summary of the table.
    presences : Cells
        Its cells with an occurrence, read with ``summary.schema``.

    Examples
    --------
    >>> from maxent.features import Hinge
    >>> blocks = [np.array([[1.0], [2.0]]), np.array([[4.0]])]
    >>> one, two = (TableSummary.from_rows(X, **summary_options([Hinge()])) for X in blocks)
    >>> both = one.merge(two)
    >>> fit_from_summary([Hinge()], both, both.schema.read(blocks[1]))[0].names()
    ['hinge(x0>1.5)', 'hinge(x0>3)', 'hinge(x0<1.5)', 'hinge(x0<3)']
    """
    for name, wanted in summary_options(classes).items():
        if wanted and getattr(summary, name) is None:
            raise ValueError(
                f"{', '.join(type(c).__name__ for c in classes)} need the {name} of the columns: "
                f"use TableSummary.from_rows(..., {name}=True) for all blocks"
            )
    if not summary.n_rows:
        raise ValueError("the table has no row: features need some")
    _check_presences(summary, presences)
    view = _SummaryView(presences, summary.schema, slice(None), summary)
    return joined([o for kind in classes for o in _viewed(kind).fit_view(view)])


def _check_presences(summary: TableSummary, presences: Cells) -> None:
    schema = summary.schema
    counts = (len(presences.values), len(presences.codes))
    expected = (len(schema.continuous), len(schema.categorical))
    if counts != expected:
        raise ValueError(
            f"the presences have {counts[0]} continuous and {counts[1]} categorical columns, the "
            f"summary {expected[0]} and {expected[1]}: read them with its schema"
        )
    low, high = presences.ranges()
    outside = (low < summary.low) | (high > summary.high) if presences.n_cells else np.array([])
    names = [name for name, out in zip(schema.continuous, outside, strict=False) if out]
    names += [
        name
        for name, codes, levels in zip(
            schema.categorical, presences.codes, schema.levels, strict=True
        )
        if ((codes < 0) | (codes >= len(levels))).any()
    ]
    if names:
        raise ValueError(
            f"presences have values of {', '.join(names)} that no row of the table has: they must "
            "be rows of the table that was summarised"
        )
