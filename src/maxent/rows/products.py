"""Products with the Hessian of linear models on samples in memory: sum a_i J_i (x) x_i x_i'.

They only steer Newton methods whose gradients are exact, so samples may be multiplied in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from maxent._support.threads import over_rows, sum_of_parts
from maxent.rows.arrays import Array

_BLOCK = 2048  # rows of a dense product at once: what they make stays in cache
_SPARSE = 0.3  # share of the entries with curvature below which they are visited one by one
_SINGLE = 1e5  # multiplications above which a product is worth doing in float32
_RANGE = 1e12  # sizes of features, and of their inverses, that float32 holds with room to spare
_WORK = 64  # multiplications that count as much as one entry of an elementwise pass

Product = Callable[[Array], Array]


class SampleProducts:
    """Samples X with weights a, and Jacobians J_i = diag(d_i) - u_i u_i' that come from outside."""

    def __init__(self, X: Any, weights: Array, outputs: int) -> None:
        self.weights = np.array(weights)  # writable: one type for the kernels
        self.rows, self.columns = X.shape
        self.outputs = outputs
        self.X = X
        if not sparse.issparse(X):
            if X.size * self.outputs > _SINGLE:
                with np.errstate(over="ignore"):
                    single = X.astype(np.float32, copy=False)
                if 1 / _RANGE < max(float(single.max()), -float(single.min())) < _RANGE:
                    self.X = single
            self.X = np.ascontiguousarray(self.X)

    def column_gram(self) -> Array:
        """X' diag(a) X."""
        root = np.sqrt(self.weights)
        if sparse.issparse(self.X):
            return gram(sparse.diags_array(root) @ self.X)
        return _weighted_gram(self.X, root.astype(self.X.dtype))

    def mean_jacobian(self, diagonal: Array, spike: Array | None) -> Array:
        """sum a_i J_i."""
        mean = np.diag(self.weights @ diagonal)
        if spike is not None:
            scaled = spike * np.sqrt(self.weights)[:, None]
            mean -= scaled.T @ scaled
        return mean

    def product(self, diagonal: Array, spike: Array | None) -> Product:
        """v -> F J F'v, v flattened (columns, outputs)."""
        multiply, shape = self._product(diagonal, spike), (self.columns, self.outputs)
        return lambda v: multiply(v.reshape(shape)).ravel()

    def squares(self, weight: Array) -> Array:
        """sum_i x_i^2 weight_i', (columns, outputs)."""
        X = self.X
        if sparse.issparse(X):
            return np.asarray(X.multiply(X).T @ weight)

        from maxent.core.kernels.samples import weighted_squares

        weight = np.ascontiguousarray(weight)
        part = partial(weighted_squares, X, weight)
        return sum_of_parts(part, self.rows, 1 + self.columns * weight.shape[1] // _WORK).T

    def _product(self, diagonal: Array, spike: Array | None) -> Product:
        if sparse.issparse(self.X):
            return self._by_matrices(diagonal, spike)
        from maxent.core.kernels.samples import count_support, fill_support, sparse_product

        if self.outputs == 1:
            return self._by_rows(diagonal if spike is None else diagonal - spike**2)
        diagonal = np.ascontiguousarray(diagonal)
        edge = np.empty((self.rows, 0), diagonal.dtype) if spike is None else spike
        counts = np.zeros(self.rows + 1, np.int64)
        over_rows(
            lambda a, b: count_support(diagonal, edge, counts[1:], a, b), self.rows, self.outputs
        )
        offsets = np.cumsum(counts)
        size = int(offsets[-1])
        if size > _SPARSE * diagonal.size:
            return self._by_matrices(diagonal, spike)
        dtype = self.X.dtype
        index, d, u = np.empty(size, np.int64), np.empty(size, dtype), np.empty(size, dtype)
        over_rows(
            lambda a, b: fill_support(diagonal, edge, self.weights, offsets, index, d, u, a, b),
            self.rows,
            self.outputs,
        )
        work = 1 + 2 * self.columns * size // (self.rows * _WORK)

        def product(v: Array) -> Array:
            V = np.ascontiguousarray(v.T, dtype=dtype)

            def part(start: int, stop: int) -> Array:
                return sparse_product(self.X, offsets, index, d, u, V, start, stop)

            return sum_of_parts(part, self.rows, work).T.astype(np.float64)

        return product

    def _by_rows(self, curved: Array) -> Product:
        """X'(d * (X v)) of one output."""
        from maxent.core.kernels.samples import one_output_product

        X, d = self.X, (curved[:, 0] * self.weights).astype(self.X.dtype)
        work = 1 + 2 * self.columns // _WORK

        def product(v: Array) -> Array:
            part = partial(one_output_product, X, d, v[:, 0].astype(X.dtype))
            return sum_of_parts(part, self.rows, work)[:, None].astype(np.float64)

        return product

    def _by_matrices(self, diagonal: Array, spike: Array | None) -> Product:
        """X'(J (X v)), block by block."""
        X, dtype = self.X, self.X.dtype
        a = self.weights[:, None]
        d = (diagonal * a).astype(dtype, copy=False)
        u = None if spike is None else (spike * np.sqrt(a)).astype(dtype, copy=False)

        def curved(z: Array, rows: slice) -> Array:
            moved = d[rows] * z
            if u is not None:
                along = np.einsum("ij,ij->i", u[rows], z)
                moved -= u[rows] * along[:, None]
            return moved

        if sparse.issparse(X):
            whole = slice(None)
            return lambda v: np.asarray(X.T @ curved(np.asarray(X @ v), whole), dtype=np.float64)

        def product(v: Array) -> Array:
            V = v.astype(dtype)

            def part(start: int, stop: int) -> Array:
                total = np.zeros(V.shape, dtype)
                for first in range(start, stop, _BLOCK):
                    rows = slice(first, min(first + _BLOCK, stop))
                    total += X[rows].T @ curved(X[rows] @ V, rows)
                return total

            work = 1 + 2 * self.columns * self.outputs // _WORK
            return sum_of_parts(part, self.rows, work).astype(np.float64)

        return product


def _weighted_gram(X: Array, root: Array) -> Array:
    """X' diag(root)^2 X in float64, without a scaled copy of X."""

    def part(start: int, stop: int) -> Array:
        total = np.zeros((X.shape[1], X.shape[1]))
        for first in range(start, stop, _BLOCK):
            rows = slice(first, min(first + _BLOCK, stop))
            block = X[rows] * root[rows, None]
            total += block.T @ block
        return total

    return sum_of_parts(part, len(X), X.shape[1] ** 2 // _WORK)


def gram(A: Any) -> Array:
    """A'A in float64."""
    if sparse.issparse(A):
        return np.asarray((A.T @ A).toarray(), dtype=np.float64)

    def part(start: int, stop: int) -> Array:
        block = A[start:stop]
        return block.T @ block

    total = sum_of_parts(part, len(A), A.shape[1] ** 2 // _WORK)
    return np.asarray(total, dtype=np.float64)
