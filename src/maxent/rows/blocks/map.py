"""BlockMap: features whose rows stay in blocks. It has sums to give, and no scores.

The rows, theta and p, stay with the blocks: a solver sees values, gradients and Gram matrices.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property
from operator import add, and_
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from maxent.core.entropies import Entropy
from maxent.core.maps import SelectableFeatures
from maxent.features.base import HITS, OperatorMap
from maxent.rows.arrays import Array, Rows
from maxent.rows.blocks.cells import CurvedSums, Draw, GramSums, LocalSums, Start, Sums
from maxent.rows.blocks.engine import Blocks
from maxent.rows.blocks.row_laws import RowLaw, law_of
from maxent.rows.blocks.samples import SampleSums
from maxent.rows.blocks.weights import SparseWeights
from maxent.rows.certificate_moves import Moved
from maxent.rows.evaluator import (
    Evaluation,
    Evaluator,
    Line,
    Point,
    above_rounding,
    rows_out_of_reach,
)

if TYPE_CHECKING:
    from maxent.core.domains import Domain

_MANY_COLUMNS = 2000  # whose Gram matrix is not worth its spectrum


class InBlocks:
    """Rows that stay in their blocks, such as the observed ones of a ``BlockMap``."""

    def __repr__(self) -> str:
        return "rows in blocks"


class BlockMap(SelectableFeatures, Evaluator):
    """Features of rows that stay in blocks, and the evaluator of these rows.

    ``index`` are the features in use, None for all of them. Weights, penalties and targets are
    in the row weights of the blocks: ``Problem.weights`` is None.
    """

    def __init__(self, blocks: Blocks, n_features: int) -> None:
        self.blocks = blocks
        self.n_all = self.n_features = int(n_features)
        self.index: Array | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.blocks)} blocks, {self.n_features} features)"

    def sparse(self, w: Array) -> SparseWeights:
        """Those of all features that are not 0."""
        return SparseWeights.from_vector(np.asarray(w, dtype=np.float64), self.index, self.n_all)

    def restrict(self, index: Array) -> Self:
        """Some of the features; nothing is copied."""
        part = copy(self)
        part.index = index if self.index is None else self.index[index]
        part.n_features = int(index.size)
        return part

    @property
    def features(self) -> Self:
        """Itself: features and rows are in the same blocks."""
        return self

    def evaluator(self, domain: Domain, weights: Array | None, observed: Any) -> BlockMap:
        """The map whose blocks have these observed rows, which they check themselves."""
        if observed is None:
            return self
        if not isinstance(observed, InBlocks):
            raise TypeError(
                f"the observed rows of {self!r} come with its blocks: give observed=InBlocks()"
            )
        seeing = copy(self)
        seeing.observed = observed
        return seeing

    def evaluate(self, entropy: Entropy, w: Array, theta: Rows | None = None) -> BlockEvaluation:
        """Sums at the weights w; no one has the scores of rows in blocks."""
        if theta is not None:
            raise rows_out_of_reach()
        return BlockEvaluation(self, entropy, w)

    def moments(self, p: Rows) -> Array:
        """F p of the observed rows."""
        if not isinstance(p, InBlocks):
            raise rows_out_of_reach()
        return self.blocks.reduce("observed_moments", self.index, merge=add)

    @abstractmethod
    def conjugate_and_moments(self, entropy: Entropy, w: Array) -> tuple[float, Array]:
        """sum a_i Omega*(F_i'w) and sum a_i F_i p_i: one evaluation."""

    @abstractmethod
    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """F J F' at w, from one of ``every`` rows or cells."""

    @abstractmethod
    def hessian_product(self, entropy: Entropy, w: Array, v: Array) -> Array:
        """F J F'v at w."""

    def mean_jacobian(self, w: Array) -> Array | None:
        """sum a_i J_i at w, where ``column_gram`` is known."""
        return None

    @abstractmethod
    def entropy_gap(self, entropy: Entropy, w: Array, moved: Moved) -> float:
        """Omega(x) + Omega*(theta) - <theta, x> at moved rows x."""

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


class BlockEvaluation(Evaluation):
    """Sums over blocks at some weights, each asked for once."""

    def __init__(
        self,
        rows: BlockMap,
        entropy: Entropy,
        w: Array,
        total: float | None = None,
        moments: Array | None = None,
    ) -> None:
        self.rows, self.entropy, self.w = rows, entropy, w
        if total is not None:
            vars(self)["total"] = total
        if moments is not None:
            vars(self)["moments"] = moments

    @cached_property
    def _sums(self) -> tuple[float, Array]:
        return self.rows.conjugate_and_moments(self.entropy, self.w)

    @cached_property
    def total(self) -> float:
        """sum a_i Omega*(theta_i)."""
        return self._sums[0]

    @cached_property
    def moments(self) -> Array:
        """F p_w."""
        return self._sums[1]

    @property
    def conjugate(self) -> Array:
        """Of all rows together."""
        return np.asarray(self.total)

    @property
    def largest_score(self) -> float:
        """The largest `|theta|`."""
        return self.rows.largest_score(self.w)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows (of cells where there is a single row), and of all scores."""
        return self.rows.n_points, self.rows.n_scores

    def hessian(self, every: int = 1) -> Array:
        """F J F', from one of ``every`` rows or cells."""
        return self.rows.hessian(self.entropy, self.w, every)

    def hessian_product(self, v: Array) -> Array:
        """F J F'v."""
        return self.rows.hessian_product(self.entropy, self.w, v)

    def mean_jacobian(self) -> Array | None:
        """sum a_i J_i."""
        return self.rows.mean_jacobian(self.w)

    def entropy_gap(self, point: Point) -> float:
        """Omega(x) + Omega*(theta) - <theta, x> at rows moved where they are."""
        if not isinstance(point, Moved):
            raise rows_out_of_reach()
        return self.rows.entropy_gap(self.entropy, self.w, point)

    def mixture_gap(self, s: float, point: Point | None) -> float | None:
        """That at s x + (1 - s) observed; None is p_w."""
        if isinstance(point, Moved):
            return self.entropy_gap(point._replace(s=s))
        gap = self.rows.mixture_gap(self.entropy, self.w, s)
        return None if gap is None else above_rounding(gap, 2 * self.total_size)

    def stretched(self, factor: float) -> BlockEvaluation:
        """At ``factor`` times the weights."""
        return self.rows.evaluate(self.entropy, factor * self.w)

    def handed_to(self, rows: Evaluator, w: Array, moments: Array | None) -> BlockEvaluation:
        """The evaluation by the same blocks with other features, whose scores at w are the same."""
        assert isinstance(rows, BlockMap)
        return BlockEvaluation(rows, self.entropy, w, self.total, moments)

    def along(self, step: Array) -> BlockLine:
        """The evaluations at w + length step."""
        return BlockLine(self, step)


class BlockLine(Line):
    """Trials along a step: each is a pass over the blocks."""

    def __init__(self, start: BlockEvaluation, step: Array) -> None:
        self._start, self._step = start, step

    def evaluate(self, length: float) -> BlockEvaluation:
        """The evaluation at a length."""
        start = self._start
        return start.rows.evaluate(start.entropy, start.w + length * self._step)

    def slope(self, evaluation: Evaluation) -> float:
        """<F p_w, step>."""
        return float(evaluation.moments @ self._step)

    def moves_scores_by(self, room: float) -> bool:
        """Whether some score moves by ``room`` or more; ranges of features may show it at once."""
        rows = self._start.rows
        low, high = rows.ranges()
        most = float(np.abs(self._step) @ np.maximum(np.abs(low), np.abs(high)))
        return not (most < room or rows.largest_score(self._step) < room)


class _At(NamedTuple):
    """What is known at the last weights of a row; ``slopes`` are the sums of s of each block."""

    weights: SparseWeights
    law: RowLaw
    tau: float
    start: Start
    conjugate: float
    slopes: dict[int, float]


class CellBlockMap(BlockMap):
    """Features of the cells of one row, which ``CellBlock`` hold.

    A density over more cells than fit in memory: Shannon merges as (log sum exp, moments), Tsallis
    finds its threshold in a few rounds of one number each.

    Parameters
    ----------
    blocks : Blocks
        The blocks.
    n_features : int
        Number of features.
    n_cells : int
        Number of cells.
    records : OperatorMap, default None
        Features at some cells, such as those with occurrences, by which a working set tells near
        copies apart.
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

    def conjugate_and_moments(self, entropy: Entropy, w: Array) -> tuple[float, Array]:
        """One pass for Shannon; a pass more for every round of the threshold of Tsallis."""
        at, moments = self._evaluate(law_of(entropy), self.sparse(w))
        self._known[:] = [at]
        return at.conjugate, moments

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
        self.conjugate_and_moments(entropy, w)
        return self._known[0]

    def conjugate(self, entropy: Entropy, w: Array) -> float:
        """`Omega*(F'w)`."""
        return self._at(entropy, w).conjugate

    def threshold(self, entropy: Entropy, w: Array) -> tuple[float, float]:
        """`tau` at w, with `p_i = q_i h(theta_i - tau)`, and the largest `theta_i`."""
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
        """As ``OperatorMap.gram`` at `p_w`: a sample in proportion to the curvature."""
        at = self._at(entropy, w)
        wanted = np.arange(self.n_all) if self.index is None else self.index
        draw = None if every == 1 else Draw.from_sums(self.n_cells // every, at.slopes)
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

    def hessian_product(self, entropy: Entropy, w: Array, v: Array) -> Array:
        """F (diag(d) - d d' / sum d) F'v: one pass."""
        at = self._at(entropy, w)
        sums: CurvedSums = self.blocks.reduce(
            "curved", at.law, at.weights, at.tau, self.sparse(v), self.index, merge=CurvedSums.merge
        )
        return sums.moved - sums.mean * (sums.along / sum(at.slopes.values()))

    def holds_everywhere(self, test: Callable[[Any], bool], entropy: Entropy, w: Array) -> NoReturn:
        """Refused: no block has a whole row."""
        raise rows_out_of_reach()

    def entropy_gap(self, entropy: Entropy, w: Array, moved: Moved) -> float:
        """That at `s p_w + (1 - s) p~`, `p~` the observed: no other change is known of cells."""
        if moved.scale is not None or np.any(moved.shift):
            raise rows_out_of_reach()
        return self.mixture_gap(entropy, w, moved.s)

    def observed_value(self, entropy: Entropy) -> float:
        """`Omega` of the observed distribution."""
        return float(self.blocks.reduce("observed_value", law_of(entropy), merge=add))

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float:
        """One more pass, which finds theta and p as they were left."""
        at = self._at(entropy, w)
        part = self.blocks.reduce("mixture", at.law, at.weights, at.tau, s, merge=add)
        return float(part) + at.conjugate


class SampleBlockMap(BlockMap):
    """Features of samples, each a row with a loss of its own, which ``SampleBlock`` hold.

    Parameters
    ----------
    blocks : Blocks
        The blocks.
    n_features : int
        Number of features.
    n_samples : int
        Number of samples.
    n_outputs : int, default None
        Scores of a sample where all have as many, else None.
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

    def conjugate_and_moments(self, entropy: Entropy, w: Array) -> tuple[float, Array]:
        """One pass; sums merge by addition."""
        sums: SampleSums = self.blocks.reduce(
            "sums", self.sparse(w), self.index, merge=SampleSums.merge
        )
        return sums.conjugate, sums.moments

    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of each weight's column, from one pass."""
        low, high = (np.repeat(x, self.n_outputs or 1) for x in self._column_ranges)
        return (low, high) if self.index is None else (low[self.index], high[self.index])

    @cached_property
    def _column_ranges(self) -> tuple[Array, Array]:
        return self.blocks.reduce("ranges", merge=wider)

    def column_means(self, weights: Array | None = None) -> Array:
        """a'X, the weighted mean of each column; the weights a are those of the blocks."""
        return self.blocks.reduce("column_means", merge=add)

    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """The sum of those of the blocks."""
        return self.blocks.reduce("hessian", self.sparse(w), self.index, every, merge=add)

    def hessian_product(self, entropy: Entropy, w: Array, v: Array) -> Array:
        """F J F'v at w."""
        return self.blocks.reduce("hessian_product", self.sparse(w), v, merge=add)

    def column_gram(self) -> Array | None:
        """X' diag(a) X; None where samples are no rows of a matrix, or have too many columns."""
        if self.n_outputs is None or self.n_all > _MANY_COLUMNS * self.n_outputs:
            return None
        return self.blocks.reduce("column_gram", merge=add)

    def holds_everywhere(self, test: Callable[[Any], bool], entropy: Entropy, w: Array) -> bool:
        """Whether a statement about rows in memory holds of the rows of every block."""
        return bool(self.blocks.reduce("holds", test, self.sparse(w), merge=and_))

    def mean_jacobian(self, w: Array) -> Array:
        """`sum a_i J_i` at w."""
        return self.blocks.reduce("mean_jacobian", self.sparse(w), merge=add)

    def observed_value(self, entropy: Entropy) -> float:
        """`sum a_i Omega(p~_i)`, `p~_i` the observed rows."""
        return float(self.blocks.reduce("observed_value", merge=add))

    def entropy_gap(self, entropy: Entropy, w: Array, moved: Moved) -> float:
        """`Omega(x) + Omega*(theta) - <theta, x>` at moved rows x."""
        return float(self.blocks.reduce("entropy_gap", self.sparse(w), moved, merge=add))

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float | None:
        """That at `s p_w + (1 - s) p~`, `p~` the observed."""
        return self.entropy_gap(entropy, w, Moved(s))


def wider(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """The ranges of two pieces as one."""
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])
