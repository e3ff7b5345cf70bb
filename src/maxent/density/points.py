"""Points: the rows of a table as the cells a density is over, with their counts and masses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxent._support.checks import masses
from maxent.density.evidence import RecordWeights
from maxent.features import Cells, FeatureClass, Operator, OperatorMap, Schema, bind, joined
from maxent.features.cells import constant_within, is_frame, missing_rows, take_rows
from maxent.rows.arrays import Array

MISSING = ("error", "drop")
_LEAST_RANGE, _MOST_RANGE = 1e-290, 1e307  # of a column: knots lie within 1e-10 of it


def check_missing(missing: str) -> None:
    """One of the ways to treat rows with a missing value."""
    if missing not in MISSING:
        raise ValueError(f'missing must be "error" or "drop", got {missing!r}')


class Table(NamedTuple):
    """The rows of a fit: cells X, occurrences y, weight and prior of each.

    ``rows`` are their numbers in the table they come from, ``kept_all`` says that none is left out.
    """

    X: Any
    y: Array
    weight: Array
    prior: Array
    rows: Array
    kept_all: bool

    @classmethod
    def from_rows(
        cls, X: Any, y: Any, weight: Any = None, prior: Any = None, missing: str = "error"
    ) -> Table:
        """Checked rows; ``missing="drop"`` leaves out those with a missing value."""
        check_missing(missing)
        X = X if is_frame(X) else np.asarray(X)
        y = np.asarray(y, dtype=np.float64)
        weight, prior = masses("sample_weight", weight, len(y)), masses("prior", prior, len(y))
        table = cls(X, y, weight, prior, np.arange(len(y)), True)
        return table.take(~missing_rows(X)) if missing == "drop" else table

    def take(self, rows: Array) -> Table:
        """Some of the rows."""
        y, weight, prior, numbers = (part[rows] for part in self[1:5])
        kept_all = self.kept_all and numbers.size == self.rows.size
        return Table(take_rows(self.X, rows), y, weight, prior, numbers, kept_all)

    def aligned(self, values: Any) -> Any:
        """What belongs to the rows of the original table, for the rows that are left."""
        if values is None or self.kept_all:
            return values
        return np.asarray(values)[self.rows]

    def check(self) -> None:
        """Refuse counts that no density can be fitted to."""
        CountFacts.from_table(self).check()


class CountFacts(NamedTuple):
    """What there is to check of the occurrences of some rows.

    ``fraction`` is a count that is no integer; ``low`` and ``high`` are of the rows with weight,
    ``lost`` counts those of them whose presences the prior excludes.
    """

    n_rows: int
    least: float
    fraction: float | None
    low: float
    high: float
    lost: int

    @classmethod
    def from_table(cls, table: Table) -> CountFacts:
        """Of the rows of a table."""
        y, used = table.y, table.weight > 0
        broken = y[y != np.floor(y)]
        return cls(
            len(y),
            float(y.min(initial=np.inf)),
            float(broken[0]) if broken.size else None,
            float(y[used].min(initial=np.inf)),
            float(y[used].max(initial=-np.inf)),
            int(((y > 0) & (table.prior <= 0))[used].sum()),
        )

    def merge(self, other: CountFacts) -> CountFacts:
        """Of the rows of both."""
        return CountFacts(
            self.n_rows + other.n_rows,
            min(self.least, other.least),
            other.fraction if self.fraction is None else self.fraction,
            min(self.low, other.low),
            max(self.high, other.high),
            self.lost + other.lost,
        )

    def check(self) -> None:
        """Refuse counts that no density can be fitted to."""
        if not self.n_rows:
            raise ValueError("no row is left after dropping missing values")
        if self.least < 0:
            raise ValueError(
                f"y counts the occurrences in each row and cannot be negative: got {self.least:g}"
            )
        if self.fraction is not None:
            raise ValueError(
                f"y counts the occurrences in each row: expected integers, got {self.fraction:g}; "
                "weights go into sample_weight"
            )
        if self.n_rows == 1:
            raise ValueError(
                "X has one sample: a density needs several cells, background among them"
            )
        if self.high < self.low:
            raise ValueError("all sample weights are zero")
        if self.high == 0:
            raise ValueError("y holds no presence: at least one row needs y > 0")
        if self.low == self.high:
            raise ValueError(
                f"every row has y = {self.high:g}, so there is nothing to tell presences from: add "
                "the background cells as rows with y = 0"
            )
        if self.lost:
            raise ValueError(
                f"{self.lost} presences lie where the prior is 0, so no density can explain them: "
                "give those rows a positive prior or leave them out"
            )


@dataclass(frozen=True, eq=False)
class Points:
    """The points a density is over.

    All points have mass under the default density.

    Attributes
    ----------
    schema : Schema
        Columns, which are categorical, and their levels.
    cells : Cells
        Values of the variables at each point.
    counts : array (n_points,)
        Occurrences at each point.
    mass : array (n_points,)
        How often each point counts.
    prior : array (n_points,)
        What multiplies its mass in the default density (sampling effort).
    merged : bool
        Whether equal rows were made one point.
    weighted : RecordWeights or None
        Which weights the records had; without it all count alike.

    Examples
    --------
    >>> points = Points.from_table([[1.0], [2.0], [4.0]], [0, 1, 2])
    >>> points.n_presences, points.observed.round(2).tolist()
    (3.0, [0.0, 0.33, 0.67])
    """

    schema: Schema
    cells: Cells
    counts: Array
    mass: Array
    prior: Array
    merged: bool = False
    weighted: RecordWeights | None = None

    @classmethod
    def from_table(
        cls,
        X: Any,
        y: Any,
        weight: Any = None,
        prior: Any = None,
        *,
        categorical: Iterable[Any] = (),
        missing: str = "error",
        merge: bool = False,
    ) -> Points:
        """The points of a table X with y occurrences in each row.

        ``weight`` counts a row that often, its mass and its occurrences. ``merge`` moves each
        presence to an equal background row, or to the first equal presence.
        """
        return cls.of_table(Table.from_rows(X, y, weight, prior, missing), categorical, merge)

    @classmethod
    def of_table(
        cls,
        table: Table,
        categorical: Iterable[Any] = (),
        merge: bool = False,
        schema: Schema | None = None,
    ) -> Points:
        """The points of checked rows; a ``schema`` given knows levels that these rows lack."""
        table.check()
        schema = Schema.from_table(table.X, categorical) if schema is None else schema
        points = cls.of_records(table, schema)._with_mass()
        check_ranges(schema, *points.ranges)
        return points._merge() if merge else points

    @classmethod
    def of_records(cls, table: Table, schema: Schema) -> Points:
        """The rows of a table as they are, where the other points are elsewhere."""
        y, weight = table.y, table.weight
        known = RecordWeights.from_counts(y, weight)
        return cls(schema, schema.read(table.X), y * weight, weight, table.prior, False, known)

    def operators(self, classes: Sequence[FeatureClass]) -> list[Operator]:
        """The features of these classes, fitted to the points."""
        fitted = (kind.fit(self.cells, self.schema, self.presences) for kind in classes)
        return joined([operator for operators in fitted for operator in operators])

    def features(self, operators: Sequence[Operator]) -> OperatorMap:
        """The map of these operators, bound to the points."""
        return bind(operators, self.cells)

    @property
    def n_cells(self) -> int:
        """Number of points, however often each counts."""
        return self.cells.n_cells

    @property
    def n_presences(self) -> float:
        """m, the number of occurrences."""
        return float(self.counts.sum())

    @property
    def record_weights(self) -> RecordWeights:
        """The weights of the occurrences: what there is behind m."""
        return RecordWeights.alike(self.n_presences) if self.weighted is None else self.weighted

    @property
    def n_points(self) -> float:
        """The mass of all points: how many they count as."""
        return float(self.mass.sum())

    @cached_property
    def observed(self) -> Array:
        """The share of the occurrences at each point."""
        return self.counts / self.n_presences

    @cached_property
    def default(self) -> Array:
        """The mass of each point under the default density, not normalised."""
        return self.mass * self.prior

    @property
    def presences(self) -> Array:
        """The points with occurrences."""
        return np.flatnonzero(self.counts > 0)

    @property
    def biased(self) -> bool:
        """Whether the default density is not one per cell."""
        return bool((self.prior != self.prior[0]).any())

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each continuous variable."""
        return self.cells.ranges()

    @property
    def constant(self) -> list[str]:
        """Columns that tell nothing, as they have one value."""
        return constant_within(self.schema, *self.ranges)

    def mean_place(self) -> tuple[Array, tuple[Array, ...]]:
        """The mean of each continuous variable, and the shares of the levels of the others."""
        share = self.mass / self.mass.sum()
        codes = zip(self.cells.codes, self.schema.levels, strict=True)
        return self.cells.values @ share, tuple(
            np.bincount(code, share, minlength=len(levels)) for code, levels in codes
        )

    def with_counts(self, counts: Array) -> Points:
        """The same points with other occurrences, which count alike."""
        return Points(self.schema, self.cells, counts, self.mass, self.prior, self.merged)

    def at_values_of(self, name: str) -> Points:
        """One point for every value of a variable: the same to features of that variable alone."""
        schema = self.schema
        if name in schema.categorical:
            column = self.cells.codes[schema.categorical.index(name)]
        else:
            column = self.cells.values[schema.continuous.index(name)]
        _, first, place = np.unique(column, return_index=True, return_inverse=True)
        mass = np.bincount(place, self.mass)
        return Points(
            schema,
            self.cells.take(first),
            np.bincount(place, self.counts),
            mass,
            np.bincount(place, self.default) / mass,
            self.merged,
            self.weighted,
        )

    def _take(self, kept: Array) -> Points:
        if kept.all():
            return self
        parts = (self.counts[kept], self.mass[kept], self.prior[kept])
        return Points(self.schema, self.cells.take(kept), *parts, self.merged, self.weighted)

    def _with_mass(self) -> Points:
        return self._take(self.default > 0)

    def _merge(self) -> Points:
        counts, mass = _merged(self.cells, self.counts, self.mass)
        parts = (counts, mass, self.prior, True, self.weighted)
        return Points(self.schema, self.cells, *parts)._with_mass()


