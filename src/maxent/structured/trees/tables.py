"""What trees over tables of scores have in common, be they found by charts or by determinants."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain
from maxent.rows.arrays import Array, Ragged, Rows, as_float, as_rows, flat, leading

ROUNDED = 1e-12  # a violation of the polytope that is nothing but rounding


class TableDomain(StructuredDomain):
    """Trees whose row is a table of scores, n n of them or a few times as many.

    Subclasses say how many nodes a row has, and what their kernels take besides.
    """

    constant_norm = True
    ragged = True

    @abstractmethod
    def nodes(self, size: int) -> int:
        """Nodes n of a row of ``size`` entries; refuses sizes of no table."""

    @abstractmethod
    def _setting(self, nodes: Array) -> tuple[Any, ...]:
        """What kernels take after the numbers of nodes."""

    def _without_tree(self, row: int) -> str:
        return (
            f"row {row} has no tree: scores of -inf forbid every one of them; leave at least one "
            "finite"
        )

    def roundings(self, size: int) -> float:
        """Sums over many nodes are right to 1e-12."""
        return ROUNDED / np.finfo(np.float64).eps

    def _cuts(self, x: Rows) -> tuple[Array, Array]:
        """Offsets of the rows in the flat values, and their numbers of nodes."""
        if isinstance(x, Ragged):
            sizes, inverse = np.unique(np.diff(x.offsets), return_inverse=True)
            return x.offsets, np.array([self.nodes(int(s)) for s in sizes], np.int64)[inverse]
        rows, size = x.shape
        return np.arange(rows + 1) * size, np.full(rows, self.nodes(size))

    def _search(self, kernel: Any, theta: Rows, *more: Any) -> Rows:
        """What a kernel writes for each row; the first row without a tree is named."""
        out = np.empty(flat(theta).size)
        self._over_rows(kernel, theta, out, *more)
        return with_cuts(out, theta)

    def _over_rows(self, kernel: Any, theta: Rows, out: Array, *more: Any) -> None:
        offsets, nodes = self._cuts(theta)
        values = flat(theta).astype(np.float64, copy=False)  # one kernel for both types
        setting = self._setting(nodes)
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(values, offsets, nodes, *setting, *more, out, start, stop)
            if row is not None and row >= 0:
                impossible.append(row)

        over_rows(work, len(nodes), 8 * values.size // max(1, len(nodes)))
        if impossible:
            raise ValueError(self._without_tree(min(impossible)))

    def negentropy(self, p: Rows) -> Array:
        """`max_theta <theta, p> - log Z`, by Newton steps from `theta = log p`; inf outside."""
        rows = as_rows(as_float(p))
        inside = np.asarray(self.contains(rows))
        values = [
            self._negentropy_row(row.astype(np.float64)) if kept else np.inf
            for row, kept in zip(each_table(rows), inside, strict=True)
        ]
        return leading(np.array(values), p)

    def _negentropy_row(self, p: Array) -> float:
        support = np.flatnonzero(p > 0)
        if (p[support] == 1).all():
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

        best = scipy.optimize.minimize(
            negative,
            np.log(p[support]),
            jac=True,
            hessp=curvature,
            method="trust-ncg",
            options={"gtol": 1e-12, "maxiter": 100},
        )
        return -float(best.fun)


@dataclass(frozen=True)
class DependencyTrees(TableDomain):
    """Trees of arcs that lead from node 0, the root, to each of the other n - 1 nodes."""

    n: int | None = None
    root: Literal["single", "multi"] = "single"

    def __post_init__(self) -> None:
        if self.n is not None and (not isinstance(self.n, int | np.integer) or self.n < 1):
            raise ValueError(f"{self._name} needs an integer n >= 1 or None, got {self.n!r}")
        if self.root not in ("single", "multi"):
            raise ValueError(f'root must be "single" or "multi", got {self.root!r}')

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _single(self) -> bool:
        return self.root == "single"

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

    def may_be_empty(self, size: int) -> bool:
        """Where the root is alone: its tree has no arcs."""
        return size == 1

    def _without_tree(self, row: int) -> str:
        return (
            f"row {row} has no tree: scores of -inf forbid every one of them"
            + (" with one dependent of the root" if self._single else "")
            + "; leave the arcs of at least one tree finite"
        )

    def _why_not(self, heads: Any) -> str | None:
        """Why heads are none of these trees, or None where they are."""
        if not _is_tree(heads):
            return "have a cycle, so they are no tree"
        roots = sum(int(head == 0) for head in heads)
        if self._single and len(heads) and roots != 1:
            return f'give the root {roots} dependents; use root="multi" to allow several'
        return None

    def vertices(self, size: int) -> Array:
        """All trees."""
        n = self.nodes(size)
        trees = [
            heads
            for heads in itertools.product(range(n), repeat=n - 1)
            if self._why_not(heads) is None
        ]
        return np.asarray(self.encode(np.array(trees, np.int64).reshape(len(trees), n - 1)))

    def encode(self, heads: Any) -> Rows:
        """Trees as vertices, from the heads of the nodes 1, ..., n - 1.

        A 2-D array of heads gives an array of rows, a list of vectors a Ragged.

        >>> from maxent.structured import Arborescence
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
        wrong = self._why_not(given.tolist())
        if wrong is not None:
            raise ValueError(f"the heads {given.tolist()} {wrong}")
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


def each_table(rows: Rows) -> list[Array]:
    """The rows of a batch."""
    return rows.rows() if isinstance(rows, Ragged) else list(rows)


def with_cuts(values: Array, rows: Rows) -> Rows:
    """The flat values with the type and the shape of a batch of rows."""
    values = values.astype(rows.dtype, copy=False)
    if isinstance(rows, Ragged):
        return Ragged(values, rows.offsets)
    return values.reshape(rows.shape)


def _is_tree(heads: Sequence[int]) -> bool:
    """Whether every node leads to the root."""
    for node in range(len(heads)):
        steps, at = 0, node + 1
        while at:
            at = int(heads[at - 1])
            steps += 1
            if steps > len(heads):
                return False
    return True
