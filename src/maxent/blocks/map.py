"""BlockMap: the feature map of a table in blocks. It has sums to give, and no scores.

The rows, theta and p, stay with the blocks: a solver sees values, gradients and Gram matrices.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import cached_property
from operator import add
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from maxent._rows import Array, Rows
from maxent.blocks.cells import Draw, GramSums, LocalSums, Start, Sums
from maxent.blocks.engine import Blocks
from maxent.blocks.row_laws import RowLaw, law_of
from maxent.blocks.samples import Moved, SampleSums
from maxent.blocks.weights import SparseWeights
from maxent.entropies import Entropy
from maxent.features.base import HITS, OperatorMap
from maxent.maps import ColumnMap

_MANY_COLUMNS = 2000  # whose Gram matrix is not worth its spectrum


class InBlocks:
    """Rows that stay in their blocks, such as the observed ones of a ``BlockMap``."""

    def __repr__(self) -> str:
        return "rows in blocks"


class BlockMap(ColumnMap):
    """Features of rows that stay in blocks.

    ``index`` are the features in use, None for all of them. Weights, penalties and targets are
    in the row weights of the blocks: ``Problem.weights`` is None.
    """

    in_blocks: ClassVar[bool] = True

    def __init__(self, blocks: Blocks, n_features: int) -> None:
        self.blocks = blocks
        self.n_all = self.n_features = int(n_features)
        self.index: Array | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.blocks)} blocks, {self.n_features} features)"

    def sparse(self, w: Array) -> SparseWeights:
        """Those of all features that are not 0."""
        return SparseWeights.of(np.asarray(w, dtype=np.float64), self.index, self.n_all)

    def restrict(self, index: Array) -> Self:
        """Some of the features; nothing is copied."""
        part = copy(self)
        part.index = index if self.index is None else self.index[index]
        part.n_features = int(index.size)
        return part

    def scores(self, w: Array) -> NoReturn:
        """Refused: they stay with the blocks."""
        raise TypeError(
            "the scores and probabilities of a table in blocks stay with its blocks; use predict, "
            "whose answer has the chunks of its input"
        )

    def observing(self, observed: Any) -> tuple[BlockMap, InBlocks]:
        """The map whose blocks have these observed rows."""
        if isinstance(observed, InBlocks):
            return self, observed
        raise TypeError(
            f"the observed rows of {self!r} come with its blocks: give observed=InBlocks()"
        )

    def moments(self, p: Rows) -> Array:
        """F p of the observed rows."""
        if not isinstance(p, InBlocks):
            self.scores(np.zeros(0))
        return self.blocks.reduce("observed_moments", self.index, merge=add)

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> NoReturn:
        """Refused: ``hessian`` gives it at given weights."""
        raise TypeError("the Gram matrix of a table in blocks is BlockMap.hessian")

    @abstractmethod
    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array]:
        """sum a_i Omega*(F_i'w) and sum a_i F_i p_i: one evaluation."""

    @abstractmethod
    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """F J F' at w, from one of ``every`` rows or cells."""

    @abstractmethod
    def observed_value(self, entropy: Entropy) -> float:
        """sum a_i Omega(observed_i)."""

    @abstractmethod
    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float | None:
        """Omega(x) + Omega*(theta) - <theta, x> at x = s p_w + (1 - s) observed.

        None where it is dear: convexity bounds it by what is known at p_w and at observed.
        """

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Number of rows, or of cells of a single row."""

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """Number of all scores."""

    def largest_score(self, w: Array) -> float:
        """The largest |F'w|."""
        return self.blocks.reduce("reach", self.sparse(w), merge=max)


class _At(NamedTuple):
    """What is known at the last weights of a row; ``slopes`` are the sums of s of each block."""

    weights: SparseWeights
    law: RowLaw
    tau: float
    start: Start
    conjugate: float
    slopes: dict[int, float]


class CellBlockMap(BlockMap):
    """Features of the cells of one row, which ``CellBlock`` hold: a density over more cells than
    fit in memory. Shannon merges as (log sum exp, moments), Tsallis finds its threshold in a few
    rounds of one number each. ``records`` are the features at some cells, such as those with
    occurrences, by which a working set tells near copies apart.
    """

    cheap_moments: ClassVar[bool] = True

    def __init__(
        self,
        blocks: Blocks,
        n_features: int,
        n_cells: int,
        records: OperatorMap | None = None,
    ) -> None:
        super().__init__(blocks, n_features)
        self.n_cells = int(n_cells)
        self.records = records
        self._known: list[_At] = []  # shared by the maps of all working sets

    @property
    def n_points(self) -> int:
        """Number of cells."""
        return self.n_cells

    n_scores = n_points

    def ranges(self) -> tuple[Array, Array]:
        """0 and 1: operators are scaled."""
        return np.zeros(self.n_features), np.ones(self.n_features)

    def candidates(self, violation: Array, count: int) -> Array:
        """The worst violators, as far as they are no copies of one another."""
        if self.records is not None:
            violation = self.records.priority(violation)
        return super().candidates(violation, count)

    def restrict(self, index: Array) -> Self:
        """Some of the features; nothing is copied."""
        part = super().restrict(index)
        part.records = None if self.records is None else self.records.restrict(index)
        return part

    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array]:
        """One pass for Shannon; a pass more for every round of the threshold of Tsallis."""
        at, moments = self._evaluate(law_of(entropy), self.sparse(w))
        self._known[:] = [at]
        return np.asarray(at.conjugate), moments

    def _evaluate(self, law: RowLaw, weights: SparseWeights) -> tuple[_At, Array]:
        reduce = self.blocks.reduce
        if law.gibbs:
            local: LocalSums = reduce("local_sums", weights, self.index, merge=LocalSums.merge)
            tau = local.start.log_mass
            slopes = {n: float(np.exp(mass - tau)) for n, mass in local.log_masses.items()}
            return _At(weights, law, tau, local.start, tau, slopes), local.moments
        start: Start = reduce("start", weights, merge=Start.merge)

        def masses(tau: float) -> tuple[float, float]:
            mass, slope = reduce("masses", law, weights, tau, merge=add)
            return float(mass), float(slope)

        tau = law.search(start.top, start.log_mass, start.total, masses)
        sums: Sums = reduce("sums", law, weights, tau, self.index, merge=Sums.merge)
        conjugate = law.conjugate(tau, sums.above)
        return _At(weights, law, tau, start, conjugate, sums.slopes), sums.moments

    def _at(self, entropy: Entropy, w: Array) -> _At:
        """What is known at w; an evaluation where it is not the last one."""
        weights, law = self.sparse(w), law_of(entropy)
        for known in self._known:
            if known.law == law and known.weights.key == weights.key:
                return known
        self.conjugate_and_moments(entropy, w, None)
        return self._known[0]

    def conjugate(self, entropy: Entropy, w: Array) -> float:
        """Omega*(F'w)."""
        return self._at(entropy, w).conjugate

    def threshold(self, entropy: Entropy, w: Array) -> tuple[float, float]:
        """tau at w, with p_i = q_i h(theta_i - tau), and the largest theta_i."""
        at = self._at(entropy, w)
        return at.tau, at.start.top

    def largest_score(self, w: Array) -> float:
        """The largest |F'w|."""
        key = self.sparse(w).key
        for known in self._known:
            if known.weights.key == key:
                return known.start.size
        return super().largest_score(w)

    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """As ``OperatorMap.gram`` at p_w: a sample in proportion to the curvature."""
        at = self._at(entropy, w)
        wanted = np.arange(self.n_all) if self.index is None else self.index
        draw = None if every == 1 else Draw.of(self.n_cells // every, at.slopes)
        sums: GramSums = self.blocks.reduce(
            "gram", at.law, at.weights, at.tau, wanted, draw, merge=GramSums.merge
        )
        total = sum(at.slopes.values())
        gram = sums.total[:, :-1] - np.outer(sums.total[:, -1], sums.total[:, -1]) / total
        if draw is None:
            return gram
        rare = np.flatnonzero(sums.seen * draw.size < HITS * draw.total)
        if rare.size:
            squares, means = self.blocks.reduce(
                "squares", at.law, at.weights, at.tau, wanted[rare], merge=add
            )
            gram[rare] = gram[:, rare] = 0.0
            gram[rare, rare] = np.maximum(squares - means**2 / total, 0.0)
        return gram

    def observed_value(self, entropy: Entropy) -> float:
        """Omega of the observed distribution."""
        return float(self.blocks.reduce("observed_value", law_of(entropy), merge=add))

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float:
        """One more pass, which finds theta and p as they were left."""
        at = self._at(entropy, w)
        part = self.blocks.reduce("mixture", at.law, at.weights, at.tau, s, merge=add)
        return float(part) + at.conjugate


class SampleBlockMap(BlockMap):
    """Features of samples, each a row with a loss of its own, which ``SampleBlock`` hold.

    ``n_outputs`` is the number of scores of a sample where all have as many, else None.
    """

    one_row = False

    def __init__(
        self, blocks: Blocks, n_features: int, n_samples: int, n_outputs: int | None = None
    ) -> None:
        super().__init__(blocks, n_features)
        self.n_samples, self.n_outputs = int(n_samples), n_outputs

    @property
    def n_points(self) -> int:
        """Number of samples."""
        return self.n_samples

    @property
    def n_scores(self) -> int:
        """Number of all scores."""
        return self.n_samples * (self.n_outputs or 1)

    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array]:
        """One pass; sums merge by addition."""
        sums: SampleSums = self.blocks.reduce(
            "sums", self.sparse(w), self.index, merge=SampleSums.merge
        )
        return np.asarray(sums.conjugate), sums.moments

    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each weight's column, from one pass."""
        low, high = (np.repeat(x, self.n_outputs or 1) for x in self._column_ranges)
        return (low, high) if self.index is None else (low[self.index], high[self.index])

    @cached_property
    def _column_ranges(self) -> tuple[Array, Array]:
        return self.blocks.reduce("ranges", merge=wider)

    def column_means(self) -> Array:
        """a'X, the weighted mean of each column."""
        return self.blocks.reduce("column_means", merge=add)

    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """The sum of those of the blocks."""
        return self.blocks.reduce("hessian", self.sparse(w), self.index, every, merge=add)

    def hessian_product(self, w: Array, v: Array) -> Array:
        """F J F'v at w."""
        return self.blocks.reduce("hessian_product", self.sparse(w), v, merge=add)

    def column_gram(self) -> Array | None:
        """X' diag(a) X; None where samples are no rows of a matrix, or have too many columns."""
        if self.n_outputs is None or self.n_all > _MANY_COLUMNS * self.n_outputs:
            return None
        return self.blocks.reduce("column_gram", merge=add)

    def across(self, w: Array) -> Array:
        """sum a_i J_i at w."""
        return self.blocks.reduce("across", self.sparse(w), merge=add)

    def observed_value(self, entropy: Entropy) -> float:
        """sum a_i Omega(observed_i)."""
        return float(self.blocks.reduce("observed_value", merge=add))

    def entropy_gap(self, w: Array, moved: Moved) -> float:
        """Omega(x) + Omega*(theta) - <theta, x> at moved rows x."""
        return float(self.blocks.reduce("entropy_gap", self.sparse(w), moved, merge=add))

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float | None:
        """That at s p_w + (1 - s) observed."""
        return self.entropy_gap(w, Moved(s))


def wider(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """The ranges of two pieces as one."""
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])
