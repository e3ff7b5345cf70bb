"""Feature operators: families of features of the cells, never a matrix of all of them.

A ``FeatureClass`` is what a user asks for (``Hinge(knots=50)``); fitted to cells it gives an
``Operator``, which holds knots and ranges but no data; bound to cells an operator gives a
``Bound``, its part of the feature map F. An ``OperatorMap`` puts several of them side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxent._support.threads import one_blas_thread, sum_of_parts
from maxent.core.maps import ColumnMap
from maxent.features.cells import Cells, Schema
from maxent.features.tables import ScoreTables
from maxent.features.views import CellsInMemory, CellsView
from maxent.rows.arrays import Array, Rows

_BLOCK = 1024  # cells whose columns are written out at once: they stay in cache
DRAW_AT = 0.618034  # place of a draw in its step: with 1/2 cells of equal mass make ties
HITS = 20  # cells of a feature in a sample below which its curvature is taken from all cells


class FeatureClass(ABC):
    """A kind of feature, before it has seen data."""

    @abstractmethod
    def fit(self, cells: Cells, schema: Schema, presences: Array) -> list[Operator]:
        """The operators for these cells; ``presences`` are the indices of the occupied ones."""


class ViewedClass(FeatureClass):
    """A kind of feature that is fitted to a view of cells, so also to more than memory holds."""

    looks_at: ClassVar[frozenset[str]] = frozenset()  # "values", "products": see TableSummary

    def fit(self, cells: Cells, schema: Schema, presences: Array) -> list[Operator]:
        """The operators for these cells; ``presences`` are the indices of the occupied ones."""
        return self.fit_view(CellsInMemory(cells, schema, presences))

    @abstractmethod
    def fit_view(self, view: CellsView) -> list[Operator]:
        """The operators for cells of which this view is known."""


class Operator(ABC):
    """A fitted family of features, in [0, 1] on the cells of the fit unless ``ranges`` says."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @abstractmethod
    def names(self) -> list[str]:
        """A readable name for each feature."""

    @abstractmethod
    def kinds(self) -> Array:
        """The letter of each feature: l, q, p, t, h, c, k, or that of its family."""

    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each feature on the cells of the fit; 0 and 1 by default."""
        return np.zeros(self.n_features), np.ones(self.n_features)

    @abstractmethod
    def restrict(self, index: Array) -> Operator:
        """The features ``index`` alone."""

    @abstractmethod
    def bind(self, cells: Cells, clamp: bool = False) -> Bound:
        """This operator on given cells; ``clamp`` holds the features within [0, 1]."""

    def matches(self, schema: Schema) -> bool:
        """Whether the columns it was fitted to are those of a schema: kernels trust their number.

        By default yes: an operator that reads columns by number overrides this.
        """
        return True

    def uses_columns(self, names: Sequence[str]) -> Array:
        """(names, features): whether a feature uses the variable of that name.

        By default all of them: what does not say what it looks at may look at anything.
        """
        return np.ones((len(names), self.n_features), dtype=bool)

    def among(self, names: Sequence[str], all_names: Sequence[str], cells: Cells) -> Among | None:
        """What is left where only the variables ``names`` of all may be looked at; or None.

        By default the features that look at no other.
        """
        others = [name for name in all_names if name not in names]
        index = np.flatnonzero(~self.uses_columns(others).any(axis=0))
        return Among(self.restrict(index), index) if index.size else None

    def parts(self) -> list[Operator]:
        """Operators of as many features that add up to these, each of fewer variables.

        What explanations take apart; by default this one alone.
        """
        return [self]

    def join(self, other: Operator) -> Operator | None:
        """Both as one operator, where that makes a faster map; None otherwise."""
        return None

    def compile(self, tables: ScoreTables, w: Array) -> None:
        """Add the weighted features to the tables of a scorer.

        By default the operator itself, to be bound to the cells that are scored; so is a subclass
        of one with tables that overrides ``bind`` alone.
        """
        tables.others.append((self, w))

    def thinned(self, records: Cells, knots: int) -> Array:
        """The index of features that can stand for all: all, where none is nearly another."""
        return np.arange(self.n_features)


@dataclass(frozen=True, eq=False)
class Among:
    """Features of fewer variables, and which feature of before each was; -1 for a new one."""

    operator: Operator
    index: Array


def narrowed(block: Array, width: int) -> Array:
    """Room for rows of this width at the front of a block: whole in memory, as kernels know it."""
    return block.reshape(-1)[: len(block) * width].reshape(len(block), width)


class Bound(ABC):
    """An operator on given cells. Its rows stay with it; it sees weights, scores and masses."""

    n_features: int

    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each feature; 0 and 1 by default."""
        return np.zeros(self.n_features), np.ones(self.n_features)

    @abstractmethod
    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += sum_j w_j f_j, in place."""

    @abstractmethod
    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i) for every feature."""

    @abstractmethod
    def squares(self, p: Array) -> Array:
        """sum_i p_i f_j(i)^2 for every feature."""

    @abstractmethod
    def restrict(self, index: Array) -> Bound:
        """The features ``index`` on the same cells."""

    @abstractmethod
    def take(self, cells: Array) -> Bound:
        """The same features on some of the cells."""

    @abstractmethod
    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """out[j, i] = root_i f_j(i) for the cells from ``start`` to ``stop``."""

    def priority(self, violation: Array) -> Array:
        """How much each feature would add to a working set, from its violation.

        Features that are nearly copies of one another should not all rank high.
        """
        return violation


