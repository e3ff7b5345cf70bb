"""SampleBlock: some of the rows of a problem, each a sample with a loss of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent.core.entropies import Entropy
from maxent.core.maps import ColumnMap, FeatureMap, SampleMap
from maxent.rows.arrays import Array, Rows
from maxent.rows.blocks.sizes import bytes_of
from maxent.rows.blocks.weights import SparseWeights
from maxent.rows.certificate_moves import Moved
from maxent.rows.local import LocalEvaluation, LocalEvaluator


class SampleSums(NamedTuple):
    """sum a_i Omega*(theta_i) and sum a_i F_i p_i."""

    conjugate: float
    moments: Array

    def merge(self, other: SampleSums) -> SampleSums:
        """Of two pieces."""
        return SampleSums(self.conjugate + other.conjugate, self.moments + other.moments)


@dataclass(eq=False)
class SampleBlock:
    """Rows with features, weights `a_i` (of all blocks the sum is 1) and observed rows.

    What was computed for the last weights is kept; another copy of the block computes it again.

    Parameters
    ----------
    number : int
        Number of the block.
    entropy : Entropy
        The entropy, which may have costs of its rows.
    features : FeatureMap or None
        Features of the rows; None for a block without rows.
    weights : array (n_rows,) or None
        Weights `a_i`; of all blocks the sum is 1. None where the block is one row of weight 1.
    observed : array
        Observed rows.
    """

    number: int
    entropy: Entropy
    features: FeatureMap | None
    weights: Array | None
    observed: Rows
    _last: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": {}}

    def __sizeof__(self) -> int:
        return bytes_of(self)

    @property
    def rows(self) -> LocalEvaluator:
        """These rows, in memory."""
        if "rows" not in self._last:
            assert self.features is not None
            domain = self.entropy.domain
            self._last["rows"] = self.features.evaluator(domain, self.weights, self.observed)
        return self._last["rows"]

    def sums(self, weights: SparseWeights, wanted: Array | None) -> SampleSums | None:
        """One evaluation, with the moments of the features ``wanted`` (None: of all)."""
        if self.features is None:
            return None
        at = self._at(weights, wanted)
        return SampleSums(at.total, at.moments)

    def observed_moments(self, wanted: Array | None) -> Array | None:
        """The part of F observed."""
        if self.features is None:
            return None
        if "target" not in self._last:
            self._last["target"] = self.rows.moments(self.rows.observed)
        return self._last["target"] if wanted is None else self._last["target"][wanted]

    def observed_value(self) -> float:
        """The part of `Omega(p~)`, `p~` the observed."""
        return 0.0 if self.features is None else self.rows.observed_value(self.entropy)

    def entropy_gap(self, weights: SparseWeights, moved: Moved) -> float:
        """The part of `Omega(x) + Omega*(theta) - <theta, x>` at the moved rows."""
        if self.features is None:
            return 0.0
        return self._at(weights, None).entropy_gap(moved)

    def hessian(self, weights: SparseWeights, wanted: Array | None, every: int) -> Array | None:
        """F J F' of these rows."""
        if self.features is None:
            return None
        return self._at(weights, wanted).hessian(every)

    def reach(self, weights: SparseWeights) -> float:
        """The largest |F'w|."""
        if self.features is None:
            return 0.0
        return self.rows.evaluate(self.entropy, weights.full()).largest_score

    def holds(self, test: Callable[[LocalEvaluation], bool], weights: SparseWeights) -> bool:
        """Whether a statement holds of all rows."""
        return self.features is None or test(self._at(weights, None))

    def ranges(self) -> tuple[Array, Array] | None:
        """Least and largest value of each column of X."""
        if self.features is None:
            return None
        X = self._samples_map.X
        low, high = X.min(axis=0), X.max(axis=0)
        if sparse.issparse(X):
            low, high = low.toarray(), high.toarray()
        return np.ravel(low), np.ravel(high)

    def column_means(self) -> Array | None:
        """The part of a'X."""
        if self.features is None:
            return None
        assert self.weights is not None
        return self._samples_map.column_means(self.weights)

    # -- second order --------------------------------------------------------------------------

    def hessian_product(self, weights: SparseWeights, v: Array) -> Array | None:
        """F J F'v of these rows; the Jacobians of the last weights are kept."""
        if self.features is None:
            return None
        return self._at(weights, None).hessian_product(v)

    def column_gram(self) -> Array | None:
        """X' diag(a) X."""
        return None if self.features is None else self.rows.column_gram()

    def mean_jacobian(self, weights: SparseWeights) -> Array | None:
        """`sum a_i J_i`, (outputs, outputs)."""
        return None if self.features is None else self._at(weights, None).mean_jacobian()

    # -- the last weights ----------------------------------------------------------------------

    @property
    def _samples_map(self) -> SampleMap:
        assert isinstance(self.features, SampleMap)
        return self.features

    def _at(self, weights: SparseWeights, wanted: Array | None) -> LocalEvaluation:
        key = weights.key, None if wanted is None else wanted.tobytes()
        if self._last.get("evaluated at") != key:
            rows, w = self._part(wanted), weights.full()
            at = rows.evaluate(self.entropy, w if wanted is None else w[wanted])
            self._last |= {"evaluated at": key, "evaluation": at}
        return self._last["evaluation"]

    def _part(self, wanted: Array | None) -> LocalEvaluator:
        if wanted is None:
            return self.rows
        key = wanted.tobytes()
        if self._last.get("part of") != key:
            assert isinstance(self.features, ColumnMap)
            part = LocalEvaluator(self.features.restrict(wanted), self.weights)
            self._last |= {"part of": key, "part": part}
        return self._last["part"]
