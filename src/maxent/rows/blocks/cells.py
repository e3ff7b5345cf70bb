"""CellBlock: some of the cells of the one row that a density is over, with their features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxent.features import OperatorMap
from maxent.features.base import DRAW_AT
from maxent.rows.arrays import Array
from maxent.rows.blocks.row_laws import RowLaw
from maxent.rows.blocks.sizes import bytes_of
from maxent.rows.blocks.weights import SparseWeights


class Start(NamedTuple):
    """What the normalisation of a row begins with.

    ``log_mass`` is log sum q exp(theta), ``top`` and ``size`` are the largest theta and |theta|,
    ``total`` is sum q.
    """

    log_mass: float
    top: float
    size: float
    total: float

    def merge(self, other: Start) -> Start:
        """Of two pieces."""
        mass = np.logaddexp(self.log_mass, other.log_mass)
        top, size = max(self.top, other.top), max(self.size, other.size)
        return Start(float(mass), top, size, self.total + other.total)


class Sums(NamedTuple):
    """Sums over cells of p (theta - tau) and p f, and those of s of each block by its number."""

    above: float
    slopes: dict[int, float]
    moments: Array

    def merge(self, other: Sums) -> Sums:
        """Of two pieces."""
        slopes = self.slopes | other.slopes
        return Sums(self.above + other.above, slopes, self.moments + other.moments)


class LocalSums(NamedTuple):
    """The moments of cells that are normalised among themselves, and log sum q exp(theta).

    Pieces of a Gibbs distribution merge by these alone, in one pass.
    """

    start: Start
    log_masses: dict[int, float]
    moments: Array

    def merge(self, other: LocalSums) -> LocalSums:
        """Of two pieces: each counts as much as its mass."""
        start = self.start.merge(other.start)
        mine, theirs = (np.exp(x.start.log_mass - start.log_mass) for x in (self, other))
        moments = mine * self.moments + theirs * other.moments
        return LocalSums(start, self.log_masses | other.log_masses, moments)


class GramSums(NamedTuple):
    """C' diag(d) C and C'd, and the sums of the columns that a sample gave."""

    total: Array
    seen: Array

    def merge(self, other: GramSums) -> GramSums:
        """Of two pieces."""
        return GramSums(self.total + other.total, self.seen + other.seen)


class CurvedSums(NamedTuple):
    """Sums over cells, with z = F'v: s f z, s f and s z."""

    moved: Array
    mean: Array
    along: float

    def merge(self, other: CurvedSums) -> CurvedSums:
        """Of two pieces."""
        moved, mean = self.moved + other.moved, self.mean + other.mean
        return CurvedSums(moved, mean, self.along + other.along)


class Draw(NamedTuple):
    """A systematic sample of the cells in proportion to s: ``size`` of them at equal steps.

    ``total`` is the sum of s, ``before`` that of the blocks before each, ``edges`` the numbers of
    the draws at which a block begins and ends.
    """

    size: int
    total: float
    before: dict[int, float]
    edges: dict[int, tuple[int, int]]

    @classmethod
    def from_sums(cls, size: int, slopes: dict[int, float]) -> Draw:
        """A sample of ``size`` cells from blocks with these sums of s."""
        numbers = sorted(slopes)
        below = np.cumsum([0.0, *(slopes[n] for n in numbers)])
        total = float(below[-1])
        edge = np.ceil(below / total * size - DRAW_AT).astype(int).clip(0, size)
        edge[-1] = size
        before = {n: float(below[i]) for i, n in enumerate(numbers)}
        edges = {n: (int(edge[i]), int(edge[i + 1])) for i, n in enumerate(numbers)}
        return cls(size, total, before, edges)


