"""Trees that are put together from spans: every oracle by one chart."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from maxent.rows.arrays import Array, Rows, as_rows, flat, like
from maxent.structured.trees.tables import TableDomain, with_cuts

_TIED = 1e-9  # how far apart scores of equally good trees may be, in units of the largest score


class SpanDomain(TableDomain):
    """Trees of a chart: maxima, sums, the best ones and draws in `O(n^3)` for n nodes."""

    @abstractmethod
    def _chart(self, n: int) -> Any:
        """The chart of n nodes and fewer."""

    @property
    def _labels(self) -> int:
        """Scores of a cell."""
        return 1

    def chart_of(self, size: int) -> tuple[int, int, Any]:
        """Nodes of a row of ``size`` entries, scores of a cell, and a chart."""
        n = self.nodes(size)
        return n, self._labels, self._chart(n)

    def _setting(self, nodes: Array) -> tuple[Any, int]:
        return self._chart(int(nodes.max(initial=1))), self._labels

    def _argmax(self, theta: Rows) -> Rows:
        from maxent.structured.trees.kernels.spans import argmax_rows

        return self._search(argmax_rows, theta)

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent.structured.trees.kernels.spans import softmax_rows

        log_partition = np.empty(len(theta))
        return log_partition, self._search(softmax_rows, theta, log_partition)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by the derivative of every chance of the chart."""
        from maxent.structured.trees.kernels.spans import covariance_rows

        rows = as_rows(theta)
        along = np.ascontiguousarray(flat(v), np.float64)
        return like(self._search(covariance_rows, rows, along), theta)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p, the trees best towards theta from it."""
        rows = as_rows(theta).astype(np.float64)
        # the face is seen by scores that are equal but for rounding, which float32 has too much of
        point = as_rows(p) if p.dtype == np.float64 else self._project(rows)
        offsets, nodes = self._cuts(rows)
        along, out = flat(v).astype(np.float64), np.zeros(flat(rows).size)
        scores = flat(rows) - flat(point)
        chart, labels = self._setting(nodes)
        for i, n in enumerate(nodes):
            own = slice(offsets[i], offsets[i + 1])
            out[own] = _within_face(scores[own], int(n), chart, labels, along[own])
        return like(with_cuts(out, as_rows(p)), p)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent.structured.trees.kernels.best_spans import kbest_rows

        scores, out = np.empty((len(theta), k)), np.empty((k, flat(theta).size))
        self._over_rows(kbest_rows, theta, out, k, scores)
        return scores, [with_cuts(trees, theta) for trees in out]

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        return self.drawn(theta, rng.random((n, 4 * int(self._cuts(theta)[1].sum()))))

    def drawn(self, theta: Rows, uniform: Array) -> list[Rows]:
        """Trees by numbers between 0 and 1, (draws, 4 times the nodes of all rows)."""
        from maxent.structured.trees.kernels.spans import sample_rows

        out = np.empty((len(uniform), flat(theta).size))
        self._over_rows(sample_rows, theta, out, uniform)
        return [with_cuts(trees, theta) for trees in out]

    def _entropy(self, theta: Rows) -> Array:
        return self._disorder(theta, theta, relative=False)

    def _kl(self, theta: Rows, other: Rows) -> Array:
        return self._disorder(theta, other, relative=True)

    def _disorder(self, theta: Rows, other: Rows, relative: bool) -> Array:
        # a sum over the items of the chart, all of its terms positive
        from maxent.structured.trees.kernels.spans import entropy_rows

        out = np.empty(len(theta))
        others = flat(other).astype(np.float64, copy=False)
        self._over_rows(entropy_rows, theta, out, others, relative)
        return out


def _within_face(scores: Array, n: int, chart: Any, labels: int, v: Array) -> Array:
    """v projected on the differences of the trees that are best but for rounding."""
    from maxent.structured.trees.kernels.faces import face_trees

    tolerance = _TIED * (1.0 + np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
    room = 4 * n
    while True:
        trees = np.zeros((room, scores.size))
        count = face_trees(scores, n, chart, labels, tolerance, trees)
        if count <= room:
            break
        room = count
    apart = trees[1:count] - trees[0]
    if not len(apart):
        return np.zeros(scores.size)
    weights, *_ = np.linalg.lstsq(apart.T, v)
    return np.asarray(weights @ apart)
