"""Products of two variables: one weighted Gram matrix gives all their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from maxent import io
from maxent._support.checks import floats, indices
from maxent._support.compiling import switches
from maxent._support.threads import over_rows, sum_of_parts
from maxent.features.base import Bound, Operator, ViewedClass, incidence, narrowed, replaced
from maxent.features.cells import Cells, Schema, column_units, in_units
from maxent.features.tables import Pairs, ScoreTables
from maxent.features.views import CellsView
from maxent.rows.arrays import Array

_FEW = 20_000  # products, over the cells, that are multiplied before a kernel is loaded
_BLOCK = 2048  # cells whose variables stay in cache


@io.register
@dataclass(frozen=True, eq=False)
class Products(Operator):
    """x_i x_j scaled to [0, 1] over the cells of the fit.

    ``least`` and ``most`` are those of each product, of variables in their ``column_units``.
    """

    variables: tuple[str, ...]
    low: Array
    high: Array
    first: Array
    second: Array
    least: Array
    most: Array

    def __post_init__(self) -> None:
        count, size = len(self.variables), np.size(self.first)
        for name in ("first", "second"):
            indices(name, getattr(self, name), size, count)
        for name, length in (("low", count), ("high", count), ("least", size), ("most", size)):
            floats(name, getattr(self, name), length)

    @property
    def n_features(self) -> int:
        """Number of pairs."""
        return int(self.first.size)

    def names(self) -> list[str]:
        """x*y."""
        pairs = zip(self.first, self.second, strict=True)
        return [f"{self.variables[i]}*{self.variables[j]}" for i, j in pairs]

    def kinds(self) -> Array:
        """p."""
        return np.full(self.n_features, "p")

    def matches(self, schema: Schema) -> bool:
        """The continuous columns."""
        return self.variables == schema.continuous

    def uses_columns(self, names: Sequence[str]) -> Array:
        """Both factors."""
        both = (incidence(names, self.variables, part) for part in (self.first, self.second))
        return np.logical_or(*both)

    def restrict(self, index: Array) -> Products:
        """Some of the pairs."""
        names = ("first", "second", "least", "most")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def bind(self, cells: Cells, clamp: bool = False) -> BoundProducts:
        """The products on given cells."""
        return BoundProducts(self, cells, clamp)

    def compile(self, tables: ScoreTables, w: Array) -> None:
        """Four coefficients in the scaled variables for every pair."""
        empty = Cells(np.empty((len(self.variables), 0)), np.empty((0, 0), dtype=np.int32))
        bound = self.bind(empty)
        unit, place = np.unique([self.first, self.second], return_inverse=True)
        first, second = place.reshape(2, -1)
        scaling = np.column_stack([self.low[unit], bound.scale[unit] / bound.unit[unit]])
        columns = [bound.constant, bound.slope_first, bound.slope_second, bound.pair, w]
        tables.pairs.append(Pairs(unit, scaling, first, second, np.column_stack(columns)))


class BoundProducts(Bound):
    """Products on given cells, as c0 + ci u_i + cj u_j + cij u_i u_j in scaled variables u."""

    def __init__(self, operator: Products, cells: Cells, clamp: bool) -> None:
        self.unit = column_units(operator.low, operator.high)
        self.values, self.clamp = in_units(cells.values, self.unit), clamp
        self.n_features = operator.n_features
        self.first, self.second = operator.first, operator.second
        self.low, high = operator.low / self.unit, operator.high / self.unit
        self.scale = 1 / np.where(high > self.low, high - self.low, 1.0)
        i, j = self.first, self.second
        width = operator.most - operator.least
        inverse = 1 / np.where(width > 0, width, 1.0)
        self.constant = (self.low[i] * self.low[j] - operator.least) * inverse
        self.slope_first = self.low[j] / self.scale[i] * inverse
        self.slope_second = self.low[i] / self.scale[j] * inverse
        self.pair = inverse / (self.scale[i] * self.scale[j])

    _PER_PAIR = ("first", "second", "constant", "slope_first", "slope_second", "pair")

    def restrict(self, index: Array) -> BoundProducts:
        """Some of the pairs on the same cells."""
        chosen = {name: getattr(self, name)[index] for name in self._PER_PAIR}
        return replaced(self, n_features=index.size, **chosen)

    def take(self, cells: Array) -> BoundProducts:
        """The same products on some of the cells."""
        return replaced(self, values=np.ascontiguousarray(self.values[:, cells]))

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += the weighted products; a clamped one is written out first."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import add_products

        if self.clamp:
            block = np.empty((self.n_features, _BLOCK))
            ones = np.ones(theta.size)
            for start in range(0, theta.size, _BLOCK):
                stop = min(start + _BLOCK, theta.size)
                columns = narrowed(block, stop - start)
                self.write(ones, start, stop, columns)
                theta[start:stop] += w @ columns
            return
        edge = np.zeros(self.values.shape[0])
        np.add.at(edge, self.first, w * self.slope_first)
        np.add.at(edge, self.second, w * self.slope_second)
        theta += w @ self.constant

        add = exact(add_products, self.n_features * theta.size)

        def work(start: int, stop: int) -> None:
            for begin in range(start, stop, _BLOCK):
                add(
                    self.values, self.first, self.second, self.low, self.scale, w * self.pair,
                    edge, theta, begin, min(begin + _BLOCK, stop),
                )  # fmt: skip

        over_rows(work, theta.size, self.n_features // 24 + 1)

    def moments(self, p: Array) -> Array:
        """Sums of p u_i and p u_i u_j, u the scaled variables: a weighted Gram matrix."""
        ends, total = self.values.shape[0], self._sums(p)
        return (
            self.constant * p.sum()
            + self.slope_first * total[self.first]
            + self.slope_second * total[self.second]
            + self.pair * total[ends:]
        )

    def _sums(self, p: Array) -> Array:
        """Sums of p u_i of every variable, then of p u_i u_j of every pair."""
        if switches.spare_small_problems and self.n_features * p.size <= _FEW:
            u = (self.values - self.low[:, None]) * self.scale[:, None]
            return np.concatenate([u @ p, (u[self.first] * u[self.second]) @ p])
        from maxent.features.kernels.cells import product_moments

        ends = self.values.shape[0]

        def part(first: int, last: int) -> Array:
            total = np.zeros(ends + self.n_features)
            for start in range(first, last, _BLOCK):
                product_moments(
                    self.values, self.first, self.second, self.low, self.scale, p, start,
                    min(start + _BLOCK, last), total[:ends], total[ends:],
                )  # fmt: skip
            return total

        return sum_of_parts(part, p.size, self.n_features // 24 + 1)

    def squares(self, p: Array) -> Array:
        """Written out in blocks of the cells with mass: asked for presences alone."""
        total = np.zeros(self.n_features)
        cells = np.flatnonzero(p)
        part = self.take(cells)
        root = np.sqrt(p[cells])
        block = np.empty((self.n_features, _BLOCK))
        for start in range(0, cells.size, _BLOCK):
            stop = min(start + _BLOCK, cells.size)
            columns = narrowed(block, stop - start)
            part.write(root, start, stop, columns)
            total += (columns**2).sum(axis=1)
        return total

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row per pair."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import write_products

        exact(write_products, 2 * self.n_features * (stop - start))(
            self.values, self.first, self.second, self.low, self.scale, self.constant,
            self.slope_first, self.slope_second, self.pair, root, start, stop, self.clamp, out,
        )  # fmt: skip


@io.register
@dataclass(frozen=True)
class Interaction(ViewedClass):
    """`f = x_i x_j` scaled to [0, 1], for `i < j`: with Linear and Square, covariances match.

    >>> from maxent.features import fit_operators
    >>> [o.names() for o in fit_operators([Interaction()], [[1.0, 2.0], [2.0, 3.0], [4.0, 1.0]])]
    [['x0*x1']]
    """

    looks_at = frozenset({"products"})

    def fit_view(self, view: CellsView) -> list[Operator]:
        """Every pair of continuous variables whose product is not constant."""
        low, high = view.ranges
        varying = np.flatnonzero(high > low)
        first, second = (varying[part] for part in np.triu_indices(varying.size, 1))
        ranges = view.product_ranges(first, second)
        keep = ranges[1] > ranges[0]
        if not keep.any():
            return []
        return [
            Products(
                view.schema.continuous,
                low,
                high,
                first[keep].astype(np.int32),
                second[keep].astype(np.int32),
                ranges[0, keep],
                ranges[1, keep],
            )
        ]
