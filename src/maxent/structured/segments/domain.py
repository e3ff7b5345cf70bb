"""Segmentations: sequences cut into labelled segments that have scores of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import triple
from maxent.core.domains.active_set import Support
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Ragged, Rows, Tied, as_float, as_rows, take_row
from maxent.structured.paths.domain import PathDomain
from maxent.structured.paths.network import Paths, paths_of
from maxent.structured.segments.sums import PARTS, Sums
from maxent.structured.tied import tied_negentropy

Segment = tuple[int, int, int]


@io.register
@dataclass(frozen=True)
class SemiMarkov(PathDomain):
    """Segmentations of a sequence into labelled segments of bounded length: a semi-Markov model.

    A row is one sequence of `T >= 1` positions: T K C scores [start, length - 1, label] of the
    segments, then `(T-1) C^2` scores [t, from, to] of a segment with label "from" that ends where
    one with label "to" starts, at position t + 1. Its size fixes T; sequences of one length are an
    array of rows, others a Ragged. A vertex marks the segments and the changes of one segmentation
    with ones; segments that would end behind the sequence are in none. A score of -inf forbids.

    Where a segment scores the sum of what its positions, its ends and its length score, rows are a
    ``Tied`` and nothing of size T K C is written: T 3 C scores [t, part, label] of every position
    of a segment, of its first and of its last one, and a block of K C scores [length - 1, label]
    and `C^2` scores [from, to] for each sequence or for all of them. Points then hold the sums of
    the marginals, and sums over segmentations take O(T C (K + C)) time. ``sums`` makes such rows.

    Parameters
    ----------
    n_labels : int
        Number of labels C.
    longest : int
        Length K of the longest segment.

    Examples
    --------
    >>> domain = SemiMarkov(2, longest=3)
    >>> segments = np.zeros((4, 3, 2))
    >>> segments[0, 2, 1], segments[3, 0, 0] = 5.0, 1.0
    >>> theta = domain.scores([segments], np.zeros((2, 2)))
    >>> domain.decode(domain.argmax(theta))
    [[(0, 3, 1), (3, 4, 0)]]
    """

    n_labels: int
    longest: int
    ragged = True
    tied = True

    def __post_init__(self) -> None:
        for name in ("n_labels", "longest"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"SemiMarkov needs an integer {name} >= 1, got {value!r}")

    def size(self, length: int) -> int:
        """Entries `T K C + (T-1) C^2` of a row of ``length`` positions."""
        return length * self.longest * self.n_labels + (length - 1) * self.n_labels**2

    def length(self, size: int) -> int:
        """Positions T of a row of ``size`` entries."""
        c = self.n_labels
        length, rest = divmod(size + c * c, c * (self.longest + c))
        if rest or length < 1:
            near = max(1, length)
            raise ValueError(
                f"a row of size {size} is no sequence of n_labels={c} and longest={self.longest}: "
                f"T positions take T K C + (T-1) C^2 entries, so {self.size(near)} for T={near} "
                f"and {self.size(near + 1)} for T={near + 1}"
            )
        return length

    def lengths(self, rows: Rows) -> Array:
        """Positions of each row."""
        if isinstance(rows, Tied):
            return self._sums.lengths(rows)
        return np.array([self.length(row.size) for row in each_row(rows)], np.int64)

    @property
    def _sums(self) -> Sums:
        return Sums(int(self.n_labels), int(self.longest))

    def paths(self, size: int) -> Paths:
        """The graph whose nodes are the ends and the starts of segments with each label."""
        return _graph_of(int(self.n_labels), int(self.longest), self.length(size))

    def scores(self, segments: Any, transitions: Any) -> Rows:
        """Rows from scores of segments and of changes.

        Parameters
        ----------
        segments : array (n_sequences, T, K, C) or list of array (T, K, C)
            Scores [start, length - 1, label]; a list for different lengths.
        transitions : array (C, C)
            Scores [from, to] of the labels of neighbouring segments.

        Examples
        --------
        >>> SemiMarkov(1, 1).scores(np.ones((1, 2, 1, 1)), [[3.0]])
        array([[1., 1., 3.]])
        """
        blocks, change = [as_float(x) for x in segments], as_float(transitions)
        c = self.n_labels
        if change.shape != (c, c):
            raise ValueError(f"transitions of {c} labels have shape {(c, c)}, got {change.shape}")
        for i, block in enumerate(blocks):
            if block.ndim != 3 or block.shape[1:] != (self.longest, c) or not len(block):
                raise ValueError(
                    f"sequence {i} needs scores of segments (positions, {self.longest}, {c}), got "
                    f"shape {block.shape}"
                )
        rows = [np.concatenate([x.ravel(), np.tile(change.ravel(), len(x) - 1)]) for x in blocks]
        return np.array(rows) if isinstance(segments, np.ndarray) else Ragged.from_rows(rows)

    def sums(
        self,
        content: list[Any],
        durations: Any,
        transitions: Any,
        begins: list[Any] | None = None,
        ends: list[Any] | None = None,
    ) -> Tied:
        """Tied rows from scores of positions, of lengths and of changes.

        Parameters
        ----------
        content : list of array (T, C)
            Scores of the positions inside a segment, of which it takes the sum.
        durations : array (K, C)
            Scores of the lengths 1, ..., K.
        transitions : array (C, C)
            Scores [from, to] of the labels of neighbouring segments.
        begins : list of array (T, C), default None
            Scores of first positions.
        ends : list of array (T, C), default None
            Scores of last positions.

        Examples
        --------
        >>> SemiMarkov(1, 2).sums([[[1.0], [2.0]]], [[3.0], [4.0]], [[5.0]]).rows()
        [array([1., 0., 0., 2., 0., 0., 3., 4., 5.])]
        """
        c = self.n_labels
        for name, given in (("begins", begins), ("ends", ends)):
            if given is not None and len(given) != len(content):
                raise ValueError(
                    f"content is of {len(content)} sequences, {name} of {len(given)}: give one "
                    "table for each"
                )
        lengths, changes = as_float(durations), as_float(transitions)
        if lengths.shape != (self.longest, c) or changes.shape != (c, c):
            raise ValueError(
                f"durations have the shape {(self.longest, c)} and transitions {(c, c)}, got "
                f"{lengths.shape} and {changes.shape}"
            )
        blocks = [as_float(x) for x in content]
        own = [np.zeros((len(x), PARTS, c)) for x in blocks]
        for part, (name, given) in enumerate(
            (("content", blocks), ("begins", begins), ("ends", ends))
        ):
            for i, x in enumerate(() if given is None else given):
                if np.shape(x) != (len(blocks[i]), c) or not len(x):
                    raise ValueError(
                        f"{name} of sequence {i} has the shape (positions, {c}), got {np.shape(x)}"
                    )
                own[i][:, part] = x
        tied = np.concatenate([lengths.ravel(), changes.ravel()])
        return as_float(Tied(Ragged.from_rows([x.ravel() for x in own]), tied[None]))

    def tie(self, p: Any) -> Tied:
        """Points in the layout of tied rows: the sums of their marginals.

        >>> domain = SemiMarkov(1, 2)
        >>> domain.tie(domain.encode([[(0, 2, 0)]])).rows()
        [array([1., 1., 0., 1., 0., 1., 0., 1., 0.])]
        """
        p = as_float(p)
        if isinstance(p, Tied):
            return p
        own, tied = [], []
        for row in each_row(as_rows(p)):
            block, changes = self._parts(row.astype(np.float64))
            length = len(block)
            begins, ends = block.sum(axis=1), np.zeros((length, self.n_labels))
            for d in range(min(self.longest, length)):
                ends[d:] += block[: length - d, d]
            inside = np.clip(np.cumsum(begins, 0) - np.cumsum(ends, 0) + ends, 0.0, 1.0)
            own.append(np.stack([inside, begins, ends], 1).ravel())
            tied.append(np.concatenate([block.sum(axis=0).ravel(), changes.sum(axis=0).ravel()]))
        sums = Tied(Ragged.from_rows(own), np.array(tied))
        return sums.astype(p.dtype, copy=False)

    def untie(self, theta: Tied) -> Ragged:
        """Tied scores written out, one for each segment and each change."""
        c, k = int(self.n_labels), int(self.longest)
        blocks = np.broadcast_to(theta.tied, (len(theta), theta.tied.shape[1]))
        rows = []
        for own, block, length in zip(theta.own.rows(), blocks, self.lengths(theta), strict=True):
            inside, begins, ends = own.reshape(length, PARTS, c).transpose(1, 0, 2)
            durations = block[: k * c].reshape(k, c)
            segments = np.zeros((length, k, c), theta.dtype)
            for d in range(min(k, length)):
                whole = np.lib.stride_tricks.sliding_window_view(inside, d + 1, axis=0).sum(axis=2)
                segments[: length - d, d] = begins[: length - d] + ends[d:] + durations[d] + whole
            rows.append(np.concatenate([segments.ravel(), np.tile(block[k * c :], length - 1)]))
        return Ragged.from_rows(rows)

    def conform(self, p: Rows, template: Rows) -> Rows:
        """Points with sums of marginals where the scores are tied."""
        return self.tie(p) if isinstance(template, Tied) else p

    def encode(self, segmentations: list[list[Segment]], tied: bool = False) -> Rows:
        """Segmentations, lists of (start, end, label) that cover a sequence, as vertices.

        With ``tied`` they are in the layout of tied rows.

        >>> SemiMarkov(1, 2).encode([[(0, 2, 0)]]).rows()
        [array([0., 1., 0., 0., 0.])]
        """
        given = [list(x) for x in segmentations]
        for i, segments in enumerate(given):
            check_segments(i, segments, self.n_labels, self.longest)
        return self._counts(given) if tied else Ragged.from_rows([self._vertex(x) for x in given])

    def _vertex(self, segments: list[Segment]) -> Array:
        vertex = np.zeros(self.size(segments[-1][1]))
        block, changes = self._parts(vertex)
        for start, end, label in segments:
            block[start, end - start - 1, label] = 1
        for (_, end, before), (_, _, after) in pairwise(segments):
            changes[end - 1, before, after] = 1
        return vertex

    def _counts(self, segmentations: list[list[Segment]]) -> Tied:
        lengths = np.array([segments[-1][1] for segments in segmentations], np.int64)
        label = np.zeros((len(lengths), lengths.max(initial=1)), np.int64)
        first = np.zeros(label.shape, bool)
        for i, segments in enumerate(segmentations):
            for start, end, own in segments:
                label[i, start:end], first[i, start] = own, True
        c = self.n_labels
        offsets = np.concatenate([[0], np.cumsum(lengths * PARTS * c)]).astype(np.int64)
        tied = np.empty((len(lengths), c * (self.longest + c)))
        out = Tied(Ragged(np.empty(offsets[-1]), offsets), tied)
        self._sums.mark(label, first, lengths, out, 0)
        return out

    def _parts(self, row: Array) -> tuple[Array, Array]:
        """Views (T, K, C) and (T - 1, C, C) of the segments and the changes of a row."""
        length, c = self.length(row.size), self.n_labels
        cut = length * self.longest * c
        return row[:cut].reshape(length, self.longest, c), row[cut:].reshape(length - 1, c, c)

    def decode(self, p: Any) -> list[list[Segment]]:
        """The segments (start, end, label) of each row that is a vertex."""
        rows = as_rows(as_float(p))
        if isinstance(rows, Tied):
            return [self._cut(own) for own in rows.own.rows()]
        found = []
        for row in each_row(rows):
            marked = np.argwhere(self._parts(row)[0] > 0).tolist()
            found.append([(start, start + d + 1, label) for start, d, label in marked])
        return found

    def _cut(self, own: Array) -> list[Segment]:
        """The segments of a vertex in the layout of tied rows."""
        parts = own.reshape(-1, PARTS, self.n_labels)
        starts = np.argwhere(parts[:, 1] > 0).tolist()
        ends = [start for start, _ in starts[1:]] + [len(parts)]
        return [(start, end, label) for (start, label), end in zip(starts, ends, strict=True)]

    def label_marginals(self, p: Any) -> list[Array]:
        """(T, C) of each row: how much of the point has each label at each position.

        >>> domain = SemiMarkov(1, 2)
        >>> domain.label_marginals(domain.encode([[(0, 2, 0)]]))
        [array([[1.],
               [1.]])]
        """
        own = self.tie(p).own.rows()
        return [row.reshape(-1, PARTS, self.n_labels)[:, 0] for row in own]

    def _argmax(self, theta: Rows) -> Rows:
        return self._sums.argmax(theta) if isinstance(theta, Tied) else super()._argmax(theta)

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        return self._sums.softmax(theta) if isinstance(theta, Tied) else super()._softmax(theta)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by the derivative of the recursion."""
        if isinstance(theta, Tied):
            return self._sums.covariance(theta, v)
        return super().softmax_jvp(theta, p, v)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        if not isinstance(theta, Tied):
            return super()._kbest(theta, k)
        value, batches = super()._kbest(self.untie(theta), k)
        return value, [self.tie(batch) for batch in batches]

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        if isinstance(theta, Tied):
            return list(self._sums.sample(theta, n, rng))
        return super()._sample(theta, n, rng)

    def _project(self, theta: Rows) -> Rows:
        self._refuse_tied(theta)
        return super()._project(theta)

    def _project_support(self, theta: Rows, start: Sequence[Support] | None) -> list[Support]:
        self._refuse_tied(theta)
        return super()._project_support(theta, start)

    def _refuse_tied(self, theta: Rows) -> None:
        if isinstance(theta, Tied):
            raise TypeError(
                "a projection weighs each segment by itself, so tied rows have none; write them "
                "out (SemiMarkov.untie)"
            )

    def negentropy(self, p: Rows) -> Array:
        """`sum_arcs p log p - sum_inner nodes p log p` over segments and changes.

        Sums of marginals (a Tied) leave the distribution open: the value is then
        `max_theta <theta, p> - log Z`, found numerically unless the row is one segmentation.
        """
        if not isinstance(p, Tied):
            return super().negentropy(p)
        return np.array([tied_negentropy(self._softmax, take_row(p, i)) for i in range(len(p))])

    def cheap_negentropy(self, p: Rows) -> bool:
        """Whether the negentropy has a formula: not for sums of marginals."""
        return not isinstance(p, Tied)

    def _contains(self, p: Rows, atol: float) -> Array:
        """Of tied rows, whether they fulfil the equations between their sums."""
        if isinstance(p, Tied):
            return self._sums.violation(p) <= atol
        return super()._contains(p, atol)


