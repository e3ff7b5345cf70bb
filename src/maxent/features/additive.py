"""Features of one variable at a time: linear, quadratic, hinge and threshold, in one operator.

Together they are a curve, piecewise linear plus a parabola. With each cell's place among the knots
known, the curve is a table look-up and the means of all its features are one histogram and
cumulative sums, O(cells + knots) per variable, so that the whole continuum of thresholds and hinges
costs about what one linear feature costs (density paper §8; the jar sorts for the same end).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import floats, indices
from maxent._support.threads import over_rows
from maxent.features.base import Bound, Operator, ViewedClass, incidence, replaced
from maxent.features.cells import Cells, Schema, column_units, in_units
from maxent.features.tables import Curve, Guide, ScoreTables
from maxent.features.views import CellsView
from maxent.rows.arrays import Array

LINEAR, QUADRATIC, FORWARD, REVERSE, THRESHOLD = range(5)  # as in kernels.cells
_LETTERS = np.array(["l", "q", "h", "h", "t"])
_NOISE = 1e-10  # values closer than this share of the range are one value
MAX_KNOTS = 2**16 - 1  # a variable's at most: a cell's place among them fits two bytes
_FEW_CELLS = 100_000


@io.register
@dataclass(frozen=True, eq=False)
class Additive(Operator):
    """Curves of single variables.

    ``low`` and ``high`` (one per variable) scale to [0, 1], ``square_low`` and ``square_high`` do
    so for the squares (of the variable in its ``column_units``, 1 unless it is huge or tiny);
    ``variable``, ``kind`` and ``knot`` (in units of the variable) have one entry per feature,
    sorted by variable, kind and knot.
    """

    variables: tuple[str, ...]
    low: Array
    high: Array
    square_low: Array
    square_high: Array
    variable: Array
    kind: Array
    knot: Array

    def __post_init__(self) -> None:
        for name in ("low", "high", "square_low", "square_high"):
            floats(name, getattr(self, name), len(self.variables))
        size = np.size(self.kind)
        indices("kind", self.kind, size, len(_LETTERS))
        indices("variable", self.variable, size, len(self.variables))
        if (np.diff(self.variable) < 0).any():  # the knots of one variable are one slice
            raise ValueError("the features must be sorted by variable")
        floats("knot", self.knot, size, missing=True)
        if np.isnan(self.knot[self.kind >= FORWARD]).any():
            raise ValueError("hinges and thresholds need a knot, got NaN")

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.kind.size)

    def names(self) -> list[str]:
        """x, x^2, hinge(x>t), hinge(x<t) and (x>t)."""
        patterns = ("{0}", "{0}^2", "hinge({0}>{1:.10g})", "hinge({0}<{1:.10g})", "({0}>{1:.10g})")
        return [
            patterns[k].format(self.variables[v], t)
            for v, k, t in zip(self.variable, self.kind, self.knot, strict=True)
        ]

    def kinds(self) -> Array:
        """l, q, h or t."""
        return _LETTERS[self.kind]

    def matches(self, schema: Schema) -> bool:
        """The continuous columns."""
        return self.variables == schema.continuous

    def uses_columns(self, names: Sequence[str]) -> Array:
        """The variable of each curve."""
        return incidence(names, self.variables, self.variable)

    def restrict(self, index: Array) -> Additive:
        """Some of the features."""
        return replace(
            self, variable=self.variable[index], kind=self.kind[index], knot=self.knot[index]
        )

    def join(self, other: Operator) -> Additive | None:
        """Two sets of curves over the same variables."""
        if not isinstance(other, Additive) or self.variables != other.variables:
            return None
        variable = np.concatenate([self.variable, other.variable])
        kind = np.concatenate([self.kind, other.kind])
        knot = np.concatenate([self.knot, other.knot])
        order = np.lexsort((knot, kind, variable))
        return replace(self, variable=variable[order], kind=kind[order], knot=knot[order])

    def bind(self, cells: Cells, clamp: bool = False) -> BoundCurves:
        """The place of every cell among the knots."""
        return BoundCurves(self, cells, clamp)

    def compile(self, tables: ScoreTables, w: Array) -> None:
        """A table of linear pieces for every variable."""
        empty = Cells(np.empty((len(self.variables), 0)), np.empty((0, 0), dtype=np.int32))
        tables.curves += self.bind(empty).curves(w)

    def thinned(self, records: Cells, knots: int) -> Array:
        """Of each curve that many, even in rank, and those on both sides of every record."""
        other = (np.diff(self.variable) != 0) | (np.diff(self.kind) != 0)
        edges = [0, *(np.flatnonzero(other) + 1).tolist(), self.n_features]
        chosen = [np.empty(0, dtype=np.intp)]
        for first, end in pairwise(edges):
            even = np.linspace(0, end - first - 1, min(knots, end - first)).astype(np.intp)
            values = records.values[self.variable[first]]
            above = np.searchsorted(self.knot[first:end], values)
            near = np.concatenate([above - 1, above]).clip(0, end - first - 1)
            chosen.append(first + np.concatenate([even, near]))
        return np.unique(np.concatenate(chosen))


class _Places(NamedTuple):
    """The knots of a variable in [0, 1], 1 less them, the first upper bin, and every cell's bin."""

    knots: Array
    rest: Array
    upper: int
    codes: Array


