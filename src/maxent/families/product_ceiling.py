"""What no product of raw features exceeds: branch and bound over their factors, in whole levels.

With psi in [0, 1], |sum_i r_i phi psi| <= max(sum_i [r_i]_+ phi, sum_i [-r_i]_+ phi): a product
that is small by this bound is small with any further factor. Every level is one pass over the
cells.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from maxent.rows.arrays import Array

_KEPT = 5  # products of a level that are handed on, the best first
_CHUNK = 1 << 20  # sums that one pass makes at most


class ExtendedSums(Protocol):
    """The sums over the cells that are asked for, see ``FactorSums``."""

    size: float
    count: int

    def extended(self, products: Array, first: Array) -> Array:
        """Sums of r phi psi and of |r| phi psi."""


def product_ceiling(
    sums: ExtendedSums, place: Array, prices: Array, budget: float
) -> tuple[Array, list[tuple[tuple[int, ...], float]]]:
    """At most |value| of products of k raw features, for each price; the best, factors and value.

    ``place`` is that of the raw features. Products are extended while any might be worth more than
    the price of its extensions, those with the largest bounds first; what is left when ``budget``
    visits of cells are used up counts with its bound.
    """
    after = _next_factors(place)
    most = np.zeros(len(prices))
    found: list[tuple[tuple[int, ...], float]] = []
    left_out = 0.0  # the largest bound of all products that are not extended
    frontier, bounds = np.empty((1, 0), dtype=np.int32), np.array([np.inf])
    first, budget = np.zeros(1, dtype=np.int32), max(budget, sums.count * len(place))
    for level in range(len(prices)):
        least = prices[level:].min()
        order = np.argsort(-bounds, kind="stable")
        cost = np.cumsum((len(place) - first)[order]) * float(sums.count)
        kept = order[(cost <= budget) & (bounds[order] > least)]
        rest = np.setdiff1d(order, kept, assume_unique=True)
        left_out = max(left_out, float(bounds[rest].max(initial=0.0)))
        if kept.size:
            budget -= float(cost[kept.size - 1])
            products, signed, bounds = _extended(sums, frontier[kept], first[kept], len(place))
            most[level] = np.abs(signed).max()
            best = np.argsort(-np.abs(signed), kind="stable")[:_KEPT]
            found += [(tuple(products[j].tolist()), float(signed[j])) for j in best]
            frontier, first = products, after[products[:, -1]]
            going = first < len(place)  # the last indicator has no further factors
            frontier, first, bounds = frontier[going], first[going], bounds[going]
        else:
            frontier, first, bounds = frontier[:0], first[:0], bounds[:0]
        most[level] = max(most[level], left_out)
    if (place[:, 1] >= 0).any():
        # an indicator twice is the same feature in a larger set
        most = np.maximum.accumulate(most)
    return most, found


def _next_factors(place: Array) -> Array:
    """The first factor to come after each: itself, or for a level the next variable."""
    after = np.arange(len(place), dtype=np.int32)
    for k in range(len(place) - 1, -1, -1):
        if place[k, 1] >= 0:
            same = k + 1 < len(place) and place[k + 1, 1] >= 0 and place[k + 1, 0] == place[k, 0]
            after[k] = after[k + 1] if same else k + 1
    return after


def _extended(
    sums: ExtendedSums, frontier: Array, first: Array, count: int
) -> tuple[Array, Array, Array]:
    """All products with a factor more: their factors, values and bounds, in passes of some."""
    sizes = count - first
    starts = np.flatnonzero(np.diff(np.cumsum(sizes) // _CHUNK, prepend=-1))
    parts = []
    for part in np.split(np.arange(first.size), starts[1:]):
        parts.append(sums.extended(frontier[part], first[part]))
    both = np.concatenate(parts)
    parent = np.repeat(np.arange(first.size), sizes)
    ends = np.cumsum(sizes)
    factor = np.arange(ends[-1]) - np.repeat(ends - sizes - first, sizes)
    products = np.column_stack([frontier[parent], factor]).astype(np.int32)
    bounds = (both[:, 1] + np.abs(both[:, 0])) / 2
    return products, both[:, 0], bounds