class FeatureRows(Bound):
    """Features as rows of numbers: for a few features, or few cells."""

    def __init__(self, rows: Array) -> None:
        self.rows, self.n_features = rows, len(rows)

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += sum_j w_j f_j."""
        theta += w @ self.rows

    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i)."""
        return np.asarray(self.rows @ p)

    def squares(self, p: Array) -> Array:
        """sum_i p_i f_j(i)^2."""
        return np.asarray(self.rows**2 @ p)

    def restrict(self, index: Array) -> FeatureRows:
        """Some of the features."""
        return FeatureRows(self.rows[index])

    def take(self, cells: Array) -> FeatureRows:
        """The same features on some of the cells."""
        return FeatureRows(self.rows[:, cells])

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """out[j, i] = root_i f_j(i)."""
        out[:] = self.rows[:, start:stop] * root[start:stop]


class OperatorMap(ColumnMap):
    """Operators side by side on the cells of one row, as a feature map.

    ``scores`` and ``moments`` cost O(cells x variables) however many features there are. Columns
    are written out in blocks of cells, for the Gram matrix of a working set alone.

    Parameters
    ----------
    parts : sequence of bound operators
        The operators, bound to the cells.
    n_cells : int
        Number of cells.

    Examples
    --------
    >>> from maxent.features import Linear, Schema, bind, fit_operators
    >>> X = np.array([[1.0], [2.0], [5.0]])
    >>> bind(fit_operators([Linear()], X), Schema.from_table(X).read(X)).scores(np.array([2.0]))
    array([0. , 0.5, 2. ])
    """

    cheap_moments: ClassVar[bool] = True

    def __init__(self, parts: Sequence[Bound], n_cells: int) -> None:
        self.parts = list(parts)
        self.n_cells = n_cells
        self._cuts = np.cumsum([0, *(part.n_features for part in self.parts)])
        self.n_features = int(self._cuts[-1])

    def __repr__(self) -> str:
        return f"OperatorMap({self.n_cells} cells, {self.n_features} features)"

    def _slices(self) -> list[tuple[Bound, slice]]:
        cuts = self._cuts
        return [(p, slice(cuts[i], cuts[i + 1])) for i, p in enumerate(self.parts)]

    def scores(self, w: Array) -> Array:
        """`sum_j w_j f_j` at every cell."""
        theta = np.zeros(self.n_cells)
        for part, where in self._slices():
            if w[where].any():
                part.add_scores(w[where], theta)
        return theta

    def moments(self, p: Rows) -> Array:
        """`sum_i p_i f_j(i)`."""
        return self._gathered("moments", p)

    def squares(self, p: Rows) -> Array:
        """`sum_i p_i f_j(i)^2`."""
        return self._gathered("squares", p)

    def _gathered(self, method: str, p: Rows) -> Array:
        p = np.ascontiguousarray(p, dtype=np.float64)
        out = np.empty(self.n_features)
        for part, where in self._slices():
            out[where] = getattr(part, method)(p)
        return out

    def ranges(self) -> tuple[Array, Array]:
        """0 and 1, unless an operator says otherwise."""
        low, high = np.zeros(self.n_features), np.ones(self.n_features)
        for part, where in self._slices():
            low[where], high[where] = part.ranges()
        return low, high

    def restrict(self, index: Array) -> OperatorMap:
        """The features ``index`` (increasing), still as operators."""
        parts = []
        for part, where in self._slices():
            chosen = index[(index >= where.start) & (index < where.stop)] - where.start
            if chosen.size:
                parts.append(part.restrict(chosen))
        return type(self)(parts, self.n_cells)

    def candidates(self, violation: Array, count: int) -> Array:
        """The worst violators, as far as they are no copies of one another."""
        return super().candidates(self.priority(violation), count)

    def priority(self, violation: Array) -> Array:
        """How much each feature would add to a working set; see ``Bound.priority``."""
        parts = [part.priority(violation[where]) for part, where in self._slices()]
        return np.concatenate(parts)

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """C'(diag(d) - u u')C, the columns C written out a block of cells at a time.

        With ``every`` > 1 from a share of the cells, drawn systematically in proportion to d: the
        few cells that hold most of a density count, wherever they are.
        """
        diagonal = np.asarray(diagonal, dtype=np.float64)
        if every == 1 or (diagonal < 0).any():
            return self._gram(diagonal, spike)
        below = np.cumsum(diagonal)
        count = self.n_cells // every
        drawn = np.searchsorted(below, below[-1] * (np.arange(count) + DRAW_AT) / count)
        share = np.full(count, below[-1] / count)
        part = OperatorMap([bound.take(drawn) for bound in self.parts], count)
        gram = part._gram(share, None if spike is None else share * spike[drawn] / diagonal[drawn])
        # a feature of rare cells may have no curvature in the sample, and its step no end
        rare = np.flatnonzero(part.moments(share) * count < HITS * below[-1])
        rare = rare[self.ranges()[0][rare] >= 0]  # features of both signs are of all cells
        if rare.size:
            few = self.restrict(rare)
            exact = few.squares(diagonal)
            exact -= 0.0 if spike is None else few.moments(spike) ** 2
            gram[rare] = gram[:, rare] = 0.0
            gram[rare, rare] = np.maximum(exact, 0.0)
        return gram

    def _gram(self, diagonal: Array, spike: Array | None) -> Array:
        total = self.weighted_sums(diagonal, spike)
        return total[:, :-1] - np.outer(total[:, -1], total[:, -1])

    def weighted_sums(self, diagonal: Array, spike: Array | None) -> Array:
        """C' diag(d) C with C'u as its last column."""
        signed = bool((diagonal < 0).any())
        root = np.ones_like(diagonal) if signed else np.sqrt(diagonal)
        edge = np.zeros_like(root)
        if spike is not None:
            np.divide(spike, root, out=edge, where=root > 0)
        starts = range(0, self.n_cells, _BLOCK)

        def part(first: int, last: int) -> Array:
            total = np.zeros((self.n_features, self.n_features + 1))
            block = np.empty((self.n_features, _BLOCK))
            for start in starts[first:last]:
                stop = min(start + _BLOCK, self.n_cells)
                columns = self._write(root, start, stop, block)
                right = columns * diagonal[start:stop] if signed else columns
                total[:, :-1] += columns @ right.T
                total[:, -1] += columns @ edge[start:stop]
            return total

        with one_blas_thread():
            return sum_of_parts(part, len(starts), _BLOCK * self.n_features**2 // 64)

    def _write(self, root: Array, start: int, stop: int, block: Array) -> Array:
        columns = narrowed(block, stop - start)
        for part, where in self._slices():
            part.write(root, start, stop, columns[where])
        return columns

    def columns(self, start: int = 0, stop: int | None = None) -> Array:
        """The features of some cells as a matrix (cells, features): for checks and small maps."""
        stop = self.n_cells if stop is None else stop
        block = np.empty((self.n_features, stop - start))
        return self._write(np.ones(self.n_cells), start, stop, block).T


def joined(operators: Sequence[Operator]) -> list[Operator]:
    """Operators with those that can share a pass over the cells made one."""
    kept: list[Operator] = []
    for operator in operators:
        for i, earlier in enumerate(kept):
            both = earlier.join(operator)
            if both is not None:
                kept[i] = both
                break
        else:
            kept.append(operator)
    return kept


def part_of(operators: Sequence[Operator], index: Array) -> list[Operator]:
    """Each operator that holds some of the features ``index``, cut down to them."""
    parts, start = [], 0
    for operator in operators:
        mine = index[(index >= start) & (index < start + operator.n_features)]
        if mine.size:
            parts.append(operator.restrict(mine - start))
        start += operator.n_features
    return parts


def with_weights(operators: Sequence[Operator], w: Array) -> Iterator[tuple[Operator, Array]]:
    """Each operator with the weights of its features."""
    start = 0
    for operator in operators:
        yield operator, w[start : start + operator.n_features]
        start += operator.n_features


def variables_used(operators: Sequence[Operator], names: Sequence[str]) -> Array:
    """(names, features): whether a feature of the operators uses the variable of that name."""
    none = np.zeros((len(names), 0), dtype=bool)
    return np.concatenate([none, *(operator.uses_columns(names) for operator in operators)], axis=1)


def incidence(
    names: Sequence[str], variables: Sequence[str], variable: Array, cuts: Array | None = None
) -> Array:
    """``Operator.uses_columns`` of features that use ``variables[v]``, v in ``variable``.

    Feature j has the entries from cuts[j] to cuts[j + 1]; one entry each without cuts.
    """
    place = {name: i for i, name in enumerate(names)}
    row = np.array([place.get(name, len(names)) for name in variables], dtype=np.intp)[variable]
    feature = np.arange(variable.size)
    if cuts is not None:
        feature = np.repeat(np.arange(cuts.size - 1), np.diff(cuts))
    count = variable.size if cuts is None else cuts.size - 1
    used = np.zeros((len(names) + 1, count), dtype=bool)  # the last row: none of the names
    used[row, feature] = True
    return used[:-1]


def replaced(thing: Any, **attributes: Any) -> Any:
    """A shallow copy with other attributes."""
    other = copy(thing)
    vars(other).update(attributes)
    return other
