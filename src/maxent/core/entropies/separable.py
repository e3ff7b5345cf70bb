"""Entropies of the cube, coordinate by coordinate (Fenchel-Young paper, §4.4 and §6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import Cube, Simplex
from maxent.core.entropies.base import Entropy, finite, same_type
from maxent.core.entropies.wrappers import Wrapper
from maxent.core.prediction_maps import sigmoid_map
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array, Rows, row_sum


@io.register
@dataclass(frozen=True)
class FermiDirac(Entropy):
    """`Omega(p) = sum_j p_j log p_j + (1 - p_j) log(1 - p_j)` on the cube: sigmoid, logistic loss.

    >>> FermiDirac().conjugate([0.0])[1]
    array([0.5])
    """

    domain = Cube()
    smoothness = 0.25
    has_curvature = True
    separable = True
    _checks_scores = True

    def _value(self, p: Rows) -> Array:
        return Cube().negentropy(p)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, p = sigmoid_map(theta)
        return finite(values, theta), p

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return Cube().softmax_jvp(theta, p, v)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """diag(p (1 - p))."""
        return p * (1 - p), None

    def _prox(self, eta: Rows, tau: float) -> Rows:
        # p = sigmoid(u) with sigmoid(u) + tau u = eta, u in [(eta-1)/tau, eta/tau]
        x = np.maximum(eta.astype(np.float64), -1e300).ravel()

        def excess(u: Array, rows: Array) -> Array:
            return x[rows] - tau * u - sigmoid_map(u[:, None])[1][:, 0]

        u = bracketed_root(excess, (x - 1) / tau, x / tau)
        return same_type(sigmoid_map(u[:, None])[1].reshape(eta.shape), eta)


@io.register
@dataclass(frozen=True)
class BinaryGini(Entropy):
    """`Omega(p) = sum_j p_j^2 - p_j` on the cube: the sparse sigmoid `clip((1 + theta)/2, 0, 1)`.

    The loss is the modified Huber loss (§4.4).

    >>> BinaryGini().conjugate([-2.0, 0.0, 2.0])[1]
    array([0. , 0.5, 1. ])
    """

    domain = Cube()
    margin = 1.0
    smoothness = 0.5
    has_curvature = True
    separable = True

    def _value(self, p: Rows) -> Array:
        return row_sum(p * (p - 1))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        p = np.clip(0.5 + theta / 2, 0, 1)
        with np.errstate(invalid="ignore"):
            terms = np.where(p > 0, theta * p, 0) - p * (p - 1)
        return row_sum(terms), p

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return self.curvature(theta, p)[0] * v

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, None]:
        """1/2 strictly inside the cube."""
        return same_type(np.where((p > 0) & (p < 1), 0.5, 0.0), p), None

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return np.clip((eta + tau) / (1 + 2 * tau), 0, 1)


@io.register
@dataclass(frozen=True)
class OneVsAll(Wrapper):
    """`Omega(p) = sum_j omega([p_j, 1 - p_j])` on the cube, for any entropy of the simplex (§6.1).

    ``OneVsAll(Shannon())`` is FermiDirac, ``OneVsAll(Tsallis(2))`` is BinaryGini.

    Parameters
    ----------
    entropy : Entropy
        An entropy of the simplex.

    Examples
    --------
    >>> from maxent.core.entropies.simplex import Tsallis
    >>> OneVsAll(Tsallis(2.0)).conjugate([-2.0, 0.0, 2.0])[1]
    array([0. , 0.5, 1. ])
    """

    entropy: Entropy
    domain = Cube()
    _place = 0  # of p_j in its pair

    def __post_init__(self) -> None:
        if not isinstance(self.entropy.domain, Simplex):
            raise TypeError(f"OneVsAll needs an entropy of the simplex, got {self.entropy!r}")

    separable = True

    @property
    def margin(self) -> float | None:
        """The margin of the binary loss."""
        return self.entropy.margin

    @staticmethod
    def _pairs(first: Array, second: Array) -> Array:
        return np.stack([first, second], axis=-1).reshape(-1, 2)

    def _value(self, p: Rows) -> Array:
        p = np.clip(p, 0, 1)
        return self.entropy._value(self._pairs(p, 1 - p)).reshape(p.shape).sum(axis=1)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, p = self.entropy._conjugate(self._pairs(theta, np.zeros_like(theta)))
        return values.reshape(theta.shape).sum(axis=1), p[:, self._place].reshape(theta.shape)

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        zero = np.zeros_like(theta)
        # J (v, 0) = J (0, -v): equal scores do not move p, and the second sum does not cancel
        pairs = self._pairs(theta, zero), self._pairs(p, 1 - p), self._pairs(zero, -v)
        return self.entropy._hvp(*pairs)[:, self._place].reshape(theta.shape)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, None]:
        """The entry of `p_j` in the Jacobian of its pair: less that beside it, rows sum to 0."""
        pairs = self._pairs(theta, np.zeros_like(theta)), self._pairs(p, 1 - p)
        _, spike = self.entropy.curvature(*pairs)
        slope = np.zeros(theta.shape) if spike is None else spike.prod(axis=1)
        return slope.reshape(theta.shape), None
