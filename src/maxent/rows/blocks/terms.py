"""TermsBlockMap: several losses of the same weights, the rows of each in blocks of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from maxent.core.entropies import DirectSum, Entropy
from maxent.features.base import OperatorMap
from maxent.rows.arrays import Array, Rows
from maxent.rows.blocks.map import BlockMap, InBlocks
from maxent.rows.certificate_moves import Moved
from maxent.rows.evaluator import rows_out_of_reach


class Term(NamedTuple):
    """One of the losses: c times that of some rows, which see some of the weights.

    ``entropy`` says what the loss is; the blocks of samples have their own, with their records.
    ``seen`` are the weights that the features of ``rows`` belong to, in increasing order.
    """

    rows: BlockMap
    entropy: Entropy
    coefficient: float
    seen: Array

    def among(self, index: Array) -> Term:
        """The term where the weights ``index`` (increasing) alone are left."""
        own = np.flatnonzero(np.isin(self.seen, index))
        place = np.searchsorted(index, self.seen[own])
        return self._replace(rows=self.rows.restrict(own), seen=place)


class TermsBlockMap(BlockMap):
    """Features of a ``DirectSum`` whose parts have their rows in blocks of their own.

    `sum_k c_k Omega_k*(F_k'w)`: what is asked of all rows is asked of the terms one after another,
    and their answers add up.

    Parameters
    ----------
    terms : sequence of Term
        The losses.
    ranges : (array, array)
        Least and largest value of each feature.
    records : OperatorMap, default None
        All features at some cells, by which a working set tells near copies apart.
    """

    cheap_moments: ClassVar[bool] = True

    def __init__(
        self,
        terms: Sequence[Term],
        ranges: tuple[Array, Array],
        records: OperatorMap | None = None,
    ) -> None:
        super().__init__(terms[0].rows.blocks, ranges[0].size)
        self.terms, self.records, self._ranges = list(terms), records, ranges

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.terms)} terms, {self.n_features} features)"

    @property
    def entropy(self) -> DirectSum:
        """The sum, an entry or two for each term: what is known of it without its rows."""
        return DirectSum(
            [term.entropy for term in self.terms],
            [1] * len(self.terms),
            [term.coefficient for term in self.terms],
        )

    def restrict(self, index: Array) -> Self:
        """Some of the features; nothing is copied."""
        part = super().restrict(index)
        part.terms = [term.among(index) for term in self.terms]
        part.records = None if self.records is None else self.records.restrict(index)
        low, high = self._ranges
        part._ranges = low[index], high[index]
        return part

    def ranges(self) -> tuple[Array, Array]:
        """Those that were given."""
        return self._ranges

    def candidates(self, violation: Array, count: int) -> Array:
        """The worst violators, as far as they are no copies of one another."""
        if self.records is not None:
            violation = self.records.priority(violation)
        return super().candidates(violation, count)

    @property
    def n_points(self) -> int:
        """Number of cells and records of all terms."""
        return sum(term.rows.n_points for term in self.terms)

    n_scores = n_points

    def largest_score(self, w: Array) -> float:
        """The largest |F'w|."""
        return max(term.rows.largest_score(w[term.seen]) for term in self.terms)

    # -- sums ----------------------------------------------------------------------------------

    def moments(self, p: Rows) -> Array:
        """F p of the observed rows."""
        if not isinstance(p, InBlocks):
            raise rows_out_of_reach()
        return self._placed([term.rows.moments(p) for term in self.terms])

    def conjugate_and_moments(self, entropy: Entropy, w: Array) -> tuple[float, Array]:
        """One pass over the blocks of each term."""
        found = [t.rows.conjugate_and_moments(t.entropy, w[t.seen]) for t in self.terms]
        return self._sum(value for value, _ in found), self._placed([m for _, m in found])

    def hessian(self, entropy: Entropy, w: Array, every: int) -> Array:
        """The sum of those of the terms."""
        total = np.zeros((self.n_features, self.n_features))
        for t in self.terms:
            part = t.rows.hessian(t.entropy, w[t.seen], every)
            total[np.ix_(t.seen, t.seen)] += t.coefficient * part
        return total

    def hessian_product(self, entropy: Entropy, w: Array, v: Array) -> Array:
        """F J F'v at w."""
        return self._placed(
            [t.rows.hessian_product(t.entropy, w[t.seen], v[t.seen]) for t in self.terms]
        )

    def observed_value(self, entropy: Entropy) -> float:
        """`Omega` of the observed rows."""
        return self._sum(t.rows.observed_value(t.entropy) for t in self.terms)

    def entropy_gap(self, entropy: Entropy, w: Array, moved: Moved) -> float:
        """`Omega(x) + Omega*(theta) - <theta, x>` at moved rows x."""
        return self._sum(t.rows.entropy_gap(t.entropy, w[t.seen], moved) for t in self.terms)

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float:
        """That at `s p_w + (1 - s) p~`, `p~` the observed."""
        return self._sum(self.mixture_gaps(w, s))

    def mixture_gaps(self, w: Array, s: float) -> list[float]:
        """Of each term, not multiplied by its coefficient."""
        return [t.rows.entropy_gap(t.entropy, w[t.seen], Moved(s)) for t in self.terms]

    def holds_everywhere(self, test: Callable[[Any], bool], entropy: Entropy, w: Array) -> NoReturn:
        """Refused: no block has a whole row."""
        raise rows_out_of_reach()

    def _sum(self, values: Any) -> float:
        return float(sum(t.coefficient * x for t, x in zip(self.terms, values, strict=True)))

    def _placed(self, parts: Sequence[Array]) -> Array:
        """The moments of all terms added up, each where its features are."""
        total = np.zeros(self.n_features)
        for term, part in zip(self.terms, parts, strict=True):
            total[term.seen] += term.coefficient * part
        return total
