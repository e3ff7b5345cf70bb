"""Scoring: the weighted sum of all features, compiled to flat tables for cells never seen before.

Operators bound to cells are made for fitting: they place every cell among the knots once and use
that at every iteration. A prediction needs each cell once. Here all linear, quadratic, hinge and
threshold terms of a variable are one piecewise-linear table and a bend; a grid of equal bins says
in one step which few knots a value lies among.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxent._rows import Array
from maxent._threads import over_rows
from maxent.features.additive import _FORWARD, _QUADRATIC, Additive
from maxent.features.base import Operator
from maxent.features.categorical import Levels
from maxent.features.cells import Cells
from maxent.features.product import Products

_BINS_PER_KNOT, _MOST_BINS = 64, 1 << 15


class Guide(NamedTuple):
    """Equal bins over a range, and how many of the sorted knots lie before each."""

    begin: float
    per_unit: float
    before: Array

    @classmethod
    def of(cls, knots: Array, low: float, high: float) -> Guide:
        """Bins from ``low`` to ``high``, several a knot; the outermost reach to infinity."""
        from maxent._kernels.score import fill_guide

        bins = min(_BINS_PER_KNOT * max(knots.size, 1), _MOST_BINS)
        with np.errstate(divide="ignore", over="ignore"):
            per_unit = float(np.float64(bins) / (high - low))
        before = np.empty(bins + 1, dtype=np.int32)
        fill_guide(knots, low, per_unit, before)
        return cls(low, per_unit, before)


class _Tables(NamedTuple):
    """What ``_kernels.score.add_scores`` reads, in its order."""

    curve: Array
    numbers: Array
    knot_cuts: Array
    knots: Array
    guide_cuts: Array
    guide: Array
    pieces: Array
    unit: Array
    unit_numbers: Array
    first: Array
    second: Array
    products: Array
    category: Array
    level_cuts: Array
    levels: Array


@dataclass(frozen=True, eq=False)
class Scorer:
    """The score sum_j w_j f_j of a fitted model, at any cells.

    Operators of kinds not known here are bound to the cells and scored by themselves.

    >>> from maxent.features import Hinge, Schema, fit_operators
    >>> X = np.array([[1.0], [2.0], [4.0]])
    >>> operators = fit_operators([Hinge(knots=2)], X)
    >>> scorer = Scorer.of(operators, np.array([2.0, 0.0]), low=X.min(0), high=X.max(0))
    >>> scorer.scores(Schema.of(X).read(np.array([[2.5], [10.0]])))
    array([1., 2.])
    """

    low: Array
    high: Array
    tables: _Tables
    others: tuple[tuple[Operator, Array], ...]

    @classmethod
    def of(cls, operators: Sequence[Operator], weights: Array, low: Array, high: Array) -> Scorer:
        """Compile operators and the weights of their features; variables are clamped to a range."""
        curves: list[_Curve] = []
        products: list[_Pairs] = []
        levels: list[tuple[int, Array]] = []
        others: list[tuple[Operator, Array]] = []
        start = 0
        for operator in operators:
            w = np.asarray(weights[start : start + operator.n_features], dtype=np.float64)
            start += operator.n_features
            # by the very type: a subclass may score in another way
            if type(operator) is Additive:
                curves += _curves(operator, w)
            elif type(operator) is Products:
                products.append(_pairs(operator, w))
            elif type(operator) is Levels:
                levels += _level_weights(operator, w)
            else:
                others.append((operator, w))
        tables = _Tables(*_joined_curves(curves), *_joined_pairs(products), *_joined_levels(levels))
        return cls(np.asarray(low, float), np.asarray(high, float), tables, tuple(others))

    def scores(self, cells: Cells, clamp: bool = True) -> Array:
        """sum_j w_j f_j at every cell; ``clamp`` holds variables and features in their ranges."""
        from maxent._kernels.score import add_scores

        theta = np.zeros(cells.n_cells)
        values, codes = np.ascontiguousarray(cells.values), np.ascontiguousarray(cells.codes)
        low, high = self.limits(values.dtype)
        if not clamp:
            low, high = np.full(low.shape, -np.inf), np.full(high.shape, np.inf)

        def work(start: int, stop: int) -> None:
            add_scores(values, codes, low, high, clamp, *self.tables, start, stop, theta)

        over_rows(work, theta.size, 1 + values.shape[0])
        if self.others:
            clipped = np.clip(values, low[:, None], high[:, None]).astype(values.dtype, copy=False)
            for operator, w in self.others:
                operator.bind(Cells(clipped, codes), clamp).add_scores(w, theta)
        return theta

    def limits(self, dtype: Any) -> tuple[Array, Array]:
        """What variables are clamped to, in the digits that values of this type have."""
        return self.low.astype(dtype).astype(float), self.high.astype(dtype).astype(float)


class _Curve(NamedTuple):
    variable: int
    numbers: Array
    knots: Array
    guide: Array
    pieces: Array


def _curves(operator: Additive, w: Array) -> list[_Curve]:
    from maxent._kernels.cells import curve_tables

    empty = Cells(np.empty((len(operator.variables), 0)), np.empty((0, 0), dtype=np.int32))
    bound = operator.bind(empty)
    curves = []
    for v, where in bound.used:
        low, high, parabola = bound.low[v], bound.high[v], bound.parabola[:, v]
        unit, rest, upper, _ = bound.places[v]
        intercept, slope = np.empty((2, unit.size + 1))
        bend = curve_tables(
            bound.kind[where], bound.position[where], unit, rest, upper, w[where], parabola,
            intercept, slope,
        )  # fmt: skip
        knots = np.unique(bound.knot[where][bound.kind[where] >= _FORWARD])
        guide = Guide.of(knots, low, high)
        scale = 1.0 / (high - low)
        is_upper = np.arange(slope.size) >= upper  # these tables are in high - x
        pieces = np.column_stack(
            [intercept, np.where(is_upper, -scale, scale) * slope, np.where(is_upper, high, low)]
        )
        square = w[where][bound.kind[where] == _QUADRATIC].sum()
        numbers = [low, guide.per_unit, bend * scale * scale, scale, *parabola, square]
        curves.append(_Curve(v, np.array(numbers), knots, guide.before, pieces))
    return curves


class _Pairs(NamedTuple):
    unit: Array
    unit_numbers: Array
    first: Array
    second: Array
    products: Array


def _pairs(operator: Products, w: Array) -> _Pairs:
    empty = Cells(np.empty((len(operator.variables), 0)), np.empty((0, 0), dtype=np.int32))
    bound = operator.bind(empty)
    unit, place = np.unique([operator.first, operator.second], return_inverse=True)
    first, second = place.reshape(2, -1)
    columns = [bound.constant, bound.slope_first, bound.slope_second, bound.pair, w]
    return _Pairs(
        unit,
        np.column_stack([bound.low[unit], bound.scale[unit]]),
        first,
        second,
        np.column_stack(columns),
    )


def _level_weights(operator: Levels, w: Array) -> list[tuple[int, Array]]:
    tables = []
    for v in np.unique(operator.variable):
        mine = operator.variable == v
        table = np.zeros(len(operator.levels[v]))
        table[operator.level[mine]] = w[mine]
        tables.append((int(v), table))
    return tables


def _joined_curves(curves: Sequence[_Curve]) -> tuple[Array, ...]:
    return (
        np.array([c.variable for c in curves], dtype=np.intp),
        np.array([c.numbers for c in curves]).reshape(-1, 8),
        _cuts([c.knots for c in curves]),
        np.concatenate([np.empty(0), *(c.knots for c in curves)]),
        _cuts([c.guide for c in curves]),
        np.concatenate([np.empty(0, dtype=np.int32), *(c.guide for c in curves)]),
        np.concatenate([np.empty((0, 3)), *(c.pieces for c in curves)]),
    )


def _joined_pairs(parts: Sequence[_Pairs]) -> tuple[Array, ...]:
    shift = _cuts([p.unit for p in parts])
    whole = np.empty(0, dtype=np.intp)
    return (
        np.concatenate([whole, *(p.unit for p in parts)]).astype(np.intp),
        np.concatenate([np.empty((0, 2)), *(p.unit_numbers for p in parts)]),
        np.concatenate([whole, *(p.first + s for p, s in zip(parts, shift, strict=False))]),
        np.concatenate([whole, *(p.second + s for p, s in zip(parts, shift, strict=False))]),
        np.concatenate([np.empty((0, 5)), *(p.products for p in parts)]),
    )


def _joined_levels(levels: Sequence[tuple[int, Array]]) -> tuple[Array, ...]:
    return (
        np.array([v for v, _ in levels], dtype=np.intp),
        _cuts([table for _, table in levels]),
        np.concatenate([np.empty(0), *(table for _, table in levels)]),
    )


def _cuts(parts: Sequence[Array]) -> Array:
    """Where each part begins in all of them joined, and the end."""
    return np.cumsum([0, *(part.shape[0] for part in parts)], dtype=np.intp)
