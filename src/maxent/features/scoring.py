"""Scoring: the weighted sum of all features, compiled to flat tables for cells never seen before.

Operators bound to cells are made for fitting: they place every cell among the knots once and use
that at every iteration. A prediction needs each cell once. Here all linear, quadratic, hinge and
threshold terms of a variable are one piecewise-linear table and a bend; a grid of equal bins says
in one step which few knots a value lies among.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent._support.threads import over_rows
from maxent.features.base import Operator, with_weights
from maxent.features.cells import Cells
from maxent.features.tables import KernelTables, ScoreTables
from maxent.rows.arrays import Array

_FEW = 1_000_000  # values


@dataclass(frozen=True, eq=False)
class Scorer:
    """The score sum_j w_j f_j of a fitted model, at any cells.

    Operators that compile to no tables are bound to the cells and scored by themselves.

    >>> from maxent.features import Hinge, Schema, fit_operators
    >>> X = np.array([[1.0], [2.0], [4.0]])
    >>> operators = fit_operators([Hinge(knots=2)], X)
    >>> scorer = Scorer.from_operators(operators, np.array([2.0, 0.0]), low=X.min(0), high=X.max(0))
    >>> scorer.scores(Schema.from_table(X).read(np.array([[2.5], [10.0]])))
    array([1., 2.])
    """

    low: Array
    high: Array
    tables: KernelTables
    others: tuple[tuple[Operator, Array], ...]

    @classmethod
    def from_operators(
        cls, operators: Sequence[Operator], weights: Array, low: Array, high: Array
    ) -> Scorer:
        """Compile operators and the weights of their features; variables are clamped to a range."""
        tables = ScoreTables()
        for operator, w in with_weights(operators, np.asarray(weights, dtype=np.float64)):
            if _defines(operator, "compile") <= _defines(operator, "bind"):
                operator.compile(tables, w)
            else:  # the tables would be those of another way to bind
                Operator.compile(operator, tables, w)
        ends = np.asarray(low, float), np.asarray(high, float)
        return cls(*ends, tables.joined(), tuple(tables.others))

    def scores(self, cells: Cells, clamp: bool = True) -> Array:
        """sum_j w_j f_j at every cell; ``clamp`` holds variables and features in their ranges."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.scores import add_scores

        theta = np.zeros(cells.n_cells)
        values, codes = np.ascontiguousarray(cells.values), np.ascontiguousarray(cells.codes)
        low, high = self.limits(values.dtype)
        # the kernel counts in float64 anyway: few cells do without a version of their own
        read = values.astype(np.float64, copy=False) if values.size <= _FEW else values
        if not clamp:
            low, high = np.full(low.shape, -np.inf), np.full(high.shape, np.inf)

        parts = self.tables.curve.size + self.tables.unit.size + self.tables.first.size
        add = exact(add_scores, 4 * theta.size * (1 + parts))

        def work(start: int, stop: int) -> None:
            add(read, codes, low, high, clamp, *self.tables, start, stop, theta)

        over_rows(work, theta.size, 1 + values.shape[0])
        if self.others:
            clipped = np.clip(values, low[:, None], high[:, None]).astype(values.dtype, copy=False)
            for operator, w in self.others:
                operator.bind(Cells(clipped, codes), clamp).add_scores(w, theta)
        return theta

    def limits(self, dtype: Any) -> tuple[Array, Array]:
        """What variables are clamped to, in the digits that values of this type have."""
        return self.low.astype(dtype).astype(float), self.high.astype(dtype).astype(float)


def _defines(operator: Operator, name: str) -> int:
    """How far up the class is that defines a method."""
    return next(i for i, cls in enumerate(type(operator).__mro__) if name in vars(cls))
