"""Checks of a family of features: what its search finds, and what it says none exceeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from maxent.families.base import Family, Proposal, Search
from maxent.features.base import Operator
from maxent.features.cells import Schema
from maxent.rows.arrays import Array

_BUDGETS = (0.0, 1e6, 1e7)  # visits of cells: the bounds hold after any number of them
_ROUNDING = 1e-9


def check_family(
    family: Family,
    X: Any = None,
    every: Callable[[Any], Iterable[tuple[int, Array]]] | None = None,
    categorical: Iterable[Any] = (),
    draws: int = 4,
    seed: int = 0,
) -> None:
    """Check a family on a table: values, their range, and the ceiling of every level.

    Parameters
    ----------
    family : Family
        The family to check.
    X : table, default None
        The table; None is a small one that is drawn.
    every : callable, default None
        Lists the features of a small table, each its level k and its value at every row. All of
        them are held against the ceilings, and without it those that the search finds for several
        weights of the cells.
    categorical : iterable of str or int, default ()
        Columns that are categories.
    draws : int, default 4
        How many weights of the cells.
    seed : int, default 0
        Seed of what is drawn.

    Examples
    --------
    >>> from maxent import Monomials
    >>> check_family(Monomials(2))
    """
    rng = np.random.default_rng(seed)
    X = np.round(rng.uniform(size=(40, 3)), 1) if X is None else X
    schema = Schema.from_table(X, categorical)
    cells = schema.read(X)
    search = family.search(cells, schema)
    weights = [_residual(rng, cells.n_cells, draw) for draw in range(draws)]
    prices = [np.full(family.max_level, price) for price in (0.0, 0.05, 0.3)]
    pool: list[tuple[int, Array]] = [] if every is None else list(every(X))
    found = [_found(search, r, prices[0]) for r in weights]
    for r, proposals in zip(weights, found, strict=True):
        for proposal in proposals:
            column = _column(proposal.operator, cells)
            assert ((column >= -_ROUNDING) & (column <= 1 + _ROUNDING)).all(), (
                f"{proposal.operator.names()} has values outside of [0, 1]"
            )
            assert abs(column @ r - proposal.value) <= _ROUNDING, (
                f"{proposal.operator.names()} has the value {column @ r}, not {proposal.value}"
            )
            assert 1 <= proposal.level <= family.max_level, f"no level {proposal.level}"
            if every is None:
                pool.append((proposal.level, column))
    for r in weights:
        values = [(level, abs(float(column @ r))) for level, column in pool]
        for price in prices:
            for budget in _BUDGETS:
                _check_ceiling(search, r, price, budget, values)


def _residual(rng: np.random.Generator, n: int, draw: int) -> Array:
    """Weights of the cells such as p - observed; some with another sum than 0, some with zeros."""
    p, counts = rng.dirichlet(np.ones(n)), rng.multinomial(n, np.full(n, 1 / n))
    r = p - counts / n
    if draw % 2:
        r *= rng.uniform(0.2, 1, n) * (rng.uniform(size=n) > 0.2)
    return r


def _found(search: Search, r: Array, prices: Array) -> list[Proposal]:
    proposals = search.propose(r)
    return [*proposals, *search.refine(r, prices, [p.operator for p in proposals])]


def _column(operator: Operator, cells: Any) -> Array:
    out = np.empty((1, cells.n_cells))
    operator.bind(cells).write(np.ones(cells.n_cells), 0, cells.n_cells, out)
    return out[0]


def _check_ceiling(
    search: Search, r: Array, prices: Array, budget: float, values: list[tuple[int, float]]
) -> None:
    ceiling = search.ceiling(r, prices, budget)
    most = np.asarray(ceiling.at_most)
    assert most.shape == prices.shape, f"{most.size} ceilings for {prices.size} levels"
    for level, value in values:
        assert value <= most[level - 1] + _ROUNDING, (
            f"a feature of level {level} has |value| {value}, above the ceiling {most[level - 1]}"
        )
    for found in ceiling.proposals:
        at = most[found.level - 1]
        assert abs(found.value) <= at + _ROUNDING, f"found {found.value}, above the ceiling {at}"
