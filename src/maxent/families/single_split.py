"""The best single threshold: sums by bin say in which bins it may lie, and only these are opened.

P and N are the sums of positive and of negative parts of r in a bin, L the sum of the bins before
it. The sum x up to any threshold inside lies in [L - N, L + P], and what the split gains,
[x]_+ + [R - x]_+ - [R]_+ with R the sum over all cells, is convex in x: largest at one of the ends.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from maxent.rows.arrays import Array

_AT_ONCE = 128  # bins that are opened together


class BinAnswers(Protocol):
    """The sums over the cells that single splits ask for."""

    total: float

    def root(self) -> Array:
        """Sums of r by bin of every variable."""

    def negatives(self) -> Array:
        """Sums of [-r]_+ by bin."""

    def within(self, bins: Array) -> list[tuple[Array, Array]]:
        """Of the cells in each of some bins the values, and r."""


class Threshold(NamedTuple):
    """A split between two neighbouring values of a variable: the sum up to it, and its gain."""

    variable: int
    low: float
    high: float
    left: float
    gain: float


def gains(left: Array, total: float) -> Array:
    """[a]_+ + [b]_+ - [a + b]_+ of the sums on both sides, without cancellation."""
    right = total - left
    apart = (left > 0) != (right > 0)
    return np.where(apart, np.minimum(np.abs(left), np.abs(right)), 0.0)


def threshold_inside(
    sums: BinAnswers, firsts: Array, coarse: Array, least: float, noise: float
) -> Threshold | None:
    """The best threshold inside the ``coarse`` bins with a gain above ``least``, if there is one.

    ``firsts`` is the number of each variable's first bin. Thresholds between bins are not looked
    at: ``least`` is the gain of the best of them.
    """
    if not coarse.any():
        return None
    root, negative, total = sums.root(), sums.negatives(), sums.total
    sizes = np.diff(firsts)
    before = np.cumsum(root) - root
    before -= np.repeat(before[firsts[:-1]], sizes)
    ends = np.array([before - negative, before + root + negative])
    bounds = np.where(coarse, gains(ends, total).max(axis=0), 0.0)
    variable = np.repeat(np.arange(sizes.size), sizes)
    found, best = None, least
    open_ = np.flatnonzero(bounds > best + noise)
    open_ = open_[np.argsort(-bounds[open_], kind="stable")]
    while open_.size:
        now, open_ = open_[:_AT_ONCE], open_[_AT_ONCE:]
        for place, (values, r) in zip(now, sums.within(now), strict=True):
            inside = _best_of(values, r, float(before[place]), total)
            if inside is not None and inside.gain > best + noise:
                found, best = inside._replace(variable=int(variable[place])), inside.gain
        open_ = open_[bounds[open_] > best + noise]
    return found


def _best_of(values: Array, r: Array, before: float, total: float) -> Threshold | None:
    """The best threshold between two of these values."""
    order = np.argsort(values, kind="stable")
    values, left = values[order], before + np.cumsum(r[order])
    last = np.flatnonzero(values[1:] > values[:-1])
    if not last.size:
        return None
    gained = gains(left[last], total)
    k = int(np.argmax(gained))
    ends = values[last[k]], values[last[k] + 1]
    return Threshold(-1, float(ends[0]), float(ends[1]), float(left[last[k]]), float(gained[k]))
