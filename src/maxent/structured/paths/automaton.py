"""Words of a finite automaton: chains under any regular constraint, and alignments of CTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from maxent import io
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Ragged, Rows, as_float, as_rows
from maxent.structured.paths.domain import PathDomain
from maxent.structured.paths.network import Paths, paths_of

_SCORES = ("labels", "arcs")


@io.register
@dataclass(frozen=True)
class Automaton(PathDomain):
    """Words that a finite automaton accepts, position by position.

    A row holds T L scores [t, label], and a vertex marks the labels of one accepted word of T
    labels with ones: decoding, sums and projections under a regular constraint. Every word needs
    one path, so from a state no label may lead to two. With ``scores="arcs"`` a row holds T A
    scores [t, arc] instead, in the order of ``arcs``: paths of a weighted automaton, deterministic
    or not. Sequences of one length are an array of rows, others a Ragged. A score of -inf forbids.

    Parameters
    ----------
    n_labels : int
        Number of labels L.
    arcs : tuple of (int, int, int)
        Steps (from state, label, to state).
    final : tuple of int
        States in which a word may end.
    initial : int, default 0
        State in which words begin.
    scores : "labels" or "arcs", default "labels"
        What is scored.

    Examples
    --------
    >>> no_two_ones = Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1))
    >>> no_two_ones.decode(no_two_ones.argmax([0.0, 1.0, 0.0, 1.5, 0.0, 1.0]))
    [array([1, 0, 1])]
    >>> no_two_ones.softmax(np.zeros(6))[0].round(6) == np.log(5).round(6)  # 5 words of 3 labels
    np.True_
    """

    n_labels: int
    arcs: tuple[tuple[int, int, int], ...]
    final: tuple[int, ...]
    initial: int = 0
    scores: str = "labels"
    ragged = True

    def __post_init__(self) -> None:
        if not isinstance(self.n_labels, int | np.integer) or self.n_labels < 1:
            raise ValueError(f"Automaton needs an integer n_labels >= 1, got {self.n_labels!r}")
        if self.scores not in _SCORES:
            raise ValueError(f'scores are of "labels" or of "arcs", got {self.scores!r}')
        steps, ends = np.asarray(self.arcs), np.asarray(self.final)
        if steps.ndim != 2 or steps.shape[1] != 3 or not np.issubdtype(steps.dtype, np.integer):
            raise ValueError(
                f"the arcs of an Automaton are triples (from, label, to), got {self.arcs!r}"
            )
        whole = ends.ndim == 1 and ends.size and np.issubdtype(ends.dtype, np.integer)
        whole = whole and isinstance(self.initial, int | np.integer)
        if not whole or min(steps[:, [0, 2]].min(), ends.min(), self.initial) < 0:
            raise ValueError(
                f"states are integers >= 0, and some are final, got final={self.final!r} and "
                f"initial={self.initial!r}"
            )
        if steps[:, 1].min() < 0 or steps[:, 1].max() >= self.n_labels:
            raise ValueError(
                f"labels run from 0 to {self.n_labels - 1}, the arcs have some from "
                f"{steps[:, 1].min()} to {steps[:, 1].max()}"
            )
        object.__setattr__(self, "arcs", tuple(map(tuple, steps.tolist())))
        object.__setattr__(self, "final", tuple(ends.tolist()))
        if self.scores == "labels":
            known, count = np.unique(steps[:, :2], axis=0, return_counts=True)
            if (count > 1).any():
                state, label = known[count > 1][0].tolist()
                raise ValueError(
                    f"label {label} leads from state {state} to several states, so a word has "
                    "several paths; make the automaton deterministic, or score its arcs "
                    '(scores="arcs")'
                )

    @classmethod
    def ctc(cls, target: Sequence[int], n_labels: int, blank: int = 0) -> Automaton:
        """The alignments of connectionist temporal classification (CTC) of a target.

        A word of T labels stands for what is left when repeats are joined and blanks are taken
        out; these are the words that stand for the target.

        Parameters
        ----------
        target : sequence of int
            Labels, none of them the blank.
        n_labels : int
            Number of labels with the blank.
        blank : int, default 0
            The label that stands for nothing.

        Examples
        --------
        >>> once = Automaton.ctc([1], n_labels=2)
        >>> [word.tolist() for word in once.decode(once.vertices(4))]
        [[1, 0], [0, 1], [1, 1]]
        """
        labels = whole_numbers(target, "the target of CTC")
        return cls(n_labels, *_ctc_arcs(tuple(labels.tolist()), int(n_labels), int(blank)))

    @property
    def width(self) -> int:
        """Scores of each position."""
        return int(self.n_labels) if self.scores == "labels" else len(self.arcs)

    def length(self, size: int) -> int:
        """Positions T of a row of ``size`` entries."""
        length, rest = divmod(size, self.width)
        if rest or length < 1:
            raise ValueError(
                f"a row of this automaton holds {self.width} scores for each position, got a row "
                f"of size {size}"
            )
        return length

    def paths(self, size: int) -> Paths:
        """The states at each position, and the arcs between them."""
        length = self.length(size)
        graph = _unrolled(self.arcs, self.final, int(self.initial), self.width, self.scores, length)
        if graph is None:
            raise ValueError(f"the automaton accepts no word of {length} labels")
        return graph

    def arc_scores(self, nodes: Any, weights: Any) -> Array:
        """Scores of arcs from those of labels (..., T, L) and one weight for each arc.

        >>> weighted = Automaton(1, [(0, 0, 0), (0, 0, 1)], final=(1,), scores="arcs")
        >>> weighted.arc_scores([[1.0], [2.0]], [0.0, 0.5])
        array([1. , 1.5, 2. , 2.5])
        """
        nodes, weights = as_float(nodes), as_float(weights)
        if nodes.ndim < 2 or nodes.shape[-1] != self.n_labels or weights.shape != (len(self.arcs),):
            raise ValueError(
                f"arc_scores takes scores (positions, {self.n_labels}) and {len(self.arcs)} "
                f"weights, got shapes {nodes.shape} and {weights.shape}"
            )
        labels = [label for _, label, _ in self.arcs]
        return np.reshape(nodes[..., labels] + weights, (*nodes.shape[:-2], -1))

    def encode(self, words: list[Any]) -> Rows:
        """Accepted words, one label per position, as vertices; of labels, not of arcs."""
        if self.scores != "labels":
            raise TypeError("a word may have several paths of arcs, so it is no vertex of them")
        rows = []
        for i, word in enumerate(words):
            given = whole_numbers(word, f"word {i}")
            if not given.size or not self._accepts(given):
                raise ValueError(f"word {i} is not accepted by the automaton: {given.tolist()}")
            vertex = np.zeros((given.size, self.width))
            vertex[np.arange(given.size), given] = 1
            rows.append(vertex.ravel())
        return Ragged.from_rows(rows)

    def _accepts(self, word: Array) -> bool:
        step = {(state, label): after for state, label, after in self.arcs}
        state: int | None = int(self.initial)
        for label in word.tolist():
            state = None if state is None else step.get((state, label))
        return state in self.final

    def decode(self, p: Any) -> list[Array]:
        """The labels of each row: those of a vertex, the likeliest of marginals."""
        labels = np.array([label for _, label, _ in self.arcs])
        found = []
        for row in each_row(as_rows(as_float(p))):
            best = row.reshape(self.length(row.size), -1).argmax(axis=1)
            found.append(best if self.scores == "labels" else labels[best])
        return found


def collapse(labels: Sequence[int] | Array, blank: int = 0) -> list[int]:
    """What an alignment of CTC stands for: repeats joined, then blanks taken out.

    Parameters
    ----------
    labels : sequence of int
        The label of each position.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> collapse([0, 3, 3, 0, 3, 1])
    [3, 3, 1]
    """
    given = whole_numbers(labels, "an alignment of CTC")
    new = np.append(True, given[1:] != given[:-1]) if given.size else np.empty(0, bool)
    kept: list[int] = given[new & (given != blank)].tolist()
    return kept


def whole_numbers(labels: Any, name: str) -> Array:
    """A sequence of labels as a vector of integers."""
    given = np.asarray(labels)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise ValueError(
            f"{name} is a sequence of integer labels, got {labels!r:.80} of shape {given.shape} "
            f"and dtype {given.dtype}"
        )
    return given.astype(np.int64)


def _ctc_arcs(
    target: tuple[int, ...], n_labels: int, blank: int
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Steps and final states; state 0 comes before the first label, 1 + i after i blanks or labels.

    The states stand for  blank, y_1, blank, y_2, ..., blank  in this order.
    """
    if not 0 <= blank < n_labels or any(not 0 <= y < n_labels or y == blank for y in target):
        raise ValueError(
            f"a target of CTC has labels from 0 to {n_labels - 1} and not the blank {blank}, got "
            f"{target!r}"
        )
    line = [blank]
    for label in target:
        line += [label, blank]
    arcs = []
    for i, label in enumerate(line):
        arcs.append((1 + i, label, 1 + i))
        arcs += [(i, label, 1 + i)] if i else [(0, label, 1)]
        skips = i > 0 and label != blank and (i == 1 or line[i - 2] != label)
        if skips:
            arcs.append((0 if i == 1 else i - 1, label, 1 + i))
    last = len(line)
    return tuple(arcs), ((last, last - 1) if target else (last,))


@lru_cache(maxsize=256)
def _unrolled(
    arcs: tuple[tuple[int, int, int], ...],
    final: tuple[int, ...],
    initial: int,
    width: int,
    scores: str,
    length: int,
) -> Paths | None:
    """Node 0, the states at each inner boundary, and one node for all final states at the end."""
    tail, label, head = np.array(arcs).T
    count = 1 + max(int(tail.max()), int(head.max()), *final, initial)
    own = label if scores == "labels" else np.arange(len(arcs))
    last = 1 + count * (length - 1)
    tails, heads, entries = [], [], []
    for t in range(length):
        fits = np.ones(len(arcs), bool)
        if t == 0:
            fits &= tail == initial
        if t == length - 1:
            fits &= np.isin(head, final)
        tails.append(1 + (t - 1) * count + tail[fits] if t else np.zeros(fits.sum(), np.int64))
        after = 1 + t * count + head[fits]
        heads.append(after if t < length - 1 else np.full(fits.sum(), last))
        entries.append(t * width + own[fits])
    tail, head, entry = (np.concatenate(parts) for parts in (tails, heads, entries))
    return paths_of(tail, head, entry, width * length) if last in head else None
