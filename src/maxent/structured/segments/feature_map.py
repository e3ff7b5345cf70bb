"""Semi-Markov models: scores of segments as linear functions of features of their positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxent import io
from maxent._support.limits import IN_MEMORY, check_cells
from maxent.core.maps import ChainMap, RowMap
from maxent.rows.arrays import Array, Ragged, Rows, Tied
from maxent.structured.segments.sums import PARTS

PART_NAMES = ("inside", "first", "last")


@io.register
class SegmentMap(RowMap):
    """Linear semi-Markov models: scores X W of positions, one table of lengths, one of changes.

    w = [W (features, parts, labels) flattened, durations (longest, labels), transitions (labels,
    labels)]. Scores are tied rows for the domain ``SemiMarkov``. A segment takes the scores of all
    its positions ("inside") and those of its first and its last one, as far as they are ``parts``.

    Parameters
    ----------
    sequences : list of array
        Features of each sequence, (length, features).
    n_labels : int
        Number of labels.
    longest : int
        Length of the longest segment.
    parts : sequence of str, default ("inside", "first")
        Which positions' features have weights: some of "inside", "first" and "last".
    kept : array of int, default None
        Places in W, flattened and rising, that have a weight; the others are 0. None keeps all.

    Examples
    --------
    >>> features = SegmentMap([np.ones((2, 1))], n_labels=1, longest=2)
    >>> features.scores(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).rows()
    [array([1., 2., 0., 1., 2., 0., 3., 4., 5.])]
    """

    def __init__(
        self,
        sequences: list[Any],
        n_labels: int,
        longest: int,
        parts: tuple[str, ...] = ("inside", "first"),
        kept: Array | None = None,
    ) -> None:
        for name, value in (("n_labels", n_labels), ("longest", longest)):
            if int(value) != value or value < 1:
                raise ValueError(f"SegmentMap needs an integer {name} >= 1, got {value!r}")
        whole = ChainMap(sequences, 1)  # stacked and checked
        self._set(whole.X, whole.lengths, int(n_labels), int(longest), tuple(parts), kept)

    @classmethod
    def of_positions(
        cls,
        X: Any,
        lengths: Array,
        n_labels: int,
        longest: int,
        parts: tuple[str, ...] = ("inside", "first"),
        kept: Array | None = None,
    ) -> SegmentMap:
        """The map of sequences whose positions are the rows of one matrix, one after another."""
        new = cls.__new__(cls)
        matrix = ChainMap([X], 1).X
        new._set(matrix, np.asarray(lengths), n_labels, longest, tuple(parts), kept)
        return new

    def _set(
        self,
        X: Any,
        lengths: Array,
        n_labels: int,
        longest: int,
        parts: tuple[str, ...],
        kept: Array | None,
    ) -> None:
        """All positions of all sequences, one after another, and where they are cut."""
        if not parts or not set(parts) <= set(PART_NAMES) or len(set(parts)) < len(parts):
            raise ValueError(f"parts are some of {', '.join(PART_NAMES)}, each once, got {parts!r}")
        self.X, self.lengths, self.n_labels, self.longest = X, lengths, n_labels, longest
        self.parts, self.kept = parts, kept
        full = X.shape[1] * len(parts) * n_labels
        if (
            kept is not None
            and kept.size
            and (kept[0] < 0 or kept[-1] >= full or (np.diff(kept) <= 0).any())
        ):
            raise ValueError(f"kept are places from 0 to {full - 1}, rising, got {kept!r}")
        self.n_rows = len(lengths)
        self._weights = full if kept is None else kept.size
        self.n_features = self._weights + n_labels * (longest + n_labels)
        self._columns = [PART_NAMES.index(part) for part in parts]
        self._offsets = np.concatenate([[0], np.cumsum(lengths * PARTS * n_labels)])

    def __repr__(self) -> str:
        return (
            f"SegmentMap({self.n_rows} sequences, {self.n_features} weights, {self.n_labels} "
            f"labels, segments of up to {self.longest})"
        )

    def __getmodel__(self) -> dict[str, Any]:
        names = ("X", "lengths", "n_labels", "longest", "parts", "kept")
        return {name: getattr(self, name) for name in names}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        X, lengths = ChainMap([state["X"]], 1).X, np.asarray(state["lengths"])
        sizes = state["n_labels"], state["longest"]
        whole = all(isinstance(x, int) and not isinstance(x, bool) and x > 0 for x in sizes)
        if not whole or lengths.ndim != 1 or lengths.dtype.kind != "i" or not lengths.size:
            raise ValueError(f"a SegmentMap has labels, a longest segment and lengths, got {sizes}")
        if lengths.min() < 1 or lengths.sum() != X.shape[0]:
            raise ValueError(
                f"the lengths add up to {lengths.sum()} positions, X has {X.shape[0]}, and no "
                "sequence is empty"
            )
        check_cells(X.shape[0] * PARTS * sizes[0], "a SegmentMap", IN_MEMORY)
        check_cells(sizes[0] * (sizes[1] + sizes[0]), "a SegmentMap", IN_MEMORY)
        self._set(X, lengths.astype(np.int64), *sizes, tuple(state["parts"]), state["kept"])

    def scores(self, w: Array) -> Tied:
        """Scores of positions, lengths and changes."""
        table, cut = self._table(w), self._weights
        found = np.asarray(self.X @ table).reshape(-1, len(self.parts), self.n_labels)
        own = np.zeros((len(found), PARTS, self.n_labels), found.dtype)
        own[:, self._columns] = found
        tied = w[None, cut:].astype(own.dtype)
        return Tied(Ragged(own.reshape(-1), self._offsets), tied)

    def _table(self, w: Array) -> Array:
        """W as (features, parts and labels)."""
        width = len(self.parts) * self.n_labels
        if self.kept is None:
            return w[: self._weights].reshape(-1, width).astype(self.X.dtype, copy=False)
        table = np.zeros(self.X.shape[1] * width, self.X.dtype)
        table[self.kept] = w[: self._weights]
        return table.reshape(-1, width)

    def moments(self, p: Rows) -> Array:
        """Expected features: X'(marginals of the positions), lengths and changes summed."""
        own = p.own.values.reshape(-1, PARTS, self.n_labels)[:, self._columns].astype(self.X.dtype)
        table = np.asarray(self.X.T @ own.reshape(len(own), -1)).ravel()
        table = table if self.kept is None else table[self.kept]
        return np.concatenate([table, p.tied.sum(axis=0, dtype=np.float64)])

    def take(self, rows: Array) -> SegmentMap:
        """Some of the sequences."""
        ends = np.cumsum(self.lengths)
        place = [np.arange(ends[i] - self.lengths[i], ends[i]) for i in rows]
        X = (self.X.tocsr() if sparse.issparse(self.X) else self.X)[np.concatenate(place)]
        chosen = self.n_labels, self.longest, self.parts, self.kept
        return SegmentMap.of_positions(X, self.lengths[rows], *chosen)

    def row_norms(self) -> Array:
        """`max(||X_i||_F^2, 1)`: the tables are taken as they are."""
        squares = self.X.power(2) if sparse.issparse(self.X) else np.square(self.X)
        sizes = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        return np.maximum(np.add.reduceat(sizes, starts), 1.0)
