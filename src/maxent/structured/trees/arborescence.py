"""Arborescences: spanning trees of a directed graph, the non-projective dependency trees."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import optimize

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain
from maxent.core.domains.active_set import max_steps, small_supports_by_argmax
from maxent.rows.arrays import Array, Ragged, Rows, as_float, as_rows, flat, leading, like, row_dot

_ROUNDED = 1e-12  # a violation of the cuts that is nothing but rounding
_SPARSE = 1.5  # heads of a node on average, so few that an active set of trees is faster than cuts
_PER_NODE = 2  # trees in an active set, from where on cuts are faster


@io.register
@dataclass(frozen=True)
class Arborescence(StructuredDomain):
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

    n: int | None = None
    root: Literal["single", "multi"] = "single"
    constant_norm = True
    ragged = True

    def __post_init__(self) -> None:
        if self.n is not None and (not isinstance(self.n, int | np.integer) or self.n < 1):
            raise ValueError(f"Arborescence needs an integer n >= 1 or None, got {self.n!r}")
        if self.root not in ("single", "multi"):
            raise ValueError(f'root must be "single" or "multi", got {self.root!r}')

    def nodes(self, size: int) -> int:
        """Nodes n of a row of ``size`` = n n entries."""
        n = math.isqrt(size)
        if n * n != size or n < 1:
            raise ValueError(
                f"a row of size {size} is no table of arcs: n nodes take n n entries "
                f"[head, dependent], so {max(1, n) ** 2} for n={max(1, n)} "
                f"and {(n + 1) ** 2} for n={n + 1}"
            )
        if self.n is not None and n != self.n:
            raise ValueError(
                f"a row of size {size} has n={n} nodes, {self} needs {self.n**2} entries; "
                "leave n out to allow rows of any size"
            )
        return n

    def roundings(self, size: int) -> float:
        """The sums over cuts are right to 1e-12, those of columns to a few units of rounding."""
        return _ROUNDED / np.finfo(np.float64).eps

    def may_be_empty(self, size: int) -> bool:
        """Where the root is alone: its tree has no arcs."""
        return size == 1

    def _cuts(self, x: Rows) -> tuple[Array, Array]:
        """Offsets of the rows in the flat values, and their numbers of nodes."""
        if isinstance(x, Ragged):
            sizes, inverse = np.unique(np.diff(x.offsets), return_inverse=True)
            return x.offsets, np.array([self.nodes(int(s)) for s in sizes], np.int64)[inverse]
        rows, size = x.shape
        return np.arange(rows + 1) * size, np.full(rows, self.nodes(size))

    @property
    def _single(self) -> bool:
        return self.root == "single"

    def vertices(self, size: int) -> Array:
        """All trees: `n^(n-2)` from a root with any number of dependents."""
        n = self.nodes(size)
        trees = [
            heads
            for heads in itertools.product(range(n), repeat=n - 1)
            if _is_tree(heads) and not (self._single and n > 1 and heads.count(0) != 1)
        ]
        return np.asarray(self.encode(np.array(trees, np.int64).reshape(len(trees), n - 1)))

    def encode(self, heads: Any) -> Rows:
        """Trees as vertices, from the heads of the nodes 1, ..., n - 1.

        A 2-D array of heads gives an array of rows, a list of vectors a Ragged.

        >>> Arborescence(3).encode(np.array([[2, 0]]))
        array([[0., 0., 1., 0., 0., 0., 0., 1., 0.]])
        """
        if isinstance(heads, np.ndarray) and heads.ndim != 2:
            raise ValueError(f"heads are a 2-D array or a list of vectors, got {heads.ndim} axes")
        vertices = [self._vertex(vector) for vector in heads]
        if isinstance(heads, np.ndarray):
            return np.array(vertices).reshape(-1, (heads.shape[1] + 1) ** 2)
        return Ragged.from_rows(vertices)

    def _vertex(self, heads: Any) -> Array:
        given = np.asarray(heads, np.int64 if np.size(heads) == 0 else None)
        if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
            raise ValueError(f"heads are a vector of integers, got {heads!r}")
        n = given.size + 1
        self.nodes(n * n)
        if n > 1 and (given.min() < 0 or given.max() >= n):
            raise ValueError(
                f"heads of {n - 1} nodes run from 0, the root, to {n - 1}, "
                f"got one from {given.min()} to {given.max()}"
            )
        if not _is_tree(given):
            raise ValueError(f"the heads {given.tolist()} have a cycle, so they are no tree")
        if self._single and n > 1 and np.count_nonzero(given == 0) != 1:
            raise ValueError(
                f"the heads {given.tolist()} give the root {np.count_nonzero(given == 0)} "
                'dependents; use root="multi" to allow several'
            )
        vertex = np.zeros((n, n))
        vertex[given, np.arange(1, n)] = 1
        return vertex.ravel()

    def decode(self, p: Any) -> list[Array]:
        """The heads of the nodes 1, ..., n - 1 of each row: of a vertex, or the likeliest ones.

        Those of marginals need not form a tree: ``argmax(p)`` is the tree of largest probability
        summed over its arcs.
        """
        rows = as_rows(as_float(p))
        offsets, nodes = self._cuts(rows)
        values = flat(rows)
        return [
            values[a : a + n * n].reshape(n, n)[:, 1:].argmax(axis=0)
            for a, n in zip(offsets, nodes, strict=False)
        ]

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
        return log_partition, _with_cuts(out, theta)

    def _put_back(self, theta: Rows, out: Array, chosen: Array) -> None:
        """Project those of the chosen points that rounding of large scores moved off the polytope.

        A point may have arcs where it has some already, and nowhere else.
        """
        offsets, _ = self._cuts(theta)
        points = [out[offsets[i] : offsets[i + 1]] for i in chosen]
        inside = self._contains(Ragged.from_rows(points), _ROUNDED)
        outside = [point for point, kept in zip(points, inside, strict=True) if not kept]
        if not outside:
            return
        scores = Ragged.from_rows([np.where(point > 0, point, -np.inf) for point in outside])
        for point, nearest in zip(outside, self._project(scores).rows(), strict=True):
            point[:] = nearest

    def _search(self, kernel: Any, theta: Rows, *more: Any) -> Rows:
        """What a kernel writes for each row; the first row without a tree is named."""
        out = np.empty(flat(theta).size)
        self._over_rows(kernel, theta, out, *more)
        return _with_cuts(out, theta)

    def _over_rows(self, kernel: Any, theta: Rows, out: Array, *more: Any) -> None:
        offsets, nodes = self._cuts(theta)
        values = flat(theta).astype(np.float64, copy=False)  # one kernel for both types
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(values, offsets, nodes, self._single, *more, out, start, stop)
            if row is not None and row >= 0:
                impossible.append(row)

        over_rows(work, len(nodes), 8 * values.size // max(1, len(nodes)))
        if impossible:
            raise ValueError(
                f"row {min(impossible)} has no tree: scores of -inf forbid every one of them"
                + (" with one dependent of the root" if self._single else "")
                + "; leave the arcs of at least one tree finite"
            )

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
        return _with_cuts(out, theta)

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
        rows = _each(theta)
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
        scores = _each(rows)
        for i in np.flatnonzero(~settled):
            own = slice(offsets[i], offsets[i + 1])
            row = scores[i][None].astype(np.float64)
            out[own] = super().project_jvp(row, None, along[own][None])[0]
        return like(_with_cuts(out, rows), p)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent.structured.trees.kernels.spanning_trees import kbest_rows

        scores = np.empty((len(theta), k))
        out = np.empty((k, flat(theta).size))
        self._over_rows(kbest_rows, theta, out, k, scores)
        return scores, [_with_cuts(trees, theta) for trees in out]

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.trees.kernels.matrix_tree import sample_rows

        _, p = self._softmax(theta.astype(np.float64))
        uniform = rng.random((n, int(self._cuts(theta)[1].sum())))
        out = np.empty((n, flat(theta).size))
        self._over_rows(sample_rows, theta, out, flat(p), uniform)
        return [_with_cuts(trees, theta) for trees in out]

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v: the derivative of every step of ``softmax``."""
        from maxent.structured.trees.kernels.matrix_tree import covariance_rows

        rows = as_rows(theta).astype(p.dtype, copy=False)
        tangent = np.ascontiguousarray(flat(v), dtype=np.float64)
        out = np.empty(tangent.size)
        self._over_rows(covariance_rows, rows, out, tangent)
        return like(_with_cuts(out, rows), p)

    def negentropy(self, p: Rows) -> Array:
        """`max_theta <theta, p> - log Z`, by Newton steps from `theta = log p`; inf outside."""
        rows = as_rows(as_float(p))
        inside = np.asarray(self.contains(rows))
        values = [
            self._negentropy_row(row.astype(np.float64)) if kept else np.inf
            for row, kept in zip(_each(rows), inside, strict=True)
        ]
        return leading(np.array(values), p)

    def _negentropy_row(self, p: Array) -> float:
        support = np.flatnonzero(p > 0)
        if support.size < self.nodes(p.size):
            return 0.0  # a vertex

        def scores(x: Array) -> Array:
            theta = np.full((1, p.size), -np.inf)
            theta[0, support] = x
            return theta

        def negative(x: Array) -> tuple[float, Array]:
            log_partition, mean = self._softmax(scores(x))
            return float(log_partition[0] - x @ p[support]), mean[0, support] - p[support]

        def curvature(x: Array, direction: Array) -> Array:
            v = np.zeros((1, p.size))
            v[0, support] = direction
            return np.asarray(self.softmax_jvp(scores(x), p[None], v))[0, support]

        best = optimize.minimize(
            negative,
            np.log(p[support]),
            jac=True,
            hessp=curvature,
            method="trust-ncg",
            options={"gtol": 1e-12, "maxiter": 100},
        )
        return -float(best.fun)

    def _contains(self, p: Rows, atol: float) -> Array:
        from maxent.structured.trees.kernels.spanning_trees import violation_rows

        worst = np.empty(len(p))
        self._over_rows(violation_rows, p, worst, atol)
        return worst <= atol


def _each(rows: Rows) -> list[Array]:
    return rows.rows() if isinstance(rows, Ragged) else list(rows)


def _is_tree(heads: Any) -> bool:
    """Whether every node leads to the root."""
    for node in range(len(heads)):
        steps, at = 0, node + 1
        while at:
            at = int(heads[at - 1])
            steps += 1
            if steps > len(heads):
                return False
    return True


def _with_cuts(values: Array, rows: Rows) -> Rows:
    """The flat values with the type and the shape of a batch of rows."""
    values = values.astype(rows.dtype, copy=False)
    if isinstance(rows, Ragged):
        return Ragged(values, rows.offsets)
    return values.reshape(rows.shape)