class BoundCurves(Bound):
    """Curves on given cells."""

    def __init__(self, operator: Additive, cells: Cells, clamp: bool) -> None:
        self.unit = column_units(operator.low, operator.high)
        self.values, self.clamp = in_units(cells.values, self.unit), clamp
        self.low, high = operator.low / self.unit, operator.high / self.unit
        self.high = np.where(high > self.low, high, self.low + 1.0)
        size = self.high - self.low
        width = operator.square_high - operator.square_low
        inverse = 1 / np.where(width > 0, width, 1.0)
        # the scaled square is c0 + c1 u + c2 u^2 in the scaled variable u
        self.parabola = np.array(
            [
                (self.low**2 - operator.square_low) * inverse,
                2 * self.low * size * inverse,
                size**2 * inverse,
            ]
        )
        self.variable, self.kind = operator.variable, operator.kind
        self.knot = operator.knot / self.unit[self.variable]
        self.n_features = operator.n_features
        self.position = np.zeros(self.n_features, dtype=np.int32)
        self.places: dict[int, _Places] = {}
        self.used = used = _by_variable(self.variable)

        def encode(first: int, last: int) -> None:
            for v, where in used[first:last]:
                self._encode(v, where)

        over_rows(encode, len(used), 16 * cells.n_cells)

    def _encode(self, v: int, where: slice) -> None:
        has_knot = self.kind[where] >= FORWARD
        knots, place = np.unique(self.knot[where][has_knot], return_inverse=True)
        self.position[where][has_knot] = place
        low, high = self.low[v], self.high[v]
        unit, rest = (knots - low) / (high - low), (high - knots) / (high - low)
        upper = int(np.searchsorted(unit, 0.5)) + 1
        x = self.values[v]
        small: type = np.uint16 if knots.size <= MAX_KNOTS else np.int32
        if knots.size < 2**8 and x.size > _FEW_CELLS:
            small = np.uint8  # half the memory is worth a second version of the kernels
        codes = np.zeros(x.size, dtype=small)
        if knots.size:
            for start in range(0, x.size, 1 << 16):  # in parts: searchsorted answers in 8 bytes
                part = slice(start, start + (1 << 16))
                codes[part] = np.searchsorted(knots, x[part], side="left")
        self.places[v] = _Places(unit, rest, upper, codes)

    def restrict(self, index: Array) -> BoundCurves:
        """Some of the features on the same cells."""
        names = ("variable", "kind", "knot", "position")
        chosen = {name: getattr(self, name)[index] for name in names}
        used = _by_variable(chosen["variable"])
        return replaced(self, n_features=index.size, used=used, **chosen)

    def take(self, cells: Array) -> BoundCurves:
        """The same curves on some of the cells."""
        values = np.ascontiguousarray(self.values[:, cells])
        used = [v for v, _ in self.used]
        places = {v: self.places[v]._replace(codes=self.places[v].codes[cells]) for v in used}
        return replaced(self, values=values, places=places)

    def _tables(self, v: int, where: slice, w: Array) -> tuple[Array, Array, float]:
        """Value and slope of a curve between every two knots, and its bend."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import curve_tables

        unit, rest, upper, _ = self.places[v]
        intercept, slope = np.empty((2, unit.size + 1))
        bend = exact(curve_tables, 2 * unit.size + where.stop - where.start)(
            self.kind[where], self.position[where], unit, rest, upper, w[where],
            self.parabola[:, v], intercept, slope,
        )  # fmt: skip
        return intercept, slope, bend

    def curves(self, w: Array) -> list[Curve]:
        """The curve of every variable, in units of the variable."""
        curves = []
        for v, where in self.used:
            unit, kind = self.unit[v], self.kind[where]
            low, high = unit * self.low[v], unit * self.high[v]
            intercept, slope, bend = self._tables(v, where, w)
            knots = unit * np.unique(self.knot[where][kind >= FORWARD])
            guide = Guide.from_knots(knots, low, high)
            scale = 1.0 / (high - low)
            is_upper = np.arange(slope.size) >= self.places[v].upper  # these are in high - x
            signed = np.where(is_upper, -scale, scale) * slope
            pieces = np.column_stack([intercept, signed, np.where(is_upper, high, low)])
            square = w[where][kind == QUADRATIC].sum()
            numbers = [low, guide.per_unit, bend, scale, *self.parabola[:, v], square]
            curves.append(Curve(v, np.array(numbers), knots, guide.before, pieces))
        return curves

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += the curves, from their tables."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import add_curve

        curves = [
            (v, self.places[v].codes, self.places[v].upper, *self._tables(v, where, w))
            for v, where in self.used
            if w[where].any()
        ]

        add = exact(add_curve, theta.size * len(curves))

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            for v, codes, upper, intercept, slope, bend in curves:
                add(
                    self.values[v, part], codes[part], self.low[v], self.high[v], upper,
                    intercept, slope, bend, theta[part],
                )  # fmt: skip

        over_rows(work, theta.size, 1 + len(curves) // 8)
        if self.clamp:
            self._lift_squares(w, theta)

    def _lift_squares(self, w: Array, theta: Array) -> None:
        """Hold squares at 0 or above: a value may be nearer to 0 than that of any cell was."""
        for j in np.flatnonzero((self.kind == QUADRATIC) & (w != 0)):
            v = self.variable[j]
            u = (self.values[v] - self.low[v]) / (self.high[v] - self.low[v])
            c0, c1, c2 = self.parabola[:, v]
            theta -= w[j] * np.minimum(c0 + u * (c1 + c2 * u), 0.0)

    def moments(self, p: Array) -> Array:
        """One histogram per variable and its cumulative sums."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import mean_curves

        return self._over_variables(exact(mean_curves, self._steps()), p)

    def squares(self, p: Array) -> Array:
        """As the moments, with the second powers in each bin."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import mean_squares

        return self._over_variables(exact(mean_squares, self._steps()), p)

    def _steps(self) -> int:
        """Of the loops over cells, bins and features."""
        return len(self.used) * self.values.shape[1] + 3 * self.n_features

    def _over_variables(self, mean: Callable[..., None], p: Array) -> Array:
        used, out = self.used, np.empty(self.n_features)

        def work(first: int, last: int) -> None:
            for v, where in used[first:last]:
                knots, rest, upper, codes = self.places[v]
                mean(
                    self.values[v], codes, self.low[v], self.high[v], upper, p, self.kind[where],
                    self.position[where], knots, rest, self.parabola[:, v], out[where],
                )  # fmt: skip

        over_rows(work, len(used), p.size // 4)
        return out

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row per feature."""
        from maxent._support.compiling.kernels import exact
        from maxent.features.kernels.cells import write_curves

        exact(write_curves, self.n_features * (stop - start))(
            self.values, self.variable, self.kind, self.knot, self.low, self.high,
            self.parabola, root, start, stop, out,
        )  # fmt: skip

    def priority(self, violation: Array) -> Array:
        """Knots that violate no less than their neighbours; halved with each better one of a kind.

        A working set would fill with copies of one knot otherwise.
        """
        same = (np.diff(self.variable) == 0) & (np.diff(self.kind) == 0)
        hidden = violation <= 0
        hidden[1:] |= same & (violation[1:] < violation[:-1])
        hidden[:-1] |= same & (violation[:-1] <= violation[1:])
        peaks = np.flatnonzero(~hidden)
        curve = np.concatenate([[0], np.cumsum(~same)])[peaks]
        order = np.lexsort((-violation[peaks], curve))
        peaks, curve = peaks[order], curve[order]
        first = np.flatnonzero(np.diff(curve, prepend=-1))
        rank = np.arange(peaks.size) - np.repeat(first, np.diff(first, append=peaks.size))
        priority = np.zeros_like(violation)
        priority[peaks] = violation[peaks] * 0.5 ** np.minimum(rank, 500)
        return priority