@dataclass(eq=False)
class CellBlock:
    """Cells of one row: features bound to them, masses q0 (of all blocks the sum is 1), records.

    What was computed for the last weights is kept, so that a Hessian or a certificate at the same
    weights costs no second pass; another copy of the block computes it again.

    Parameters
    ----------
    number : int
        Number of the block.
    features : OperatorMap
        Features bound to the cells.
    default : array (n_cells,)
        Masses q0; of all blocks the sum is 1.
    occupied : array
        The cells with occurrences.
    share : array
        Their share of all occurrences.
    mass : array (n_cells,)
        How often each cell counts.
    """

    number: int
    features: OperatorMap
    default: Array
    occupied: Array
    share: Array
    mass: Array
    _last: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": {}}

    def __sizeof__(self) -> int:
        return bytes_of(self)

    # -- one evaluation ------------------------------------------------------------------------

    def start(self, weights: SparseWeights) -> Start | None:
        """Where the search for tau begins."""
        if not self.default.size:
            return None
        theta = self._theta(weights)
        if "start" not in self._last:
            top = float(theta.max())
            gibbs = np.exp(theta - top)
            gibbs *= self.default
            mass = float(gibbs.sum())
            size, total = max(top, -float(theta.min())), float(self.default.sum())
            start = Start(float(np.log(mass)) + top, top, size, total)
            self._last |= {"start": start, "gibbs": gibbs / mass}
        return self._last["start"]

    def local_sums(self, weights: SparseWeights, wanted: Array | None) -> LocalSums | None:
        """What pieces of a Gibbs distribution merge by."""
        start = self.start(weights)
        if start is None:
            return None
        moments = self._chosen(wanted).moments(self._last["gibbs"])
        return LocalSums(start, {self.number: start.log_mass}, moments)

    def masses(self, law: RowLaw, weights: SparseWeights, tau: float) -> Array | None:
        """`(sum p, sum s)` at a trial tau."""
        if not self.default.size:
            return None
        theta = self._theta(weights)
        p = law.density(theta, self.default, tau)
        return np.array([p.sum(), law.slopes(theta, self.default, p, tau).sum()])

    def sums(
        self, law: RowLaw, weights: SparseWeights, tau: float, wanted: Array | None
    ) -> Sums | None:
        """The sums at tau, with the moments of the features ``wanted`` (None: of all)."""
        if not self.default.size:
            return None
        theta, p = self._density(law, weights, tau)
        features = self._chosen(wanted)
        above = float(p @ theta) - tau * float(p.sum())
        slopes = float(law.slopes(theta, self.default, p, tau).sum())
        return Sums(above, {self.number: slopes}, features.moments(p))

    # -- what a certificate and a Hessian ask --------------------------------------------------

    def mixture(self, law: RowLaw, weights: SparseWeights, tau: float, s: float) -> float:
        """The part of `Omega(x) - <theta, x>` of `x = s p + (1 - s) p~`, `p~` the observed."""
        theta, p = self._density(law, weights, tau)
        x = s * p
        x[self.occupied] += (1 - s) * self.share
        return law.value_less_score(x, self.default, theta)

    def residual(self, law: RowLaw, weights: SparseWeights, tau: float) -> Array:
        """p - observed at the cells."""
        if law.gibbs:
            self.start(weights)  # a copy of the block finds the same digits
        r = self._density(law, weights, tau)[1].copy()
        r[self.occupied] -= self.share
        return r

    def observed_value(self, law: RowLaw) -> float:
        """The part of `Omega(p~)`, `p~` the observed."""
        q = self.default[self.occupied]
        return law.value_less_score(self.share, q, np.zeros_like(q))

    def observed_moments(self, wanted: Array | None) -> Array:
        """The part of F observed."""
        part = OperatorMap(
            [bound.take(self.occupied) for bound in self._chosen(wanted).parts], self.share.size
        )
        return part.moments(self.share)

    def gram(
        self, law: RowLaw, weights: SparseWeights, tau: float, wanted: Array, draw: Draw | None
    ) -> GramSums | None:
        """C' diag(s) C and C's, of all cells or of those that a draw hits."""
        if not self.default.size:
            return None
        theta, p = self._density(law, weights, tau)
        d = law.slopes(theta, self.default, p, tau)
        features = self._chosen(wanted)
        if draw is None:
            return GramSums(features.weighted_sums(d, d), features.moments(d))
        first, last = draw.edges[self.number]
        step = draw.total / draw.size
        places = step * (np.arange(first, last) + DRAW_AT) - draw.before[self.number]
        drawn = np.searchsorted(np.cumsum(d), places).clip(0, d.size - 1)
        part = OperatorMap([bound.take(drawn) for bound in features.parts], drawn.size)
        share = np.full(drawn.size, step)
        return GramSums(part.weighted_sums(share, share), part.moments(share))

    def curved(
        self,
        law: RowLaw,
        weights: SparseWeights,
        tau: float,
        direction: SparseWeights,
        wanted: Array | None,
    ) -> CurvedSums | None:
        """What a product with the Hessian is made of."""
        if not self.default.size:
            return None
        theta, p = self._density(law, weights, tau)
        d = law.slopes(theta, self.default, p, tau)
        z = self._chosen(direction.index).scores(direction.values)
        features = self._chosen(wanted)
        return CurvedSums(features.moments(d * z), features.moments(d), float(d @ z))

    def squares(
        self, law: RowLaw, weights: SparseWeights, tau: float, wanted: Array
    ) -> Array | None:
        """Rows: `sum s f^2` and `sum s f`."""
        if not self.default.size:
            return None
        theta, p = self._density(law, weights, tau)
        d = law.slopes(theta, self.default, p, tau)
        features = self._chosen(wanted)
        return np.array([features.squares(d), features.moments(d)])

    def reach(self, weights: SparseWeights) -> float:
        """The largest |F'w|."""
        theta = self._chosen(weights.index).scores(weights.values)
        return float(np.abs(theta).max(initial=0.0))

    def scores(self, weights: SparseWeights) -> Array:
        """`theta` of the cells."""
        return self._theta(weights)

    # -- the last weights ----------------------------------------------------------------------

    def _chosen(self, index: Array | None) -> OperatorMap:
        return self.features if index is None else self.features.restrict(index)

    def _theta(self, weights: SparseWeights) -> Array:
        key = weights.key
        if self._last.get("weights") != key:
            theta = self._chosen(weights.index).scores(weights.values)
            self._last = {"weights": key, "theta": theta}
        return self._last["theta"]

    def _density(self, law: RowLaw, weights: SparseWeights, tau: float) -> tuple[Array, Array]:
        theta = self._theta(weights)
        if law.gibbs and "gibbs" in self._last:
            return theta, self._last["gibbs"] * np.exp(self._last["start"].log_mass - tau)
        if self._last.get("tau") != tau:
            self._last |= {"tau": tau, "p": law.density(theta, self.default, tau)}
        return theta, self._last["p"]
