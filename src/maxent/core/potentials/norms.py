"""Norms of all weights together: balls, squared norms, and the two added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from maxent import io
from maxent.core.potentials.balls import (
    dual_order,
    p_norm,
    project_ball,
    prox_norm,
    prox_norm_and_square,
    prox_squared_norm,
    unit_norm_gradient,
)
from maxent.core.potentials.base import Potential
from maxent.core.potentials.parameters import (
    ROUNDING,
    check_curvature,
    fraction,
    norm_order,
    number,
)
from maxent.rows.arrays import Array


def norm_along(x: float, rest: float, q: float) -> tuple[float, float]:
    """`||(x, others)||_q` and its slope in x >= 0, where the others' norm is ``rest``."""
    norm = p_norm(np.array([x, rest]), q)
    if norm == 0:
        return 0.0, 1.0
    if np.isinf(q):
        return norm, float(x >= rest)
    return norm, (x / norm) ** (q - 1)


def step_by_slope(
    slope: Callable[[float], float], w_j: float, gradient: float, curvature: float
) -> float:
    """The coordinate step where the penalty depends on `|w_j|` and grows by ``slope`` of it."""
    check_curvature(curvature)
    goal = w_j - gradient / curvature
    far = abs(goal)

    def rise(x: float) -> float:
        return curvature * (x - far) + slope(x)

    if far == 0 or rise(0.0) >= 0:
        return -w_j
    if rise(far) <= 0:
        return goal - w_j
    size = scipy.optimize.brentq(rise, 0.0, far, xtol=1e-16 * far, rtol=4 * np.finfo(float).eps)
    return float(np.copysign(size, goal) - w_j)


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class NormBall(Potential):
    """`||r||_p <= radius`: the penalty `radius ||w||_p'`, `1/p + 1/p' = 1` (density paper §5.7).

    Parameters
    ----------
    radius : float
        Radius of the ball, and factor of the penalty.
    p : float
        Order of the norm of r, in [1, inf].

    Examples
    --------
    >>> NormBall(2.0, p=1).conjugate(np.array([3.0, -1.0]))
    6.0
    """

    radius: float
    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius))
        object.__setattr__(self, "p", norm_order(self.p))

    def value(self, r: Array) -> float:
        """0 in the ball, +inf outside."""
        return 0.0 if p_norm(r, self.p) <= self.radius * (1 + ROUNDING) else np.inf

    def conjugate(self, v: Array) -> float:
        """`radius ||v||_p'`."""
        return self.radius * p_norm(v, dual_order(self.p)) if self.radius else 0.0

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Moreau: v less its projection on the ball of radius step * radius."""
        return prox_norm(v, dual_order(self.p), step * self.radius)

    def gauge(self, r: Array) -> float:
        """`||r||_p / radius`."""
        return float(fraction(np.array(p_norm(r, self.p)), np.array(self.radius)))

    def critical_multiplier(self, r: Array) -> float:
        """`||r||_p / radius`."""
        return self.gauge(r)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Where the slope of the norm meets that of the quadratic."""
        q = dual_order(self.p)
        rest = p_norm(np.delete(w, j), q)

        def slope(x: float) -> float:
            return self.radius * norm_along(x, rest, q)[1]

        return step_by_slope(slope, float(w[j]), gradient, curvature)


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Ball(NormBall):
    """`||r||_2 <= radius`: the penalty `radius ||w||_2` (density paper §5.3).

    Parameters
    ----------
    radius : float
        Radius of the ball, and factor of the penalty.

    Examples
    --------
    >>> Ball(2.0).conjugate(np.array([3.0, 4.0]))
    10.0
    """

    p: float = field(default=2.0, init=False, repr=False)


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class SquaredNormPotential(Potential):
    """`||r||_p^2 / (2 strength)`: the penalty `strength/2 ||w||_p'^2` (density paper §5.7).

    Parameters
    ----------
    strength : float
        Factor of the penalty, > 0.
    p : float
        Order of the norm of r, in [1, inf].

    Examples
    --------
    >>> SquaredNormPotential(1.0, p=float("inf")).conjugate(np.array([3.0, -1.0]))
    8.0
    """

    strength: float
    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", number("strength", self.strength, positive=True))
        object.__setattr__(self, "p", norm_order(self.p))

    @property
    def smooth(self) -> bool:
        """True for `1 < p < inf`."""
        return 1 < self.p < np.inf

    @property
    def smooth_conjugate(self) -> bool:
        """True for `1 < p < inf`."""
        return self.smooth

    def value(self, r: Array) -> float:
        """`||r||_p^2 / (2 strength)`."""
        norm = p_norm(r, self.p)
        return norm / (2 * self.strength) * norm

    def conjugate(self, v: Array) -> float:
        """`strength/2 ||v||_p'^2`."""
        norm = p_norm(v, dual_order(self.p))
        return 0.5 * self.strength * norm * norm

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """prox of a squared norm, by one scalar equation."""
        return prox_squared_norm(v, dual_order(self.p), step * self.strength)

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def grad(self, r: Array) -> Array:
        """`||r||_p` times the gradient of the norm, over strength."""
        if not self.smooth:
            return super().grad(r)
        return p_norm(r, self.p) * unit_norm_gradient(r, self.p) / self.strength

    def conjugate_gradient(self, v: Array) -> Array:
        """`strength ||v||_p'` times the gradient of the norm."""
        if not self.smooth_conjugate:
            return super().conjugate_gradient(v)
        q = dual_order(self.p)
        return self.strength * p_norm(v, q) * unit_norm_gradient(v, q)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Where the slope of the squared norm meets that of the quadratic."""
        q = dual_order(self.p)
        rest = p_norm(np.delete(w, j), q)

        def slope(x: float) -> float:
            norm, rise = norm_along(x, rest, q)
            return self.strength * norm * rise

        return step_by_slope(slope, float(w[j]), gradient, curvature)

    def strong_convexity(self) -> float:
        """`strength (p' - 1)` for `p' <= 2`, whose norm is above the 2-norm; else none."""
        q = dual_order(self.p)
        return self.strength * (q - 1) if 1 < q <= 2 else 0.0


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class QuadraticForm(Potential):
    """`r'A^+r / 2` on the range of A: the penalty `w'Aw / 2`, A symmetric positive semidefinite.

    Parameters
    ----------
    A : array (n_features, n_features)
        Symmetric positive semidefinite matrix.

    Examples
    --------
    >>> QuadraticForm([[2.0, 0.0], [0.0, 0.0]]).conjugate(np.array([1.0, 5.0]))
    1.0
    """

    A: Any
    _basis: Array = field(init=False, repr=False)
    _spectrum: Array = field(init=False, repr=False)
    smooth = True
    smooth_conjugate = True

    def __post_init__(self) -> None:
        A = np.array(self.A, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not A.size or not np.isfinite(A).all():
            raise ValueError(f"A must be a finite square matrix, got shape {A.shape}")
        if np.abs(A - A.T).max() > 1e-10 * np.abs(A).max():
            raise ValueError("A must be symmetric; use (A + A.T) / 2")
        spectrum, basis = np.linalg.eigh((A + A.T) / 2)
        floor = len(A) * np.finfo(float).eps * np.abs(spectrum).max()
        if spectrum.min() < -max(floor, 1e-12 * np.abs(spectrum).max()):
            raise ValueError(
                f"A must be positive semidefinite, has eigenvalue {spectrum.min():.3g}"
            )
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "_basis", basis)
        object.__setattr__(self, "_spectrum", np.where(spectrum > floor, spectrum, 0.0))

    def _size(self) -> int | None:
        return len(self.A)

    def _coordinates(self, r: Array) -> tuple[Array, bool]:
        """r in the eigenbasis, and whether it lies in the range of A."""
        c = self._basis.T @ r
        off = np.abs(c[self._spectrum == 0])
        return c, bool(np.max(off, initial=0.0) <= ROUNDING * max(np.abs(c).max(initial=0.0), 0.0))

    def value(self, r: Array) -> float:
        """`r'A^+r / 2`, +inf off the range."""
        c, inside = self._coordinates(r)
        on = self._spectrum > 0
        with np.errstate(over="ignore"):
            return float(0.5 * np.sum(c[on] / self._spectrum[on] * c[on])) if inside else np.inf

    def conjugate(self, v: Array) -> float:
        """v'Av / 2."""
        with np.errstate(over="ignore"):
            c = self._basis.T @ v
            return float(0.5 * np.sum(self._spectrum * c * c))

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`(I + step A)^-1 v`."""
        return self._basis @ ((self._basis.T @ v) / (1 + step * self._spectrum))

    def gauge(self, r: Array) -> float:
        """0 on the range of A, inf off it."""
        return 0.0 if self._coordinates(r)[1] else np.inf

    def grad(self, r: Array) -> Array:
        """`A^+ r`."""
        on = self._spectrum > 0
        return self._basis[:, on] @ ((self._basis[:, on].T @ r) / self._spectrum[on])

    def conjugate_gradient(self, v: Array) -> Array:
        """A v."""
        return self.A @ v

    def conjugate_hessian(self, v: Array) -> Array | None:
        """A."""
        return self.A

    def strong_convexity(self) -> float:
        """The smallest eigenvalue of A."""
        return float(self._spectrum.min())

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Newton's step, exact for a quadratic."""
        check_curvature(curvature)
        return float(-(gradient + self.A[j] @ w) / (curvature + self.A[j, j]))


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class NormPlusSquare(Potential):
    """`dist_s(r, {||.||_p <= radius})^2 / (2 strength)`, s an order too (density paper §5.7).

    The penalty is `radius ||w||_p' + strength/2 ||w||_s'^2`, with `1/p + 1/p' = 1` and s likewise.

    Parameters
    ----------
    radius : float
        Factor of the norm.
    strength : float
        Factor of the squared norm, > 0.
    p : float
        Order of the norm of r whose ball is free, in [1, inf].
    squared_p : float, default 2.0
        Order s of the norm of r in which the distance to the ball is squared, in [1, inf].

    Examples
    --------
    >>> NormPlusSquare(1.0, 2.0, p=2).value(np.array([3.0, 4.0]))
    4.0
    >>> NormPlusSquare(1.0, 2.0, p=2, squared_p=float("inf")).conjugate(np.array([3.0, -4.0]))
    54.0
    """

    radius: float
    strength: float
    p: float
    squared_p: float = field(default=2.0, metadata=io.LATER)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius))
        object.__setattr__(self, "strength", number("strength", self.strength, positive=True))
        object.__setattr__(self, "p", norm_order(self.p))
        object.__setattr__(self, "squared_p", norm_order(self.squared_p))

    @property
    def smooth(self) -> bool:
        """True for `1 < s < inf`."""
        return 1 < self.squared_p < np.inf

    def _away(self, r: Array) -> Array:
        return r - project_ball(r, self.p, self.radius, self.squared_p)

    def value(self, r: Array) -> float:
        """Half the squared distance to the ball, over strength."""
        away = p_norm(self._away(r), self.squared_p)
        return away / (2 * self.strength) * away

    def conjugate(self, v: Array) -> float:
        """`radius ||v||_p' + strength/2 ||v||_s'^2`."""
        norm = p_norm(v, dual_order(self.squared_p))
        return self.radius * p_norm(v, dual_order(self.p)) + 0.5 * self.strength * norm * norm

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """One prox after the other where the orders allow it, else by one or two equations."""
        return prox_norm_and_square(
            v,
            dual_order(self.p),
            step * self.radius,
            dual_order(self.squared_p),
            step * self.strength,
        )

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def critical_multiplier(self, r: Array) -> float:
        """`||r||_p / radius`."""
        return NormBall(self.radius, self.p).gauge(r)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Where the slopes of both norms meet that of the quadratic."""
        q, squared_q = dual_order(self.p), dual_order(self.squared_p)
        others = np.delete(w, j)
        rest, squared_rest = p_norm(others, q), p_norm(others, squared_q)

        def slope(x: float) -> float:
            norm, rise = norm_along(x, squared_rest, squared_q)
            return self.radius * norm_along(x, rest, q)[1] + self.strength * norm * rise

        return step_by_slope(slope, float(w[j]), gradient, curvature)

    def grad(self, r: Array) -> Array:
        """The distance times the gradient of its norm, over strength."""
        if not self.smooth:
            return super().grad(r)
        away = self._away(r)
        return (
            p_norm(away, self.squared_p) * unit_norm_gradient(away, self.squared_p) / self.strength
        )

    def strong_convexity(self) -> float:
        """That of the squared norm: `strength (s' - 1)` for `s' <= 2`, else none."""
        return SquaredNormPotential(self.strength, self.squared_p).strong_convexity()


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class DualBall(Potential):
    """Weights kept in `||w||_p <= radius`, with `V(r) = radius ||r||_p'` (density paper §5.5).

    Parameters
    ----------
    radius : float
        Largest norm of the weights.
    p : float, default 2.0
        Order of that norm, in [1, inf].

    Examples
    --------
    >>> DualBall(2.0).value(np.array([3.0, 4.0]))
    10.0
    """

    radius: float
    p: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius, positive=True))
        object.__setattr__(self, "p", norm_order(self.p))

    def value(self, r: Array) -> float:
        """`radius ||r||_p'`."""
        return self.radius * p_norm(r, dual_order(self.p))

    def conjugate(self, v: Array) -> float:
        """0 in the ball, +inf outside."""
        return 0.0 if p_norm(v, self.p) <= self.radius * (1 + ROUNDING) else np.inf

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Projection on the ball, whatever the step."""
        return project_ball(v, self.p, self.radius)

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The unpenalized optimum, clipped to the room the other weights leave."""
        check_curvature(curvature)
        rest = p_norm(np.delete(w, j), self.p) / self.radius
        if np.isinf(self.p):
            room = self.radius
        else:
            room = self.radius * max(1 - rest**self.p, 0.0) ** (1 / self.p)
        return float(np.clip(w[j] - gradient / curvature, -room, room) - w[j])
