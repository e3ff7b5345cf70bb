"""Arborescences: spanning trees of a directed graph, the non-projective dependency trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains.active_set import max_steps, small_supports_by_argmax
from maxent.rows.arrays import Array, Ragged, Rows, as_rows, flat, like, row_dot
from maxent.structured.trees.tables import ROUNDED, DependencyTrees, each_table, with_cuts

_SPARSE = 1.5  # heads of a node on average, so few that an active set of trees is faster than cuts
_PER_NODE = 2  # trees in an active set, from where on cuts are faster


@io.register
@dataclass(frozen=True)
class Arborescence(DependencyTrees):
    """Trees of arcs that lead from node 0, the root, to each of the other n - 1 nodes.

    A row holds n n entries [head, dependent], and a vertex marks the arcs of one tree with ones.
    The diagonal and column 0 are no arcs: their scores are not read, a vertex is 0 there. A score
    of -inf forbids an arc. Rows of different n are a Ragged.

    Parameters
    ----------
    n : int, default None
        Number of nodes, the root included; None takes it from the size of a row.
    root : "single" or "multi", default "single"
        With "single", as in dependency treebanks, the root has exactly one dependent, with "multi"
        any number from one on.

    Examples
    --------
    >>> trees = Arborescence(3)
    >>> theta = [[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]  # the root prefers both nodes
    >>> trees.decode(trees.argmax(np.ravel(theta)))
    [array([2, 0])]
    >>> trees = Arborescence(3, root="multi")
    >>> trees.decode(trees.argmax(np.ravel(theta)))
    [array([0, 0])]
    """

    def _setting(self, nodes: Array) -> tuple[bool]:
        return (self._single,)

    def vertices(self, size: int) -> Array:
        """All trees: `n^(n-2)` from a root with any number of dependents."""
        return super().vertices(size)

    def _argmax(self, theta: Rows) -> Rows:
        from maxent.structured.trees.kernels.spanning_trees import argmax_rows

        return self._search(argmax_rows, theta)

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent.structured.trees.kernels.matrix_tree import softmax_rows

        log_partition, unsure = np.empty(len(theta)), np.zeros(len(theta), bool)
        out = np.empty(flat(theta).size)
        self._over_rows(softmax_rows, theta, out, log_partition, unsure)
        if unsure.any():
            self._put_back(theta, out, np.flatnonzero(unsure))
        return log_partition, with_cuts(out, theta)

    def _put_back(self, theta: Rows, out: Array, chosen: Array) -> None:
        """Project those of the chosen points that rounding of large scores moved off the polytope.

        A point may have arcs where it has some already, and nowhere else.
        """
        offsets, _ = self._cuts(theta)
        points = [out[offsets[i] : offsets[i + 1]] for i in chosen]
        inside = self._contains(Ragged.from_rows(points), ROUNDED)
        outside = [point for point, kept in zip(points, inside, strict=True) if not kept]
        if not outside:
            return
        scores = Ragged.from_rows([np.where(point > 0, point, -np.inf) for point in outside])
        for point, nearest in zip(outside, self._project(scores).rows(), strict=True):
            point[:] = nearest

    def _project(self, theta: Rows) -> Rows:
        wide = theta.astype(np.float64)
        best = self._argmax(wide)
        # a tree that stays the best one when it is taken off the scores is the nearest point
        apart = best - self._argmax(wide - best)
        settled = row_dot(apart, apart) == 0
        out = flat(best).copy()
        # many arcs: cuts; few: an active set of trees, and cuts where these become too many
        self._by_cuts(wide, _SPARSE, settled, out)
        self._by_trees(wide, settled, out, _PER_NODE)
        self._by_cuts(wide, 0.0, settled, out)
        self._by_trees(wide, settled, out, None)
        return with_cuts(out, theta)

    def _by_cuts(self, theta: Rows, sparse: float, settled: Array, out: Array) -> None:
        """Project rows not yet settled by cuts."""
        from maxent.structured.trees.kernels.tree_projection import project_rows

        if not settled.all():
            self._over_rows(project_rows, theta, out, sparse, settled)

    def _by_trees(self, theta: Rows, settled: Array, out: Array, per_node: int | None) -> None:
        """Project rows not yet settled by an active set, of a number of trees per node at most."""
        if settled.all():
            return
        tried = np.flatnonzero(~settled)
        offsets, nodes = self._cuts(theta)
        rows = each_table(theta)
        batch = Ragged.from_rows([rows[i] for i in tried])
        most = [max_steps() if per_node is None else per_node * int(n) for n in nodes[tried]]
        supports = small_supports_by_argmax(self._argmax, batch, most)
        for i, support in zip(tried, supports, strict=True):
            if support is not None:
                out[offsets[i] : offsets[i + 1]] = support.point()
                settled[i] = True

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p, given by its zeros and its cuts.

        Rows whose cuts are not found take central differences.
        """
        from maxent.structured.trees.kernels.tree_projection import tangent_rows

        rows = as_rows(theta).astype(p.dtype, copy=False)
        point = np.ascontiguousarray(flat(p), dtype=np.float64)
        along = np.ascontiguousarray(flat(v), dtype=np.float64)
        out, settled = np.empty(along.size), np.ones(len(rows), bool)
        self._over_rows(tangent_rows, rows, out, point, along, settled)
        offsets, _ = self._cuts(rows)
        scores = each_table(rows)
        for i in np.flatnonzero(~settled):
            own = slice(offsets[i], offsets[i + 1])
            row = scores[i][None].astype(np.float64)
            out[own] = super().project_jvp(row, None, along[own][None])[0]
        return like(with_cuts(out, rows), p)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent.structured.trees.kernels.spanning_trees import kbest_rows

        scores = np.empty((len(theta), k))
        out = np.empty((k, flat(theta).size))
        self._over_rows(kbest_rows, theta, out, k, scores)
        return scores, [with_cuts(trees, theta) for trees in out]

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.trees.kernels.matrix_tree import sample_rows

        _, p = self._softmax(theta.astype(np.float64))
        uniform = rng.random((n, int(self._cuts(theta)[1].sum())))
        out = np.empty((n, flat(theta).size))
        self._over_rows(sample_rows, theta, out, flat(p), uniform)
        return [with_cuts(trees, theta) for trees in out]

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v: the derivative of every step of ``softmax``."""
        from maxent.structured.trees.kernels.matrix_tree import covariance_rows

        rows = as_rows(theta).astype(p.dtype, copy=False)
        tangent = np.ascontiguousarray(flat(v), dtype=np.float64)
        out = np.empty(tangent.size)
        self._over_rows(covariance_rows, rows, out, tangent)
        return like(with_cuts(out, rows), p)

    def _contains(self, p: Rows, atol: float) -> Array:
        from maxent.structured.trees.kernels.spanning_trees import violation_rows

        worst = np.empty(len(p))
        self._over_rows(violation_rows, p, worst, atol)
        return worst <= atol
