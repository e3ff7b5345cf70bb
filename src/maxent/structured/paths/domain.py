"""Paths of an acyclic graph: every oracle by one recursion over the nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from scipy import sparse, special

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain
from maxent.core.domains.active_set import Support, max_steps, support_of
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Ragged, Rows, as_rows, leading, like
from maxent.structured.paths.network import Paths, paths_of

_TOLD = 1e-9  # how near a linear programme comes


class PathDomain(StructuredDomain):
    """A domain whose vertices are the paths of an acyclic graph, which the size of a row fixes.

    A subclass says which graph: ``paths``. Where every arc has a score of its own, marginals are a
    flow of 1 through the graph, `{p >= 0, A p = b}`, and their negentropy is
    `sum_arcs p log p - sum_inner nodes p log p`, as paths are Markov. Where arcs share scores,
    marginals are sums of such a flow: membership is a linear programme, and the entropy is found
    numerically.
    """

    @abstractmethod
    def paths(self, size: int) -> Paths:
        """The graph of rows of a size."""

    def roundings(self, size: int) -> float:
        """One for each arc of a flow; 1e-9 where a linear programme tells."""
        units = 4.0 + size
        return units if self.paths(size).one_each else _TOLD / np.finfo(np.float64).eps

    def vertices(self, size: int) -> Array:
        """All paths."""
        return self.paths(size).enumerate()

    def _argmax(self, theta: Rows) -> Rows:
        from maxent.structured.paths.kernels.paths import argmax_rows

        def best(group: _Group) -> Array:
            out = np.empty_like(group.scores)
            group.run(argmax_rows, out)
            return out[None]

        return self._each_size(theta, best)[0]

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent.structured.paths.kernels.paths import softmax_rows

        value = np.empty(len(theta))

        def sums(group: _Group) -> Array:
            out, log_partition = np.empty_like(group.scores), np.empty(len(group.index))
            group.run(softmax_rows, group.graph.certain, out, log_partition)
            value[group.index] = log_partition
            return out[None]

        mean = self._each_size(theta, sums)[0]
        return value, mean

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by the derivative of the recursion."""
        from maxent.structured.paths.kernels.paths import covariance_rows

        rows, along = as_rows(theta), each_row(as_rows(v))

        def slopes(group: _Group) -> Array:
            out = np.empty(group.scores.shape)
            chosen = np.array([along[i] for i in group.index], np.float64)
            group.run(covariance_rows, chosen, out)
            return out[None].astype(rows.dtype, copy=False)

        return like(self._each_size(rows, slopes)[0], theta)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent.structured.paths.kernels.paths import kbest_rows

        value = np.empty((len(theta), k))

        def best(group: _Group) -> Array:
            scores = np.empty((len(group.index), k))
            out = np.empty((k, *group.scores.shape), group.scores.dtype)
            group.run(kbest_rows, scores, out)
            group.refuse(np.flatnonzero(scores[:, 0] == -np.inf))
            value[group.index] = scores
            return out

        batches = self._each_size(theta, best, k)
        return value, batches

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.paths.kernels.paths import sample_rows

        def draws(group: _Group) -> Array:
            out = np.empty((n, *group.scores.shape), group.scores.dtype)
            uniform = rng.random((n, len(group.index), group.graph.longest))
            group.run(sample_rows, uniform, out)
            return out

        return self._each_size(theta, draws, n)

    def _project_support(self, theta: Rows, start: Sequence[Support] | None) -> list[Support]:
        from maxent.structured.paths.kernels.paths import project_row

        rows = each_row(theta)
        supports: list[Any] = [None] * len(rows)

        def work(first: int, stop: int) -> None:
            for i in range(first, stop):
                graph = self.paths(rows[i].size)
                known = _Start.of(None if start is None else start[i], graph.longest)
                scores = rows[i].astype(np.float64)
                count, room = project_row(scores, graph.net, graph.longest, *known, max_steps())
                if not count:
                    _refuse(i)
                supports[i] = support_of(room, count, scores.size)

        arcs = sum(len(self.paths(row.size).net.tail) for row in rows)
        over_rows(work, len(rows), 100 * arcs // max(1, len(rows)))
        return supports

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p, spanned by the vertices that p mixes."""
        rows, along = as_rows(theta), each_row(as_rows(v))
        slopes = [
            _within(support, x)
            for support, x in zip(self._project_support(rows, None), along, strict=True)
        ]
        typed = [x.astype(rows.dtype) for x in slopes]
        return like(
            Ragged.from_rows(typed)
            if isinstance(rows, Ragged)
            else np.array(typed).reshape(rows.shape),
            p,
        )

    def negentropy(self, p: Rows) -> Array:
        """`sum_arcs p log p - sum_inner nodes p log p`; numerical where arcs share scores."""
        rows = as_rows(p)
        found = np.array([self._row_negentropy(row) for row in each_row(rows)])
        return leading(found, p)

    def _row_negentropy(self, p: Array) -> float:
        graph = self.paths(p.size)
        if not graph.one_each:
            if np.isin(p, (0.0, 1.0)).all():
                return 0.0  # a path: one structure of probability 1
            return self._negentropy_row(p)
        if (p < 0).any():
            return np.inf
        flow = p[graph.net.entry].astype(np.float64)
        through = np.bincount(graph.heads, flow, graph.nodes)[1:-1]
        return float(special.entr(through).sum() - special.entr(flow).sum())

    def cheap_negentropy(self, p: Rows) -> bool:
        """Whether the negentropy has a formula: where every arc has a score of its own."""
        return all(self.paths(row.size).one_each for row in each_row(as_rows(p)))

    def _contains(self, p: Rows, atol: float) -> Array:
        return np.array(
            [bool(np.isfinite(row).all()) and self._violation(row) <= atol for row in each_row(p)]
        )

    def _violation(self, p: Array) -> float:
        """By how much a row is no sum of a flow of 1, at the worst entry or node."""
        graph, p = self.paths(p.size), p.astype(np.float64)
        outside = np.abs(np.delete(p, graph.net.entry)).max(initial=0.0)
        balance = graph.conservation()
        wanted = np.zeros(balance.shape[0])
        wanted[[0, -1]] = 1.0
        if graph.one_each:
            flow = p[graph.net.entry]
            apart = np.abs(balance @ flow - wanted).max()
            return float(max(outside, apart, -flow.min()))
        arcs = np.arange(graph.net.entry.size)
        shares = sparse.csr_array(
            (np.ones(arcs.size), (graph.net.entry, arcs)), shape=(p.size, arcs.size)
        )
        # least slack with which some flow of 1 has these sums
        slack = sparse.csr_array(np.ones((p.size, 1)))
        matrix = sparse.vstack(
            [sparse.hstack([shares, -slack]), sparse.hstack([-shares, -slack])], "csr"
        )
        exact = sparse.hstack([balance, sparse.csr_array((balance.shape[0], 1))], "csr")
        cost = np.append(np.zeros(arcs.size), 1.0)
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        best = scipy.optimize.linprog(
            cost, matrix, np.concatenate([p, -p]), exact, wanted, method="highs", options=tight
        )
        return max(float(outside), float(best.fun))

    def _each_size(
        self, theta: Rows, answer: Callable[[_Group], Array], batches: int = 1
    ) -> list[Rows]:
        """Batches of rows, from answers (batches, rows, size) for the rows of each size."""
        if not isinstance(theta, Ragged):
            graph = self.paths(theta.shape[1])
            return list(answer(_Group(graph, np.arange(len(theta)), np.ascontiguousarray(theta))))
        if not len(theta):
            return [theta] * batches
        sizes = np.diff(theta.offsets)
        values: list[Array] = []
        for size in np.unique(sizes):
            index = np.flatnonzero(sizes == size)
            place = theta.offsets[index, None] + np.arange(size)
            found = answer(_Group(self.paths(int(size)), index, theta.values[place]))
            if not values:
                values = [np.empty(theta.values.size, found.dtype) for _ in found]
            for whole, part in zip(values, found, strict=True):
                whole[place] = part
        return [Ragged(whole, theta.offsets) for whole in values]


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows of one size, with their graph and their numbers in the batch."""

    graph: Paths
    index: Array
    scores: Array

    def run(self, kernel: Any, *more: Any) -> None:
        """A kernel over all rows; it answers with a row without a path, or -1."""
        without: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(self.scores, self.graph.net, *more, start, stop)
            if row is not None and row >= 0:
                without.append(row)

        over_rows(work, len(self.index), len(self.graph.net.tail))
        self.refuse(without)

    def refuse(self, without: Sequence[int] | Array) -> None:
        """Say which row has no path, if there is one."""
        if len(without):
            _refuse(int(self.index[min(without)]))


def _refuse(row: int) -> None:
    raise ValueError(
        f"row {row} has no path: scores of -inf forbid every one of them; leave at least one path "
        "finite"
    )


class _Start:
    """A support as the kernels take it up."""

    @staticmethod
    def of(support: Support | None, width: int) -> tuple[Array, Array, Array]:
        """Entries (paths, width), how many count, and weights."""
        if support is None:
            return np.empty((0, width), np.int32), np.empty(0, np.int64), np.empty(0)
        used = np.diff(support.vertices.indptr).astype(np.int64)
        index = np.zeros((used.size, width), np.int32)
        index[np.arange(width) < used[:, None]] = support.vertices.indices
        return index, used, support.weights


def _within(support: Support, v: Array) -> Array:
    """The part of v along the affine hull of the support."""
    corners = support.vertices.toarray()
    apart = (corners[1:] - corners[0]).T
    basis, _ = np.linalg.qr(apart)
    return np.asarray(basis @ (basis.T @ v.astype(np.float64)))


@io.register
@dataclass(frozen=True)
class Lattice(PathDomain):
    """Paths of an acyclic graph, with a score for every arc.

    A row has one entry per arc, in the order of ``arcs``; a vertex marks the arcs of one path from
    node 0 to the last node with ones. A score of -inf forbids an arc. Word lattices, hypotheses of
    a recogniser, segmentations with any rule of their own: whatever is a path is a row here.

    Parameters
    ----------
    arcs : tuple of (int, int)
        Pairs (from, to) of nodes 0, 1, ... with from < to. Two nodes may have several arcs.

    Examples
    --------
    >>> lattice = Lattice([(0, 1), (0, 2), (1, 2), (2, 3), (1, 3)])
    >>> lattice.argmax([0.0, 1.0, 2.0, 0.0, 1.0])
    array([1., 0., 1., 1., 0.])
    >>> lattice.decode(lattice.argmax([0.0, 1.0, 2.0, 0.0, 1.0]))
    [array([0, 2, 3])]
    """

    arcs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        pairs = np.asarray(self.arcs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise ValueError(
                f"the arcs of a Lattice are pairs (from, to) of nodes, got {self.arcs!r}"
            )
        wrong = np.flatnonzero((pairs[:, 0] >= pairs[:, 1]) | (pairs[:, 0] < 0))
        if wrong.size:
            raise ValueError(
                "the arcs of a Lattice lead from a node to one of a higher number, got "
                f"{tuple(pairs[wrong[0]].tolist())}; number the nodes in an order without cycles"
            )
        object.__setattr__(self, "arcs", tuple(map(tuple, pairs.tolist())))
        if _graph_of(self.arcs) is None:
            raise ValueError(f"no path leads from node 0 to node {pairs.max()} by these arcs")

    @property
    def size(self) -> int:
        """Entries of a row."""
        return len(self.arcs)

    def paths(self, size: int) -> Paths:
        """The graph of the arcs."""
        graph = _graph_of(self.arcs)
        if graph is None or size != self.size:
            raise ValueError(f"a Lattice of {self.size} arcs has rows of that size, got {size}")
        return graph

    def decode(self, p: Any) -> list[Array]:
        """The numbers of the arcs of each row that is a vertex, along the path."""
        rows = as_rows(np.asarray(p))
        self.paths(rows.shape[1])
        return [
            np.flatnonzero(row)[np.argsort(np.array(self.arcs)[np.flatnonzero(row), 0])]
            for row in rows
        ]


@lru_cache(maxsize=64)
def _graph_of(arcs: tuple[tuple[int, int], ...]) -> Paths | None:
    tail, head = np.array(arcs).T
    return paths_of(tail, head, np.arange(len(arcs)), len(arcs))