def _by_variable(variable: Array) -> list[tuple[int, slice]]:
    """The variables in use, each with the slice of its features."""
    if not variable.size:
        return []
    edges = [0, *(np.flatnonzero(np.diff(variable)) + 1).tolist(), variable.size]
    return [(int(variable[a]), slice(a, b)) for a, b in pairwise(edges)]


class _CurveClass(ViewedClass):
    """What the four kinds share: the variables with more than one value, and their ranges."""

    def fit_view(self, view: CellsView) -> list[Operator]:
        """Curves of every variable that is not constant."""
        low, high = view.ranges
        count = low.size
        if not count:
            return []
        unit = column_units(low, high)
        square = np.zeros((2, count))
        knots: list[list[tuple[int, Array]]] = [[] for _ in range(count)]

        def work(first: int, last: int) -> None:
            for v in range(first, last):
                square[:, v] = _square_range(view, v, float(unit[v]))
                if high[v] > low[v]:
                    knots[v] = self._knots(view, v)

        over_rows(work, count, 64 * view.n_cells)
        parts = [(v, k, t) for v in range(count) for k, t in knots[v]]
        if not parts:
            return []
        operator = Additive(
            view.schema.continuous,
            low,
            high,
            square[0],
            square[1],
            np.repeat([v for v, _, _ in parts], [t.size for _, _, t in parts]).astype(np.int32),
            np.repeat([k for _, k, _ in parts], [t.size for _, _, t in parts]).astype(np.int8),
            np.concatenate([t for _, _, t in parts]),
        )
        return [operator] if operator.n_features else []

    @abstractmethod
    def _knots(self, view: CellsView, v: int) -> list[tuple[int, Array]]:
        """The kinds of feature of one variable and their knots."""


