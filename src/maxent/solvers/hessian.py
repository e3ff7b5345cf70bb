"""Second order: products with the Hessian of the dual and a preconditioner for them.

The Hessian of Omega*(F'w) + V*(-w) is F J F' + V*''(-w), J the Jacobian of the map theta -> p. It
only steers a Newton method whose gradients are exact, so samples may be multiplied in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from maxent._rows import Array
from maxent._threads import over_rows
from maxent.maps import ColumnMap, SampleMap, sum_of_parts
from maxent.problem import Problem, State

_FEW = 100  # features whose Hessian is written out
_SMALL = 200  # columns (or rows) whose Gram matrix is always decomposed
_WORTH = 8  # products with the Hessian that a decomposition may cost
_BLOCK = 2048  # rows of a dense product at once: what they make stays in cache
_SPARSE = 0.3  # share of the entries with curvature below which they are visited one by one
_SINGLE = 1e5  # multiplications above which a product is worth doing in float32
_RANGE = 1e12  # sizes of features, and of their inverses, that float32 holds with room to spare
_WORK = 64  # multiplications that count as much as one entry of an elementwise pass
_GRAM_RATE = 3.0  # multiplications of a matrix by a matrix in the time of one by a vector
_EIGH = 9.0  # multiplications of a decomposition, in cubes of its size
_CHEAP = 4.0  # products with the Hessian that a decomposition may cost before any is done

Product = Callable[[Array], Array]


class Model(NamedTuple):
    """The Hessian at a state, and an approximate inverse, good for so many products of a step."""

    product: Product
    precondition: Product
    patience: float = math.inf


def second_order(problem: Problem) -> Curvature:
    """What fits the map and the entropy of a problem best."""
    features = problem.features
    simple = problem.entropy.has_curvature and isinstance(features, ColumnMap)
    if simple and features.n_features <= _FEW:
        return FullHessian(problem)
    if features.in_blocks:
        return BlockHessian(problem)
    if simple and isinstance(features, SampleMap) and features.whole:
        return Samples(problem)
    return Curvature(problem)


class Curvature:
    """Any differentiable entropy and any map, through ``hvp``."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        problem, ridge = self.problem, self._penalty(state, damping)

        def product(v: Array) -> Array:
            scores = problem.features.scores(v)
            moved = problem.entropy.hvp(state.theta, state.p, scores)
            return problem.moments(moved) + _times(ridge, v)

        return Model(product, lambda r: r)

    def _penalty(self, state: State, damping: float) -> Array:
        hessian = self.problem.potential.conjugate_hessian(-state.w)
        assert hessian is not None  # NewtonCG.missing
        if not damping:
            return hessian
        return hessian + (damping if hessian.ndim == 1 else damping * np.eye(len(hessian)))

    def _jacobians(self, state: State) -> tuple[Array, Array | None]:
        """(d, u) of the rows, without their weights."""
        rows = np.atleast_2d(state.theta), np.atleast_2d(state.p)
        return self.problem.entropy.curvature(*rows)


def _times(hessian: Array, v: Array) -> Array:
    return hessian * v if hessian.ndim == 1 else hessian @ v


def _diagonal(hessian: Array) -> Array:
    return hessian if hessian.ndim == 1 else np.diag(hessian)


class FullHessian(Curvature):
    """Few features: the matrix itself, whose factor is an exact preconditioner."""

    def at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        ridge = self._penalty(state, damping)
        gram = self.problem.hessian(state)
        gram += np.diag(ridge) if ridge.ndim == 1 else ridge
        size = float(np.trace(gram)) / len(gram)
        damped = gram + (1e-10 * size or 1.0) * np.eye(len(gram))
        try:
            factor = linalg.cho_factor(damped)
        except linalg.LinAlgError:  # negative to rounding
            return Model(lambda v: gram @ v, lambda r: r)
        return Model(lambda v: gram @ v, lambda r: linalg.cho_solve(factor, r))


