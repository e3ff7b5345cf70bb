"""Feature maps: the linear map F between weights and scores, never a matrix unless one was given.

``scores(w)`` = F'w are the rows an entropy takes, ``moments(p)`` = F p the vector a potential
takes. A map may keep its rows anywhere (memory, blocks, a GPU): the boundary is w.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property, partial, singledispatch
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from maxent import io
from maxent._support.checks import cuts, indices
from maxent._support.limits import IN_MEMORY, check_cells
from maxent._support.threads import all_finite, one_blas_thread, over_rows, sum_of_parts
from maxent.core.row_factors import chain_columns
from maxent.rows.arrays import Array, Ragged, Rows, Tied, row_scale
from maxent.rows.evaluator import Evaluator
from maxent.rows.local import LocalEvaluator, checked_rows

if TYPE_CHECKING:
    from maxent.core.domains import Domain
    from maxent.core.entropies import Entropy
    from maxent.rows.products import SampleProducts


class BlocksLost(ConnectionError):
    """The rows of a map are elsewhere, and cannot be reached any more."""


class Features(ABC):
    """The features of a problem, wherever its rows are: ``n_features`` weights and an evaluator."""

    n_features: int
    n_rows: int | None = None  # number of rows of the scores; None for a single row without axis

    @property
    def one_row(self) -> bool:
        """Whether the scores are a single row."""
        return self.n_rows is None

    @abstractmethod
    def evaluator(self, domain: Domain, weights: Array | None, observed: Any) -> Evaluator:
        """The rows with these weights, and with these observed distributions (None: unknown)."""

    def ranges(self) -> tuple[Array, Array]:
        """Smallest and largest value of each feature over the cells."""
        raise NotImplementedError(
            f"{type(self).__name__} does not know the ranges of its features; a map that does "
            "overrides FeatureMap.ranges"
        )


class FeatureMap(Features):
    """A linear map with ``n_features`` weights, whose rows are in memory."""

    @abstractmethod
    def scores(self, w: Array) -> Rows:
        """F'w, one score for every cell of every row."""

    @abstractmethod
    def moments(self, p: Rows) -> Array:
        """F p, one number per feature; p has the shape of the scores."""

    def weighted_moments(self, p: Rows, weights: Array) -> Array:
        """`sum a_i F_i p_i`, the moments of rows with their weights `a_i`."""
        return self.moments(row_scale(p, weights))

    def evaluator(self, domain: Domain, weights: Array | None, observed: Any) -> LocalEvaluator:
        """Scores and distributions as arrays."""
        known = None if observed is None else checked_rows(observed, self, domain)
        return LocalEvaluator(self, weights, known)

    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array] | None:
        """`Omega*(F_i'w)` of each row and `sum a_i F_i p_i` at its maximisers `p_i`, in one pass.

        For maps that need neither scores nor `p_i` written out with some entropies; None otherwise.
        """
        return None

    def sample_products(self, weights: Array) -> SampleProducts | None:
        """Products with Hessians, for maps whose rows are samples of one matrix; None otherwise."""
        return None


class SelectableFeatures(Features):
    """Features of which some can be taken: what a working set needs."""

    cheap_moments: ClassVar[bool] = False  # all of them at about the price of a few

    @abstractmethod
    def restrict(self, index: Array) -> SelectableFeatures:
        """The features ``index`` alone, written out where that makes them faster."""

    def candidates(self, violation: Array, count: int) -> Array:
        """Up to ``count`` features that should join a working set: the worst violators."""
        if count >= violation.size:
            return np.flatnonzero(violation > 0)
        chosen = np.argpartition(violation, -count)[-count:]
        return chosen[violation[chosen] > 0]


class ColumnMap(SelectableFeatures, FeatureMap):
    """A map that can also write out a few columns: what Newton steps on a working set need."""

    @abstractmethod
    def restrict(self, index: Array) -> ColumnMap:
        """The map of the features ``index`` alone, written out where that makes it faster."""

    @abstractmethod
    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """`sum_i C_i'(diag(d_i) - u_i u_i')C_i`, `C_i` the columns at row i.

        ``diagonal`` and ``spike`` (u, or None) have the shape of the scores. A map with many
        rows may estimate the sum from each ``every``-th block of them.
        """


class RowMap(FeatureMap):
    """A map with rows that can be taken apart: what solvers that move one row at a time need."""

    @abstractmethod
    def take(self, rows: Array) -> RowMap:
        """The map of these rows alone."""

    @abstractmethod
    def row_norms(self) -> Array:
        """Upper bounds of `||F_i||^2`, squared operator norms of the rows; 0 where `F_i = 0`."""

    def row_moments(self, p: Rows, index: Array) -> Any:
        """Some features of `F_i p_i`, row by row, sparse; None where there is no short way.

        ``index`` is sorted.
        """
        return None