def _square_range(view: CellsView, v: int, unit: float) -> tuple[float, float]:
    low, high = (float(end[v]) for end in view.ranges)
    ends = ((low / unit) ** 2, (high / unit) ** 2)
    within = (view.nearest_zero(v) / unit) ** 2 if low < 0 < high else min(ends)
    return within, max(ends)


@io.register
@dataclass(frozen=True)
class Linear(_CurveClass):
    """`f = x` scaled to [0, 1].

    >>> from maxent.features import fit_operators
    >>> [o.names() for o in fit_operators([Linear()], [[1.0], [2.0], [4.0]])]
    [['x0']]
    """

    def _knots(self, view: CellsView, v: int) -> list[tuple[int, Array]]:
        return [(LINEAR, np.full(1, np.nan))]


@io.register
@dataclass(frozen=True)
class Square(_CurveClass):
    """`f = x^2` scaled to [0, 1]: with Linear, means and variances match.

    >>> from maxent.features import fit_operators
    >>> [o.names() for o in fit_operators([Square()], [[1.0], [2.0], [4.0]])]
    [['x0^2']]
    """

    def _knots(self, view: CellsView, v: int) -> list[tuple[int, Array]]:
        return [(QUADRATIC, np.full(1, np.nan))]


@io.register
@dataclass(frozen=True)
class Hinge(_CurveClass):
    """`f = (x - t)_+ / (max - t)` and `(t - x)_+ / (t - min)`.

    A variable with more than 65,535 distinct values has knots around every presence and evenly
    between the other values, 65,535 in all.

    Parameters
    ----------
    knots : int, default None
        None has a knot between every two distinct values, as the jar; a number of knots are equally
        spaced from end to end, as in maxnet.

    Examples
    --------
    >>> from maxent.features import fit_operators
    >>> fit_operators([Hinge()], [[1.0], [2.0], [4.0]])[0].names()
    ['hinge(x0>1.5)', 'hinge(x0>3)', 'hinge(x0<1.5)', 'hinge(x0<3)']
    """

    knots: int | None = None

    def __post_init__(self) -> None:
        _check_knots(self.knots, 2)

    @property
    def looks_at(self) -> frozenset[str]:  # type: ignore[override]
        """All values, unless the knots are evenly spaced."""
        return _values_if(self.knots is None)

    def _knots(self, view: CellsView, v: int) -> list[tuple[int, Array]]:
        low, high = (float(end[v]) for end in view.ranges)
        if self.knots is None:
            between = _midpoints(view, v, thin=True)
            between = between[(between > low) & (between < high)]
            return [(FORWARD, between), (REVERSE, between)]
        even = np.linspace(low, high, self.knots)
        return [(FORWARD, even[:-1]), (REVERSE, even[1:])]


