"""Chains of any order: labels that look at the last few before them, by state expansion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxent import io
from maxent._support.limits import IN_MEMORY, check_cells
from maxent.rows.arrays import Array, Rows, as_float, as_rows
from maxent.structured.chain.domain import Chain
from maxent.structured.chain.layout import layout


@io.register
@dataclass(frozen=True)
class HigherOrderChain:
    """Sequences of ``n_labels`` labels that are scored by runs of ``order`` + 1 of them.

    ``chain`` is a Chain whose states are the runs of ``order`` labels, so that all its oracles
    apply; transitions between runs that do not overlap are forbidden. A sequence of T labels has
    `T - order + 1` positions there, hence `T >= order`. ``scores`` makes rows for it, ``encode``
    vertices; ``decode``, ``label_marginals`` and ``run_marginals`` lead back to labels.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    order : int
        How many labels before it a label looks at.

    Examples
    --------
    >>> model = HigherOrderChain(2, order=2)
    >>> runs = np.zeros((2, 2, 2))
    >>> runs[0, 1, 0] = runs[1, 0, 1] = 1.0  # labels that alternate
    >>> theta = model.scores([np.zeros((4, 2)) + [0.5, 0.0]], runs)
    >>> model.decode(model.chain.argmax(theta))
    [array([0, 1, 0, 1])]
    """

    n_labels: int
    order: int

    def __post_init__(self) -> None:
        for name in ("n_labels", "order"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"HigherOrderChain needs an integer {name} >= 1, got {value!r}")
        what = f"the transitions between runs of {self.order} of {self.n_labels} labels"
        check_cells(int(self.n_labels) ** (2 * int(self.order)), what, IN_MEMORY)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of scores of runs of order + 1 labels."""
        return (int(self.n_labels),) * (int(self.order) + 1)

    @cached_property
    def _entries(self) -> Array:
        """Where each run of order + 1 labels lies in the block of transitions."""
        states = self.n_labels**self.order
        run = np.arange(states * self.n_labels)
        return (run // self.n_labels) * states + run % states

    @cached_property
    def chain(self) -> Chain:
        """The chain over runs of ``order`` labels, the last label counting fastest."""
        states = self.n_labels**self.order
        apart = np.ones((states, states), bool)
        apart.reshape(-1)[self._entries] = False
        return Chain(states, forbidden=tuple((i, j) for i, j in np.argwhere(apart).tolist()))

    def scores(self, nodes: Any, transitions: Any, start: Any = None, end: Any = None) -> Rows:
        """Rows of ``chain`` from scores of labels and of runs of order + 1 labels.

        Parameters
        ----------
        nodes : array (n_sequences, T, K) or list of array (T, K)
            Scores of the labels; a list for different lengths.
        transitions : array or list of array
            Scores of runs: (K,) * (order + 1), the oldest label first, shared by all; with a
            leading axis of sequences; or one table per position, (n_sequences, T - order, K, ...)
            or a list of (T - order, K, ...). The first two give tied rows.
        start : array (K,) * order, default None
            Scores of the first run of every sequence.
        end : array (K,) * order, default None
            Scores of the last run of every sequence.
        """
        unary = [self._runs(i, as_float(x)) for i, x in enumerate(nodes)]
        each = isinstance(transitions, list) and bool(transitions)
        if each and np.ndim(transitions[0]) == self.order + 2:
            blocks: Any = [self._block(x) for x in transitions]
        else:
            blocks = self._block(transitions)
        ends = {"start": start, "end": end}
        for name, extra in ends.items():
            if extra is None:
                continue
            if np.shape(extra) != self._shape[1:]:
                raise ValueError(
                    f"{name} scores runs of {self.order} labels, shape {self._shape[1:]}, got "
                    f"{np.shape(extra)}"
                )
            ends[name] = np.ravel(extra)
        return self.chain.scores(unary, blocks, **ends)

    def _runs(self, sequence: int, nodes: Array) -> Array:
        """Scores of runs: the first has those of all its labels, the others that of the last."""
        k = self.n_labels
        if nodes.ndim != 2 or nodes.shape[1] != k:
            raise ValueError(
                f"sequence {sequence} needs a matrix of scores (positions, {k}), got shape "
                f"{nodes.shape}"
            )
        self._check_length(sequence, len(nodes))
        first = np.zeros(self._shape[1:], nodes.dtype)
        for position in range(self.order):
            axes = [-1 if axis == position else 1 for axis in range(self.order)]
            first = first + nodes[position].reshape(axes)
        later = np.tile(nodes[self.order :], (1, first.size // k))
        return np.concatenate([first.reshape(1, -1), later])

    def _check_length(self, sequence: int, length: int) -> None:
        if length < self.order:
            raise ValueError(
                f"sequence {sequence} has {length} labels, fewer than the order {self.order}: its "
                "first run is not complete; use a lower order for short sequences"
            )

    def _block(self, transitions: Any) -> Array:
        """Tables of runs as blocks of transitions between runs."""
        tables, states = as_float(transitions), self.n_labels**self.order
        before = tables.shape[: -self.order - 1]
        if tables.shape != (*before, *self._shape):
            raise ValueError(
                f"transitions of order {self.order} have shape {self._shape}, or axes of sequences "
                f"and positions before that, got {tables.shape}"
            )
        blocks = np.zeros((*before, states * states), tables.dtype)
        blocks[..., self._entries] = tables.reshape(*before, self._entries.size)
        return blocks.reshape(*before, states, states)

    def encode(self, labels: Any, tied: bool = False) -> Rows:
        """Sequences of labels as vertices of ``chain``; see ``Chain.encode``."""
        runs = [self._path(i, path) for i, path in enumerate(labels)]
        return self.chain.encode(np.array(runs) if isinstance(labels, np.ndarray) else runs, tied)

    def _path(self, sequence: int, labels: Sequence[int] | Array) -> Array:
        path = np.asarray(labels)
        if path.ndim != 1 or not (np.issubdtype(path.dtype, np.integer) or not path.size):
            raise ValueError(f"a sequence is a vector of integer labels, got {labels!r}")
        self._check_length(sequence, path.size)
        if path.min() < 0 or path.max() >= self.n_labels:
            raise ValueError(
                f"labels run from 0 to {self.n_labels - 1}, got one from {path.min()} to "
                f"{path.max()}"
            )
        powers = self.n_labels ** np.arange(self.order)[::-1]
        return np.lib.stride_tricks.sliding_window_view(path, self.order) @ powers

    def decode(self, p: Any) -> list[Array]:
        """The labels of each row: those of a vertex, the likeliest of marginals."""
        return [x.argmax(axis=1) for x in self.label_marginals(p)]

    def label_marginals(self, p: Any) -> list[Array]:
        """(T, K) of each row: how much of the point has each label at each position."""
        rows, k, n = as_rows(as_float(p)), self.n_labels, self.order
        lengths = self.chain.lengths(rows)
        at, states = layout(rows, lengths, self.chain.n_states), self.chain.n_states
        found = []
        for start, length in zip(at.node_start, lengths, strict=True):
            runs = at.nodes[start : start + length * states].reshape(length, *self._shape[1:])
            others = [tuple(a for a in range(n) if a != axis) for axis in range(n)]
            first = [runs[0].sum(axis=other) for other in others[:-1]]
            last = runs.reshape(length, -1, k).sum(axis=1)
            both = np.concatenate([np.reshape(first, (-1, k)), last])
            found.append(np.minimum(both, 1.0))  # sums may round up
        return found

    def run_marginals(self, p: Any) -> Array:
        """(rows, K, ...): the sum over positions of the marginals of runs of order + 1 labels."""
        return self.chain.tie(as_rows(as_float(p))).tied[:, self._entries].reshape(-1, *self._shape)
