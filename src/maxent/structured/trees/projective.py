"""Projective dependency trees: no two arcs cross (Eisner 1996)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxent import io
from maxent.structured.trees.charts import dependency_chart
from maxent.structured.trees.spans import SpanDomain
from maxent.structured.trees.tables import DependencyTrees


@io.register
@dataclass(frozen=True)
class ProjectiveTree(SpanDomain, DependencyTrees):
    """Trees of arcs from node 0, the root, that can be drawn above the sentence without a crossing.

    Rows are those of ``Arborescence``: n n entries [head, dependent] of which a vertex marks the
    arcs of one tree; the diagonal and column 0 are not read, -inf forbids an arc, rows of different
    n are a Ragged. All words between a head and its dependent descend from the head.

    Parameters
    ----------
    n : int, default None
        Number of nodes, the root included; None takes it from the size of a row.
    root : "single" or "multi", default "single"
        With "single", as in dependency treebanks, the root has exactly one dependent, with "multi"
        any number from one on.

    Examples
    --------
    >>> import numpy as np
    >>> theta = np.zeros((5, 5))
    >>> theta[0, 2] = theta[2, 4] = theta[4, 1] = 2.0  # the arc from 4 to 1 crosses that to 2
    >>> trees = ProjectiveTree(5)
    >>> trees.decode(trees.argmax(theta.ravel()))
    [array([2, 0, 4, 2])]
    >>> log_partition, p = trees.softmax(np.zeros(25))
    >>> int(np.exp(log_partition).round())  # trees of four words
    30
    """

    def _chart(self, n: int) -> Any:
        return dependency_chart(n, self._single)

    def _why_not(self, heads: Any) -> str | None:
        wrong = super()._why_not(heads)
        if wrong is not None:
            return wrong
        crossing = _crossing(heads)
        if crossing is None:
            return None
        (a, b), (c, d) = crossing
        return (
            f"are no projective tree: the arcs {a} -> {b} and {c} -> {d} cross; use Arborescence "
            "for trees with crossings"
        )


def is_projective(heads: Any) -> bool:
    """Whether no two arcs cross, those of the root included; heads of the nodes 1, 2, ...

    >>> is_projective([2, 0, 2]), is_projective([3, 0, 2, 2])
    (True, False)
    """
    return _crossing([int(head) for head in heads]) is None


def _crossing(heads: Any) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Two arcs (head, dependent) of which one begins inside the other and ends outside."""
    arcs = [(head, node) for node, head in enumerate(heads, start=1)]
    for i, first in enumerate(arcs):
        low, high = sorted(first)
        for second in arcs[:i]:
            start, end = sorted(second)
            if low < start < high < end or start < low < end < high:
                return second, first
    return None