def check_ranges(schema: Schema, low: Array, high: Array) -> None:
    """Refuse columns whose differences are no ordinary numbers."""
    half = high / 2 - low / 2
    wrong = np.flatnonzero((half > 0) & ~((half > _LEAST_RANGE) & (half < _MOST_RANGE)))
    if wrong.size:
        v = int(wrong[0])
        raise ValueError(
            f"column {schema.continuous[v]!r} has values from {low[v]:g} to {high[v]:g}, "
            f"and a range must lie between {_LEAST_RANGE:g} and {_MOST_RANGE:g} to be computed "
            "with: multiply the column by a constant"
        )


def _merged(cells: Cells, counts: Array, mass: Array) -> tuple[Array, Array]:
    """Each presence moved to an equal background row, or to the first equal presence.

    Presences at one point make one point of mass 1, however many they are.
    """
    # rows are compared by a 64-bit hash: one in 1e9 tables of 5 million cells has a false match
    rng = np.random.default_rng(0)
    key = np.zeros(cells.n_cells, dtype=np.uint64)
    for column in (*cells.values, *cells.codes):
        bits = (column + 0.0).astype(np.float64).view(np.uint64)  # + 0.0: -0 is 0
        key = (key ^ bits) * (rng.integers(1 << 62, dtype=np.uint64) * np.uint64(2) + np.uint64(1))
        key ^= key >> np.uint64(29)
    counts, mass = counts.copy(), mass.copy()
    presences = np.flatnonzero(counts > 0)
    home: dict[int, int] = {}
    wanted = np.sort(key[presences])
    shared = wanted[np.minimum(np.searchsorted(wanted, key), wanted.size - 1)] == key
    background = np.flatnonzero((counts == 0) & shared)
    for row in background[::-1]:
        home[int(key[row])] = int(row)
    own = set(presences.tolist()) - set(home.values())
    for row in presences:
        target = home.setdefault(int(key[row]), int(row))
        if target != row:
            counts[target] += counts[row]
            if target in own:
                mass[target] += mass[row]
            counts[row] = mass[row] = 0.0
    alone = np.array(sorted(own), dtype=np.intp)
    mass[alone] = np.minimum(mass[alone], 1.0)
    return counts, mass
