"""SampleBlock: some of the rows of a problem, each a sample with a loss of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent._rows import Array, Rows
from maxent.blocks.sizes import bytes_of
from maxent.blocks.weights import SparseWeights
from maxent.entropies import Entropy
from maxent.maps import FeatureMap, SampleMap
from maxent.potentials import Equality
from maxent.problem import Problem, State
from maxent.solvers.hessian import Product, Samples


class Moved(NamedTuple):
    """Rows x = s max(L p + b, least) + (1 - s) observed: p_w on its way to a certificate.

    L p = scale p + <1 - scale, p> share: what ``scale`` takes from some columns goes to others in
    proportion to ``share`` (None: to none). ``shift`` b is the same for all rows.
    """

    s: float = 1.0
    scale: Array | float | None = None
    share: Array | None = None
    shift: Array | float = 0.0
    least: float = -np.inf

    def linear(self, p: Rows) -> Rows:
        """L p of every row."""
        if self.scale is None:
            return p
        moved = p * self.scale
        return moved if self.share is None else moved + np.outer(p @ (1 - self.scale), self.share)

    def rows(self, p: Rows) -> Rows:
        """max(L p + b, least)."""
        x = self.linear(p)
        if np.any(self.shift) or np.isfinite(self.least):
            x = np.maximum(x + self.shift, self.least)
        return x

    def of(self, p: Rows, observed: Rows) -> Rows:
        """The rows x."""
        x = self.rows(p)
        return x if self.s == 1 else self.s * x + (1 - self.s) * observed


class SampleSums(NamedTuple):
    """sum a_i Omega*(theta_i) and sum a_i F_i p_i."""

    conjugate: float
    moments: Array

    def merge(self, other: SampleSums) -> SampleSums:
        """Of two pieces."""
        return SampleSums(self.conjugate + other.conjugate, self.moments + other.moments)


@dataclass(eq=False)
class SampleBlock:
    """Rows with features, weights a_i (of all blocks the sum is 1) and observed rows.

    The entropy may have costs of its rows. ``features`` is None for a block without rows. What was
    computed for the last weights is kept; another copy of the block computes it again.
    """

    number: int
    entropy: Entropy
    features: FeatureMap | None
    weights: Array
    observed: Rows
    _last: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": {}}

    def __sizeof__(self) -> int:
        return bytes_of(self)

    @property
    def problem(self) -> Problem:
        """The problem of these rows alone, without a penalty."""
        if "problem" not in self._last:
            self._last["problem"] = Problem(
                self.entropy,
                self.features,
                Equality(),
                observed=self.observed,
                weights=self.weights,
            )
        return self._last["problem"]

    def sums(self, weights: SparseWeights, wanted: Array | None) -> SampleSums | None:
        """One evaluation, with the moments of the features ``wanted`` (None: of all)."""
        if self.features is None:
            return None
        state = self._state(weights, wanted)
        moments = state.gradient + state.problem.target
        return SampleSums(state.problem.total(state.conjugate), moments)

    def observed_moments(self, wanted: Array | None) -> Array | None:
        """The part of F observed."""
        if self.features is None:
            return None
        return self.problem.target if wanted is None else self.problem.target[wanted]

    def observed_value(self) -> float:
        """The part of Omega(observed)."""
        return 0.0 if self.features is None else self.problem.observed_value

    def entropy_gap(self, weights: SparseWeights, moved: Moved) -> float:
        """The part of Omega(x) + Omega*(theta) - <theta, x> at the moved rows."""
        if self.features is None:
            return 0.0
        state = self._state(weights, None)
        return state.entropy_gap(moved.of(state.p, self.problem.observed))

    def hessian(self, weights: SparseWeights, wanted: Array | None, every: int) -> Array | None:
        """F J F' of these rows."""
        if self.features is None:
            return None
        state = self._state(weights, wanted)
        return state.problem.hessian(state, every)

    def reach(self, weights: SparseWeights) -> float:
        """The largest |F'w|."""
        if self.features is None:
            return 0.0
        return self.problem.state(weights.full()).largest_score

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
        return None if self.features is None else self._samples_map.column_means(self.weights)

    # -- second order --------------------------------------------------------------------------

    def hessian_product(self, weights: SparseWeights, v: Array) -> Array | None:
        """F J F'v of these rows; the Jacobians of the last weights are kept."""
        if self.features is None:
            return None
        state = self._state(weights, None)
        if self._last.get("product at") != weights.key:
            self._last |= {"product at": weights.key, "product": self._product(state)}
        return self._last["product"](v)

    def _product(self, state: State) -> Product:
        from maxent.solvers.hessian import second_order

        curvature = second_order(self.problem)
        if isinstance(curvature, Samples):
            return curvature.product_at(state)
        return curvature.at(state).product

    def column_gram(self) -> Array | None:
        """X' diag(a) X."""
        if self.features is None:
            return None
        return Samples(self.problem).column_gram()

    def across(self, weights: SparseWeights) -> Array | None:
        """sum a_i J_i, (outputs, outputs)."""
        if self.features is None:
            return None
        return Samples(self.problem).across(self._state(weights, None))

    # -- the last weights ----------------------------------------------------------------------

    @property
    def _samples_map(self) -> SampleMap:
        assert isinstance(self.features, SampleMap)
        return self.features

    def _state(self, weights: SparseWeights, wanted: Array | None) -> State:
        key = weights.key, None if wanted is None else wanted.tobytes()
        if self._last.get("state at") != key:
            problem, w = self._part(wanted), weights.full()
            state = problem.state(w if wanted is None else w[wanted])
            self._last |= {"state at": key, "state": state}
        return self._last["state"]

    def _part(self, wanted: Array | None) -> Problem:
        if wanted is None:
            return self.problem
        key = wanted.tobytes()
        if self._last.get("part of") != key:
            part = self.problem.restrict(wanted, Equality())
            self._last |= {"part of": key, "part": part}
        return self._last["part"]