@io.register
@dataclass(frozen=True)
class Threshold(_CurveClass):
    """`f = [x > t]`.

    A variable with more than 65,535 of them keeps the ones next to a presence: others lie between
    two with the same observed mean and penalty, and never bind under a box.

    Parameters
    ----------
    knots : int, default None
        None is the whole continuum, one threshold between every two distinct values (density paper
        §8); a number of knots are equally spaced inside the range, as in maxnet.

    Examples
    --------
    >>> from maxent.features import fit_operators
    >>> fit_operators([Threshold()], [[1.0], [2.0], [4.0]])[0].names()
    ['(x0>1.5)', '(x0>3)']
    """

    knots: int | None = None

    def __post_init__(self) -> None:
        _check_knots(self.knots, 1)

    @property
    def looks_at(self) -> frozenset[str]:  # type: ignore[override]
        """All values, unless the thresholds are evenly spaced."""
        return _values_if(self.knots is None)

    def _knots(self, view: CellsView, v: int) -> list[tuple[int, Array]]:
        if self.knots is None:
            return [(THRESHOLD, _midpoints(view, v, thin=False))]
        low, high = (float(end[v]) for end in view.ranges)
        even = np.linspace(low, high, self.knots + 2)[1:-1]
        return [(THRESHOLD, np.nextafter(even, -np.inf))]  # maxnet counts x = t as above


def _check_knots(knots: Any, least: int) -> None:
    if knots is not None and not (isinstance(knots, int | np.integer) and knots >= least):
        raise ValueError(f"knots must be None (all) or an integer >= {least}, got {knots!r}")
    if knots is not None and knots > MAX_KNOTS:
        raise ValueError(f"knots must be at most {MAX_KNOTS}, got {knots}; None takes all values")


def _values_if(all_knots: bool) -> frozenset[str]:
    return frozenset({"values"} if all_knots else ())


def _midpoints(view: CellsView, v: int, thin: bool) -> Array:
    """Knots between consecutive distinct values of a variable."""
    values = view.values(v)
    apart = np.diff(values) > _NOISE * (values[-1] - values[0])
    values = np.concatenate([values[:1], values[1:][apart]])
    between = values[:-1] + np.diff(values) / 2
    between = np.where(between >= values[1:], values[:-1], between)  # neighbouring floats
    if between.size <= MAX_KNOTS:
        return between
    place = np.searchsorted(values, view.presence_values(v))
    near = np.unique(np.concatenate([place - 1, place]))
    near = near[(near >= 0) & (near < between.size)]
    if near.size > MAX_KNOTS:
        near = near[np.linspace(0, near.size - 1, MAX_KNOTS).astype(np.intp)]
    if thin and near.size < MAX_KNOTS:
        even = np.linspace(0, between.size - 1, MAX_KNOTS - near.size).astype(np.intp)
        near = np.union1d(near, even)
    return between[near]
