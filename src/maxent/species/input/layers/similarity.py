"""How similar a place is to the training region: MESS and the most dissimilar variable.

The multivariate environmental similarity surface (Elith, Kearney and Phillips 2010, Methods in
Ecology and Evolution 1:330-342): negative where a variable lies outside what the model has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import floats
from maxent.features.cells import UNKNOWN, Schema, check_levels
from maxent.features.tables import Guide
from maxent.rows.arrays import Array

_TABLE = 10_000  # distinct values of a variable that are kept at most
SEEN, UNSEEN = 100.0, -100.0  # similarity of categories
NOWHERE = -1  # index of the variable where a value is missing


@io.register
@dataclass(frozen=True, eq=False)
class Reference:
    """What a model was trained on is like: its background, and its records.

    For a value p of a variable, with f the percent of reference points strictly below p:

    ===============  ==========================================
    f = 0            100 (p - min) / (max - min), 0 at min
    0 < f <= 50      2 f
    50 < f < 100     2 (100 - f)
    f = 100          100 (max - p) / (max - min)
    ===============  ==========================================

    A variable with one value is 100 there and -100 elsewhere, as are seen and unseen categories.
    The similarity of a place (MESS) is the smallest over its variables. Of more than 10,000
    distinct values that many are kept, even in rank, among them the smallest and the largest.

    Attributes
    ----------
    variables : tuple of str
        Names, in the order of the columns.
    values : dict of array
        Distinct values of each continuous variable.
    below : dict of array
        Percent of points strictly below each of these.
    levels : dict of tuple
        Levels of each categorical variable.
    """

    variables: tuple[str, ...]
    values: dict[str, Array]
    below: dict[str, Array]
    levels: dict[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        if sorted([*self.values, *self.levels]) != sorted(set(self.variables)):
            raise ValueError(
                f"values and levels must be those of {', '.join(self.variables)}, each once, got "
                f"{', '.join(self.values)} and {', '.join(self.levels)}"
            )
        if self.below.keys() != self.values.keys():
            raise ValueError("below must have an entry for every continuous variable")
        for name, values in self.values.items():
            floats(f"values[{name!r}]", values, max(np.size(values), 1))
            floats(f"below[{name!r}]", self.below[name], values.size)
            if (np.diff(values) <= 0).any() or not np.isfinite(values).all():
                raise ValueError(f"values[{name!r}] must be finite and increasing")
        check_levels(tuple(self.levels), tuple(self.levels.values()))

    @classmethod
    def from_table(cls, X: Any, categorical: Iterable[Any] = ()) -> Reference:
        """The reference of a table, one row per point; categories as in MaxentDensity.

        >>> reference = Reference.from_table(np.array([[1.0], [2.0], [3.0], [5.0]]))
        >>> reference.similarity({"x0": np.array([0.0, 1.0, 2.0, 4.0, 6.0])})[0]
        array([-25.,   0.,  50.,  50., -25.])
        """
        schema = Schema.from_table(X, categorical)
        tables = {
            name: _distribution(column)
            for name, column in zip(schema.continuous, schema.read(X).values, strict=True)
        }
        return cls(
            schema.names,
            {name: values for name, (values, _) in tables.items()},
            {name: below for name, (_, below) in tables.items()},
            dict(zip(schema.categorical, schema.levels, strict=True)),
        )

    @cached_property
    def _guides(self) -> dict[str, Guide]:
        return {n: Guide.from_knots(t, float(t[0]), float(t[-1])) for n, t in self.values.items()}

    def only(self, variables: Sequence[str]) -> Reference:
        """The reference of some of the variables, in this order."""
        missing = [name for name in variables if name not in self.variables]
        if missing:
            raise ValueError(
                f"the reference does not have {', '.join(missing)}; it has "
                f"{', '.join(self.variables)}: make it from the table that the model was fitted to"
            )
        return Reference(
            tuple(variables),
            {name: self.values[name] for name in variables if name in self.values},
            {name: self.below[name] for name in variables if name in self.below},
            {name: self.levels[name] for name in variables if name in self.levels},
        )

    def reaching(
        self,
        low: Mapping[str, float],
        high: Mapping[str, float],
        levels: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> Reference:
        """With ranges and levels that reach at least so far, of points that were not all seen.

        >>> reference = Reference.from_table(np.array([[1.0], [2.0], [3.0], [5.0]]))
        >>> wider = reference.reaching({"x0": 0.0}, {"x0": 4.0})
        >>> wider.similarity({"x0": np.array([0.0, -1.0])})[0]
        array([  0., -20.])
        """
        values, below = dict(self.values), dict(self.below)
        for name, old in self.values.items():
            first, last = min(low.get(name, old[0]), old[0]), max(high.get(name, old[-1]), old[-1])
            if first < old[0]:
                values[name] = np.concatenate([[first], values[name]])
                below[name] = np.concatenate([[0.0], below[name]])
            if last > old[-1]:
                values[name] = np.append(values[name], last)
                below[name] = np.append(below[name], 100.0)
        seen = {
            name: tuple(sorted({*old, *(levels or {}).get(name, ())}))
            for name, old in self.levels.items()
        }
        return Reference(self.variables, values, below, seen)

    def quantiles(self, variable: str, percents: Array) -> Array:
        """The smallest values of a continuous variable that so many percent do not exceed.

        >>> reference = Reference.from_table(np.array([[1.0], [2.0], [3.0], [5.0]]))
        >>> reference.quantiles("x0", np.array([5.0, 50.0, 75.0, 95.0]))
        array([1., 2., 3., 5.])
        """
        place = np.searchsorted(self.below[variable], percents, side="left") - 1
        return self.values[variable][np.maximum(place, 0)]

    def similarity(self, values: Mapping[str, Any]) -> tuple[Array, Array]:
        """MESS and the index in ``variables`` of the variable with the smallest similarity.

        ``values`` holds one array per variable, all of one shape; where one is NaN the similarity
        is NaN and the index -1. The first of equally dissimilar variables counts.
        """
        from maxent.features.kernels.scores import lower_similarity

        missing = [name for name in self.variables if name not in values]
        if missing:
            raise ValueError(
                f"no values of {', '.join(missing)}: similarity needs all of "
                f"{', '.join(self.variables)}"
            )
        arrays = [np.asarray(values[name]) for name in self.variables]
        shape = arrays[0].shape
        wrong = [n for n, a in zip(self.variables, arrays, strict=True) if a.shape != shape]
        if wrong:
            raise ValueError(
                f"{wrong[0]} has the shape {np.shape(values[wrong[0]])}, {self.variables[0]} "
                f"{shape}: expected one shape"
            )
        least = np.full(arrays[0].size, np.inf)
        which = np.zeros(arrays[0].size, dtype=np.int32)
        for v, (name, array) in enumerate(zip(self.variables, arrays, strict=True)):
            if name in self.levels:
                _lower_by_levels(array.ravel(), self.levels[name], v, least, which)
                continue
            below = np.append(self.below[name], 100.0)
            lower_similarity(
                _as_float(array.ravel()), self.values[name], below, *self._guides[name], v, least,
                which,
            )  # fmt: skip
        which[np.isnan(least)] = NOWHERE
        return least.reshape(shape), which.reshape(shape)


def _distribution(column: Array) -> tuple[Array, Array]:
    """Distinct values and the percent of points strictly below each, thinned to a table."""
    values, counts = np.unique(column.astype(np.float64), return_counts=True)
    below = 100.0 * np.concatenate([[0], np.cumsum(counts)[:-1]]) / column.size
    if values.size > _TABLE:
        even = np.searchsorted(below, np.linspace(0, 100, _TABLE - 1))
        kept = np.unique(np.minimum(np.append(even, values.size - 1), values.size - 1))
        values, below = values[kept], below[kept]
    return values, below


def _lower_by_levels(
    column: Array, levels: tuple[Any, ...], variable: int, least: Array, which: Array
) -> None:
    codes, lost = codes_of(column, levels)
    similarity = np.where(codes == UNKNOWN, UNSEEN, SEEN)
    similarity[lost] = np.nan
    lower = similarity < least
    which[lower] = variable
    np.minimum(least, similarity, out=least)


def codes_of(column: Array, levels: tuple[Any, ...]) -> tuple[Array, Array]:
    """The place of every entry among sorted levels, ``UNKNOWN`` for others; and which are NaN."""
    from maxent.features.kernels.scores import level_codes

    codes = np.empty(column.size, dtype=np.int32)
    numeric = all(isinstance(level, int | float) for level in levels)
    if numeric and column.dtype.kind in "fiub":
        numbers = _as_float(column)
        level_codes(numbers, np.array(levels, dtype=np.float64), codes)
        return codes, np.isnan(numbers)
    place = {level: code for code, level in enumerate(levels)}
    codes[:] = [place.get(value, UNKNOWN) for value in column.tolist()]
    return codes, np.array([v is None or v != v for v in column.tolist()], dtype=bool)


def _as_float(column: Array) -> Array:
    """In one of the two types that kernels are compiled for, without loss.

    Not to be written to, as values from files are: kernels would be compiled for both.
    """
    numbers = np.ascontiguousarray(column, np.result_type(column.dtype, np.float32)).view()
    numbers.flags.writeable = False
    return numbers
