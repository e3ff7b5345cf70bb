"""Matchings and transport plans: matrices with given row and column sums."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import scipy
from scipy import sparse

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import Domain, KBestDomain
from maxent.rows.arrays import Array, Ragged, Rows, as_float, as_rows, flat, like
from maxent.structured.transport.small import few, project_few

# of the sums of rows or columns, as a share of the mass: no projection is off by more
_VIOLATION, _VIOLATION_KL = 1e-12, 1e-11


class Couplings(Domain):
    """Non-negative matrices (m, n) with given row and column sums, a row holding one, flattened.

    A subclass says what the sums are (``sums``) and finds a best vertex. A score of -inf forbids
    an entry.
    """

    @abstractmethod
    def sums(self, size: int) -> tuple[Array, Array]:
        """Row sums (m,) and column sums (n,) of a matrix of ``size`` entries."""

    @abstractmethod
    def _best(self, theta: Array) -> Array | None:
        """A best vertex of one matrix of float64 scores, None where -inf leaves none."""

    def softmax(self, theta: Any) -> NoReturn:
        """Not there: the sum over all vertices is #P-hard."""
        raise TypeError(
            f"{self} has no softmax: its log-partition is that of a permanent, which is #P-hard to "
            f"compute; regularize the mean instead, by MeanEntropy(domain={self}) (Sinkhorn) or "
            f"SquaredNorm(domain={self}) (sparse)"
        )

    def roundings(self, size: int) -> float:
        """Sums are right to 1e-11 of the mass, where Sinkhorn's iteration ends.

        Those of Euclidean projections are right to 1e-12, and to 16 units unless scores are far
        beyond the masses.
        """
        return _VIOLATION_KL / np.finfo(np.float64).eps

    def _argmax(self, theta: Rows) -> Rows:
        return self._each(theta, self._best)

    def _each(self, theta: Rows, best: Callable[[Array], Array | None]) -> Rows:
        """A function of one matrix, matrix by matrix."""
        offsets, m, n = self._cuts(theta)
        values = flat(theta)
        out = np.empty_like(values)
        for row, (start, stop) in enumerate(itertools.pairwise(offsets)):
            matrix = values[start:stop].reshape(m[row], n[row]).astype(np.float64)
            found = best(matrix)
            if found is None:
                self._refuse(row)
            out[start:stop] = found.ravel()
        return _with_cuts(out, theta)

    def _refuse(self, row: int) -> NoReturn:
        raise ValueError(
            f"row {row} has no {self._structure}: scores of -inf forbid every one of them; leave "
            "at least one finite"
        )

    @property
    def _structure(self) -> str:
        return "coupling"

    def _cuts(self, x: Rows) -> tuple[Array, Array, Array]:
        """Offsets of the rows in the flat values, and the shapes m, n of their matrices."""
        if isinstance(x, Ragged):
            sizes, inverse = np.unique(np.diff(x.offsets), return_inverse=True)
            shapes = np.array([self._shape(int(size)) for size in sizes], np.int64)
            shapes = shapes.reshape(-1, 2)[inverse]
            return x.offsets, shapes[:, 0].copy(), shapes[:, 1].copy()
        rows, size = x.shape
        m, n = self._shape(size)
        return np.arange(rows + 1) * size, np.full(rows, m), np.full(rows, n)

    def _shape(self, size: int) -> tuple[int, int]:
        a, b = self.sums(size)
        return len(a), len(b)

    def _largest_sums(self, x: Rows) -> tuple[Array, Array]:
        size = np.max(np.diff(x.offsets), initial=1) if isinstance(x, Ragged) else x.shape[-1]
        return self.sums(int(size))

    # -- projections ---------------------------------------------------------------------------

    def _project(self, theta: Rows) -> Rows:
        return self._nearest(theta, False)

    def _project_kl(self, theta: Rows) -> Rows:
        return self._nearest(theta, True)

    def _nearest(self, theta: Rows, kl: bool) -> Rows:
        from maxent.structured.transport.kernels.couplings import project_rows

        if np.isneginf(flat(theta)).any():
            theta = self._each(theta, self._usable)
        offsets, m, n = self._cuts(theta)
        values, (a, b) = flat(theta), self._largest_sums(theta)
        out, left = np.empty_like(values), np.zeros(len(m))
        hard = self._project_few(project_rows, values, offsets, m, n, kl, out)

        def work(start: int, stop: int) -> None:
            for row in hard[start:stop]:
                project_rows(values, offsets, m, n, kl, a, b, out, left, row, row + 1)

        # a Newton step is worth many passes over the entries: small batches go to threads too
        over_rows(work, len(hard), 64 * values.size // max(1, len(m)))
        for row in np.flatnonzero(~(left <= (_VIOLATION_KL if kl else _VIOLATION))):
            part = slice(offsets[row], offsets[row + 1])
            if kl:
                raise RuntimeError(
                    f"Sinkhorn's iteration of row {row} on {self} stopped with a violation of "
                    f"{left[row]:.1e} of its sums; scale the scores down"
                )
            # scores far beyond the masses: all but a vertex, which an active set finds
            out[part] = super()._project(values[None, part])[0]
        return _with_cuts(out, theta)

    def _project_few(
        self, kernel: Any, values: Array, offsets: Array, m: Array, n: Array, kl: bool, out: Array
    ) -> Array:
        """Write what numpy can do for few small matrices; the numbers of the others."""
        hard = []
        for size in np.unique(np.diff(offsets)):
            alike = np.flatnonzero(np.diff(offsets) == size)
            shape = m[alike[0]], n[alike[0]]
            place = offsets[alike, None] + np.arange(size)
            if not few(kernel, size * alike.size, *shape) or np.isneginf(values[place]).any():
                hard.append(alike)
                continue
            theta = values[place].astype(np.float64).reshape(-1, *shape)
            p, right = project_few(theta, *self.sums(int(size)), kl=kl)
            out[place[right]] = p[right].reshape(-1, size)
            hard.append(alike[~right])
        return np.sort(np.concatenate(hard)) if hard else np.empty(0, np.int64)

    def _usable(self, theta: Array) -> Array | None:
        """The scores with -inf wherever no coupling that avoids -inf has mass.

        Entry (i, j) can have mass if it has some in one coupling, or if mass can go round a cycle
        through it: i and j are strongly connected by all entries i -> j that are allowed, and by
        j -> i wherever the coupling has mass to take away.
        """
        open_ = theta > -np.inf
        if open_.all():
            return theta
        found = self._best(np.where(open_, 0.0, -np.inf))
        if found is None:
            return None
        m, n = theta.shape
        edges = np.zeros((m + n, m + n), dtype=bool)
        edges[:m, m:], edges[m:, :m] = open_, (found > 0).T
        _, part = sparse.csgraph.connected_components(
            sparse.csr_array(edges), directed=True, connection="strong"
        )
        return np.where(part[:m, None] == part[m:], theta, -np.inf)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less what it does to the sums, on the support of p: a Laplacian system."""
        return self._jvp(p, v, False)

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p (v - x_i - y_j), with the x and y that keep the sums: a Laplacian system."""
        return self._jvp(p, v, True)

    def _jvp(self, p: Rows, v: Rows, kl: bool) -> Rows:
        from maxent.structured.transport.kernels.couplings import jvp_rows

        rows = as_rows(p)
        offsets, m, n = self._cuts(rows)
        values = flat(rows)
        tangent = np.ascontiguousarray(flat(v), dtype=values.dtype)
        out = np.empty_like(values)

        def work(start: int, stop: int) -> None:
            jvp_rows(values, offsets, m, n, kl, tangent, out, start, stop)

        over_rows(work, len(m), 16 * values.size // max(1, len(m)))
        return like(_with_cuts(out, rows), p)

    # -- membership ----------------------------------------------------------------------------

    def _contains(self, p: Rows, atol: float) -> Array:
        return np.array([self._violation(x) <= atol for x in self._matrices(p)], dtype=bool)

    def _matrices(self, p: Rows) -> list[Array]:
        offsets, m, n = self._cuts(p)
        cuts = zip(offsets[:-1], offsets[1:], m, n, strict=True)
        return [flat(p)[start:stop].reshape(i, j) for start, stop, i, j in cuts]

    def _violation(self, p: Array) -> float:
        """The largest negative entry or wrong sum; rounding of sums grows with their root."""
        a, b = self.sums(p.size)
        wrong = [np.abs(p.sum(axis=axis, dtype=np.float64) - s) for axis, s in ((1, a), (0, b))]
        off = max(x.max() for x in wrong) / max(1.0, float(a.max()), float(b.max()))
        lowest = float(-p.min())
        return max(lowest, off / max(p.shape) ** 0.5) if np.isfinite(off) else np.inf

    def _why_outside(self, row: Array) -> str:
        if not np.isfinite(row).all() or row.min() < 0:
            return super()._why_outside(row)
        p = row.reshape(self._shape(row.size))
        a, b = self.sums(row.size)
        i, j = np.argmax(np.abs(p.sum(axis=1) - a)), np.argmax(np.abs(p.sum(axis=0) - b))
        return (
            f"its matrix has a row sum of {p[i].sum():.6g} where {a[i]:.6g} is due, "
            f"and a column sum of {p[:, j].sum():.6g} where {b[j]:.6g} is due"
        )


@io.register
@dataclass(frozen=True)
class Birkhoff(KBestDomain, Couplings):
    """Doubly stochastic matrices: the convex hull of permutations, whose vertices are matchings.

    A row is an n x n matrix, flattened: entry `i n + j` scores matching i with j. Its size fixes n,
    so that matrices of several sizes make a Ragged. ``argmax`` is the assignment problem,
    ``project`` the Euclidean projection (a sparse soft matching), ``project_kl`` Sinkhorn's,
    ``kbest`` Murty's partition; a softmax would be a permanent and does not exist.

    >>> domain = Birkhoff()
    >>> domain.project([1.0, 0.2, 0.4, 0.0])
    array([0.6, 0.4, 0.4, 0.6])
    >>> domain.decode(domain.argmax([1.0, 2.0, 2.0, 0.0]))
    [array([1, 0])]
    """

    constant_norm = True
    ragged = True
    largest_entry = 1.0

    def side(self, size: int) -> int:
        """n of a row of `n^2` entries."""
        n = round(size**0.5)
        if n * n != size or n < 1:
            raise ValueError(
                f"a row of size {size} is no square matrix, so it has no perfect matching; give "
                f"{max(1, n) ** 2} or {(n + 1) ** 2} scores, or use Transport(a, b) with the sums "
                "of the rows and columns of a rectangular one"
            )
        return n

    def sums(self, size: int) -> tuple[Array, Array]:
        """Ones."""
        ones = np.ones(self.side(size))
        return ones, ones

    def vertices(self, size: int) -> Array:
        """All n! permutation matrices."""
        return np.asarray(
            self.encode(np.array(list(itertools.permutations(range(self.side(size))))))
        )

    @property
    def _structure(self) -> str:
        return "matching"

    def _best(self, theta: Array) -> Array | None:
        try:
            i, j = scipy.optimize.linear_sum_assignment(theta, maximize=True)
        except ValueError:  # infeasible: everything else has been checked
            return None
        vertex = np.zeros_like(theta)
        vertex[i, j] = 1
        return vertex

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.transport.kernels.matchings import kbest_rows

        offsets, sides, _ = self._cuts(theta)
        values = flat(theta)
        search = exact(kbest_rows, k * int(np.sum(sides**3)))
        scores, found = np.empty((len(sides), k)), np.empty((k, values.size), values.dtype)
        without: list[int] = []

        def work(start: int, stop: int) -> None:
            row = search(values, offsets, sides, scores, found, start, stop)
            if row >= 0:
                without.append(row)

        over_rows(work, len(sides), k * values.size // max(1, len(sides)))
        if without:
            self._refuse(min(without))
        for row, (start, stop) in enumerate(itertools.pairwise(offsets)):
            order = np.argsort(-scores[row], kind="stable")  # losses and scores round apart
            scores[row] = scores[row, order]
            found[:, start:stop] = found[order, start:stop]
        return scores, [_with_cuts(matchings, theta) for matchings in found]

    def encode(self, matchings: Any) -> Rows:
        """Permutations as vertices: a 2-D array gives an array, a list of them a Ragged.

        >>> Birkhoff().encode(np.array([[1, 0]]))
        array([[0., 1., 1., 0.]])
        """
        if isinstance(matchings, np.ndarray) and matchings.ndim != 2:
            raise ValueError(
                f"matchings are a 2-D array or a list of permutations, got {matchings.ndim} axes"
            )
        vertices = [np.eye(len(order))[order].ravel() for order in map(_permutation, matchings)]
        if isinstance(matchings, np.ndarray):
            return np.array(vertices).reshape(-1, matchings.shape[1] ** 2)
        return Ragged.from_rows(vertices)

    def decode(self, p: Any) -> list[Array]:
        """The partner j of each i: the matching of a vertex, the likeliest one of a mean."""
        matrices = self._matrices(as_rows(as_float(p)))
        return [scipy.optimize.linear_sum_assignment(x, maximize=True)[1] for x in matrices]


@io.register
@dataclass(frozen=True, eq=False)
class Transport(Couplings):
    """Transport plans: matrices `P >= 0` with row sums ``a`` (m,) and column sums ``b`` (n,).

    A row is an m x n matrix, flattened; scores are minus costs. ``argmax`` is optimal transport
    (an exact vertex, by the network simplex method), ``project`` its Euclidean, ``project_kl`` its
    entropic regularization (Sinkhorn). Masses of 0 are allowed.

    Parameters
    ----------
    a : array (m,)
        Row sums.
    b : array (n,)
        Column sums, of the same total.

    Examples
    --------
    >>> plan = Transport([0.5, 0.5], [0.25, 0.75]).argmax([1.0, 0.0, 0.0, 1.0])
    >>> plan.reshape(2, 2)
    array([[0.25, 0.25],
           [0.  , 0.5 ]])
    """

    a: Any
    b: Any
    _positive: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        a, b = _masses(self.a, "a"), _masses(self.b, "b")
        single = np.float32 in (np.asarray(self.a).dtype, np.asarray(self.b).dtype)
        if abs(a.sum() - b.sum()) > (1e-5 if single else 1e-9) * a.sum():
            raise ValueError(
                f"the marginals of Transport must have one sum, got {a.sum():.9g} for a and "
                f"{b.sum():.9g} for b; divide each by its sum, or add an entry that takes the rest"
            )
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b * (a.sum() / b.sum()))  # rounding
        object.__setattr__(self, "_positive", (np.flatnonzero(a), np.flatnonzero(b)))

    def __repr__(self) -> str:
        return f"Transport(a of {len(self.a)}, b of {len(self.b)} masses)"

    @property
    def largest_entry(self) -> float:
        """No entry exceeds either of its sums."""
        return float(min(self.a.max(), self.b.max()))

    def sums(self, size: int) -> tuple[Array, Array]:
        """The marginals."""
        if size != self.a.size * self.b.size:
            raise ValueError(
                f"a row of size {size} is no {self.a.size} x {self.b.size} matrix: {self} takes "
                f"rows of {self.a.size * self.b.size} scores"
            )
        return self.a, self.b

    def vertices(self, size: int) -> Array:
        """All vertices: the non-negative solutions on `m + n - 1` entries."""
        self.sums(size)
        m, n = self.a.size, self.b.size
        cell = np.arange(size)
        rows = [cell // n == i for i in range(m)] + [cell % n == j for j in range(n)]
        equations, due = np.array(rows, dtype=float), np.concatenate([self.a, self.b])
        found, tiny = [], 1e-12 * self.a.sum()
        for basis in itertools.combinations(range(size), m + n - 1):
            part = equations[:, basis]
            solution, _, rank, _ = np.linalg.lstsq(part, due, rcond=None)
            if rank == len(basis) and solution.min() > -tiny:
                vertex = np.zeros(size)
                vertex[list(basis)] = np.where(solution > tiny, solution, 0)
                found.append(vertex)
        vertices = np.array(found)
        _, first = np.unique((vertices / self.a.sum()).round(12), axis=0, return_index=True)
        return vertices[first]

    def _best(self, theta: Array) -> Array | None:
        from maxent.structured.transport.kernels.network_simplex import best_coupling

        a, b = self.a[self._positive[0]], self.b[self._positive[1]]
        inside = theta[np.ix_(*self._positive)]
        finite = inside[inside > -np.inf]
        if finite.size == 0:
            return None
        centre = finite.min() / 2 + finite.max() / 2
        unit = max(finite.max() / 2 - finite.min() / 2, 1e-300)
        best, plan = np.empty(inside.shape), np.zeros(theta.shape)
        if not best_coupling((inside - centre) / unit, a, b, best):
            return None
        plan[np.ix_(*self._positive)] = np.minimum(best, np.minimum(a[:, None], b))
        return plan

    def _nearest(self, theta: Rows, kl: bool) -> Rows:
        rows, columns = self._positive
        if rows.size == self.a.size and columns.size == self.b.size:
            return super()._nearest(theta, kl)
        shape = (-1, self.a.size, self.b.size)
        inside = theta.reshape(shape)[:, rows[:, None], columns]
        part = Transport(self.a[rows], self.b[columns])
        out = np.zeros_like(theta).reshape(shape)
        flat_inside = np.ascontiguousarray(inside.reshape(len(theta), -1))
        out[:, rows[:, None], columns] = part._nearest(flat_inside, kl).reshape(inside.shape)
        return out.reshape(theta.shape)


def _masses(values: Any, name: str) -> Array:
    masses = np.asarray(values, dtype=np.float64)
    if masses.ndim != 1 or masses.size == 0:
        raise ValueError(
            f"the marginal {name} of Transport must be a vector, got shape {masses.shape}"
        )
    if not np.isfinite(masses).all() or (masses < 0).any() or not masses.any():
        raise ValueError(f"the marginal {name} of Transport must be finite, >= 0 and not all 0")
    return masses


def _permutation(matching: Any) -> Array:
    order = np.asarray(matching)
    whole = order.ndim == 1 and order.size > 0 and order.dtype.kind in "iu"
    if not whole or not np.array_equal(np.sort(order), np.arange(order.size)):
        raise ValueError(
            f"a matching is a permutation of 0 .. n - 1, the partner of each, got {matching!r}"
        )
    return order


def _with_cuts(values: Array, rows: Rows) -> Rows:
    """The flat values with the shape of a batch of rows."""
    if isinstance(rows, Ragged):
        return Ragged(values, rows.offsets)
    return values.reshape(rows.shape)
