"""Binary constituency trees with labels (Cocke, Kasami and Younger)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import triple
from maxent.rows.arrays import Array, Ragged, Rows, as_float, as_rows, flat
from maxent.structured.trees.charts import constituency_chart
from maxent.structured.trees.spans import SpanDomain

Span = tuple[int, int, int]


@io.register
@dataclass(frozen=True)
class ConstituencyTree(SpanDomain):
    """Binary trees over n words, with a label on each of their 2 n - 1 spans.

    A row holds n n labels entries [first word, last word, label], and a vertex marks the labelled
    spans of one tree with ones: every word, the whole sentence, and each span of two or more words
    is split in two that are spans as well. Entries whose first word is behind the last are not
    read. A score of -inf forbids a labelled span. Rows of different n are a Ragged.

    Parameters
    ----------
    labels : int, default 1
        Number of labels.
    n : int, default None
        Number of words; None takes it from the size of a row.

    Examples
    --------
    >>> import numpy as np
    >>> theta = np.zeros((3, 3, 2))
    >>> theta[1, 2, 1] = 2.0  # the last two words go together, with label 1
    >>> trees = ConstituencyTree(2)
    >>> trees.decode(trees.argmax(theta.ravel()))
    [[(0, 0, 0), (0, 2, 0), (1, 1, 0), (1, 2, 1), (2, 2, 0)]]
    >>> int(np.exp(trees.softmax(np.zeros(18))[0]).round())  # 2 trees, 2^5 ways to label each
    64
    """

    labels: int = 1
    n: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("labels", self.labels), ("n", self.n)):
            if value is None and name == "n":
                continue
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"ConstituencyTree needs an integer {name} >= 1, got {value!r}")

    @property
    def _labels(self) -> int:
        return int(self.labels)

    def _chart(self, n: int) -> Any:
        return constituency_chart(n)

    def nodes(self, size: int) -> int:
        """Words n of a row of ``size`` = n n labels entries."""
        n = math.isqrt(size // self.labels)
        if n * n * self.labels != size or n < 1:
            raise ValueError(
                f"a row of size {size} is no table of spans with {self.labels} labels: n words "
                f"take n n {self.labels} entries [first, last, label], so "
                f"{max(1, n) ** 2 * self.labels} for n={max(1, n)} and "
                f"{(n + 1) ** 2 * self.labels} for n={n + 1}"
            )
        if self.n is not None and n != self.n:
            raise ValueError(
                f"a row of size {size} has n={n} words, {self} needs {self.n**2 * self.labels} "
                "entries; leave n out to allow rows of any size"
            )
        return n

    def vertices(self, size: int) -> Array:
        """All trees: the Catalan number of n - 1, times `labels^(2 n - 1)`."""
        n = self.nodes(size)
        labellings = list(itertools.product(range(self.labels), repeat=2 * n - 1))
        trees = [
            [(*span, label) for span, label in zip(spans, labelling, strict=True)]
            for spans in _binary(0, n - 1)
            for labelling in labellings
        ]
        return np.array([self._vertex(tree, n) for tree in trees])

    def encode(self, trees: Sequence[Sequence[Span]]) -> Rows:
        """Trees as vertices, from lists of their 2 n - 1 spans (first, last, label).

        Trees over equally many words give an array, others a Ragged.

        >>> ConstituencyTree().encode([[(0, 0, 0), (0, 1, 0), (1, 1, 0)]])
        array([[1., 1., 0., 1.]])
        """
        vertices = [self._vertex(tree, (len(tree) + 1) // 2) for tree in trees]
        if len({vertex.size for vertex in vertices}) <= 1 and vertices:
            return np.array(vertices)
        return Ragged.from_rows(vertices)

    def _vertex(self, tree: Sequence[Span], n: int) -> Array:
        for span in tree:
            triple("a tree has the span", span, "first, last, label")
        spans = sorted((int(first), int(last)) for first, last, _ in tree)
        expected = set(spans)
        if len(tree) != 2 * n - 1 or len(expected) != len(tree) or not _is_binary(expected, n):
            raise ValueError(
                f"the spans {spans} are no binary tree: n words have 2 n - 1 spans, all of them "
                "and each word alone among these, and each longer one is two that meet"
            )
        vertex = np.zeros((n, n, self.labels))
        self.nodes(vertex.size)
        for first, last, label in tree:
            if not 0 <= label < self.labels:
                raise ValueError(
                    f"labels run from 0 to {self.labels - 1}, got {label} for the span from "
                    f"{first} to {last}"
                )
            vertex[first, last, label] = 1
        return vertex.ravel()

    def decode(self, p: Any) -> list[list[Span]]:
        """The labelled spans (first, last, label) of each row, for rows that are vertices."""
        rows = as_rows(as_float(p))
        offsets, nodes = self._cuts(rows)
        values = flat(rows)
        return [
            [
                (int(first), int(last), int(label))
                for first, last, label in np.argwhere(
                    values[a : a + n * n * self.labels].reshape(n, n, self.labels) > 0.5
                )
            ]
            for a, n in zip(offsets, nodes, strict=False)
        ]


def _binary(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """The spans of every binary tree over the words from first to last."""
    if first == last:
        yield [(first, last)]
        return
    for middle in range(first, last):
        for left, right in itertools.product(
            _binary(first, middle), list(_binary(middle + 1, last))
        ):
            yield [(first, last), *left, *right]


def _is_binary(spans: set[tuple[int, int]], n: int) -> bool:
    waiting, seen = [(0, n - 1)], 0
    while waiting:
        first, last = waiting.pop()
        if (first, last) not in spans:
            return False
        seen += 1
        if first == last:
            continue
        splits = [
            middle
            for middle in range(first, last)
            if (first, middle) in spans and (middle + 1, last) in spans
        ]
        if not splits:
            return False
        waiting += [(first, splits[0]), (splits[0] + 1, last)]
    return seen == len(spans)
