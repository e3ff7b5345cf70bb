"""Symmetric matrices that are a multiple of the identity but for a few directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent import io
from maxent.rows.arrays import Array

_LEAST = 1e-10  # eigenvalue, as a share of the largest, below which a matrix is singular


@io.register
@dataclass(frozen=True, eq=False)
class Spiked:
    """`A = rest (I - Q Q') + Q diag(spectrum) Q'`, Q orthonormal columns, positive definite.

    So are matrices of any size of which a few directions differ, without a square array: products
    with every power of A cost the size times the number of those directions.

    Attributes
    ----------
    rest : float
        The eigenvalue of all other directions.
    basis : array (size, n_directions)
        Q.
    spectrum : array (n_directions,)
        The eigenvalues of the directions.

    Examples
    --------
    >>> A = Spiked.from_factor(0.5, np.array([[1.0, 1.0, 0.0]]))
    >>> A.dense().round(6).tolist()
    [[1.5, 1.0, 0.0], [1.0, 1.5, 0.0], [0.0, 0.0, 0.5]]
    >>> A.times(np.array([[1.0, 1.0, 1.0]]), -1.0).round(6).tolist()
    [[0.4, 0.4, 2.0]]
    """

    rest: float
    basis: Any
    spectrum: Any

    def __post_init__(self) -> None:
        basis = np.array(self.basis, dtype=np.float64)
        spectrum = np.array(self.spectrum, dtype=np.float64)
        rest = float(self.rest)
        if basis.ndim != 2 or not basis.shape[0] or spectrum.shape != basis.shape[1:]:
            raise ValueError(
                "basis needs a row for each column of the weights and spectrum a number for each "
                f"column of basis, got shapes {basis.shape} and {spectrum.shape}"
            )
        if not (np.isfinite(basis).all() and np.isfinite(spectrum).all() and np.isfinite(rest)):
            raise ValueError("rest, basis and spectrum must be finite")
        values = spectrum if basis.shape[0] == basis.shape[1] else np.append(spectrum, rest)
        if values.min() <= _LEAST * values.max():
            raise ValueError(
                f"A must be positive definite, has eigenvalues from {values.min():.3g} to "
                f"{values.max():.3g}; add a multiple of the identity"
            )
        gram = basis.T @ basis - np.eye(basis.shape[1])
        if np.abs(gram).max(initial=0.0) > 1e-8:
            raise ValueError("the columns of basis must be orthonormal; see Spiked.from_factor")
        for name, value in (("rest", rest), ("basis", basis), ("spectrum", spectrum)):
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.rest == other.rest and all(
            np.array_equal(mine, theirs)
            for mine, theirs in ((self.basis, other.basis), (self.spectrum, other.spectrum))
        )

    def __hash__(self) -> int:
        return hash((self.rest, self.basis.shape, self.spectrum.tobytes()))

    @classmethod
    def identity(cls, size: int) -> Spiked:
        """The identity."""
        return cls(1.0, np.zeros((size, 0)), np.zeros(0))

    @classmethod
    def from_matrix(cls, A: Any) -> Spiked:
        """A symmetric positive definite array."""
        A = np.array(A, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not A.size or not np.isfinite(A).all():
            raise ValueError(f"A must be a finite square matrix, got shape {A.shape}")
        if np.abs(A - A.T).max() > 1e-10 * np.abs(A).max():
            raise ValueError("A must be symmetric; use (A + A.T) / 2")
        spectrum, basis = np.linalg.eigh((A + A.T) / 2)
        return cls(1.0, basis, spectrum)

    @classmethod
    def from_factor(cls, rest: float, G: Any) -> Spiked:
        """`rest I + G'G` for G (few, size)."""
        G = np.asarray(G, dtype=np.float64)
        if len(G) >= G.shape[1]:
            return cls.from_matrix(rest * np.eye(G.shape[1]) + G.T @ G)
        square, left = np.linalg.eigh(G @ G.T)
        kept = square > _LEAST**1.5 * max(float(square.max(initial=0.0)), 1e-300)
        basis = (G.T @ left[:, kept]) / np.sqrt(square[kept])
        basis, _ = np.linalg.qr(basis)  # the small ones have lost digits
        inside = basis.T @ (G.T @ (G @ basis))
        spectrum, turn = np.linalg.eigh(inside)
        return cls(rest, basis @ turn, rest + np.maximum(spectrum, 0.0))

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.basis.shape[0])

    @property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest eigenvalue."""
        known = self.spectrum if self.basis.shape[0] == self.basis.shape[1] else self._with_rest()
        return float(known.min()), float(known.max())

    def _with_rest(self) -> Array:
        return np.append(self.spectrum, self.rest)

    def times(self, X: Array, power: float = 1.0) -> Array:
        """`X A^power` for X (rows, size)."""
        return self.scaled_by(X, self.spectrum**power, self.rest**power)

    def scaled_by(self, X: Array, spectrum: Array, rest: Array | float) -> Array:
        """X times the matrix with other eigenvalues, or with some for each row of X."""
        rest = np.asarray(rest, dtype=np.float64)
        other = rest[..., None] if rest.ndim else rest
        if not self.basis.shape[1]:
            return np.asarray(other * X)
        return np.asarray(other * X + ((X @ self.basis) * (spectrum - other)) @ self.basis.T)

    def diagonal(self, power: float = 1.0) -> Array:
        """The diagonal of `A^power`."""
        rest = self.rest**power
        return np.asarray(rest + (self.basis**2) @ (self.spectrum**power - rest))

    def dense(self, power: float = 1.0) -> Array:
        """`A^power` as an array."""
        return self.times(np.eye(self.size), power)
