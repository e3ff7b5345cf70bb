"""Indicators of the levels of categorical variables: bincounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import indices
from maxent.features.base import Bound, Operator, ViewedClass, incidence, replaced
from maxent.features.cells import Cells, Schema, check_levels
from maxent.features.tables import ScoreTables
from maxent.features.views import CellsView
from maxent.rows.arrays import Array


@io.register
@dataclass(frozen=True, eq=False)
class Levels(Operator):
    """[x = level], for the levels ``level`` of the categorical variables ``variable``."""

    variables: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    variable: Array
    level: Array

    def __post_init__(self) -> None:
        check_levels(self.variables, self.levels)
        size = np.size(self.level)
        indices("variable", self.variable, size, len(self.variables))
        indices("level", self.level, size, max(map(len, self.levels), default=0))
        known = np.array([len(levels) for levels in self.levels], dtype=np.intp)
        if (self.level >= known[self.variable]).any():
            raise ValueError("every level must be one of its variable")

    @property
    def n_features(self) -> int:
        """Number of indicators."""
        return int(self.level.size)

    def names(self) -> list[str]:
        """x=level."""
        pairs = zip(self.variable, self.level, strict=True)
        return [f"{self.variables[v]}={self.levels[v][code]}" for v, code in pairs]

    def kinds(self) -> Array:
        """c."""
        return np.full(self.n_features, "c")

    def matches(self, schema: Schema) -> bool:
        """The categorical columns, with the same levels."""
        return (self.variables, self.levels) == (schema.categorical, schema.levels)

    def uses_columns(self, names: Sequence[str]) -> Array:
        """The variable of each level."""
        return incidence(names, self.variables, self.variable)

    def restrict(self, index: Array) -> Levels:
        """Some of the indicators."""
        return replace(self, variable=self.variable[index], level=self.level[index])

    def bind(self, cells: Cells, clamp: bool = False) -> BoundLevels:
        """The indicators on given cells."""
        return BoundLevels(self, cells)

    def compile(self, tables: ScoreTables, w: Array) -> None:
        """A weight for every level of every variable."""
        sizes = [len(levels) for levels in self.levels]
        tables.levels += _level_weights(self.variable, self.level, sizes, w)


def _level_weights(
    variable: Array, level: Array, sizes: Sequence[int], w: Array
) -> list[tuple[int, Array]]:
    """The variables in use, each with the weight of every level."""
    tables = []
    for v in np.unique(variable):
        mine = variable == v
        table = np.zeros(sizes[v])
        table[level[mine]] = w[mine]
        tables.append((int(v), table))
    return tables


class BoundLevels(Bound):
    """Indicators on given cells."""

    def __init__(self, operator: Levels, cells: Cells) -> None:
        self.codes = cells.codes
        self.sizes = [len(levels) for levels in operator.levels]
        self.variable, self.level = operator.variable, operator.level
        self.n_features = operator.n_features

    def restrict(self, index: Array) -> BoundLevels:
        """Some of the indicators on the same cells."""
        return replaced(
            self, n_features=index.size, variable=self.variable[index], level=self.level[index]
        )

    def take(self, cells: Array) -> BoundLevels:
        """The same indicators on some of the cells."""
        return replaced(self, codes=np.ascontiguousarray(self.codes[:, cells]))

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += the weight of each cell's level."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import add_levels

        add = exact(add_levels, theta.size)
        for v, table in _level_weights(self.variable, self.level, self.sizes, w):
            add(self.codes[v], table, theta)

    def moments(self, p: Array) -> Array:
        """The mass of each level."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import sum_levels

        add, out = exact(sum_levels, p.size), np.empty(self.n_features)
        for v in np.unique(self.variable):
            mine = self.variable == v
            mass = np.zeros(self.sizes[v])
            add(self.codes[v], p, mass)
            out[mine] = mass[self.level[mine]]
        return out

    squares = moments  # an indicator is its own square

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row per indicator."""
        for row, (v, level) in enumerate(zip(self.variable, self.level, strict=True)):
            out[row] = np.where(self.codes[v, start:stop] == level, root[start:stop], 0.0)


@io.register
@dataclass(frozen=True)
class Categorical(ViewedClass):
    """`f = [x = level]`, one indicator per level.

    Parameters
    ----------
    occupied : bool, default False
        Whether only levels with a presence have one (the jar's rule), so that a level nobody has
        looked at is not declared unsuitable.

    Examples
    --------
    >>> from maxent.features import fit_operators
    >>> fit_operators([Categorical()], [["a"], ["b"], ["b"]])[0].names()
    ['x0=a', 'x0=b']
    """

    occupied: bool = False

    def fit_view(self, view: CellsView) -> list[Operator]:
        """Levels of every categorical variable that is not constant."""
        schema = view.schema
        variable, level = [], []
        for v, levels in enumerate(schema.levels):
            if len(levels) < 2:
                continue
            seen = view.occupied(v)
            for code in range(len(levels)):
                if seen[code] or not self.occupied:
                    variable.append(v)
                    level.append(code)
        if not level:
            return []
        return [
            Levels(
                schema.categorical,
                schema.levels,
                np.array(variable, dtype=np.int32),
                np.array(level, dtype=np.int32),
            )
        ]
