"""A mergeable summary of a weighted sample: its quantiles, with a bound on their error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from maxent._support.checks import masses
from maxent.rows.arrays import Array
from maxent.rows.merging import merged

SIZE = 2**16  # values: one more than the knots a variable may have


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """All distinct values of a sample with their mass, up to ``size`` of them.

    Beyond, values are left out and their mass moves up to the next that is kept. Least and
    largest value are always kept, and nothing is drawn at random. With W(x) the share of the
    sample's mass at or below x, and w(x) that of the sketch,

        `W(x) - error <= w(x) <= W(x)`   for every x, up to rounding, error = ``rank_error``.

    Proof: between neighbours `a < b` that are kept a compression moves the mass d left out there up
    to b, which lowers the mass at or below x by at most d and never raises it; a merge adds masses,
    hence their errors.

    A compression loses at most 1 / (size - 1) of the mass it sees, so that merges in a balanced
    tree (``merge_all``) have an error of at most (depth + 1) / (size - 1).

    Parameters
    ----------
    values : array (n_values,)
        The values, increasing.
    mass : array (n_values,)
        Their mass.
    size : int, default 65536
        Values kept at most.
    lost : float, default 0.0
        Sum over all compressions of the largest d.

    Examples
    --------
    >>> one, other = (QuantileSketch.from_values(x) for x in ([1.0, 2.0, 2.0], [5.0]))
    >>> sketch = one.merge(other)
    >>> sketch.values, sketch.mass, sketch.rank_error
    (array([1., 2., 5.]), array([1., 2., 1.]), 0.0)
    >>> sketch.quantiles([0.5, 0.9])
    array([2., 5.])
    """

    values: Array
    mass: Array
    size: int = SIZE
    lost: float = 0.0

    @classmethod
    def from_values(cls, values: Any, weights: Any = None, size: int = SIZE) -> QuantileSketch:
        """The sketch of a sample; without ``weights`` every value has mass 1."""
        if not (isinstance(size, int | np.integer) and size >= 2):
            raise ValueError(f"size must be an integer >= 2, got {size!r}")
        values = np.asarray(values)
        if values.ndim != 1:
            raise ValueError(f"a sketch is of one row of values, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(
                f"a sketch needs finite values: {int((~np.isfinite(values)).sum())} of "
                f"{values.size} are NaN or infinite; leave them out"
            )
        if weights is None:
            distinct, counts = np.unique(values, return_counts=True)
            mass = counts.astype(np.float64)
        else:
            distinct, mass = _summed(values, masses("weights", weights, values.size))
        return cls(distinct.astype(np.float64, copy=False), mass, int(size))._compressed()

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """The sketch of both samples together."""
        if self.size != other.size:
            raise ValueError(
                f"sketches of sizes {self.size} and {other.size} do not merge: give one size"
            )
        values = np.concatenate([self.values, other.values])
        both = _summed(values, np.concatenate([self.mass, other.mass]))
        return QuantileSketch(*both, self.size, self.lost + other.lost)._compressed()

    @property
    def total(self) -> float:
        """The mass of the sample."""
        return float(self.mass.sum())

    @property
    def exact(self) -> bool:
        """Whether every distinct value is there with its mass."""
        return self.lost == 0.0

    @property
    def rank_error(self) -> float:
        """How much of the mass may lie at or below a value beside what the sketch has there."""
        return self.lost / self.total if self.lost else 0.0

    def quantiles(self, q: Any) -> Array:
        """The least value with at least the share q of the mass at or below it.

        With error e: at least q of the sample lies at or below it, at most `q + e` below it.
        """
        q = np.asarray(q, dtype=np.float64)
        if not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"shares must be from 0 to 1, got {q!r}")
        if not self.total > 0:
            raise ValueError("a sample without mass has no quantiles")
        below = np.cumsum(self.mass)
        place = np.searchsorted(below, q * below[-1])
        return np.asarray(self.values[np.minimum(place, self.values.size - 1)])

    def _compressed(self) -> QuantileSketch:
        if self.values.size <= self.size:
            return self
        below, last = np.cumsum(self.mass), self.values.size - 1
        # the ends, and the first value to reach each of size - 2 even steps of the mass
        steps = below[-1] * (np.arange(1, self.size - 1) / (self.size - 1))
        kept = np.unique(np.concatenate([[0, last], np.searchsorted(below, steps)]))
        moved = below[kept[1:] - 1] - below[kept[:-1]]
        mass = np.diff(below[kept], prepend=0.0)
        return replace(
            self, values=self.values[kept], mass=mass, lost=self.lost + float(moved.max())
        )


def _summed(values: Array, mass: Array) -> tuple[Array, Array]:
    """Distinct values, increasing, and the mass of each."""
    order = np.argsort(values, kind="stable")
    values, mass = values[order], mass[order]
    if not values.size:
        return values, mass
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[first], np.add.reduceat(mass, first)


class Mergeable(Protocol):
    """A summary of a part of the data."""

    def merge(self, other: Self, /) -> Self:
        """The summary of both parts."""
        ...


Part = TypeVar("Part", bound=Mergeable)


def merge_all(parts: Iterable[Part]) -> Part:
    """One summary of all parts, merged in their order in a balanced tree.

    Of n parts it holds log2(n) at a time, so they may come one by one.

    Parameters
    ----------
    parts : iterable
        Summaries with ``merge``.

    Examples
    --------
    >>> merge_all(QuantileSketch.from_values([float(i)]) for i in range(5)).values
    array([0., 1., 2., 3., 4.])
    """
    whole = merged(parts, lambda one, other: one.merge(other))
    if whole is None:
        raise ValueError("there is no part to merge: the data have no blocks")
    return whole
