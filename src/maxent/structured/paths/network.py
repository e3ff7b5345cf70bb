"""Acyclic graphs as the programmes on paths read them: pruned, in order, arcs by their heads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from maxent.rows.arrays import Array


@dataclass(frozen=True, eq=False)
class Paths:
    """All paths of an acyclic graph from its source to its sink.

    Attributes
    ----------
    net : Network
        The arcs that are on some path, as the kernels read them.
    size : int
        Entries of a row.
    longest : int
        Arcs of the longest path.
    certain : array
        Entries that every path has.
    one_each : bool
        Whether every entry serves one arc at most, so that a row of marginals is a flow.
    """

    net: Any
    size: int
    longest: int
    certain: Array
    one_each: bool

    @property
    def nodes(self) -> int:
        """Number of nodes that are on some path."""
        return len(self.net.first) - 1

    @property
    def heads(self) -> Array:
        """The node that each arc enters."""
        return np.repeat(np.arange(self.nodes), np.diff(self.net.first))

    def conservation(self) -> sparse.csr_array:
        """A with A p = 0 at the inner nodes and 1 at the ends, for flows p on the arcs' entries."""
        arcs = np.arange(len(self.net.tail))
        leaving = sparse.csr_array(
            (np.ones(arcs.size), (self.net.tail, arcs)), shape=(self.nodes, arcs.size)
        )
        entering = sparse.csr_array(
            (np.ones(arcs.size), (self.heads, arcs)), shape=(self.nodes, arcs.size)
        )
        balance = sparse.csr_array(leaving - entering)
        return sparse.vstack([leaving[:1], balance[1:-1], entering[-1:]], "csr")

    def enumerate(self) -> Array:
        """All paths as vertices."""
        found, net = [], self.net
        unfinished: list[tuple[int, tuple[int, ...]]] = [(self.nodes - 1, ())]
        while unfinished:
            u, path = unfinished.pop()
            if u == 0:
                found.append(path)
            for a in range(net.first[u], net.first[u + 1]):
                unfinished.append((int(net.tail[a]), (*path, int(net.entry[a]))))
        out = np.zeros((len(found), self.size))
        for vertex, path in zip(out, found, strict=True):
            vertex[list(path)] = 1
        return out


def paths_of(tail: Array, head: Array, entry: Array, size: int) -> Paths | None:
    """The paths from node 0 to the last one of arcs with tail < head; None where there is none.

    ``size`` is the number of entries of a row; arcs that are on no path are left out.
    """
    from maxent.structured.paths.kernels.paths import Network

    tail, head, entry = (np.asarray(x, np.int64) for x in (tail, head, entry))
    n_nodes = int(head.max(initial=-1)) + 1
    useful = _reached(tail, head, n_nodes) & _reached(
        n_nodes - 1 - head, n_nodes - 1 - tail, n_nodes
    )
    if not useful.any():
        return None
    tail, head, entry = tail[useful], head[useful], entry[useful]
    kept = np.unique(np.concatenate([tail, head]))
    tail, head = np.searchsorted(kept, tail), np.searchsorted(kept, head)
    order = np.argsort(head, kind="stable")
    tail, head, entry = tail[order], head[order], entry[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(head, minlength=kept.size))])
    longest = np.zeros(kept.size, np.int64)
    for u in range(1, kept.size):
        longest[u] = 1 + longest[tail[first[u] : first[u + 1]]].max()
    net = Network(first.astype(np.int64), tail.astype(np.int64), entry)
    one_each = bool(np.unique(entry).size == entry.size)
    certain = _certain(tail, head, entry, kept.size, one_each)
    return Paths(net, size, int(longest[-1]), certain, one_each)


def _reached(tail: Array, head: Array, n_nodes: int) -> Array:
    """Which arcs leave a node that can be reached from node 0."""
    order = np.argsort(tail, kind="stable")
    cuts = np.searchsorted(tail[order], np.arange(n_nodes + 1))
    reached = np.zeros(n_nodes, bool)
    reached[0] = True
    for u in range(n_nodes):
        if reached[u]:
            reached[head[order[cuts[u] : cuts[u + 1]]]] = True
    return reached[tail]


def _certain(tail: Array, head: Array, entry: Array, n_nodes: int, one_each: bool) -> Array:
    """Entries of all paths: those of every arc across some gap between two nodes in the order.

    Each path crosses each gap once, and each arc that crosses it is on some path. Where all arcs
    across a gap have one entry, its arcs that cross it are as many as all that do.
    """
    change = np.bincount(tail, minlength=n_nodes) - np.bincount(head, minlength=n_nodes)
    crossing = np.cumsum(change)  # of the gap after each node
    if one_each:
        return entry[crossing[tail] == 1]
    order = np.lexsort((tail, entry))
    cuts = np.flatnonzero(np.diff(entry[order], prepend=-1, append=-1))
    found = []
    for low, high in pairwise(cuts):
        mine = order[low:high]
        gap = tail[mine].max()  # where most of the entry's arcs are under way
        if np.sum((tail[mine] <= gap) & (head[mine] > gap)) == crossing[gap]:
            found.append(entry[mine[0]])
    return np.array(found, np.int64)
