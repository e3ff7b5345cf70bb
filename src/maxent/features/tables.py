"""The flat tables that a scorer reads, filled by each operator with its own features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.features.base import Operator

_BINS_PER_KNOT, _MOST_BINS = 64, 1 << 15


class KernelTables(NamedTuple):
    """What ``kernels.scores.add_scores`` reads, in its order."""

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


class Guide(NamedTuple):
    """Equal bins over a range, and how many of the sorted knots lie before each."""

    begin: float
    per_unit: float
    before: Array

    @classmethod
    def from_knots(cls, knots: Array, low: float, high: float) -> Guide:
        """Bins from ``low`` to ``high``, several per knot; the outermost reach to infinity."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.scores import fill_guide

        bins = min(_BINS_PER_KNOT * max(knots.size, 1), _MOST_BINS)
        with np.errstate(divide="ignore", over="ignore"):
            per_unit = float(np.float64(bins) / (high - low))
        before = np.empty(bins + 1, dtype=np.int32)
        exact(fill_guide, bins)(knots, low, per_unit, before)
        return cls(low, per_unit, before)


class Curve(NamedTuple):
    """A function of one variable: a linear piece between every two knots, and a bend.

    ``numbers``: low, bins per unit, bend of the scaled variable, 1 / range, the three coefficients
    of the scaled square and its weight. ``pieces`` (knots + 1, 3): value, slope and where the
    slope is measured from.
    """

    variable: int
    numbers: Array
    knots: Array
    guide: Array
    pieces: Array


class Pairs(NamedTuple):
    """Products in scaled variables: which ones, and c0, ci, cj, cij and weight of each pair."""

    unit: Array
    unit_numbers: Array
    first: Array
    second: Array
    products: Array


class ScoreTables:
    """Collects what operators compile to; operators without tables are kept as they are."""

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.pairs: list[Pairs] = []
        self.levels: list[tuple[int, Array]] = []  # a variable and the weight of each level
        self.others: list[tuple[Operator, Array]] = []

    def joined(self) -> KernelTables:
        """Everything of one kind end to end."""
        return KernelTables(*self._curves(), *self._pairs(), *self._levels())

    def _curves(self) -> tuple[Array, ...]:
        curves = self.curves
        return (
            np.array([c.variable for c in curves], dtype=np.intp),
            np.array([c.numbers for c in curves]).reshape(-1, 8),
            _cuts([c.knots for c in curves]),
            np.concatenate([np.empty(0), *(c.knots for c in curves)]),
            _cuts([c.guide for c in curves]),
            np.concatenate([np.empty(0, dtype=np.int32), *(c.guide for c in curves)]),
            np.concatenate([np.empty((0, 3)), *(c.pieces for c in curves)]),
        )

    def _pairs(self) -> tuple[Array, ...]:
        parts = self.pairs
        shift = _cuts([p.unit for p in parts])
        whole = np.empty(0, dtype=np.intp)
        return (
            np.concatenate([whole, *(p.unit for p in parts)]).astype(np.intp),
            np.concatenate([np.empty((0, 2)), *(p.unit_numbers for p in parts)]),
            np.concatenate([whole, *(p.first + s for p, s in zip(parts, shift, strict=False))]),
            np.concatenate([whole, *(p.second + s for p, s in zip(parts, shift, strict=False))]),
            np.concatenate([np.empty((0, 5)), *(p.products for p in parts)]),
        )

    def _levels(self) -> tuple[Array, ...]:
        return (
            np.array([v for v, _ in self.levels], dtype=np.intp),
            _cuts([table for _, table in self.levels]),
            np.concatenate([np.empty(0), *(table for _, table in self.levels)]),
        )


def _cuts(parts: Sequence[Array]) -> Array:
    """Where each part begins in all of them joined, and the end."""
    return np.cumsum([0, *(part.shape[0] for part in parts)], dtype=np.intp)
