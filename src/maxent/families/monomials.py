"""Monomials: products of scaled variables and indicators of levels (structural paper, §4).

What products of other functions need too is here: a greedy search one factor at a time, an
operator that knows the factors of each feature, and its bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import cuts, floats, indices
from maxent._support.threads import over_rows, sum_of_parts
from maxent.families.base import Ceiling, Proposal, Terms
from maxent.families.plans import Ask, Plan, PlannedFamily, View, Walk
from maxent.families.product_ceiling import product_ceiling
from maxent.features.base import Operator, incidence
from maxent.features.cells import Cells, Schema, check_levels
from maxent.rows.arrays import Array

_NOTHING = 1e-12  # share of the weights below which a value or a change is rounding


@dataclass(frozen=True, eq=False)
class FactorTerms(Operator):
    """Products of factors, powers of raw features; feature j has those from cuts[j] to cuts[j + 1].

    Raw features are functions of variables scaled by ``low`` and ``high``; the fields of a subclass
    named in ``per_factor`` say which, with one entry per factor.
    """

    variables: tuple[str, ...]
    low: Array
    high: Array
    cuts: Array
    power: Array

    letter: ClassVar[str]
    per_factor: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        # compiled kernels trust these numbers, so that a file may not bring wrong ones
        try:
            for name in ("low", "high"):
                floats(name, getattr(self, name), len(self.variables))
            size = np.size(self.power)
            indices("power", self.power, size, 1 << 31)
            if not (self.power > 0).all():
                raise ValueError("powers must be positive")
            cuts("cuts", self.cuts, size, least=1)
            self._check_factors()
        except ValueError as error:
            raise ValueError(
                f"the factors of a {type(self).__name__} do not fit together: {error}"
            ) from error

    @abstractmethod
    def _check_factors(self) -> None:
        """Complain unless there is a raw feature of known variables for every power."""

    @abstractmethod
    def raw(self) -> tuple[Array, Array]:
        """``place`` and ``numbers`` of each factor's raw feature, as in ``kernels.monomials``."""

    @abstractmethod
    def _raw_names(self) -> list[str]:
        """What each factor's raw feature is called."""

    @property
    def n_features(self) -> int:
        """Number of products."""
        return int(self.cuts.size) - 1

    def names(self) -> list[str]:
        """The factors, such as x * y^2."""
        powers = zip(self._raw_names(), self.power, strict=True)
        factors = [name if power == 1 else f"{name}^{power}" for name, power in powers]
        return [" * ".join(factors[a:b]) for a, b in pairwise(self.cuts)]

    def kinds(self) -> Array:
        """The letter of the family."""
        return np.full(self.n_features, self.letter)

    def matches(self, schema: Schema) -> bool:
        """The continuous columns."""
        return self.variables == schema.continuous

    def uses_columns(self, names: Sequence[str]) -> Array:
        """The variables of the factors."""
        row, level = self.raw()[0].T
        variable = np.where(level < 0, row, len(self.variables) + row)
        return incidence(names, (*self.variables, *self._categories()), variable, self.cuts)

    def _categories(self) -> tuple[str, ...]:
        """The categorical variables, where raw features have any."""
        return ()

    def restrict(self, index: Array) -> FactorTerms:
        """Some of the products."""
        index = np.asarray(index, dtype=np.intp)
        sizes = np.diff(self.cuts)[index]
        cuts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        factors = np.arange(cuts[-1]) + np.repeat(self.cuts[index] - cuts[:-1], sizes)
        chosen = {name: getattr(self, name)[factors] for name in ("power", *self.per_factor)}
        return replace(self, cuts=cuts, **chosen)

    def join(self, other: Operator) -> FactorTerms | None:
        """The products of both, for the same variables with the same ranges."""
        if not isinstance(other, FactorTerms) or type(other) is not type(self):
            return None
        parts = ("power", *self.per_factor)
        shared = (f.name for f in fields(self) if f.name not in ("cuts", *parts))
        if not all(_same(getattr(self, name), getattr(other, name)) for name in shared):
            return None
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in parts
        }
        both["cuts"] = np.concatenate([self.cuts, self.cuts[-1] + other.cuts[1:]])
        return replace(self, **both)

    def bind(self, cells: Cells, clamp: bool = False) -> BoundFactors:
        """The products on given cells."""
        return BoundFactors(cells, self, clamp)


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other)


