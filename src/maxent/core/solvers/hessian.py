"""Second order: products with the Hessian of the dual and a preconditioner for them.

The Hessian of Omega*(F'w) + V*(-w) is F J F' + V*''(-w), J the Jacobian of the map theta -> p. It
only steers a Newton method whose gradients are exact, so samples may be multiplied in float32.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from maxent.core.maps import SelectableFeatures
from maxent.core.problem import Problem, State
from maxent.rows.arrays import Array
from maxent.rows.products import Product, SampleProducts, gram

_FEW = 100  # features whose Hessian is written out
_SMALL = 200  # columns (or rows) whose Gram matrix is always decomposed
_WORTH = 8  # products with the Hessian that a decomposition may cost
_GRAM_RATE = 3.0  # multiplications of a matrix by a matrix in the time of one by a vector
_EIGH = 9.0  # multiplications of a decomposition, in cubes of its size
_CHEAP = 4.0  # products with the Hessian that a decomposition may cost before any is done


class Model(NamedTuple):
    """The Hessian at a state, and an approximate inverse, good for so many products of a step."""

    product: Product
    precondition: Product
    patience: float = math.inf


def second_order(problem: Problem) -> Curvature:
    """What fits the map and the entropy of a problem best."""
    features = problem.features
    simple = problem.entropy.has_curvature and isinstance(features, SelectableFeatures)
    if simple and features.n_features <= _FEW:
        return FullHessian(problem)
    samples = problem.rows.products if simple else None
    return Curvature(problem) if samples is None else Samples(problem, samples)


class Curvature:
    """Any differentiable entropy and any rows, preconditioned where the rows know how."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @cached_property
    def columns(self) -> tuple[Array, Array] | None:
        """The spectrum of X' diag(a) X; None where rows are no samples of one matrix."""
        gram = self.problem.rows.column_gram() if self.problem.entropy.has_curvature else None
        return None if gram is None else not_negative(gram)

    def model_at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        ridge, multiply = self._penalty(state, damping), state.evaluation.hessian_product

        def product(v: Array) -> Array:
            return multiply(v) + _times(ridge, v)

        across = None if self.columns is None else state.evaluation.mean_jacobian()
        if self.columns is None or across is None:
            return Model(product, lambda r: r)
        return Model(product, marginal_inverse(self.columns, across, _diagonal(ridge)))

    def _penalty(self, state: State, damping: float) -> Array:
        hessian = self.problem.potential.conjugate_hessian(-state.w)
        assert hessian is not None  # NewtonCG.missing
        if not damping:
            return hessian
        return hessian + (damping if hessian.ndim == 1 else damping * np.eye(len(hessian)))


def _times(hessian: Array, v: Array) -> Array:
    return hessian * v if hessian.ndim == 1 else hessian @ v


def _diagonal(hessian: Array) -> Array:
    return hessian if hessian.ndim == 1 else np.diag(hessian)


class FullHessian(Curvature):
    """Few features: the matrix itself, whose factor is an exact preconditioner."""

    def model_at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        ridge = self._penalty(state, damping)
        gram = state.evaluation.hessian()
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

    def __init__(self, problem: Problem, samples: SampleProducts) -> None:
        super().__init__(problem)
        self.samples = samples
        self.products = 0

    @cached_property
    def price(self) -> float:
        """What the spectrum costs, in products with the Hessian; 0 where it is not waited for."""
        rows, columns = self.samples.rows, self.samples.columns
        if sparse.issparse(self.samples.X) or rows < columns:
            return 0.0
        product = 4.0 * rows * columns * self.samples.outputs
        gram = rows * columns**2 / _GRAM_RATE
        price = (gram + _EIGH * columns**3) / product
        return 0.0 if price <= _CHEAP else price

    @cached_property
    def column_squares(self) -> Array:
        """The diagonal of X' diag(a) X / sum a."""
        weights = self.samples.weights
        return self.samples.squares(weights[:, None])[:, 0] / weights.sum()

    @cached_property
    def spectrum(self) -> tuple[Array, Array] | None:
        """Eigenvalues and eigenvectors of X' diag(a) X / sum a, those with a value.

        None where they would cost more than they save.
        """
        X, weights = self.samples.X, self.samples.weights
        size = min(X.shape)
        entries = X.nnz if sparse.issparse(X) else X.size
        if size > _SMALL and size**3 > _WORTH * entries * self.samples.outputs:
            return None
        total = weights.sum()
        if self.samples.rows >= self.samples.columns:
            return not_negative(self.samples.column_gram() / total)
        root = np.sqrt(weights / total)
        scaled: Any = sparse.diags_array(root) @ X if sparse.issparse(X) else None
        if scaled is None:
            scaled = X * root[:, None].astype(X.dtype)
        values, vectors = np.linalg.eigh(gram(scaled.T))
        used = values > 1e-10 * values[-1]
        values, vectors = values[used], vectors[:, used]
        return values, np.asarray(scaled.T @ vectors) / np.sqrt(values)

    def model_at(self, state: State, damping: float = 0.0) -> Model:
        """The model at a state, ``damping`` times the identity added."""
        diagonal, spike = state.evaluation.jacobians
        ridge = self._penalty(state, damping)
        multiply = state.evaluation.hessian_product

        def product(v: Array) -> Array:
            self.products += 1
            return multiply(v) + _times(ridge, v)

        left = self.price - self.products
        if left > 0:
            across = np.maximum(np.diag(self.samples.mean_jacobian(diagonal, spike)), 0)
            curved = np.outer(self.column_squares, across).ravel()
            inverse = 1 / (curved + _diagonal(ridge) + _TINY)
            return Model(product, lambda r: inverse * r, math.ceil(left))
        return Model(product, self._preconditioner(diagonal, spike, _diagonal(ridge)))

    def _preconditioner(self, diagonal: Array, spike: Array | None, ridge: Array) -> Product:
        if self.spectrum is None:
            curved = diagonal if spike is None else diagonal - spike**2
            squares = self.samples.squares(curved * self.samples.weights[:, None])
            inverse = 1 / (squares.ravel() + ridge + _TINY)
            return lambda r: inverse * r
        across = self.samples.mean_jacobian(diagonal, spike)
        return marginal_inverse(self.spectrum, across, ridge)


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
