"""Chains: sequences of states with scores on states and on transitions (linear-chain CRFs)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, special
from scipy.sparse.linalg import splu

from maxent import io
from maxent._rows import Array, Ragged, Rows, as_float, as_rows, flat, leading, like, row_sum
from maxent._threads import over_rows
from maxent.domains import SumProductDomain


@io.register
@dataclass(frozen=True)
class Chain(SumProductDomain):
    """Paths through ``n_states`` states: the marginal polytope of a chain.

    A row is one sequence of T >= 1 positions: T K unary entries (position by position), then
    (T-1) K^2 transition entries [t, from, to]; its size T K + (T-1) K^2 fixes T. Sequences of
    one length are an array of rows, others a Ragged. A vertex marks the states and transitions
    of one path with ones. A score of -inf forbids a state or a transition.

    >>> chain = Chain(2)
    >>> theta = [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0]  # T = 2; leaving 1 for 0 scores 3
    >>> chain.decode(chain.argmax(theta))
    [array([1, 0])]
    """

    n_states: int
    constant_norm = True
    ragged = True

    def __post_init__(self) -> None:
        if not isinstance(self.n_states, int | np.integer) or self.n_states < 1:
            raise ValueError(f"Chain needs an integer n_states >= 1, got {self.n_states!r}")

    def length(self, size: int) -> int:
        """Positions T of a row of ``size`` entries."""
        k = self.n_states
        length, rest = divmod(size + k * k, k + k * k)
        if rest or length < 1:
            near = max(1, length)
            raise ValueError(
                f"a row of size {size} is no sequence over n_states={k} states: T positions take "
                f"T K + (T-1) K^2 entries, so {self.size(near)} for T={near} "
                f"and {self.size(near + 1)} for T={near + 1}"
            )
        return length

    def size(self, length: int) -> int:
        """Entries T K + (T-1) K^2 of a row of ``length`` positions."""
        return length * self.n_states + (length - 1) * self.n_states**2

    def _cuts(self, x: Rows) -> tuple[Array, Array]:
        """Offsets of the rows in the flat values, and their lengths."""
        if isinstance(x, Ragged):
            sizes, inverse = np.unique(np.diff(x.offsets), return_inverse=True)
            return x.offsets, np.array([self.length(int(n)) for n in sizes], np.int64)[inverse]
        rows, size = x.shape
        return np.arange(rows + 1) * size, np.full(rows, self.length(size))

    def vertices(self, size: int) -> Array:
        """All K^T paths."""
        paths = itertools.product(range(self.n_states), repeat=self.length(size))
        return np.asarray(self.encode(np.array(list(paths))))

    def encode(self, labels: Any) -> Rows:
        """Paths as vertices: a 2-D array of states gives an array, a list of paths a Ragged.

        >>> Chain(2).encode(np.array([[0, 1]]))
        array([[1., 0., 0., 1., 0., 1., 0., 0.]])
        """
        if isinstance(labels, np.ndarray) and labels.ndim != 2:
            raise ValueError(f"labels are a 2-D array or a list of paths, got {labels.ndim} axes")
        vertices = [self._vertex(self._path(path)) for path in labels]
        if isinstance(labels, np.ndarray):
            return np.array(vertices).reshape(-1, self.size(labels.shape[1]))
        return Ragged.from_rows(vertices)

    def _path(self, labels: Any) -> Array:
        path = np.asarray(labels)
        if path.ndim != 1 or path.size == 0 or not np.issubdtype(path.dtype, np.integer):
            raise ValueError(f"a path is a non-empty vector of integer states, got {labels!r}")
        if path.min() < 0 or path.max() >= self.n_states:
            raise ValueError(
                f"states run from 0 to {self.n_states - 1}, "
                f"got one from {path.min()} to {path.max()}"
            )
        return path

    def _vertex(self, path: Array) -> Array:
        k, length = self.n_states, path.size
        vertex = np.zeros(self.size(length))
        vertex[np.arange(length) * k + path] = 1
        vertex[length * k + np.arange(length - 1) * k * k + path[:-1] * k + path[1:]] = 1
        return vertex

    def decode(self, p: Any) -> list[Array]:
        """The states of each row: the path of a vertex, the likeliest states of marginals."""
        rows = as_rows(as_float(p))
        offsets, lengths = self._cuts(rows)
        values = flat(rows)
        return [
            values[a : a + length * self.n_states].reshape(length, -1).argmax(axis=1)
            for a, length in zip(offsets, lengths, strict=False)
        ]

    def _argmax(self, theta: Rows) -> Rows:
        from maxent._kernels.chain import argmax_rows

        return self._over_rows(argmax_rows, theta)

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent._kernels.chain import softmax_rows

        log_partition = np.empty(len(theta))
        return log_partition, self._over_rows(softmax_rows, theta, log_partition)

    def _over_rows(self, kernel: Any, theta: Rows, *more: Array) -> Rows:
        offsets, lengths = self._cuts(theta)
        values = flat(theta)
        out = np.empty_like(values)
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(values, offsets, lengths, self.n_states, out, *more, start, stop)
            if row >= 0:
                impossible.append(row)

        over_rows(work, len(lengths), values.size // max(1, len(lengths)))
        if impossible:
            raise ValueError(
                f"row {min(impossible)} has no path: scores of -inf forbid every one of them; "
                "leave at least one path finite"
            )
        return _with_cuts(out, theta)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, from the marginals p by two more recursions."""
        from maxent._kernels.chain import covariance_rows

        rows = as_rows(p)
        offsets, lengths = self._cuts(rows)
        values = flat(rows)
        tangent = np.ascontiguousarray(flat(v), dtype=np.float64)
        out = np.empty(values.size)

        def work(start: int, stop: int) -> None:
            covariance_rows(values, offsets, lengths, self.n_states, tangent, out, start, stop)

        over_rows(work, len(lengths), values.size // max(1, len(lengths)))
        return like(_with_cuts(out.astype(values.dtype, copy=False), rows), p)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p: 0 where p is 0, mass conserved."""
        rows = as_rows(p)
        values = flat(rows)
        support = np.flatnonzero(values > 0)
        constraints = self._conservation(rows, support)
        out = np.zeros_like(values)
        inside = flat(v)[support].astype(np.float64)
        gram = sparse.csc_array(constraints @ constraints.T)
        multipliers = splu(gram, "MMD_AT_PLUS_A").solve(constraints @ inside)
        out[support] = inside - constraints.T @ multipliers
        return like(_with_cuts(out, rows), p)

    def _conservation(self, rows: Rows, support: Array) -> Any:
        """Sparse A with A d = 0 for directions d of the polytope, on the supported entries.

        What leaves state i of position t is d_t(i), and so is what enters it; sum_i d_0(i) = 0.
        """
        k = self.n_states
        offsets, lengths = self._cuts(rows)
        row = np.searchsorted(offsets, support, side="right") - 1
        first = np.concatenate([[0], np.cumsum(lengths * k)])  # number of each row's first state
        local = support - offsets[row]
        nodes = (lengths * k)[row]
        is_node = local < nodes
        node = (first[row] + local)[is_node]
        last = (local >= nodes - k)[is_node]
        start = (local < k)[is_node]
        step, arc = np.divmod((local - nodes)[~is_node], k * k)
        tail = first[row[~is_node]] + step * k + arc // k
        head = first[row[~is_node]] + (step + 1) * k + arc % k
        column = np.arange(support.size)
        at_node, at_edge = column[is_node], column[~is_node]
        # constraint 2 n: entering state n (all states of position 0 together); 2 n + 1: leaving it
        enter = np.where(start, 2 * first[row[is_node]], 2 * node)
        constraint = np.concatenate([2 * tail + 1, 2 * head, enter, 2 * node[~last] + 1])
        entry = np.concatenate([at_edge, at_edge, at_node, at_node[~last]])
        sign = np.ones(entry.size)
        sign[2 * at_edge.size :] = -1
        used, constraint = np.unique(constraint, return_inverse=True)
        return sparse.csr_array((sign, (constraint, entry)), shape=(used.size, support.size))

    def negentropy(self, p: Rows) -> Array:
        """sum_t p_t(i, j) log p_t(i, j) - sum_{0 < t < T-1} p_t(i) log p_t(i); T = 1: p log p."""
        rows = as_rows(p)
        values = flat(rows)
        _, lengths = self._cuts(rows)
        signs = {length: self._signs(length) for length in np.unique(lengths)}
        if isinstance(rows, Ragged):
            sign = np.concatenate([np.empty(0), *(signs[length] for length in lengths)])
        else:
            sign = np.tile(signs[lengths[0]], len(rows)) if len(rows) else np.empty(0)
        terms = sign * np.where(values < 0, 0.0, special.entr(values))
        total = -row_sum(_with_cuts(terms, rows))
        outside = row_sum(_with_cuts(values < 0, rows)) > 0
        return leading(np.where(outside, np.inf, total), p)

    def _signs(self, length: int) -> Array:
        """How often p log p of each entry counts in the negentropy."""
        sign = np.ones(self.size(length))
        if length > 1:
            sign[: length * self.n_states] = -1
            sign[: self.n_states] = sign[(length - 1) * self.n_states : length * self.n_states] = 0
        return sign

    def _contains(self, p: Rows, atol: float) -> Array:
        from maxent._kernels.chain import violation_rows

        offsets, lengths = self._cuts(p)
        worst = np.empty(len(lengths))
        violation_rows(flat(p), offsets, lengths, self.n_states, worst, 0, len(lengths))
        return worst <= atol


def _with_cuts(values: Array, rows: Rows) -> Rows:
    """The flat values with the shape of a batch of rows."""
    if isinstance(rows, Ragged):
        return Ragged(values, rows.offsets)
    return values.reshape(rows.shape)