class Samples(Curvature):
    """Linear models on samples: sum a_i J_i (x) x_i x_i', preconditioned by its two marginals.

    The mean of the Kronecker products is close to the product of the means: with the spectra of
    X'X and of sum a_i J_i its inverse costs as much as a few rows do. Where X'X costs as much as
    many products, as with one output, its diagonal stands in until so many products were done: a
    problem that needs few never pays for it, one that needs many pays at most twice. Beyond some
    thousand columns and rows the preconditioner is the diagonal of the Hessian.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        X, weights = problem.features.X, problem.weights
        assert weights is not None
        self.weights = np.array(weights)  # writable: one type for the kernels
        self.rows, self.columns = X.shape
        self.outputs = problem.features.n_outputs
        self.X = X
        self.products = 0
        if not sparse.issparse(X):
            if X.size * self.outputs > _SINGLE:
                with np.errstate(over="ignore"):
                    single = X.astype(np.float32, copy=False)
                if 1 / _RANGE < max(float(single.max()), -float(single.min())) < _RANGE:
                    self.X = single
            self.X = np.ascontiguousarray(self.X)

    @cached_property
    def price(self) -> float:
        """What the spectrum costs, in products with the Hessian; 0 where it is not waited for."""
        if sparse.issparse(self.X) or self.rows < self.columns:
            return 0.0
        product = 4.0 * self.rows * self.columns * self.outputs
        gram = self.rows * self.columns**2 / _GRAM_RATE
        price = (gram + _EIGH * self.columns**3) / product
        return 0.0 if price <= _CHEAP else price

    @cached_property
    def column_squares(self) -> Array:
        """The diagonal of X' diag(a) X / sum a."""
        return self._squares(self.weights[:, None])[:, 0] / self.weights.sum()

    @cached_property
    def spectrum(self) -> tuple[Array, Array] | None:
        """Eigenvalues and eigenvectors of X' diag(a) X / sum a, those with a value.

        None where they would cost more than they save.
        """
        X, size = self.X, min(self.X.shape)
        entries = X.nnz if sparse.issparse(X) else X.size
        if size > _SMALL and size**3 > _WORTH * entries * self.outputs:
            return None
        total = self.weights.sum()
        if self.rows >= self.columns:
            return not_negative(self.column_gram() / total)
        root = np.sqrt(self.weights / total)
        scaled: Any = sparse.diags_array(root) @ X if sparse.issparse(X) else None
        if scaled is None:
            scaled = X * root[:, None].astype(X.dtype)
        values, vectors = np.linalg.eigh(_gram(scaled.T))
        used = values > 1e-10 * values[-1]
        values, vectors = values[used], vectors[:, used]
        return values, np.asarray(scaled.T @ vectors) / np.sqrt(values)

    def column_gram(self) -> Array:
        """X' diag(a) X."""
        root = np.sqrt(self.weights)
        if sparse.issparse(self.X):
            return _gram(sparse.diags_array(root) @ self.X)
        return _weighted_gram(self.X, root.astype(self.X.dtype))

    def across(self, state: State) -> Array:
        """sum a_i J_i, the mean Jacobian."""
        return self._across(*self._jacobians(state))

    def _across(self, diagonal: Array, spike: Array | None) -> Array:
        across = np.diag(self.weights @ diagonal)
        if spike is not None:
            scaled = spike * np.sqrt(self.weights)[:, None]
            across -= scaled.T @ scaled
        return across

    def product_at(self, state: State) -> Product:
        """Products with the Hessian at a state, without the penalty."""
        multiply, shape = self._product(*self._jacobians(state)), (self.columns, self.outputs)
        return lambda v: multiply(v.reshape(shape)).ravel()

    def at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        diagonal, spike = self._jacobians(state)
        ridge = self._penalty(state, damping)
        multiply = self._product(diagonal, spike)
        shape = self.columns, self.outputs

        def product(v: Array) -> Array:
            self.products += 1
            return multiply(v.reshape(shape)).ravel() + _times(ridge, v)

        left = self.price - self.products
        if left > 0:
            across = np.maximum(np.diag(self._across(diagonal, spike)), 0)
            curved = np.outer(self.column_squares, across).ravel()
            inverse = 1 / (curved + _diagonal(ridge) + _TINY)
            return Model(product, lambda r: inverse * r, math.ceil(left))
        return Model(product, self._preconditioner(diagonal, spike, _diagonal(ridge)))

    def _preconditioner(self, diagonal: Array, spike: Array | None, ridge: Array) -> Product:
        if self.spectrum is None:
            curved = diagonal if spike is None else diagonal - spike**2
            squares = self._squares(curved * self.weights[:, None])
            inverse = 1 / (squares.ravel() + ridge + _TINY)
            return lambda r: inverse * r
        return marginal_inverse(self.spectrum, self._across(diagonal, spike), ridge)

    def _squares(self, weight: Array) -> Array:
        """sum_i x_i^2 weight_i', (columns, outputs)."""
        X = self.X
        if sparse.issparse(X):
            return np.asarray(X.multiply(X).T @ weight)

        from maxent._kernels.samples import weighted_squares

        weight = np.ascontiguousarray(weight)
        part = partial(weighted_squares, X, weight)
        return sum_of_parts(part, self.rows, 1 + self.columns * weight.shape[1] // _WORK).T

    def _product(self, diagonal: Array, spike: Array | None) -> Product:
        if sparse.issparse(self.X):
            return self._by_matrices(diagonal, spike)
        from maxent._kernels.samples import count_support, fill_support, sparse_product

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
        from maxent._kernels.samples import one_output_product

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


class BlockHessian(Curvature):
    """Rows in blocks: a pass over them for each product, preconditioned as ``Samples`` are."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        gram = problem.features.column_gram() if problem.entropy.has_curvature else None
        self.spectrum = None if gram is None else not_negative(gram)

    def at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        features, ridge = self.problem.features, self._penalty(state, damping)

        def product(v: Array) -> Array:
            return features.hessian_product(state.w, v) + _times(ridge, v)

        if self.spectrum is None:
            return Model(product, lambda r: r)
        across = features.across(state.w)
        return Model(product, marginal_inverse(self.spectrum, across, _diagonal(ridge)))


_TINY = 1e-300


def marginal_inverse(spectrum: tuple[Array, Array], across: Array, ridge: Array) -> Product:
    """The inverse of (X' diag(a) X) (x) (sum a_i J_i) + ridge, by the spectra of both."""
    sizes, basis = np.linalg.eigh(across)
    values, vectors = spectrum
    level = float(ridge.mean())
    denominator = np.outer(values, np.maximum(sizes, 0)) + level
    denominator += 1e-12 * denominator.max() + _TINY
    shape = len(vectors), len(across)

    def precondition(r: Array) -> Array:
        r = r.reshape(shape)
        inside = vectors.T @ r
        result = vectors @ (((inside @ basis) / denominator) @ basis.T)
        if values.size < shape[0]:
            result += (r - vectors @ inside) / (level or 1.0)
        return result.ravel()

    return precondition


def not_negative(gram: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a matrix that has no negative ones but for rounding."""
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values, 0), vectors


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


def _gram(A: Any) -> Array:
    """A'A in float64."""
    if sparse.issparse(A):
        return np.asarray((A.T @ A).toarray(), dtype=np.float64)

    def part(start: int, stop: int) -> Array:
        block = A[start:stop]
        return block.T @ block

    gram = sum_of_parts(part, len(A), A.shape[1] ** 2 // _WORK)
    return np.asarray(gram, dtype=np.float64)
