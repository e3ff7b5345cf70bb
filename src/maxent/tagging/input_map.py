"""Chains whose transition scores depend on the input."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxent import io
from maxent.core.maps import ChainMap, RowMap
from maxent.rows.arrays import Array, Ragged, Rows


@io.register
class InputChainMap(RowMap):
    """Transitions `T + sum_f x_f U_f`, x the features of the position that is entered.

    w = [W (features, states), T (states, states), U (features, states, states)], each flattened.
    Scores are rows for ``Chain`` with a block of transitions per position.

    Parameters
    ----------
    sequences : list of array
        Features of each sequence, (length, features).
    n_states : int
        Number of states.

    Examples
    --------
    >>> chains = InputChainMap([np.array([[1.0], [2.0]])], n_states=2)
    >>> chains.scores(np.array([1.0, 0, 0, 0, 0, 5.0, 0, 0, 0, 1.0])).rows()
    [array([1., 0., 2., 0., 0., 0., 0., 7.])]
    """

    def __init__(self, sequences: list[ArrayLike], n_states: int) -> None:
        self._set(ChainMap(sequences, n_states, tied=False))

    def _set(self, plain: ChainMap) -> None:
        self._plain = plain
        k, X, lengths = self._plain.n_states, self._plain.X, self._plain.lengths
        self.n_rows = self._plain.n_rows
        self.n_features = self._plain.n_features + X.shape[1] * k * k
        entered = np.ones(X.shape[0], bool)
        entered[np.cumsum(lengths)[:-1]] = False
        entered[0] = False
        self._entered = sparse.csr_array(X)[entered] if sparse.issparse(X) else X[entered]

    def __repr__(self) -> str:
        return (
            f"InputChainMap({self.n_rows} sequences, {self.n_features} weights, "
            f"{self._plain.n_states} states)"
        )

    def __getmodel__(self) -> dict[str, Any]:
        return {"plain": self._plain}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        plain = state["plain"]
        if not isinstance(plain, ChainMap) or plain.tied:
            raise ValueError("an InputChainMap holds a ChainMap with transitions written out")
        self._set(plain)

    def scores(self, w: Array) -> Ragged:
        """Unary scores, and transitions with what the input adds to them."""
        k = self._plain.n_states
        cut = self._plain.n_features
        rows = self._plain.scores(w[:cut])
        assert isinstance(rows, Ragged)
        added = np.asarray(self._entered @ w[cut:].reshape(-1, k * k)).ravel()
        start = 0
        for row, length in zip(rows.rows(), self._plain.lengths, strict=True):
            block = row[length * k :]
            block += added[start : start + block.size]
            start += block.size
        return rows

    def moments(self, p: Rows) -> Array:
        """Expected features of positions, of transitions, and of both together."""
        k = self._plain.n_states
        pairs = zip(p.rows(), self._plain.lengths, strict=True)
        blocks = np.concatenate([row[length * k :] for row, length in pairs]).reshape(-1, k * k)
        return np.concatenate([self._plain.moments(p), (self._entered.T @ blocks).ravel()])

    def take(self, rows: Array) -> InputChainMap:
        """Some of the sequences."""
        part = InputChainMap.__new__(InputChainMap)
        part._set(self._plain.take(rows))
        return part

    def row_norms(self) -> Array:
        """A bound on the squared norm of the map of each sequence, see ``ChainMap``."""
        X = self._entered
        squares = X.power(2) if sparse.issparse(X) else np.square(X)
        sizes = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        lengths = self._plain.lengths - 1
        ends = np.concatenate([[0], np.cumsum(sizes)])
        cuts = np.concatenate([[0], np.cumsum(lengths)])
        return self._plain.row_norms() + ends[cuts[1:]] - ends[cuts[:-1]]
