"""What a density needs of the scores at its points: sums that blocks of points give and merge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxent.density.link import DensityLink
from maxent.features.sketch import SIZE, QuantileSketch
from maxent.rows.arrays import Array

TABLE = 10_000  # entries of the stored cumulative distribution at most


@dataclass(frozen=True, eq=False)
class DensitySums:
    """Sums over points with scores theta and masses m, l = log of the link at theta.

    Attributes
    ----------
    top : float
        The largest l, -inf where no point has a density.
    total : float
        `sum m exp(l - top)`.
    moment : float
        `sum m exp(l - top) (l - top)`.
    logs : QuantileSketch
        The sketch of l, with masses `m exp(l - top)`; exact where it holds all distinct values.
    has_zero : bool
        Whether there is a point without density, of which l is -inf.

    Notes
    -----
    All blocks need one link. With `L = top + log(total)` the raw output is `exp(l - L)` and
    its entropy `log(total) - moment / total`.

    Examples
    --------
    >>> link, theta = DensityLink(0.0, 2.0), np.array([0.0, 1.0, 2.0])
    >>> whole = DensitySums.from_points(theta, link, np.ones(3))
    >>> both = DensitySums.from_points(theta[:1], link, np.ones(1)).merge(
    ...     DensitySums.from_points(theta[1:], link, np.ones(2))
    ... )
    >>> round(whole.log_total, 6), round(both.log_total, 6)
    (0.407606, 0.407606)
    """

    top: float
    total: float
    moment: float
    logs: QuantileSketch
    has_zero: bool

    @classmethod
    def from_points(
        cls, theta: Array, link: DensityLink, mass: Array, size: int = SIZE
    ) -> DensitySums:
        """The sums over points; ``size`` is that of the sketch."""
        logs = link.log(theta)
        has_zero = bool(np.isneginf(logs).any())
        if has_zero:
            logs, mass = logs[logs > -np.inf], mass[logs > -np.inf]
        top = float(logs.max(initial=-np.inf))
        below = logs - top
        weight = mass * np.exp(below)
        return cls(
            top,
            float(weight.sum()),
            float(weight @ below),
            QuantileSketch.from_values(logs, weight, size),
            has_zero,
        )

    def merge(self, other: DensitySums) -> DensitySums:
        """The sums over the points of both."""
        top = max(self.top, other.top)
        one, two = self._below(top), other._below(top)
        return DensitySums(
            top,
            one.total + two.total,
            one.moment + two.moment,
            one.logs.merge(two.logs),
            self.has_zero or other.has_zero,
        )

    def _below(self, top: float) -> DensitySums:
        """The same sums relative to a higher ``top``."""
        if self.top in (top, -np.inf):
            return replace(self, top=top)
        drop = self.top - top
        factor = float(np.exp(drop))
        return replace(
            self,
            top=top,
            total=factor * self.total,
            moment=factor * (self.moment + drop * self.total),
            logs=replace(self.logs, mass=factor * self.logs.mass, lost=factor * self.logs.lost),
        )

    @property
    def log_total(self) -> float:
        """The log of `sum m exp(l)`, the normalisation of the raw output."""
        if not self.total > 0:
            raise ValueError("no point has a density above 0, so there is nothing to normalise")
        return self.top + float(np.log(self.total))

    @property
    def raw_entropy(self) -> float:
        """The entropy of the raw output."""
        return float(np.log(self.total)) - self.moment / self.total

    @property
    def cumulative_error(self) -> float:
        """How much of the mass the table may lack at a value, beside its thinning to 1 / 9,999."""
        return self.logs.rank_error

    def cumulative(self) -> Array:
        """(2, n): raw values and the share of mass at or below each, thinned to a table."""
        values, mass = np.exp(self.logs.values - self.log_total), self.logs.mass
        if self.has_zero:
            values, mass = np.append(0.0, values), np.append(0.0, mass)
        return _thinned(values, mass)


def cumulative_table(raw: Array, mass: Array) -> Array:
    """(2, n): raw values and the share of mass at or below each, thinned to a table."""
    order = np.argsort(raw)
    return _thinned(raw[order], (mass * raw)[order])


def _thinned(values: Array, mass: Array) -> Array:
    """Of increasing values with their masses."""
    below = np.cumsum(mass)
    last = np.append(np.flatnonzero(np.diff(values)), values.size - 1)
    values, below = values[last], below[last] / below[-1]
    if values.size > TABLE:
        even = np.searchsorted(below, np.linspace(0, 1, TABLE))
        chosen = np.unique(np.concatenate([[0], np.minimum(even, values.size - 1)]))
        values, below = values[chosen], below[chosen]
    return np.array([values, below])