def check_segments(row: int, segments: list[Segment], n_labels: int, longest: int) -> None:
    """Refuse what is no segmentation from position 0 on."""
    at = 0
    for segment in segments:
        triple(f"segmentation {row} has the segment", segment, "start, end, label")
        start, end, label = segment
        if start != at or not start < end <= start + longest or not 0 <= label < n_labels:
            raise ValueError(
                f"segmentation {row} has the segment {segment}, where one (start, end, label) that "
                f"starts at {at}, has 1 to {longest} positions and a label from 0 to "
                f"{n_labels - 1} is expected"
            )
        at = end
    if not at:
        raise ValueError(
            f"segmentation {row} has no segment: every sequence has a position or more"
        )


@lru_cache(maxsize=64)
def _graph_of(c: int, k: int, length: int) -> Paths:
    """Node 0; for each inner boundary t the ends of labels, then their starts; the last node.

    A segment leads from a start to an end, a change from an end to a start at the same boundary.
    """
    start, d, label = np.meshgrid(
        np.arange(length), np.arange(k), np.arange(c), indexing="ij", sparse=False
    )
    end = start + d + 1
    fits = (end <= length).ravel()
    last = 1 + 2 * c * (length - 1)
    tail = np.where(start == 0, 0, 1 + (start - 1) * 2 * c + c + label)
    head = np.where(end == length, last, 1 + (end - 1) * 2 * c + label)
    entry = np.arange(fits.size)
    t, before, after = np.meshgrid(
        np.arange(length - 1), np.arange(c), np.arange(c), indexing="ij", sparse=False
    )
    tails = np.concatenate([tail.ravel()[fits], (1 + t * 2 * c + before).ravel()])
    heads = np.concatenate([head.ravel()[fits], (1 + t * 2 * c + c + after).ravel()])
    entries = np.concatenate([entry[fits], fits.size + np.arange(t.size)])
    size = fits.size + t.size
    graph = paths_of(tails, heads, entries, size)
    assert graph is not None  # one segment per position is a path
    return graph
