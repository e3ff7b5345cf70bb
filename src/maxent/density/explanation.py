"""Explanations: each variable's share of a density's exponent at a place.

The exponent theta(x) = sum_j w_j f_j(x) is compared with that of the mean place z: continuous
variables at their means over the cells of the fit, categorical ones spread over their levels as the
cells are. A share is the Shapley value of the variable in the game

    v(S) = theta(x_S, z_rest),      shares add up to theta(x) - theta(z).

Shapley values add over features, and a feature gives nothing to variables that it does not use, so
that features which use the same variables U are taken together, as one theta_U:

- one variable: theta_U(x) - theta_U(z);
- a sum of products of two: with u = x_a - z_a and v = x_b - z_b,
  c (x_a x_b - z_a z_b) = c (z_b u + z_a v + u v). The parts of u and of v alone go to a and b, and
  half of the rest to each: c u (z_b + x_b) / 2 to a;
- any U: the mean over all orders of its variables, 2^|U| values of theta_U;
- a kernel of more than 12 variables: the mean over 64 orders, each with its reverse. These shares
  are estimates; that they add up is exact.

The terms of a kernel, of one variable each and of all together, are taken by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import factorial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import floats
from maxent.density.origin import kinds_of
from maxent.features import (
    Cells,
    Operator,
    OperatorMap,
    Schema,
    bind,
    part_of,
    variables_used,
    with_weights,
)
from maxent.features.scoring import Scorer
from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.density.model import FittedDensity

_MOST_VARIABLES = 12  # of one feature: 4096 values of it at every row
_ORDERS = 64  # of more variables of a kernel
_BLOCK = 1 << 14  # rows explained at once


@io.register
@dataclass(frozen=True, eq=False)
class MeanPlace:
    """The mean of each continuous variable, and the shares of the levels of the others.

    Attributes
    ----------
    values : array (n_continuous,)
        Mean of each continuous variable.
    shares : tuple of array
        Shares of the levels of each categorical variable.
    """

    values: Array
    shares: tuple[Array, ...]

    def check(self, schema: Schema) -> None:
        """Complain unless there is a value or a share for every column and level of a schema."""
        floats("the values of the mean place", self.values, len(schema.continuous))
        if len(self.shares) != len(schema.levels):
            raise ValueError(
                f"the mean place needs shares of {len(schema.levels)} categorical columns, got "
                f"{len(self.shares)}"
            )
        for shares, levels in zip(self.shares, schema.levels, strict=True):
            floats("the shares of the mean place", shares, len(levels))


@dataclass(frozen=True, eq=False)
class Explanation:
    """Each variable's share of the exponent.

    base + shares.sum(axis=1) is that of each row.

    Attributes
    ----------
    variables : tuple of str
        Names of the variables.
    shares : array (n_rows, n_variables)
        The share of each variable in each row.
    base : float
        The exponent at the mean place.
    """

    variables: tuple[str, ...]
    shares: Array
    base: float

    @property
    def exponent(self) -> Array:
        """`sum_j w_j f_j` at each row."""
        return self.base + self.shares.sum(axis=1)


def explain(density: FittedDensity, cells: Cells, place: MeanPlace, clamp: bool) -> Explanation:
    """See ``FittedDensity.explain``; ``cells`` are within the ranges that they are held to."""
    names = density.schema.names
    shares = np.zeros((cells.n_cells, len(names)))
    base = 0.0
    pieces, weights = pieces_of(density)
    for group, index in _groups(names, pieces):
        operators, w = part_of(pieces, index), weights[index]
        orders = _orders(len(group), operators)
        for start in range(0, max(cells.n_cells, 1), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, cells.n_cells))
            game = _Game(density.schema, place, cells.take(rows), group, clamp)
            if orders is None:
                asked = game.coalitions()
                values = {members: game.value(operators, w, members) for members in asked}
                told = _shapley(values, len(group), rows.size)
            else:
                values = {(False,) * len(group): game.value(operators, w, (False,) * len(group))}
                told = _sampled(partial(game.value, operators, w), orders, rows)
            shares[np.ix_(rows, group)] += told
        base += float(values[(False,) * len(group)])
    return Explanation(names, shares, base)


def pieces_of(density: FittedDensity) -> tuple[list[Operator], Array]:
    """Operators of as few variables as there are, with the weights of their features."""
    pieces: list[Operator] = []
    weights = [np.empty(0)]
    for operator, w in with_weights(density.operators, density.weights):
        parts = operator.parts()
        pieces += parts
        weights += [w] * len(parts)
    return pieces, np.concatenate(weights)


class Share(NamedTuple):
    """The part of an exponent that looks at some variables alone; it and all at the mean place."""

    scorer: Scorer
    mean: float
    whole: float

    def split(self, theta: Array, cells: Cells, clamp: bool = True) -> tuple[Array, Array]:
        """The exponent theta of cells, less that of the mean place: the rest, and this part."""
        mine = self.scorer.scores(cells, clamp) - self.mean
        return theta - self.whole - mine, mine


def share_of(density: FittedDensity, names: Sequence[str]) -> Share | None:
    """The part that looks at these continuous variables alone, None where there is none."""
    place = density.mean_place
    if place is None:
        return None
    pieces, weights = pieces_of(density)
    uses = variables_used(pieces, density.schema.names)
    asked = np.isin(density.schema.names, list(names))
    index = np.flatnonzero(uses[asked].any(axis=0) & ~uses[~asked].any(axis=0))
    if not index.size:
        return None
    operators = part_of(pieces, index)
    scorer = Scorer.from_operators(operators, weights[index], density.low, density.high)
    levels = np.zeros((len(density.schema.levels), 1), dtype=np.int32)  # any: none is looked at
    mean = Cells(place.values[:, None], levels)
    return Share(scorer, float(scorer.scores(mean)[0]), explain(density, mean, place, True).base)


def _groups(names: Sequence[str], pieces: Sequence[Operator]) -> Iterator[tuple[Array, Array]]:
    """Sets of variables, by number, each with the features that use just these."""
    uses = variables_used(pieces, names)
    sets, group = np.unique(uses, axis=1, return_inverse=True)
    for g, used in enumerate(sets.T):
        yield np.flatnonzero(used), np.flatnonzero(group.ravel() == g)


def _orders(size: int, operators: Sequence[Operator]) -> list[Array] | None:
    """Orders in which the variables of a kernel move, each with its reverse; None: all of them."""
    if size <= _MOST_VARIABLES:
        return None
    if not (kinds_of(operators) == "k").all():
        raise ValueError(
            f"a feature uses {size} variables and can be explained with at most "
            f"{_MOST_VARIABLES}: exact shares take 2^{size} values at every row"
        )
    rng = np.random.default_rng(0)
    orders = [rng.permutation(size) for _ in range(_ORDERS // 2)]
    return [order for one in orders for order in (one, one[::-1])]


def _sampled(
    value: Callable[[tuple[bool, ...]], Any], orders: Sequence[Array], rows: Array
) -> Array:
    """(rows, size): the mean over some orders of what each player adds."""
    size = len(orders[0])
    shares = np.zeros((rows.size, size))
    nobody, everybody = value((False,) * size), value((True,) * size)
    for order in orders:
        members, before = [False] * size, nobody
        for player in order[:-1]:
            members[player] = True
            now = value(tuple(members))
            shares[:, player] += now - before
            before = now
        shares[:, order[-1]] += everybody - before
    return shares / len(orders)


def _shapley(values: dict[tuple[bool, ...], Any], size: int, rows: int) -> Array:
    """(rows, size): the mean over all orders of what each player adds."""
    shares = np.zeros((rows, size))
    for members, value in values.items():
        count = sum(members)
        for player, inside in enumerate(members):
            # a coalition counts for the orders in which the player comes last in it or next
            others = count - 1 if inside else count
            weight = factorial(others) * factorial(size - 1 - others) / factorial(size)
            shares[:, player] += (weight if inside else -weight) * value
    return shares


@dataclass(frozen=True, eq=False)
class _Game:
    """The variables ``group`` at the values of the cells or at the mean place."""

    schema: Schema
    place: MeanPlace
    cells: Cells
    group: Array
    clamp: bool

    def coalitions(self) -> Iterator[tuple[bool, ...]]:
        """Which variables are at the cells' values, the others being at the mean place."""
        return product((False, True), repeat=len(self.group))

    def value(self, operators: list[Any], w: Array, members: tuple[bool, ...]) -> Any:
        """theta_U with the members at the cells; a number where there is none."""
        total: Any = 0.0
        for share, cells in self._mixed(members):
            features: OperatorMap = bind(operators, cells, self.clamp)
            total = total + share * features.scores(w)
        return total if any(members) else float(total[0])

    def _mixed(self, members: tuple[bool, ...]) -> Iterator[tuple[float, Cells]]:
        """The cells with the others at the mean place: one table for every choice of levels."""
        count = self.cells.n_cells if any(members) else 1
        values, codes = self.cells.values[:, :count].copy(), self.cells.codes[:, :count].copy()
        if values.shape[1] < count:  # no rows at all: the mean place is still one
            values, codes = np.zeros((len(values), 1)), np.zeros((len(codes), 1), dtype=np.int32)
        absent = []
        for v, inside in zip(self.group, members, strict=True):
            name = self.schema.names[v]
            if inside:
                continue
            if name in self.schema.categorical:
                absent.append(self.schema.categorical.index(name))
            else:
                row = self.schema.continuous.index(name)
                values[row] = self.place.values[row]
        for levels in product(*(np.flatnonzero(self.place.shares[v]) for v in absent)):
            share = 1.0
            for v, level in zip(absent, levels, strict=True):
                codes[v] = level
                share *= float(self.place.shares[v][level])
            yield share, Cells(values, codes)
