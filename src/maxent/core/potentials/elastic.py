"""Absolute values and squares of the weights, feature by feature."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent import io
from maxent.core.potentials.base import Potential
from maxent.core.potentials.parameters import (
    ROUNDING,
    check_curvature,
    fraction,
    parameter,
    vector_size,
)
from maxent.rows.arrays import Array

ZERO = parameter("zero", 0.0)


class ElasticPotential(Potential):
    """`V*(v) = sum l1_j |v_j| + l2_j/2 v_j^2` and `V_j(r) = [|r| - l1_j]_+^2 / (2 l2_j)`.

    Where `l2_j = 0` that is the indicator of `|r_j| <= l1_j`. A subclass writes ``coefficients``.
    """

    decomposable = True

    @abstractmethod
    def coefficients(self) -> tuple[Array, Array]:
        """(l1, l2), each an array of one number for all features or of one number per feature."""

    def _size(self) -> int | None:
        return vector_size(*self.coefficients())

    def elastic(self, n: int) -> tuple[Array, Array]:
        """The two vectors, for n features."""
        l1, l2 = self.coefficients()
        return np.broadcast_to(l1, (n,)).copy(), np.broadcast_to(l2, (n,)).copy()

    @property
    def smooth(self) -> bool:
        """True where every coordinate has a square."""
        return bool((self.coefficients()[1] > 0).all())

    @property
    def smooth_conjugate(self) -> bool:
        """True where no coordinate has an absolute value."""
        return not self.coefficients()[0].any()

    def value(self, r: Array) -> float:
        """`sum [|r_j| - l1_j]_+^2 / (2 l2_j)`; an indicator where `l2_j = 0`."""
        l1, l2 = self.coefficients()
        over = np.maximum(np.abs(r) - l1, 0)
        over = np.where(over <= ROUNDING * l1, 0.0, over)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return float(np.sum(np.where(over > 0, over / (2 * l2) * over, 0.0)))

    def conjugate(self, v: Array) -> float:
        """`sum l1_j |v_j| + l2_j/2 v_j^2`."""
        return float(np.sum(self.conjugate_terms(v)[0]))

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """`l1 |v| + l2/2 v^2` and `sign(v) l1 + l2 v`."""
        l1, l2 = self.coefficients()
        size = np.abs(v)
        with np.errstate(over="ignore"):
            values = (l1 + 0.5 * l2 * size) * size
            return values, np.sign(v) * l1 + l2 * v

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Soft threshold, then shrink."""
        l1, l2 = self.coefficients()
        with np.errstate(over="ignore"):
            kept = np.maximum(np.abs(v) - step * l1, 0)
        return np.sign(v) * kept / (1 + step * l2)

    def gauge(self, r: Array) -> float:
        """`max |r_j| / l1_j` over the coordinates without a square."""
        l1, l2 = self.coefficients()
        return float(np.max(np.where(l2 > 0, 0.0, fraction(r, l1)), initial=0.0))

    def critical_multiplier(self, r: Array) -> float:
        """`max |r_j| / l1_j`."""
        return float(np.max(fraction(r, self.coefficients()[0]), initial=0.0))

    def grad(self, r: Array) -> Array:
        """`sign(r) [|r| - l1]_+ / l2`."""
        if not self.smooth:
            return super().grad(r)
        l1, l2 = self.coefficients()
        return np.sign(r) * np.maximum(np.abs(r) - l1, 0) / l2

    def conjugate_gradient(self, v: Array) -> Array:
        """l2 v."""
        if not self.smooth_conjugate:
            return super().conjugate_gradient(v)
        return self.coefficients()[1] * v

    def conjugate_hessian(self, v: Array) -> Array | None:
        """l2, without an absolute value."""
        if not self.smooth_conjugate:
            return None
        return np.broadcast_to(self.coefficients()[1], v.shape)

    def strong_convexity(self) -> float:
        """The smallest l2."""
        return float(np.min(self.coefficients()[1]))

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Soft threshold in one coordinate."""
        check_curvature(curvature)
        l1, l2 = (float(x[j]) for x in self.elastic(len(w)))
        pull = curvature * w[j] - gradient
        new = np.sign(pull) * max(abs(pull) - l1, 0.0) / (curvature + l2)
        return float(new - w[j])


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Equality(ElasticPotential):
    """Moments must match: `V = I(r = 0)`, no penalty (basic maxent, density paper §4).

    >>> Equality().conjugate(np.array([3.0]))
    0.0
    """

    def coefficients(self) -> tuple[Array, Array]:
        """0 and 0."""
        return ZERO, ZERO


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Box(ElasticPotential):
    """`|r_j| <= beta_j`: the l1 penalty `sum beta_j |w_j|` (density paper §5.1).

    Parameters
    ----------
    beta : float or array (n_features,)
        Half the width of the box, and the l1 penalty of each weight.

    Examples
    --------
    >>> Box([1.0, 2.0]).conjugate(np.array([3.0, -1.0]))
    5.0
    """

    beta: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", parameter("beta", self.beta))

    def coefficients(self) -> tuple[Array, Array]:
        """beta and 0."""
        return self.beta, ZERO


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(ElasticPotential):
    """`||r||^2 / (2 strength)`: the ridge penalty `strength/2 ||w||^2` (density paper §5.4).

    Parameters
    ----------
    strength : float or array (n_features,)
        Factor of the squared weights, > 0.

    Examples
    --------
    >>> Quadratic(2.0).conjugate(np.array([3.0]))
    9.0
    """

    strength: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", parameter("strength", self.strength, positive=True))

    def coefficients(self) -> tuple[Array, Array]:
        """0 and the strength."""
        return ZERO, self.strength

    # the general forms, without the passes over what is 0 here: solvers ask at every step

    def value(self, r: Array) -> float:
        """`sum r_j^2 / (2 strength_j)`."""
        with np.errstate(over="ignore"):
            return float(r / (2 * self.strength) @ r)

    def conjugate(self, v: Array) -> float:
        """`sum strength_j/2 v_j^2`."""
        with np.errstate(over="ignore"):
            return float(0.5 * self.strength * v @ v)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Shrink."""
        return v / (1 + step * self.strength)

    def gauge(self, r: Array) -> float:
        """0: every residual is in reach."""
        return 0.0


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(ElasticPotential):
    """Dead-zone quadratic: penalty `sum beta_j |w_j| + strength_j/2 w_j^2` (density paper §5.6).

    Parameters
    ----------
    beta : float or array (n_features,)
        Half the width of the dead zone, and the l1 penalty.
    strength : float or array (n_features,)
        Factor of the squared weights.

    Examples
    --------
    >>> ElasticNet(1.0, 2.0).value(np.array([3.0, 0.5]))
    1.0
    """

    beta: Any
    strength: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", parameter("beta", self.beta))
        object.__setattr__(self, "strength", parameter("strength", self.strength, positive=True))
        self._size()

    def coefficients(self) -> tuple[Array, Array]:
        """beta and the strength."""
        return self.beta, self.strength
