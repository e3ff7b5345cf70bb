"""The feature map of a linear-chain model over sparse attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxent import io
from maxent._checks import cuts, indices
from maxent._rows import Array, Ragged, Rows, Tied
from maxent._threads import over_rows
from maxent.maps import RowMap, sum_of_parts

_COST = 16  # entries of an elementwise pass that an attribute of a token counts as


@io.register
class PairChainMap(RowMap):
    """Chains whose attributes have weights for the states they were seen with (CRFsuite's rule).

    X is a sparse matrix (positions of all sequences, attributes), ``lengths`` cuts it into
    sequences. w = [one weight per pair of an attribute and a state, transitions (states, states)
    flattened]; ``start`` (attributes + 1) and ``state`` list the pairs, attribute by attribute.
    ``seen`` makes those of a training set, ``ChainMap`` is the map with all pairs.

    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> chains = PairChainMap.seen(X, np.array([2]), 2, np.array([0, 1]))
    >>> chains.scores(np.array([5.0, 7.0, 0.0, 0.0, 0.0, 0.0])).own.values
    array([ 5.,  0.,  0., 14.])
    """

    def __init__(self, X: Any, lengths: Array, n_states: int, start: Array, state: Array) -> None:
        X = sparse.csr_array(X)
        self.X = X if X.dtype == np.float64 else X.astype(np.float64)
        self.n_states = int(n_states)
        self.start, self.state = np.asarray(start, np.int64), np.asarray(state, np.int64)
        self.n_rows = len(lengths)
        self.n_features = self.state.size + self.n_states**2
        self._lengths = np.asarray(lengths, np.int64)
        self._offsets = np.concatenate([[0], np.cumsum(self._lengths * self.n_states)])
        if self._lengths.sum() != X.shape[0] or self._lengths.min(initial=1) < 1:
            raise ValueError(
                f"the lengths add up to {self._lengths.sum()} positions, X has {X.shape[0]}, and "
                "no sequence is empty"
            )
        if self.start.size != X.shape[1] + 1 or self.start[-1] != self.state.size:
            raise ValueError(
                f"{X.shape[1]} attributes need {X.shape[1] + 1} starts that end at the "
                f"{self.state.size} pairs"
            )

    @classmethod
    def seen(cls, X: Any, lengths: Array, n_states: int, labels: Array) -> PairChainMap:
        """The map with the pairs that occur with the labels, one per position."""
        X = sparse.csr_array(X)
        positions = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        pairs = np.unique(X.indices.astype(np.int64) * n_states + labels[positions])
        attribute, state = np.divmod(pairs, n_states)
        start = np.searchsorted(attribute, np.arange(X.shape[1] + 1))
        return cls(X, lengths, n_states, start, state)

    def __repr__(self) -> str:
        return (
            f"PairChainMap({self.n_rows} sequences, {self.n_features} weights, "
            f"{self.n_states} states)"
        )

    def __getmodel__(self) -> dict[str, Any]:
        return {
            "X": self.X,
            "lengths": self._lengths,
            "n_states": self.n_states,
            "start": self.start,
            "state": self.state,
        }

    def __setmodel__(self, state: dict[str, Any]) -> None:
        n_states = state["n_states"]
        if not isinstance(n_states, int) or isinstance(n_states, bool) or n_states < 1:
            raise ValueError(f"a PairChainMap has a number of states, got {n_states!r}")
        X = sparse.csr_array(state["X"])
        indices("lengths", state["lengths"], np.size(state["lengths"]), X.shape[0] + 1)
        cuts("start", state["start"], np.size(state["state"]))
        indices("state", state["state"], np.size(state["state"]), n_states)
        self.__init__(X, state["lengths"], n_states, state["start"], state["state"])  # type: ignore[misc]

    def _over(self, kernel: Any, w_or_p: Array, out: Array, first: int, last: int) -> None:
        X = self.X
        kernel(X.data, X.indices, X.indptr, self.start, self.state, w_or_p, out, first, last)

    @property
    def lengths(self) -> Array:
        """Positions of each sequence."""
        return self._lengths

    @property
    def _size(self) -> int:
        return _COST * (1 + self.X.nnz // max(1, self.X.shape[0]))

    def scores(self, w: Array) -> Tied:
        """Unary scores of every position, and the transitions that all share."""
        from maxent._kernels.tagging import scores_of

        unary = np.empty((self.X.shape[0], self.n_states))
        pairs = np.ascontiguousarray(w[: self.state.size], np.float64)

        def work(first: int, last: int) -> None:
            self._over(scores_of, pairs, unary, first, last)

        over_rows(work, len(unary), self._size)
        transitions = np.asarray(w[None, self.state.size :], np.float64)
        return Tied(Ragged(unary.reshape(-1), self._offsets), transitions)

    def moments(self, p: Rows) -> Array:
        """Expected attributes of every pair, and summed transition marginals."""
        from maxent._kernels.tagging import add_moments

        marginals = p.own.values.astype(np.float64, copy=False).reshape(-1, self.n_states)

        def part(first: int, last: int) -> Array:
            total = np.zeros(self.state.size)
            self._over(add_moments, marginals, total, first, last)
            return total

        pairs = sum_of_parts(part, len(marginals), self._size)
        return np.concatenate([pairs, p.tied.sum(axis=0, dtype=np.float64)])

    def take(self, rows: Array) -> PairChainMap:
        """Some of the sequences."""
        ends = np.concatenate([[0], np.cumsum(self._lengths)])
        X = sparse.vstack([self.X[ends[i] : ends[i + 1]] for i in rows], "csr")
        return PairChainMap(X, self._lengths[rows], self.n_states, self.start, self.state)

    def row_norms(self) -> Array:
        """A bound on the squared norm of the map of each sequence: see ``ChainMap``."""
        sizes = np.asarray(self.X.power(2).sum(axis=1)).ravel()
        starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        return np.maximum(np.add.reduceat(sizes, starts), 1.0)