def _matrix(X: Any, name: str = "X") -> Any:
    """A finite two-dimensional float matrix, dense (any order) or CSC."""
    if sparse.issparse(X):
        X = sparse.csc_array(X)
        X = X if X.dtype.kind == "f" else X.astype(np.float64)
        values = X.data
    else:
        X = np.asarray(X)
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        values = X
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must be a non-empty matrix (rows, features), got shape {X.shape}")
    if not all_finite(values):
        raise ValueError(f"{name} contains NaN or infinity; impute or drop those entries first")
    return X


_BLOCK = 1024  # rows of a matrix handled at once: a scaled block stays in cache
_SPARSE = 0.15  # share of entries not zero below which they are visited one by one
_OUTPUTS = 5  # fewer outputs have few zeros to skip
_JOINT_ENTRIES = 1 << 20  # scores that are there at once, for each thread
_WORK = 64  # multiplications that count as much as one entry of an elementwise pass


def _product(A: Any, B: Array) -> Array:
    """A B in the float type of A, in parallel along the longer side of A."""
    B = B.astype(A.dtype, copy=False)
    rows, inner = A.shape
    if not B.any():  # every fit starts at w = 0
        return np.zeros((rows, *B.shape[1:]), dtype=A.dtype)
    if sparse.issparse(A):
        return np.asarray(A @ B)
    outputs = B.size // inner
    with one_blas_thread():
        if rows >= inner:
            product = np.empty((rows, *B.shape[1:]), dtype=A.dtype)

            def work(start: int, stop: int) -> None:
                np.matmul(A[start:stop], B, out=product[start:stop])

            over_rows(work, rows, inner * outputs // _WORK)
            return product
        return sum_of_parts(
            lambda start, stop: A[:, start:stop] @ B[start:stop], inner, rows * outputs // _WORK
        )


def _weighted_product(A: Any, weight: Array, B: Any, every: int = 1) -> Array:
    """A' diag(weight) B in float64, dense, for dense or sparse A and B.

    With ``every`` > 1, an estimate from each ``every``-th block of rows.
    """
    if sparse.issparse(B):
        return np.asarray((A.T @ B.multiply(weight[:, None])).toarray(), dtype=np.float64)
    symmetric = A is B and bool((weight >= 0).all())
    scale = (np.sqrt(weight) if symmetric else weight)[:, None].astype(B.dtype, copy=False)
    starts = range(0, len(A), _BLOCK * every)

    def part(first: int, last: int) -> Array:
        total = np.zeros((A.shape[1], B.shape[1]))
        for start in starts[first:last]:
            block = slice(start, start + _BLOCK)
            right = B[block] * scale[block]
            total += (right if symmetric else A[block]).T @ right
        return total

    with one_blas_thread():
        product = sum_of_parts(part, len(starts), _BLOCK * A.shape[1] * B.shape[1] // _WORK)
    used = sum(min(_BLOCK, len(A) - start) for start in starts)
    return product * (len(A) / used)


@io.register
class MatrixMap(ColumnMap):
    """Features of the cells of one row: `F' = X` with X (cells, features), dense or sparse.

    Parameters
    ----------
    X : array or sparse matrix (n_cells, n_features)
        Features of the cells.

    Examples
    --------
    >>> MatrixMap([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]).scores(np.array([1.0, 3.0]))
    array([1., 6., 4.])
    """

    def __init__(self, X: Any) -> None:
        self.X = _matrix(X)
        self.n_features = self.X.shape[1]

    def __repr__(self) -> str:
        return f"MatrixMap({self.X.shape[0]} cells, {self.n_features} features)"

    def __getmodel__(self) -> dict[str, Any]:
        return {"X": self.X}

    def scores(self, w: Array) -> Array:
        """X w."""
        return _product(self.X, w)

    def moments(self, p: Rows) -> Array:
        """X'p in float64."""
        return _product(self.X.T, p).astype(np.float64, copy=False)

    def ranges(self) -> tuple[Array, Array]:
        """Column minima and maxima of X."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        if sparse.issparse(self.X):
            low, high = low.toarray(), high.toarray()
        return low.ravel().astype(np.float64), high.ravel().astype(np.float64)

    def restrict(self, index: Array) -> MatrixMap:
        """The chosen columns of X."""
        if np.array_equal(index, np.arange(self.n_features)):
            return self
        part = copy(self)
        part.X, part.n_features = self.X[:, index], index.size
        return part

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """X'(diag(d) - u u')X, whole where there is a u: a sample might have no positive one."""
        gram = _weighted_product(self.X, diagonal, self.X, every if spike is None else 1)
        if spike is not None:
            edge = _product(self.X.T, spike).astype(np.float64, copy=False)
            gram -= np.outer(edge, edge)
        return gram


@io.register
class IdentityMap(ColumnMap):
    """One feature per cell: F = identity, as in the relaxation path.

    Parameters
    ----------
    size : int
        Number of cells.

    Examples
    --------
    >>> IdentityMap(3).moments(np.array([0.2, 0.3, 0.5]))
    array([0.2, 0.3, 0.5])
    """

    def __init__(self, size: int) -> None:
        if int(size) != size or size < 1:
            raise ValueError(f"IdentityMap needs a size >= 1, got {size!r}")
        self.size = self.n_features = int(size)
        self._cells = np.arange(self.size)

    def __repr__(self) -> str:
        return f"IdentityMap({self.size})"

    def __getmodel__(self) -> dict[str, Any]:
        whole = np.array_equal(self._cells, np.arange(self.size))
        return {"size": self.size, "cells": None if whole else self._cells}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        check_cells(state["size"], "an IdentityMap", IN_MEMORY)
        IdentityMap.__init__(self, state["size"])
        cells = state.get("cells")
        if cells is not None:
            indices("cells", cells, np.size(cells), self.size)
            self._cells, self.n_features = cells, cells.size

    def scores(self, w: Array) -> Array:
        """w at its cells, 0 elsewhere."""
        scores = np.zeros(self.size)
        scores[self._cells] = w
        return scores

    def moments(self, p: Rows) -> Array:
        """p at the cells."""
        return np.asarray(p, dtype=np.float64)[self._cells]

    def ranges(self) -> tuple[Array, Array]:
        """0 and 1; with a single cell its feature is always 1."""
        return np.full(self.n_features, float(self.size == 1)), np.ones(self.n_features)

    def restrict(self, index: Array) -> IdentityMap:
        """Some of the cells."""
        part = copy(self)
        part._cells, part.n_features = self._cells[index], index.size
        return part

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """diag(d) - u u' on the cells."""
        gram = np.diag(np.asarray(diagonal, dtype=np.float64)[self._cells])
        if spike is not None:
            gram -= np.outer(spike[self._cells], spike[self._cells])
        return gram


@io.register
class SampleMap(ColumnMap, RowMap):
    """Linear models: scores `X W` (samples, outputs), with w the flattened W (features, outputs).

    One output with FermiDirac is binary logistic regression; several with a simplex entropy
    are the classes.

    Parameters
    ----------
    X : array or sparse matrix (n_samples, n_features)
        Features of the samples.
    n_outputs : int, default 1
        Scores per sample.

    Examples
    --------
    >>> SampleMap([[1.0, 2.0]], n_outputs=2).scores(np.array([1.0, 0.0, 0.0, 1.0]))
    array([[1., 2.]])
    """

    def __init__(self, X: Any, n_outputs: int = 1) -> None:
        self.X = _matrix(X)
        if int(n_outputs) != n_outputs or n_outputs < 1:
            raise ValueError(f"n_outputs must be an integer >= 1, got {n_outputs!r}")
        self.n_outputs = int(n_outputs)
        self.n_rows = self.X.shape[0]
        self.n_features = self.X.shape[1] * self.n_outputs
        # which entries of the flattened W are weights; None for all of them
        self._entries: Array | None = None

    def __repr__(self) -> str:
        return (
            f"SampleMap({self.n_rows} samples, {self.n_features} weights, {self.n_outputs} outputs)"
        )

    def __getmodel__(self) -> dict[str, Any]:
        return {"X": self.X, "n_outputs": self.n_outputs, "entries": self._entries}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        check_cells(state["n_outputs"], "one sample of a SampleMap", IN_MEMORY)
        SampleMap.__init__(self, state["X"], state["n_outputs"])
        self._use(state.get("entries"))

    def _use(self, entries: Any) -> None:
        """Restrict to entries of the flattened W, from a file."""
        if entries is not None:
            indices("entries", entries, np.size(entries), self.X.shape[1] * self.n_outputs)
            self._entries, self.n_features = entries, entries.size

    @property
    def whole(self) -> bool:
        """Whether every entry of W is a weight."""
        return self._entries is None

    def scores(self, w: Array) -> Array:
        """X W."""
        if self._entries is not None:
            full = np.zeros(self.X.shape[1] * self.n_outputs)
            full[self._entries] = w
            w = full
        return self._scores(w.reshape(-1, self.n_outputs))

    def _scores(self, W: Array) -> Array:
        """X W of all weights."""
        return _product(self.X, W)

    def moments(self, p: Rows) -> Array:
        """X'P, flattened."""
        moments = self._moments(p).astype(np.float64, copy=False).ravel()
        return moments if self._entries is None else moments[self._entries]

    def _moments(self, p: Array) -> Array:
        """X'P; entry by entry where P is sparse, as sparse maps make it."""
        X = self.X
        if sparse.issparse(X) or not X.flags.c_contiguous or self.n_outputs < _OUTPUTS:
            return _product(X.T, p)
        share = np.count_nonzero(p) / p.size
        if share > _SPARSE:
            return _product(X.T, p)
        from maxent.core.kernels.samples import sparse_moments

        p = np.ascontiguousarray(p, dtype=X.dtype)
        work = int(share * self.n_features) // _WORK
        return sum_of_parts(partial(sparse_moments, X, p), len(X), work).T

    def column_means(self, weights: Array) -> Array:
        """weights' X, the mean of each column where the weights sum to 1."""
        return self._moments(weights[:, None])[:, 0].astype(np.float64, copy=False)

    def sample_products(self, weights: Array) -> SampleProducts | None:
        """Products with `sum a_i J_i (x) x_i x_i'`, where every entry of W is a weight."""
        if not self.whole:
            return None
        from maxent.rows.products import SampleProducts

        return SampleProducts(self.X, weights, self.n_outputs)

    def restrict(self, index: Array) -> SampleMap:
        """The columns of X that these weights use."""
        entries = index if self._entries is None else self._entries[index]
        column, output = np.divmod(entries, self.n_outputs)
        used, position = np.unique(column, return_inverse=True)
        part = copy(self)
        part.X = self.X if used.size == self.X.shape[1] else self.X[:, used]
        part.n_features = index.size
        part._entries = position * self.n_outputs + output
        return part

    def take(self, rows: Array) -> SampleMap:
        """Some of the samples."""
        part = copy(self)
        part.X, part.n_rows = self.X[rows], len(rows)
        return part

    def row_norms(self) -> Array:
        """`||x_i||^2`."""
        squares = (
            self.X.power(2) if sparse.issparse(self.X) else np.square(self.X, dtype=np.float64)
        )
        return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()

    def gram(self, diagonal: Array, spike: Array | None, every: int = 1) -> Array:
        """Blocks `X_c' diag(d_c [c = c'] - u_c u_c') X_c'` over pairs of outputs."""
        X = self.X
        entries = np.arange(self.n_features) if self._entries is None else self._entries
        column, output = np.divmod(entries, self.n_outputs)
        gram = np.zeros((self.n_features, self.n_features))
        members = [np.flatnonzero(output == c) for c in range(self.n_outputs)]
        blocks = [X if m.size == X.shape[1] else X[:, column[m]] for m in members]
        for c, mine in enumerate(members):
            for k, other in enumerate(members[: c + 1]):
                if not (mine.size and other.size) or (k < c and spike is None):
                    continue
                weight = diagonal[:, c] if k == c else np.zeros(1)
                if spike is not None:
                    weight = weight - spike[:, c] * spike[:, k]
                part = _weighted_product(blocks[c], weight, blocks[k], every)
                gram[np.ix_(mine, other)] = part
                gram[np.ix_(other, mine)] = part.T
        return gram


_SYMMETRIC = 1e-8  # relative difference that rounding may leave between K and its transpose
_EXACT = 1e-8  # share of the largest entry of K that its root may miss
_NEGATIVE = 1e-6  # share of the largest eigenvalue below which a negative one is rounding


def kernel_root(K: Array) -> tuple[Array, Array]:
    """X (rows, rank) with X X' = K, and the rows at which it is lower triangular.

    By pivoted Cholesky, which stops at the rank of K. Where rounding has left K slightly
    indefinite (a kernel in float32) it is the root of the nearest matrix that is not.

    >>> root, pivots = kernel_root(np.array([[4.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0]]))
    >>> root, pivots.tolist()
    (array([[2., 0.],
           [0., 1.],
           [1., 0.]]), [0, 1])
    """
    size = float(np.abs(K).max(initial=0.0))
    square = K.ndim == 2 and K.shape[0] == K.shape[1]
    if not square or not np.allclose(K, K.T, rtol=_SYMMETRIC, atol=1e-12 * size):
        raise ValueError(
            "the matrix of a kernel on its own rows must be a symmetric matrix, one row and one "
            f"column per sample, got shape {K.shape}"
            + (f" with entries up to {np.abs(K - K.T).max():.3g} apart" if square else "")
        )
    if size == 0:
        raise ValueError("the kernel's matrix is zero: nothing can be learned from it")
    with one_blas_thread():
        root, pivots, missed = _pivoted_cholesky(K)
        if missed > _EXACT * size:
            root, pivots, _ = _pivoted_cholesky(_nearest_semidefinite(K))
    return root, pivots


def pivot_coefficients(root: Array, pivots: Array, W: Array) -> Array:
    """The C (rows, outputs) with X'C = W, 0 off the pivots of the root X."""
    C = np.zeros((len(root), W.shape[1]))
    C[pivots] = linalg.solve_triangular(root[pivots], W, trans="T", lower=True)
    return C


def _pivoted_cholesky(K: Array) -> tuple[Array, Array, float]:
    """The root, its pivots, and the largest entry of K - X X'."""
    factor, order, rank, _ = linalg.lapack.dpstrf(K, lower=1)
    order -= 1  # LAPACK counts from 1
    root = np.empty((len(K), rank))
    root[order] = np.tril(factor)[:, :rank]
    rest = order[rank:]  # the rows of the pivots hold by construction
    missed = np.abs(root[rest] @ root[rest].T - K[np.ix_(rest, rest)]).max(initial=0.0)
    return root, order[:rank], float(missed)


def _nearest_semidefinite(K: Array) -> Array:
    """K without the negative part of its spectrum, which must be rounding."""
    values, vectors = linalg.eigh(K)
    if values[0] < -_NEGATIVE * max(float(values[-1]), 0.0):
        raise ValueError(
            f"the kernel is not positive semi-definite: its matrix has eigenvalues from "
            f"{values[0]:.3g} to {values[-1]:.3g}. Give a kernel that is an inner product, or add "
            "a multiple of the identity"
        )
    half = vectors * np.sqrt(np.maximum(values, 0))
    return half @ half.T


@io.register
class JointMap(FeatureMap):
    """Rows over the same cells: scores `(X W)'` (rows, cells), w the flattened W (features, rows).

    One density over the cells for each column of W, such as the species of a group over its places.
    With Shannon's entropy the sums of a fit are made a few rows at a time, in the float type of X
    with sums in float64, and neither scores nor distributions are ever written out.

    Parameters
    ----------
    X : array (n_cells, n_features)
        Features of the cells, dense.
    n_rows : int
        Densities over them.
    exact : bool, default False
        Products in float64 where X is float32: slower, for a certificate.

    Examples
    --------
    >>> JointMap([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], 2).scores(np.array([1.0, 0.0, 0.0, 1.0]))
    array([[1., 0., 1.],
           [0., 2., 1.]])
    """

    n_rows: int

    def __init__(self, X: Any, n_rows: int, exact: bool = False) -> None:
        X = _matrix(X)
        if sparse.issparse(X):
            raise TypeError("JointMap needs a dense X; use X.toarray()")
        if int(n_rows) != n_rows or n_rows < 1:
            raise ValueError(f"n_rows must be an integer >= 1, got {n_rows!r}")
        self.X, self.n_rows, self.exact = X, int(n_rows), bool(exact)
        self.n_features = X.shape[1] * self.n_rows

    def __repr__(self) -> str:
        return f"JointMap({self.n_rows} rows, {len(self.X)} cells, {self.n_features} weights)"

    def __getmodel__(self) -> dict[str, Any]:
        return {"X": self.X, "n_rows": self.n_rows, "exact": self.exact}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        check_cells(state["n_rows"], "a JointMap", IN_MEMORY)
        JointMap.__init__(self, **state)

    @property
    def products(self) -> np.dtype[Any]:
        """The float type of products."""
        return np.dtype(np.float64) if self.exact else self.X.dtype

    @cached_property
    def across(self) -> Array:
        """X' with its rows contiguous, in the type of the products."""
        return np.ascontiguousarray(self.X.T, dtype=self.products)

    def covariance(self, base: Array | None) -> Array:
        """The covariance of the features under masses of the cells, None for even ones."""
        share = np.full(len(self.X), 1 / len(self.X)) if base is None else base / base.sum()
        mean = self.across @ share.astype(self.products)
        gram = np.zeros((len(mean), len(mean)))
        for start in range(0, len(self.X), _BLOCK):
            block = slice(start, start + _BLOCK)
            part = (self.across[:, block] - mean[:, None]) * np.sqrt(share[block])
            gram += part @ part.T
        return gram

    def scores(self, w: Array) -> Array:
        """`W'X'`."""
        W = np.ascontiguousarray(w.reshape(-1, self.n_rows).T, dtype=self.across.dtype)
        scores = np.empty((self.n_rows, len(self.X)), dtype=self.across.dtype)

        def work(start: int, stop: int) -> None:
            np.matmul(W[start:stop], self.across, out=scores[start:stop])

        with one_blas_thread():
            over_rows(work, self.n_rows, self.X.size // _WORK)
        return scores

    def moments(self, p: Rows) -> Array:
        """`X'P'`, flattened."""
        P = np.asarray(p, dtype=self.across.dtype)
        moments = np.empty((self.n_rows, self.X.shape[1]))

        def work(start: int, stop: int) -> None:
            moments[start:stop] = P[start:stop] @ self.across.T

        with one_blas_thread():
            over_rows(work, self.n_rows, self.X.size // _WORK)
        return moments.T.ravel()

    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array] | None:
        """The log-partitions and the moments, for Shannon's entropy; see the class."""
        base = shannon_base(entropy)
        if base is None:
            return None
        values, moments = np.empty(self.n_rows), np.empty((self.n_rows, self.X.shape[1]))
        a = np.ones(self.n_rows) if weights is None else weights

        def use(rows: slice, q: Array, peak: Array, total: Array) -> None:
            values[rows] = peak + np.log(total)
            scale = (a[rows] / total).astype(q.dtype)
            moments[rows] = (q @ self.across.T) * scale[:, None]

        self.over_distributions(w, base[0], use)
        return values, moments.T.ravel()

    def over_distributions(
        self, w: Array, base: Array | None, use: Callable[[slice, Array, Array, Array], None]
    ) -> None:
        """``use(rows, q, peak, total)`` for a few rows at a time.

        q = base exp(theta - peak) of all cells, with the sum ``total`` of each row.
        """
        W = np.ascontiguousarray(w.reshape(-1, self.n_rows).T, dtype=self.across.dtype)
        lift = None if base is None else np.log(base).astype(self.across.dtype)
        most = max(_JOINT_ENTRIES // len(self.X), 1)
        starts = range(0, self.n_rows, most)

        def work(first: int, last: int) -> None:
            room = np.empty((most, len(self.X)), dtype=self.across.dtype)
            for start in starts[first:last]:
                rows = slice(start, min(start + most, self.n_rows))
                q = np.matmul(W[rows], self.across, out=room[: rows.stop - start])
                if lift is not None:
                    q += lift
                peak = q.max(axis=1)
                q -= peak[:, None]
                np.exp(q, out=q)
                use(rows, q, peak.astype(np.float64), q.sum(axis=1, dtype=np.float64))

        with one_blas_thread():
            over_rows(work, len(starts), most * self.X.size // _WORK)


def shannon_base(entropy: Entropy) -> tuple[Array | None] | None:
    """The default masses of the cells where the entropy is Shannon's of the simplex, else None."""
    from maxent.core.domains import Simplex
    from maxent.core.entropies import Relative, Shannon

    inner = entropy.entropy if isinstance(entropy, Relative) else entropy
    if not (type(inner) is Shannon and type(inner.domain) is Simplex):
        return None
    if not isinstance(entropy, Relative):
        return (None,)
    q0 = np.asarray(entropy.q0)
    return (q0,) if q0.ndim == 1 and (q0 > 0).all() else None


@io.register
class KernelMap(SampleMap):
    """Kernel models: scores K C, K (samples, samples) the kernel and C (samples, outputs).

    Written as a linear model on a root `X X' = K` (pivoted Cholesky, as many columns as K has
    rank), whose weights are `W = X'C`: ``Quadratic`` then penalizes `tr C'KC`, and every solver
    applies.

    Parameters
    ----------
    K : array (n_samples, n_samples)
        The kernel between all samples, symmetric positive semidefinite.
    n_outputs : int, default 1
        Scores per sample.

    Examples
    --------
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> kernel = KernelMap(K)
    >>> w = np.array([1.0, 3.0])
    >>> bool(np.allclose(kernel.scores(w), K @ kernel.coefficients(w)))
    True
    """

    def __init__(self, K: Any, n_outputs: int = 1) -> None:
        root, self._pivots = kernel_root(np.asarray(_matrix(K, "K"), dtype=np.float64))
        super().__init__(root, n_outputs)

    @classmethod
    def from_root(cls, root: Array, pivots: Array, n_outputs: int) -> KernelMap:
        """The map of `K = X X'` from its root X, lower triangular at the pivots."""
        kernel = cls.__new__(cls)
        kernel._pivots = np.asarray(pivots)
        SampleMap.__init__(kernel, root, n_outputs)
        return kernel

    def __getmodel__(self) -> dict[str, Any]:
        return {
            "root": self.X,
            "pivots": self._pivots,
            "n_outputs": self.n_outputs,
            "entries": self._entries,
        }

    def __setmodel__(self, state: dict[str, Any]) -> None:
        root, pivots, n_outputs = (state[name] for name in ("root", "pivots", "n_outputs"))
        vars(self).update(vars(KernelMap.from_root(root, pivots, n_outputs)))
        self._use(state.get("entries"))
        # those of a map of some samples are rows of the whole
        indices("pivots", self._pivots, np.size(self._pivots), np.iinfo(np.intp).max)

    def __repr__(self) -> str:
        return f"KernelMap({self.n_rows} samples, rank {self.X.shape[1]}, {self.n_outputs} outputs)"

    def coefficients(self, w: Array) -> Array:
        """A C with `X'C = W`: scores of new samples are `K(new, samples) C`. 0 off the pivots."""
        return pivot_coefficients(self.X, self._pivots, np.asarray(w).reshape(-1, self.n_outputs))


def _stacked(blocks: list[ArrayLike], name: str, part: str) -> tuple[Any, Array]:
    """Matrices with the same columns, one below the other, and the number of rows of each."""
    if not len(blocks):
        raise ValueError(f"{name} needs at least one {part}")
    parts = [_matrix(x, f"{part} {i}") for i, x in enumerate(blocks)]
    widths = {x.shape[1] for x in parts}
    if len(widths) > 1:
        raise ValueError(f"{part}s have different numbers of features: {sorted(widths)}")
    X = sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    return X, np.array([x.shape[0] for x in parts])


@io.register
class RaggedMap(RowMap):
    """Linear scores of rows of different sizes: `theta_i = X_i w`.

    For structures whose scores are all their own: the pairs of a matching or the cells of an
    alignment.

    Parameters
    ----------
    blocks : list of array
        `X_i`, (entries of the row, features).

    Examples
    --------
    >>> RaggedMap([np.ones((2, 1)), np.ones((1, 1))]).scores(np.array([3.0])).rows()
    [array([3., 3.]), array([3.])]
    """

    def __init__(self, blocks: list[ArrayLike]) -> None:
        self._set(*_stacked(blocks, "RaggedMap", "block"))

    def _set(self, X: Any, sizes: Array) -> None:
        """The entries of all rows, one after another, and where they are cut."""
        self.X, self.n_rows, self.n_features = X, len(sizes), X.shape[1]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __repr__(self) -> str:
        return f"RaggedMap({self.n_rows} rows, {self.n_features} features)"

    def __getmodel__(self) -> dict[str, Any]:
        return {"X": self.X, "offsets": self._offsets}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        X = _matrix(state["X"])
        cuts("offsets", state["offsets"], X.shape[0], least=1)
        if state["offsets"].size < 2:
            raise ValueError("a RaggedMap has at least one row")
        self._set(sparse.csr_array(X) if sparse.issparse(X) else X, np.diff(state["offsets"]))

    def scores(self, w: Array) -> Ragged:
        """`X_i w` of each row."""
        return Ragged(_product(self.X, w).astype(np.float64, copy=False), self._offsets)

    def moments(self, p: Rows) -> Array:
        """`sum_i X_i' p_i`."""
        return np.asarray(_product(self.X.T, p.values), dtype=np.float64)

    def take(self, rows: Array) -> RaggedMap:
        """Some of the rows."""
        X = self.X.tocsr() if sparse.issparse(self.X) else self.X
        return RaggedMap([X[self._offsets[i] : self._offsets[i + 1]] for i in rows])

    def row_norms(self) -> Array:
        """`||X_i||_F^2`, above the squared spectral norm."""
        squares = self.X.power(2) if sparse.issparse(self.X) else np.square(self.X)
        sizes = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        return np.add.reduceat(sizes, self._offsets[:-1])


@io.register
class ChainMap(RowMap):
    """Linear chain models: unary scores X W for each position and one transition matrix.

    w = [W (features, states) flattened, transitions (states, states) flattened]. Scores are rows
    for the domain ``Chain``: with ``tied`` the unary scores and one block of transitions that all
    sequences share, without it one block per position, which is what a projection (SparseMAP)
    needs.

    Parameters
    ----------
    sequences : list of array
        Features of each sequence, (length, features).
    n_states : int
        Number of states.
    tied : bool, default True
        Whether all sequences share one block of transitions.

    Examples
    --------
    >>> ChainMap([np.ones((2, 1))], n_states=2).scores(np.arange(6.0)).rows()
    [array([0., 1., 0., 1., 2., 3., 4., 5.])]
    """

    def __init__(self, sequences: list[ArrayLike], n_states: int, tied: bool = True) -> None:
        X, lengths = _stacked(sequences, "ChainMap", "sequence")
        if int(n_states) != n_states or n_states < 1:
            raise ValueError(f"ChainMap needs an integer n_states >= 1, got {n_states!r}")
        self._set(X, lengths, int(n_states), bool(tied))

    def _set(self, X: Any, lengths: Array, n_states: int, tied: bool) -> None:
        """All positions of all sequences, one after another, and where they are cut."""
        self.X, self.n_states, self.tied = X, n_states, tied
        self.n_rows = len(lengths)
        self.n_features = X.shape[1] * n_states + n_states**2
        self._lengths = lengths
        self._offsets = np.concatenate([[0], np.cumsum(lengths * n_states)])

    @property
    def lengths(self) -> Array:
        """Positions of each sequence."""
        return self._lengths

    def __repr__(self) -> str:
        return (
            f"ChainMap({self.n_rows} sequences, {self.n_features} weights, {self.n_states} states)"
        )

    def __getmodel__(self) -> dict[str, Any]:
        return {
            "X": self.X,
            "lengths": self._lengths,
            "n_states": self.n_states,
            "tied": self.tied,
        }

    def __setmodel__(self, state: dict[str, Any]) -> None:
        X = _matrix(state["X"])
        X = sparse.csr_array(X) if sparse.issparse(X) else X
        lengths, n_states = np.asarray(state["lengths"]), state["n_states"]
        indices("lengths", lengths, np.size(lengths), X.shape[0] + 1)
        # files of the first version knew no tied rows
        tied = state.get("tied", False)
        whole = isinstance(n_states, int) and not isinstance(n_states, bool)
        if not whole or n_states < 1 or not isinstance(tied, bool):
            raise ValueError(f"a ChainMap has a number of states and tied, got {n_states}, {tied}")
        if lengths.sum() != X.shape[0] or not lengths.size or lengths.min() < 1:
            raise ValueError(
                f"the lengths add up to {lengths.sum()} positions, X has {X.shape[0]}, "
                "and no sequence is empty"
            )
        written = 0 if tied else X.shape[0]
        check_cells(X.shape[0] * n_states + written * n_states**2, "a ChainMap", IN_MEMORY)
        self._set(X, lengths.astype(np.int64), n_states, tied)

    def scores(self, w: Array) -> Tied | Ragged:
        """Unary and transition scores of every sequence."""
        k = self.n_states
        cut = self.X.shape[1] * k
        unary = _product(self.X, w[:cut].reshape(-1, k)).reshape(-1)
        scores = Tied(Ragged(unary, self._offsets), w[None, cut:].astype(unary.dtype))
        if self.tied:
            return scores
        pairs = zip(scores.own.rows(), self._lengths, strict=True)
        rows = [np.concatenate([x, np.tile(scores.tied[0], n - 1)]) for x, n in pairs]
        return Ragged.from_rows(rows)

    def moments(self, p: Rows) -> Array:
        """Expected features: X'(unary marginals) and summed transition marginals."""
        k = self.n_states
        if isinstance(p, Tied):
            unary, block = p.own.values, p.tied.sum(axis=0, dtype=np.float64)
        else:
            rows, cuts = p.rows(), self._lengths * k
            unary = np.concatenate([row[:cut] for row, cut in zip(rows, cuts, strict=True)])
            blocks = [
                row[cut:].reshape(-1, k * k).sum(axis=0)
                for row, cut in zip(rows, cuts, strict=True)
            ]
            block = np.sum(blocks, axis=0)
        return np.concatenate([_product(self.X.T, unary.reshape(-1, k)).ravel(), block])

    def row_moments(self, p: Rows, index: Array) -> Any:
        """Expected features of each sequence, where transitions are tied."""
        if not isinstance(p, Tied):
            return None
        k = self.n_states
        cut = self.X.shape[1] * k
        unary, own = p.own.values.reshape(-1, k), index[index < cut]
        first = chain_columns(self.X, self._lengths, unary, own // k, own % k)
        return sparse.hstack([first, p.tied[:, index[own.size :] - cut]], "csr")

    def take(self, rows: Array) -> ChainMap:
        """Some of the sequences."""
        ends = np.concatenate([[0], np.cumsum(self._lengths)])
        X = self.X.tocsr() if sparse.issparse(self.X) else self.X
        return ChainMap([X[ends[i] : ends[i + 1]] for i in rows], self.n_states, self.tied)

    def row_norms(self) -> Array:
        """A bound on the squared norm of the map of each sequence.

        `||X_i||_F^2` is above the spectral norm of the unary part. The transitions written out add
        up T-1 blocks, squared norm `T-1`; a tied block is taken as it is, norm 1.
        """
        squares = self.X.power(2) if sparse.issparse(self.X) else np.square(self.X)
        sizes = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        steps = np.ones_like(starts) if self.tied else self._lengths - 1
        return np.maximum(np.add.reduceat(sizes, starts), steps)


@io.register
class TreeMap(FeatureMap):
    """Scores of a forest: X W for the nodes, one of a few tables [parent's, child's] for each edge.

    w = [W (features, states) flattened, tables (kinds, states, states) flattened]; the scores are
    one row for ``Tree``.

    Parameters
    ----------
    X : array or sparse matrix (n_nodes, n_features)
        Features of the nodes.
    kinds : array (n_edges,)
        Which table each edge has.
    n_states : int
        Number of states.

    Examples
    --------
    >>> tree = TreeMap(np.array([[1.0], [2.0]]), kinds=np.array([0]), n_states=2)
    >>> tree.scores(np.arange(6.0))
    array([0., 1., 0., 2., 2., 3., 4., 5.])
    """

    def __init__(self, X: Any, kinds: Array, n_states: int) -> None:
        self.X, self.kinds, self.n_states = X, np.asarray(kinds), int(n_states)
        self.n_kinds = int(self.kinds.max(initial=0)) + 1
        self.n_features = X.shape[1] * self.n_states + self.n_kinds * self.n_states**2

    def __getmodel__(self) -> dict[str, Any]:
        return {"X": self.X, "kinds": self.kinds, "n_states": self.n_states}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        X, kinds, n_states = (state[name] for name in ("X", "kinds", "n_states"))
        if np.ndim(X) != 2 or not isinstance(n_states, int) or n_states < 1:
            raise ValueError("a TreeMap has a matrix of nodes and a number of states")
        indices("kinds", kinds, np.size(kinds), X.shape[0])
        TreeMap.__init__(self, X, kinds, n_states)

    def scores(self, w: Array) -> Array:
        """The row of the forest."""
        k = self.n_states
        cut = self.X.shape[1] * k
        unary = np.asarray(self.X @ w[:cut].reshape(-1, k)).ravel()
        tables = w[cut:].reshape(-1, k * k)
        return np.concatenate([unary, tables[self.kinds].ravel()])

    def moments(self, p: Array) -> Array:
        """Expected features of the nodes, and summed tables of each kind."""
        k = self.n_states
        cut = self.X.shape[0] * k
        sums = np.zeros((self.n_kinds, k * k))
        np.add.at(sums, self.kinds, p[cut:].reshape(-1, k * k))
        unary = np.asarray(self.X.T @ p[:cut].reshape(-1, k))
        return np.concatenate([unary.ravel(), sums.ravel()])


# modules with the maps of arrays that are not in memory, loaded when one arrives
_ELSEWHERE = {"dask": "maxent.rows.blocks.matrix", "xarray": "maxent.rows.blocks.matrix"}


@singledispatch
def make_map(features: Any) -> Features:
    """The map for what the user gave: a FeatureMap, a dense, scipy-sparse or dask matrix.

    Other array types register a map of their own.

    Parameters
    ----------
    features : FeatureMap, array, sparse or dask matrix
        What to map; a FeatureMap is returned as it is.

    Examples
    --------
    >>> make_map([[1.0], [2.0]])
    MatrixMap(2 cells, 1 features)
    """
    package = type(features).__module__.split(".")[0]
    if package in _ELSEWHERE:
        return importlib.import_module(_ELSEWHERE[package]).make_block_map(features)
    return MatrixMap(features)


@make_map.register
def _(features: Features) -> Features:
    return features
