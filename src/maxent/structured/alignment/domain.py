"""Monotone alignments of two sequences: dynamic time warping as a domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain, SumProductDomain
from maxent.core.domains.active_set import Support
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Ragged, Rows, as_rows, flat, leading, like
from maxent.structured.alignment.small import align_few

_DIAGONAL = 100  # millionths of a second that numpy takes for one
_EVERYWHERE = 2**31  # a band as wide as any matrix
_TOLD = 1e-9  # of a row: how far a flow may miss its marginals


@io.register
@dataclass(frozen=True)
class Alignment(StructuredDomain):
    """Monotone alignments of a sequence of n and one of m elements (Fenchel-Young, §7.3).

    A row holds n m scores [i, j] of aligning element i with element j. A vertex marks the cells of
    a path from (0, 0) to (n-1, m-1) that moves down, right or both at once. With costs D and
    `theta = -D`, argmax is dynamic time warping, and softmax of `-D / gamma` is soft-DTW: its value
    is -gamma log-partition, its alignment matrix the marginals.

    Parameters
    ----------
    n : int or tuple of int
        Elements of the first sequence, of all rows or a tuple of one per row of a Ragged batch.
    m : int or tuple of int
        Elements of the second sequence, likewise.
    band : int, default None
        How far a path may leave the diagonal (Sakoe-Chiba):
        `-band <= j - i <= m - n + band` where `m >= n`, mirrored where `m < n`; None for no limit.

    Examples
    --------
    >>> Alignment(2, 3).argmax([1.0, 0.0, 0.0, 0.0, 2.0, 1.0]).reshape(2, 3)
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """

    n: int | tuple[int, ...]
    m: int | tuple[int, ...]
    band: int | None = None

    def __post_init__(self) -> None:
        for name in ("n", "m"):
            value = getattr(self, name)
            lengths = np.asarray(value)
            if lengths.ndim > 1 or (lengths.size and lengths.dtype.kind not in "iu"):
                raise ValueError(
                    f"the lengths of an Alignment are an integer, or one for each row, got "
                    f"{name}={value!r:.80}"
                )
            if lengths.ndim:
                object.__setattr__(self, name, tuple(lengths.tolist()))
            if np.size(value) and np.min(value) < 1:
                raise ValueError(f"the lengths of an Alignment are at least 1, got {name}={value}")
        if isinstance(self.n, tuple) != isinstance(self.m, tuple) or np.size(self.n) != np.size(
            self.m
        ):
            raise ValueError(
                f"n and m are two numbers, or two tuples with one length per row, got {self.n!r} "
                f"and {self.m!r}"
            )
        whole = isinstance(self.band, int | np.integer) and self.band >= 0
        if self.band is not None and not whole:
            raise ValueError(f"the band is an integer >= 0 or None, got {self.band!r}")

    @property
    def ragged(self) -> bool:
        """Where each row has lengths of its own."""
        return isinstance(self.n, tuple)

    @property
    def rows_alike(self) -> bool:
        """Unless each row has lengths of its own."""
        return not self.ragged

    def roundings(self, size: int) -> float:
        """As near as the linear programme of ``contains`` can tell: 1e-9."""
        return _TOLD / np.finfo(np.float64).eps

    def _shapes(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Where each row begins, and its n and m."""
        count = len(rows)
        # arrays of their own: for lengths that cannot be written kernels would be compiled again
        ns, ms = np.empty((2, count), np.int64)
        ns[:], ms[:] = self._lengths(count)
        ragged = isinstance(rows, Ragged)
        starts = rows.offsets[:-1] if ragged else np.arange(count) * rows.shape[1]
        sizes = np.diff(rows.offsets) if ragged else np.full(count, rows.shape[1])
        wrong = np.flatnonzero(sizes != ns * ms)
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"row {i} aligns {ns[i]} with {ms[i]} elements, so it needs {ns[i] * ms[i]} "
                f"scores, got {sizes[i]}"
            )
        return starts, ns, ms

    def _lengths(self, count: int) -> tuple[Any, Any]:
        if isinstance(self.n, tuple) and len(self.n) != count:
            raise ValueError(f"lengths are given for {len(self.n)} rows, got {count} rows")
        return self.n, self.m

    def shape(self, row: int) -> tuple[int, int]:
        """n and m of a row."""
        if isinstance(self.n, tuple) and isinstance(self.m, tuple):
            return self.n[row], self.m[row]
        return int(np.asarray(self.n)), int(np.asarray(self.m))

    def alone(self, row: int) -> Alignment:
        """The alignments of one row of a batch."""
        return Alignment(*self.shape(row), self.band)

    def inside(self, n: int, m: int) -> Array:
        """The cells (n, m) inside the band."""
        off = np.arange(m) - np.arange(n)[:, None]
        return (off >= min(0, m - n) - self.reach) & (off <= max(0, m - n) + self.reach)

    def vertices(self, size: int) -> Array:
        """All alignments (as many as the Delannoy number of n - 1 and m - 1)."""
        n, m = self.n, self.m
        if isinstance(n, tuple) or isinstance(m, tuple):
            raise ValueError("vertices are for alignments of one size")
        self._shapes(np.empty((1, size)))
        complete: list[list[tuple[int, int]]] = []
        open_paths = [[(0, 0)]]
        while open_paths:
            path = open_paths.pop()
            i, j = path[-1]
            if (i, j) == (n - 1, m - 1):
                complete.append(path)
                continue
            steps = [(i + 1, j), (i, j + 1), (i + 1, j + 1)]
            open_paths += [[*path, (a, b)] for a, b in steps if a < n and b < m]
        out = np.zeros((len(complete), n, m))
        for vertex, path in zip(out, complete, strict=True):
            vertex[tuple(zip(*path, strict=True))] = 1
        flat_vertices = out.reshape(len(out), -1)
        return flat_vertices[self._is_path(flat_vertices)]

    def path(self, p: Any) -> list[Array]:
        """The pairs (i, j) of aligned elements of each row, for rows that are vertices.

        >>> Alignment(2, 2).path([1.0, 0.0, 0.0, 1.0])[0].tolist()
        [[0, 0], [1, 1]]
        """
        rows = as_rows(p if isinstance(p, Ragged) else np.asarray(p))
        starts, ns, ms = self._shapes(rows)
        values = flat(rows)
        return [
            np.argwhere(values[a : a + n * m].reshape(n, m) > 0)
            for a, n, m in zip(starts, ns, ms, strict=True)
        ]

    @property
    def reach(self) -> int:
        """The band as a number, larger than any matrix where there is none."""
        return _EVERYWHERE if self.band is None else int(self.band)

    def _argmax(self, theta: Rows) -> Rows:
        from maxent.structured.alignment.kernels.alignments import argmax_rows

        out = np.empty_like(flat(theta))
        self._over_rows(argmax_rows, theta, out)
        return _cut(out, theta)

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent._support.compiling.kernels import spared
        from maxent.structured.alignment.kernels.alignments import softmax_rows

        out, log_partition = np.empty_like(flat(theta)), np.empty(len(theta))
        starts, ns, ms = self._shapes(theta)
        sizes = np.column_stack([ns, ms])
        sizes = np.unique(sizes, axis=0) if self.ragged else sizes[:1]
        if not spared(softmax_rows, out.size, _DIAGONAL * int(sizes.sum()) + out.size // 5):
            self._over_rows(softmax_rows, theta, out, log_partition)
            return log_partition, _cut(out, theta)
        for n, m in sizes:
            alike = np.flatnonzero((ns == n) & (ms == m))
            place = starts[alike, None] + np.arange(n * m)
            scores = flat(theta)[place].astype(np.float64).reshape(-1, n, m)
            log_partition[alike], mean = align_few(scores, self.inside(n, m))
            out[place] = mean.reshape(-1, n * m)
        self._check_possible(np.flatnonzero(log_partition == -np.inf))
        return log_partition, _cut(out, theta)

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.alignment.kernels.alignments import kbest_rows

        scores = np.empty((len(theta), k))
        found = np.empty((k, flat(theta).size), theta.dtype)
        search = exact(kbest_rows, k * flat(theta).size)
        self._over_rows(search, theta, scores, found, each=k)
        return scores, [_cut(paths, theta) for paths in found]

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.alignment.kernels.alignments import sample_rows

        _, ns, ms = self._shapes(theta)
        first = np.concatenate([[0], np.cumsum(ns + ms)])  # more than the steps of any path
        found = np.empty((n, flat(theta).size), theta.dtype)
        self._over_rows(sample_rows, theta, rng.random((n, first[-1])), first, found, each=n)
        return [_cut(paths, theta) for paths in found]

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by the derivative of the recursion."""
        from maxent.structured.alignment.kernels.alignments import covariance_rows

        rows = as_rows(theta)
        along = np.ascontiguousarray(flat(v), np.float64)
        out = np.empty(along.size)
        self._over_rows(covariance_rows, rows, along, out)
        return like(_cut(out.astype(rows.dtype, copy=False), rows), theta)

    def _over_rows(self, kernel: Any, theta: Rows, *more: Array, each: int = 1) -> None:
        starts, ns, ms = self._shapes(theta)
        values = flat(theta)
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(values, starts, ns, ms, self.reach, *more, start, stop)
            if row is not None and row >= 0:
                impossible.append(row)

        over_rows(work, len(ns), each * values.size // max(1, len(ns)))
        self._check_possible(impossible)

    def _check_possible(self, impossible: Sequence[int] | Array) -> None:
        if len(impossible):
            raise ValueError(
                f"row {min(impossible)} has no alignment: scores of -inf forbid every one of them; "
                "leave at least one path finite"
            )

    def _project_support(self, theta: Rows, start: Sequence[Support] | None) -> list[Support]:
        if not self.ragged:
            return super()._project_support(theta, start)
        starts = [None] * len(theta) if start is None else [[support] for support in start]
        return [
            Alignment(n, m, self.band)._project_support(row[None], known)[0]
            for row, n, m, known in zip(
                theta.rows(), *self._lengths(len(theta)), starts, strict=True
            )
        ]

    def negentropy(self, p: Rows) -> Array:
        """`max_theta <theta, p> - log Z`, found numerically: no formula is known; 0 for paths."""
        rows = as_rows(p)
        found = np.where(self._is_path(rows), 0.0, np.nan)
        for i in np.flatnonzero(np.isnan(found)):
            alone = self.alone(int(i))
            row = each_row(rows)[i].astype(np.float64)
            found[i] = SumProductDomain.negentropy(alone, row[None])[0]
        return leading(found, p)

    def cheap_negentropy(self, p: Rows) -> bool:
        """Never, see ``negentropy``."""
        return False

    def _is_path(self, p: Rows) -> Array:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.alignment.kernels.alignments import path_rows

        starts, ns, ms = self._shapes(p)
        out, entries = np.empty(len(ns), bool), flat(p)
        look = exact(path_rows, 2 * entries.size)
        look(entries, starts, ns, ms, self.reach, out, 0, len(ns))
        return out

    def _contains(self, p: Rows, atol: float) -> Array:
        inside = self._is_path(p)
        for i in np.flatnonzero(~inside):
            row = each_row(p)[i].astype(np.float64).reshape(self.shape(int(i)))
            inside[i] = bool(np.isfinite(row).all()) and self._violation(row) <= atol
        return inside

    def _violation(self, p: Array) -> float:
        """How far a flow of 1 through the cells misses p, at the worst cell (a linear programme).

        The projection's active set would answer too, but takes very long near inner points.
        """
        n, m = p.shape
        allowed = self.inside(n, m)
        outside = float(np.abs(p[~allowed]).max(initial=0.0))
        cell = np.arange(n * m).reshape(n, m)
        steps = [(cell[:-1], cell[1:]), (cell[:, :-1], cell[:, 1:]), (cell[:-1, :-1], cell[1:, 1:])]
        tail, head = (np.concatenate([step[end].ravel() for step in steps]) for end in (0, 1))
        inner = allowed.ravel()[tail] & allowed.ravel()[head]
        tail, head = tail[inner], head[inner]
        arc = np.arange(tail.size)
        ones = np.ones(tail.size)
        leaving = sparse.csr_array((ones, (tail, arc)), shape=(n * m, tail.size))
        entering = sparse.csr_array((ones, (head, arc)), shape=(n * m, tail.size))
        # what leaves a cell is p there, and so is what enters it; the ends have 1
        flow = sparse.vstack([leaving[:-1], entering[1:]], "csr")
        wanted = np.concatenate([p.ravel()[:-1], p.ravel()[1:]])
        ends = max(abs(p[0, 0] - 1), abs(p[-1, -1] - 1), outside)
        if not tail.size:
            return float(ends)
        slack = sparse.csr_array(np.ones((wanted.size, 1)))
        matrix = sparse.vstack(
            [sparse.hstack([flow, -slack]), sparse.hstack([-flow, -slack])], "csr"
        )
        bounds = np.concatenate([wanted, -wanted])
        cost = np.append(np.zeros(tail.size), 1.0)
        options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        best = scipy.optimize.linprog(cost, matrix, bounds, method="highs", options=options)
        return max(float(ends), float(best.fun))


def _cut(values: Array, rows: Rows) -> Rows:
    """The flat values with the shape of a batch of rows."""
    return Ragged(values, rows.offsets) if isinstance(rows, Ragged) else values.reshape(rows.shape)