class _Tables(NamedTuple):
    """What the kernels take: the cells, the distinct factors, and those of each feature."""

    values: Array
    codes: Array
    place: Array
    numbers: Array
    power: Array
    cuts: Array
    factor: Array


def _chosen(kernel: Callable[..., Any], plain: Callable[..., Any], size: int) -> Callable[..., Any]:
    """A kernel, or the same in numpy for few numbers."""
    from maxent._support.compiling.kernels import spared

    return plain if spared(kernel, size, 50 + size // 50) else kernel


class BoundFactors(Terms):
    """Products of raw features on given cells; ``clamp`` holds every raw feature within [0, 1]."""

    def __init__(
        self, cells: Cells, operator: FactorTerms | None = None, clamp: bool = False
    ) -> None:
        self.cells, self.clamp = cells, clamp
        self._set(operator)

    def _set(self, operator: FactorTerms | None) -> None:
        self._operator = operator
        self.n_features = 0 if operator is None else operator.n_features
        cuts, factors = np.zeros(1, dtype=np.int32), np.empty((0, 7))
        if operator is not None:
            cuts, factors = operator.cuts, np.column_stack([*operator.raw(), operator.power])
        # a factor that several products share is computed once
        table, factor = np.unique(factors, axis=0, return_inverse=True)
        place, power = table[:, :2].astype(np.int32), table[:, 6].astype(np.int32)
        numbers = np.ascontiguousarray(table[:, 2:6])
        if self.clamp:
            numbers[:, 2:] = 0.0, 1.0
        self._tables = _Tables(
            *(self.cells.values, self.cells.codes, place, numbers, power),
            *(cuts, factor.ravel().astype(np.int32)),
        )

    def append(self, operator: Operator) -> None:
        """Take in the one feature of a proposal, as the last."""
        mine = self._operator
        both = operator if mine is None else mine.join(operator)
        if not isinstance(both, FactorTerms):
            raise ValueError(
                f"cannot append {', '.join(operator.names())}, of {type(operator).__name__}: "
                "expected a product of the same variables and ranges; give one that the same "
                "search proposed"
            )
        self._set(both)

    def operator(self) -> FactorTerms | None:
        """All products as one operator; None without any."""
        return self._operator

    def restrict(self, index: Array) -> BoundFactors:
        """Some of the products on the same cells."""
        part = None if self._operator is None else self._operator.restrict(index)
        return BoundFactors(self.cells, part, self.clamp)

    def take(self, cells: Array) -> BoundFactors:
        """The same products on some of the cells."""
        return BoundFactors(self.cells.take(cells), self._operator, self.clamp)

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += the weighted products, those with a weight alone."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.monomials import add_terms

        w = np.ascontiguousarray(w, dtype=np.float64)
        used = np.flatnonzero(w)
        if used.size < w.size:
            self.restrict(used).add_scores(w[used], theta)
            return
        add = exact(add_terms, 2 * theta.size * self._tables.factor.size)

        def work(start: int, stop: int) -> None:
            add(*self._tables, w, start, stop, theta)

        over_rows(work, theta.size, self._tables.factor.size)

    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i)."""
        return self._moments(p, self._tables)

    def squares(self, p: Array) -> Array:
        """sum_i p_i f_j(i)^2: the moments of products with twice the powers."""
        return self._moments(p, self._tables._replace(power=2 * self._tables.power))

    def _moments(self, p: Array, tables: _Tables) -> Array:
        from maxent.families.kernels.monomials import term_moments, term_moments_at_once

        p = np.ascontiguousarray(p, dtype=np.float64)
        add = _chosen(term_moments, term_moments_at_once, p.size * tables.factor.size)

        def part(start: int, stop: int) -> Array:
            out = np.zeros(self.n_features)
            add(*tables, p, start, stop, out)
            return out

        return sum_of_parts(part, p.size, tables.factor.size)

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row a product."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.monomials import write_terms

        write = exact(write_terms, 2 * (stop - start) * self._tables.factor.size)
        write(*self._tables, root, start, stop, out)


class FactorSums(ABC):
    """What a search of products asks: sums with weights q, at first r, over all cells.

    ``size`` is sum_i |r_i|, ``count`` the number of cells.
    """

    size: float
    count: int

    @abstractmethod
    def values(self) -> Array:
        """sum_i q_i psi(x_i) of every raw feature psi."""

    @abstractmethod
    def multiply(self, k: int) -> tuple[float, float]:
        """Multiply q by raw feature k; sums of |q| before and of what it lost."""

    @abstractmethod
    def extended(self, products: Array, first: Array) -> Array:
        """Sums of q phi psi and of |q| phi psi, (products and factors, 2).

        phi is the product of the raw features in a row of ``products``, psi one from ``first`` on.
        """


class FactorWalk(FactorSums, Walk):
    """The sums over cells in memory, with weights q of its own.

    Moves are raw features, or products and the first factors to extend them by, in bytes.
    """

    def __init__(self, raw: BoundRaw, q: Array) -> None:
        self._raw, self._q = raw, q
        self.size, self.count = float(np.abs(q).sum()), q.size

    def values(self) -> Array:
        """In one pass over the cells."""
        return self._raw.sums(self._q)

    def multiply(self, k: int) -> tuple[float, float]:
        """In one pass over the cells."""
        from maxent.families.kernels.monomials import shrink, shrink_at_once

        cells, q = self._raw.cells, self._q
        scale = _chosen(shrink, shrink_at_once, q.size)
        place, numbers = self._raw.plan.place[[k]], self._raw.plan.numbers[[k]]

        def part(start: int, stop: int) -> Array:
            return np.array(scale(cells.values, cells.codes, place, numbers, start, stop, q))

        before, lost = sum_of_parts(part, q.size, 1)
        return float(before), float(lost)

    def extended(self, products: Array, first: Array) -> Array:
        """In one pass over the cells."""
        from maxent.families.kernels.monomials import extended_sums, extended_sums_at_once

        cells, plan = self._raw.cells, self._raw.plan
        cuts = np.concatenate([[0], np.cumsum(len(plan.place) - first)])
        size = self._q.size * (products.size + len(plan.place))
        add = _chosen(extended_sums, extended_sums_at_once, size)

        def part(start: int, stop: int) -> Array:
            out = np.zeros((cuts[-1], 2))
            add(
                *(cells.values, cells.codes, plan.place, plan.numbers),
                *(self._q, products, first, cuts, start, stop, out),
            )
            return out

        return sum_of_parts(part, self._q.size, int(cuts[-1]))

    def first(self) -> Array:
        """size, count and the values."""
        return np.concatenate([[self.size, self.count], self.values()])

    def step(self, move: int | tuple[bytes, bytes]) -> Array:
        """What ``multiply`` gives, and the values after it; or the sums of extended products."""
        if isinstance(move, tuple):
            products, first = (np.frombuffer(bytearray(part), np.int32) for part in move)
            return self.extended(products.reshape(first.size, -1), first)
        return np.concatenate([self.multiply(move), self.values()])


class FactorsInBlocks(FactorSums):
    """The sums over cells in blocks: one pass for each factor, which brings the next values."""

    def __init__(self, ask: Ask) -> None:
        self._ask: Ask = ask
        self._moves: tuple[int | tuple[bytes, bytes], ...] = ()
        (self.size, count), self._values = self._asked()
        self.count = round(count)

    def _asked(self) -> tuple[tuple[float, float], Array]:
        answer = self._ask(self._moves)
        return (float(answer[0]), float(answer[1])), answer[2:]

    def values(self) -> Array:
        """As they came with the last move."""
        return self._values

    def multiply(self, k: int) -> tuple[float, float]:
        """In one pass over the blocks."""
        self._moves = (*self._moves, int(k))
        both, self._values = self._asked()
        return both

    def extended(self, products: Array, first: Array) -> Array:
        """In one pass over the blocks."""
        self._moves = (*self._moves, (products.tobytes(), first.tobytes()))
        return self._ask(self._moves)


class BoundRaw(ABC):
    """The raw features of a plan on given cells."""

    def __init__(self, plan: FactorPlan, cells: Cells) -> None:
        self.plan, self.cells = plan, cells

    @abstractmethod
    def sums(self, q: Array) -> Array:
        """sum_i q_i psi(x_i) of every raw feature psi, in one pass over the cells."""

    def walk(self, r: Array) -> FactorWalk:
        """The sums with weights r."""
        return FactorWalk(self, r)


class FactorPlan(Plan):
    """Greedy products: the best one of k + 1 factors is the best one of k times a raw feature.

    A raw feature that is 1 wherever the product counts (an indicator for the second time) makes
    nothing new and is passed over. Levels end where the largest value is rounding, below
    1e-12 sum_i |r_i|. ``place`` and ``numbers`` are those of the raw features.
    """

    def __init__(self, max_factors: int, raw: tuple[Array, Array]) -> None:
        self.max_factors = max_factors
        self.place, self.numbers = raw

    @abstractmethod
    def product(self, factor: Array, power: Array) -> FactorTerms:
        """The operator of one product."""

    def over_blocks(self, ask: Ask) -> FactorsInBlocks:
        """One pass over the blocks for each factor."""
        return FactorsInBlocks(ask)

    def propose(self, sums: FactorSums) -> list[Proposal]:
        """The best product of 1, 2 ... factors, each from the one before."""
        return self._greedy(sums, np.abs, _NOTHING * sums.size)

    def largest(self, sums: FactorSums) -> list[Proposal]:
        """The same by value, which may be negative."""
        return self._greedy(sums, np.asarray, -np.inf)

    def _greedy(
        self, sums: FactorSums, worth: Callable[[Array], Array], least: float
    ) -> list[Proposal]:
        factors: list[int] = []
        proposals: list[Proposal] = []
        while len(factors) < self.max_factors:
            values = sums.values()
            best = self._best(worth(values), sums, least, first=not factors)
            if best is None:
                break
            factors.append(best)
            proposals.append(self._proposal(factors, float(values[best])))
        return proposals

    def _proposal(self, factors: list[int], value: float) -> Proposal:
        factor, power = np.unique(factors, return_counts=True)
        return Proposal(self.product(factor, power.astype(np.int32)), len(factors), value)

    def _best(self, worth: Array, sums: FactorSums, least: float, first: bool) -> int | None:
        """The raw feature worth most among those that change q, now taken into q."""
        for k in np.argsort(-worth, kind="stable"):
            if not worth[k] > least:
                return None
            before, lost = sums.multiply(k)
            # a first factor is new even where it is 1 at all cells with a weight
            if lost > _NOTHING * before or first:
                return int(k)
        return None

    def ceiling(self, sums: FactorSums, prices: Array, budget: float) -> Ceiling:
        """All products, those with a factor too small to violate optimality passed over."""
        most, found = product_ceiling(sums, self.place, prices, budget)
        return Ceiling(most, [self._proposal(list(f), value) for f, value in found])

    def terms(self, cells: Cells) -> BoundFactors:
        """A place for chosen products on given cells."""
        return BoundFactors(cells)


def check_count(name: str, value: Any) -> None:
    """Complain unless ``value`` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def scales(low: Array, high: Array) -> Array:
    """1 / (high - low), and 0 for a constant variable, which then is 0 and never NaN."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scale = 1 / (high - low)
    return np.where((high > low) & np.isfinite(scale), scale, 0.0)


@io.register
@dataclass(frozen=True, eq=False)
class MonomialTerms(FactorTerms):
    """Products of scaled variables and of indicators of levels.

    Raw features are the levels of the categorical variables, one variable after the other, then
    the continuous variables; ``factor`` says which.
    """

    categorical: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    factor: Array

    letter: ClassVar[str] = "m"
    per_factor: ClassVar[tuple[str, ...]] = ("factor",)

    def _categories(self) -> tuple[str, ...]:
        return self.categorical

    def _check_factors(self) -> None:
        check_levels(self.categorical, self.levels)
        count = sum(map(len, self.levels)) + len(self.variables)
        indices("factor", self.factor, self.power.size, count)

    def matches(self, schema: Schema) -> bool:
        """The continuous and categorical columns, with the same levels."""
        known = (self.categorical, self.levels) == (schema.categorical, schema.levels)
        return known and super().matches(schema)

    def raw(self) -> tuple[Array, Array]:
        """Indicators and scaled variables."""
        place, numbers = _raw_features(self.low, self.high, self.levels)
        return place[self.factor], numbers[self.factor]

    def _raw_names(self) -> list[str]:
        pairs = zip(self.categorical, self.levels, strict=True)
        indicators = [f"{name}={level}" for name, levels in pairs for level in levels]
        names = [*indicators, *self.variables]
        return [names[k] for k in self.factor]


def _raw_features(
    low: Array, high: Array, levels: tuple[tuple[Any, ...], ...]
) -> tuple[Array, Array]:
    """``place`` and ``numbers`` of every raw feature."""
    indicators = [(row, code) for row, of in enumerate(levels) for code in range(len(of))]
    place = np.array([*indicators, *((v, -1) for v in range(low.size))], dtype=np.int32)
    numbers = np.zeros((len(place), 4))
    numbers[:, 2:] = -np.inf, np.inf
    numbers[len(indicators) :, :2] = np.column_stack([low, scales(low, high)])
    return place.reshape(-1, 2), numbers


@io.register
@dataclass(frozen=True)
class Monomials(PlannedFamily):
    """`H_k`: products of k of d raw features, not necessarily distinct (structural paper, §4).

    Raw features are the continuous variables, scaled to [0, 1] over the cells, and the indicators
    `[x = level]` of the categorical ones; d counts both.

    Parameters
    ----------
    max_degree : int, default 4
        Largest degree k.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0], [2.0, 1.0]])
    >>> schema = Schema.from_table(X)
    >>> search = Monomials(max_degree=2).search(schema.read(X), schema)
    >>> [(p.operator.names(), p.value) for p in search.propose([0.0, 1.0, 2.0, -1.0])]
    [(['x1'], 2.5), (['x0 * x1'], 2.25)]
    """

    max_degree: int = 4

    letter: ClassVar[str] = "m"

    def __post_init__(self) -> None:
        check_count("max_degree", self.max_degree)

    @property
    def max_level(self) -> int:
        """The largest k."""
        return self.max_degree

    def complexity(self, level: int, d: int, m: int) -> float:
        """`B_k = sqrt(2 k log d / m)`, structural paper, eq. (15).

        One raw feature counts as two: with `log 1 = 0` all its powers would be free.
        """
        return sqrt(2 * level * log(max(d, 2)) / m)

    def plan(self, view: View) -> MonomialPlan:
        """The monomials of the columns of a table."""
        return MonomialPlan(view, self.max_degree)


class MonomialPlan(FactorPlan):
    """Monomials of the columns of a table."""

    def __init__(self, view: View, max_degree: int) -> None:
        self._schema, (self.low, self.high) = view.schema, view.ranges
        super().__init__(max_degree, _raw_features(self.low, self.high, self._schema.levels))
        self.ends = np.cumsum([0, *map(len, self._schema.levels)])
        # a level that all cells have is the constant 1, no feature
        self.constant = np.flatnonzero(view.everywhere())

    def product(self, factor: Array, power: Array) -> MonomialTerms:
        """The monomial of these raw features."""
        cuts = np.array([0, factor.size], dtype=np.int32)
        return MonomialTerms(
            *(self._schema.continuous, self.low, self.high, cuts, power),
            *(self._schema.categorical, self._schema.levels, factor.astype(np.int32)),
        )

    def bind(self, cells: Cells) -> BoundMonomials:
        """The raw features on given cells."""
        return BoundMonomials(self, cells)


class BoundMonomials(BoundRaw):
    """Indicators and scaled variables on given cells."""

    plan: MonomialPlan

    def sums(self, q: Array) -> Array:
        """Sums by level and by variable; 0 for the constant."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.monomials import raw_sums, raw_sums_at_once
        from maxent.features.kernels.cells import sum_levels

        cells, plan, ends = self.cells, self.plan, self.plan.ends
        scale = np.ascontiguousarray(plan.numbers[ends[-1] :, 1])
        add = _chosen(raw_sums, raw_sums_at_once, cells.values.size)
        add_levels = exact(sum_levels, cells.codes.size)

        def part(start: int, stop: int) -> Array:
            total = np.zeros(len(plan.place))
            for row, code in enumerate(cells.codes):
                add_levels(code[start:stop], q[start:stop], total[ends[row] : ends[row + 1]])
            add(cells.values, plan.low, scale, q, start, stop, total[ends[-1] :])
            return total

        total = sum_of_parts(part, q.size, len(plan.place))
        total[plan.constant] = 0.0
        return total
