"""Trees and forests of variables: pairwise Markov networks without cycles."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse, special
from scipy.sparse.linalg import splu

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain
from maxent.rows.arrays import Array, Rows, as_rows, like
from maxent.structured.trees.forest import Forest


@io.register
@dataclass(frozen=True)
class Tree(StructuredDomain):
    """Assignments of states to the nodes of a forest: the marginal polytope of a tree.

    A row holds the unary scores of each node, node after node, then for each edge (u, v) a table
    of scores [state of u, state of v]. A vertex marks the states and the pairs of states of one
    assignment with ones; a score of -inf forbids a state or a pair.

    Parameters
    ----------
    edges : tuple of (int, int)
        Pairs of nodes 0, 1, ..., without a cycle.
    n_states : int or tuple of int
        States of all nodes, or a tuple of one number per node (which also tells how many nodes
        there are; otherwise the last node is the largest number in an edge).

    Examples
    --------
    >>> star = Tree([(0, 1), (0, 2)], 2)
    >>> star.decode(star.argmax([0.0, 1.0, 0.5, 0.0, 0.0, 0.0, *[0.0] * 4, 0.0, 0.0, 2.0, 0.0]))
    array([[1, 0, 0]])
    """

    edges: tuple[tuple[int, int], ...]
    n_states: int | tuple[int, ...]
    constant_norm = True
    _graph: Any = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        pairs, counts = np.asarray(self.edges), np.asarray(self.n_states)
        if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu"):
            raise ValueError(f"the edges of a Tree are pairs of nodes, got {self.edges!r:.80}")
        edges = tuple((int(u), int(v)) for u, v in self.edges)
        object.__setattr__(self, "edges", edges)
        if counts.ndim > 1 or (counts.size and counts.dtype.kind not in "iu"):
            raise ValueError(
                "n_states of a Tree is an integer, or one integer for each node, got "
                f"{self.n_states!r:.80}"
            )
        if not counts.ndim:
            states = (int(counts),) * (1 + max((max(e) for e in edges), default=0))
        else:
            states = tuple(counts.tolist())
            object.__setattr__(self, "n_states", states)
        if not states or min(states) < 1:
            raise ValueError(f"every node of a Tree has at least one state, got {self.n_states!r}")
        outside = [e for e in edges if min(e) < 0 or max(e) >= len(states) or e[0] == e[1]]
        if outside:
            raise ValueError(
                f"edges join two different nodes of 0 .. {len(states) - 1}, got {outside[0]}"
            )
        object.__setattr__(self, "_graph", _rooted(edges, np.array(states)))

    @property
    def _states(self) -> Array:
        return np.asarray(self._graph.states)

    @property
    def _tables(self) -> list[tuple[int, int, int]]:
        """Where the table of each edge begins, and its shape."""
        starts, at = [], int(self._states.sum())
        for u, v in self.edges:
            shape = int(self._states[u]), int(self._states[v])
            starts.append((at, *shape))
            at += shape[0] * shape[1]
        return starts

    @property
    def rooted(self) -> Forest:
        """The forest with its roots, for recursions in numpy."""
        graph = self._graph
        own_first = graph.own_stride > graph.parent_stride
        ends = graph.first + graph.states
        # a table with one state on either side lies both ways
        return Forest(
            tuple(graph.order.tolist()),
            tuple(graph.parent.tolist()),
            tuple(zip(graph.first.tolist(), ends.tolist(), strict=True)),
            tuple(zip(graph.edge.tolist(), own_first.tolist(), strict=True)),
        )

    @property
    def size(self) -> int:
        """Entries of a row."""
        pairs = sum(rows * columns for _, rows, columns in self._tables)
        return int(self._states.sum()) + pairs

    def scores(self, nodes: Any, edges: Any) -> Array:
        """One row from a list of the nodes' scores and a list of the edges' tables.

        >>> Tree([(0, 1)], 2).scores([[1.0, 2.0], [3.0, 4.0]], [[[5.0, 6.0], [7.0, 8.0]]])
        array([1., 2., 3., 4., 5., 6., 7., 8.])
        """
        shapes = [(int(k),) for k in self._states] + [t[1:] for t in self._tables]
        tables = [np.asarray(x, dtype=np.float64) for x in [*nodes, *edges]]
        got = [x.shape for x in tables]
        if got != shapes:
            raise ValueError(
                f"nodes and edges have scores of the shapes {shapes}, got {got}: one vector per "
                "node, then one table [state of u, state of v] per edge (u, v)"
            )
        return np.concatenate([x.ravel() for x in tables])

    def encode(self, labels: Any) -> Array:
        """Assignments (rows, nodes) as vertices."""
        from maxent._support.compiling.kernels import exact
        from maxent.structured.trees.kernels.forest import write_assignment

        labels = np.asarray(labels)
        if labels.ndim != 2 or labels.shape[1] != self._states.size:
            raise ValueError(
                f"assignments have shape (rows, {self._states.size}), got {labels.shape}"
            )
        if not np.issubdtype(labels.dtype, np.integer) or (
            labels.size and ((labels < 0) | (labels >= self._states)).any()
        ):
            raise ValueError(f"states are integers from 0 to below {self._states.tolist()}")
        out = np.empty((len(labels), self.size))
        write = exact(write_assignment, out.size, calls=1)
        for row, vertex in zip(labels.astype(np.int64), out, strict=True):
            write(row, self._graph, vertex)
        return out

    def decode(self, p: Any) -> Array:
        """The state of each node: that of a vertex, the likeliest of marginals."""
        rows = self._check(as_rows(np.asarray(p)))
        first = self._graph.first
        each = [rows[:, a : a + k].argmax(axis=1) for a, k in zip(first, self._states, strict=True)]
        return np.stack(each, axis=1)

    def vertices(self, size: int) -> Array:
        """All assignments."""
        self._check(np.empty((1, size)))
        return self.encode(np.array(list(itertools.product(*map(range, self._states)))))

    def _check(self, rows: Rows) -> Rows:
        if rows.shape[1] != self.size:
            raise ValueError(
                f"{self} has rows of {self.size} entries ({int(self._states.sum())} for nodes, the "
                f"rest for edges), got {rows.shape[1]}"
            )
        return rows

    def _argmax(self, theta: Rows) -> Rows:
        from maxent.structured.trees.kernels.forest import argmax_rows

        out = np.empty_like(theta)
        self._over_rows(argmax_rows, theta, out)
        return out

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent.structured.trees.kernels.forest import softmax_rows

        out, log_partition = np.empty_like(theta), np.empty(len(theta))
        self._over_rows(softmax_rows, theta, out, log_partition)
        return log_partition, out

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by the derivative of the messages."""
        from maxent.structured.trees.kernels.forest import covariance_rows

        rows = as_rows(theta)
        along = np.ascontiguousarray(as_rows(v), np.float64)
        out = np.empty(rows.shape)
        self._over_rows(covariance_rows, rows, along, out)
        return like(out.astype(rows.dtype, copy=False), theta)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent.structured.trees.kernels.forest import kbest_rows

        scores = np.empty((len(theta), k))
        chosen = np.zeros((len(theta), k, self._states.size), np.int64)
        self._over_rows(kbest_rows, theta, k, scores, chosen)
        if (scores[:, 0] == -np.inf).any():
            self._argmax(theta)  # says which row has no assignment
        batches = [self.encode(chosen[:, rank]).astype(theta.dtype) for rank in range(k)]
        for rank, batch in enumerate(batches):
            batch[scores[:, rank] == -np.inf] = 0
        return scores, batches

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.trees.kernels.forest import sample_rows

        chosen = np.zeros((n, len(theta), self._states.size), np.int64)
        self._over_rows(sample_rows, theta, rng.random(chosen.shape), chosen)
        return [self.encode(each).astype(theta.dtype) for each in chosen]

    def _over_rows(self, kernel: Any, theta: Rows, *more: Any) -> None:
        theta = np.ascontiguousarray(self._check(theta))
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(theta, self._graph, *more, start, stop)
            if row is not None and row >= 0:
                impossible.append(row)

        over_rows(work, len(theta), theta.shape[1])
        if impossible:
            raise ValueError(
                f"row {min(impossible)} has no assignment: scores of -inf forbid every one of "
                "them; leave at least one finite"
            )

    def negentropy(self, p: Rows) -> Array:
        """Sum over edges of p log p, less (degree - 1) times that of each node."""
        rows = self._check(as_rows(np.asarray(p)))
        degree = np.bincount(np.ravel(self.edges).astype(int), minlength=self._states.size)
        sign = np.concatenate([np.repeat(1 - degree, self._states), np.ones(self.size)])
        terms = special.entr(np.maximum(rows, 0)) @ -sign[: self.size]
        return np.where((rows < 0).any(axis=1), np.inf, terms)

    @property
    def _equations(self) -> tuple[Any, Array]:
        """Sparse A and b: the polytope is {p >= 0, A p = b} (exact on a forest)."""
        return _equations(self)

    def _contains(self, p: Rows, atol: float) -> Array:
        matrix, values = self._equations
        self._check(p)
        apart = np.abs(p.astype(np.float64) @ matrix.T - values).max(axis=1)
        return (p.min(axis=1) >= -atol) & (apart <= atol)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p: 0 where p is 0, equations kept."""
        rows, along = as_rows(p), as_rows(v)
        matrix = self._equations[0].tocsc()
        out = np.zeros_like(rows)
        for row, direction, slope in zip(rows, along, out, strict=True):
            support = np.flatnonzero(row > 0)
            active = matrix[:, support]
            inside = direction[support].astype(np.float64)
            # equations repeat each other (tables of one node); a trace of ridge picks a solution
            gram = sparse.csc_array(active @ active.T + 1e-12 * sparse.eye(active.shape[0]))
            for _ in range(2):
                multipliers = splu(gram).solve(active @ inside)
                inside = inside - active.T @ multipliers
            slope[support] = inside
        return like(out, p)


@lru_cache(maxsize=64)
def _equations(tree: Tree) -> tuple[Any, Array]:
    """Tables agree with both their nodes, and each node sums to 1."""
    first, states = tree._graph.first, tree._states
    n_nodes = states.size
    unary = np.arange(int(states.sum()))
    rows, columns, signs = [np.repeat(np.arange(n_nodes), states)], [unary], [np.ones(unary.size)]
    count = n_nodes
    for (u, v), (at, height, width) in zip(tree.edges, tree._tables, strict=True):
        table = at + np.arange(height * width).reshape(height, width)
        for node, sums in ((u, table), (v, table.T)):
            own = count + np.arange(len(sums))
            rows += [np.repeat(own, sums.shape[1]), own]
            columns += [sums.ravel(), first[node] + np.arange(len(sums))]
            signs += [np.ones(sums.size), -np.ones(len(sums))]
            count += len(sums)
    entries = np.concatenate(rows), np.concatenate(columns)
    matrix = sparse.csr_array((np.concatenate(signs), entries), shape=(count, tree.size))
    return matrix, np.concatenate([np.ones(n_nodes), np.zeros(count - n_nodes)])


def _rooted(edges: tuple[tuple[int, int], ...], states: Array) -> Any:
    """The forest with the smallest node of each tree as its root; refuses cycles."""
    from maxent.structured.trees.kernels.forest import Graph

    n = states.size
    first = np.concatenate([[0], np.cumsum(states)[:-1]]).astype(np.int64)
    neighbours: list[list[tuple[int, int, int, int]]] = [[] for _ in range(n)]
    at = int(states.sum())
    for u, v in edges:
        # (neighbour, entry of the table, stride along the neighbour's state, along one's own)
        neighbours[u].append((v, at, 1, int(states[v])))
        neighbours[v].append((u, at, int(states[v]), 1))
        at += int(states[u] * states[v])
    parent, edge = np.full(n, -2), np.zeros(n, np.int64)
    parent_stride, own_stride = np.zeros(n, np.int64), np.zeros(n, np.int64)
    order: list[int] = []
    for root in range(n):
        if parent[root] != -2:
            continue
        parent[root] = -1
        waiting = [root]
        while waiting:
            u = waiting.pop(0)
            order.append(u)
            for v, table, along_v, along_u in neighbours[u]:
                if parent[v] == -2:
                    parent[v], edge[v] = u, table
                    parent_stride[v], own_stride[v] = along_u, along_v
                    waiting.append(v)
                elif parent[u] != v or edge[u] != table:
                    raise ValueError(
                        f"the graph is no forest: the edge between {min(u, v)} and {max(u, v)} "
                        "closes a cycle; leave an edge out, or merge nodes into one with more "
                        "states"
                    )
    return Graph(
        np.array(order), parent.astype(np.int64), edge, parent_stride, own_stride,
        states.astype(np.int64), first,
    )  # fmt: skip
