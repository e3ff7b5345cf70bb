"""Splines: products of hinge functions of single variables (structural paper, §2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np

from maxent import io
from maxent._support.checks import floats, indices
from maxent._support.threads import over_rows
from maxent.families.monomials import BoundRaw, FactorPlan, FactorTerms, check_count, scales
from maxent.families.plans import PlannedFamily, View
from maxent.features.additive import FORWARD, MAX_KNOTS, REVERSE, Additive
from maxent.features.cells import Cells
from maxent.rows.arrays import Array

_MARGIN = 1e-10  # share of the range within which a knot is at its end


@io.register
@dataclass(frozen=True, eq=False)
class SplineTerms(FactorTerms):
    """Products of hinges (x - t)_+ / (high - t), ``rising``, and (t - x)_+ / (t - low).

    ``variable``, ``knot`` t (in units of the variable) and ``rising`` have one entry per factor.
    """

    variable: Array
    knot: Array
    rising: Array

    letter: ClassVar[str] = "s"
    per_factor: ClassVar[tuple[str, ...]] = ("variable", "knot", "rising")

    def _check_factors(self) -> None:
        size = self.power.size
        indices("variable", self.variable, size, len(self.variables))
        floats("knot", self.knot, size)
        if self.rising.dtype != bool or self.rising.shape != (size,):
            raise ValueError(f"rising must be {size} booleans, got {self.rising!r:.60}")
        low, high = self.low[self.variable], self.high[self.variable]
        if not ((low < self.knot) & (self.knot < high)).all():
            raise ValueError("every knot must lie inside the range of its variable")

    def raw(self) -> tuple[Array, Array]:
        """Hinges: 0 at the knot and 1 at one end of the range."""
        end = np.where(self.rising, self.high[self.variable], self.low[self.variable])
        place = np.column_stack([self.variable, np.full(self.variable.size, -1)])
        numbers = np.zeros((self.knot.size, 4))
        numbers[:, 0], numbers[:, 1], numbers[:, 3] = self.knot, 1 / (end - self.knot), np.inf
        return place.astype(np.int32), numbers

    def _raw_names(self) -> list[str]:
        # all digits of a knot: the name of a feature is its identity
        knots = [repr(t).removesuffix(".0") for t in self.knot.tolist()]
        parts = zip(self.variable, self.rising, knots, strict=True)
        return [f"hinge({self.variables[v]}{'>' if up else '<'}{t})" for v, up, t in parts]


@io.register
@dataclass(frozen=True)
class Splines(PlannedFamily):
    """`H_k`: products of k hinges of scaled variables u, `(u - t)_+ / (1 - t)` or `(t - u)_+ / t`.

    The knots t of each continuous variable are values at ``knots`` quantiles, those inside its
    range; where there is none, as for 0 and 1, of the middles of its distinct values.

    Parameters
    ----------
    max_factors : int, default 2
        Largest number of factors k.
    knots : int, default 64
        Quantiles of each variable that are knots.

    Examples
    --------
    >>> from maxent.features import Schema
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> schema = Schema.from_table(X)
    >>> search = Splines(max_factors=1, knots=1).search(schema.read(X), schema)
    >>> [(p.operator.names(), p.value) for p in search.propose([3.0, 0.0, -1.0, 1.0])]
    [(['hinge(x0<2)'], 3.0)]
    """

    max_factors: int = 2
    knots: int = 64

    letter: ClassVar[str] = "s"
    looks_at: ClassVar[frozenset[str]] = frozenset({"values"})

    def __post_init__(self) -> None:
        check_count("max_factors", self.max_factors)
        check_count("knots", self.knots)
        if self.knots > MAX_KNOTS:
            raise ValueError(f"knots must be at most {MAX_KNOTS}, got {self.knots}")

    @property
    def max_level(self) -> int:
        """The largest k."""
        return self.max_factors

    def complexity(self, level: int, d: int, m: int) -> float:
        """`B_k = sqrt(2 k log(2 d knots) / m)`.

        `H_k` has at most `(2 d knots)^k` features with values in [0, 1], and Massart's lemma gives
        `sqrt(m) sqrt(2 log |H_k|) / m`, as for monomials in App. E of the structural paper.
        """
        return sqrt(2 * level * log(2 * d * self.knots) / m)

    def plan(self, view: View) -> SplinePlan:
        """The splines of the columns of a table."""
        return SplinePlan(view, self.max_factors, self.knots)


def _knots(view: View, v: int, count: int, low: float, high: float) -> Array:
    """Quantiles of a column; where all lie at its ends, of the middles of its distinct values."""
    shares = np.arange(1, count + 1) / (count + 1)
    knots = _inside(view.quantiles(v, shares), low, high)
    if knots.size:
        return knots
    distinct = view.counted(v)[0].astype(np.float64)
    middles = distinct[1:] - np.diff(distinct) / 2
    return _inside(np.quantile(middles, shares, method="nearest"), low, high)


def _inside(knots: Array, low: float, high: float) -> Array:
    """Those inside the range, in 10 digits where those tell them apart."""
    knots = np.unique(knots.astype(np.float64))
    short = np.unique([float(f"{t:.10g}") for t in knots])
    knots = short if short.size == knots.size else knots
    margin = _MARGIN * (high - low)
    return knots[(knots - low > margin) & (high - knots > margin)]


def _hinge_curves(view: View, count: int) -> Additive:
    """Both hinges of every knot of every variable that is not constant."""
    low, high = view.ranges
    varies = scales(low, high) > 0
    low, high = np.where(varies, low, 0.0), np.where(varies, high, 0.0)
    varying, knots = np.flatnonzero(varies), [np.empty(0)] * low.size

    def work(first: int, last: int) -> None:
        for v in varying[first:last]:
            knots[v] = _knots(view, v, count, float(low[v]), float(high[v]))

    over_rows(work, varying.size, 64 * view.length)
    sizes = np.array([2 * t.size for t in knots], dtype=np.intp)
    kinds = [np.repeat([FORWARD, REVERSE], t.size) for t in knots]
    unused = np.zeros(low.size)  # the ranges of squares
    return Additive(
        *(view.schema.continuous, low, high, unused, unused),
        np.repeat(np.arange(low.size, dtype=np.int32), sizes),
        np.concatenate([np.empty(0), *kinds]).astype(np.int8),
        np.concatenate([np.empty(0), *(np.tile(t, 2) for t in knots)]),
    )


class SplinePlan(FactorPlan):
    """Splines of the columns of a table."""

    def __init__(self, view: View, max_factors: int, knots: int) -> None:
        self.hinges = _hinge_curves(view, knots)
        every = np.arange(self.hinges.n_features)
        alone = np.arange(every.size + 1, dtype=np.int32)
        ones = np.ones(every.size, dtype=np.int32)
        super().__init__(max_factors, self._products(alone, every, ones).raw())

    def _products(self, cuts: Array, factor: Array, power: Array) -> SplineTerms:
        hinges = self.hinges
        return SplineTerms(
            *(hinges.variables, hinges.low, hinges.high, cuts, power),
            *(hinges.variable[factor], hinges.knot[factor], hinges.kind[factor] == FORWARD),
        )

    def product(self, factor: Array, power: Array) -> SplineTerms:
        """The product of these hinges."""
        return self._products(np.array([0, factor.size], dtype=np.int32), factor, power)

    def bind(self, cells: Cells) -> BoundHinges:
        """The hinges on given cells."""
        return BoundHinges(self, cells)


class BoundHinges(BoundRaw):
    """Hinges on given cells: their sums are moments of an operator of curves."""

    def __init__(self, plan: SplinePlan, cells: Cells) -> None:
        super().__init__(plan, cells)
        self._curves = plan.hinges.bind(cells)

    def sums(self, q: Array) -> Array:
        """The moments."""
        return self._curves.moments(q)
