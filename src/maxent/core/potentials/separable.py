"""Other sums over the features, each with a smooth penalty."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from maxent import io
from maxent.core.potentials.base import Potential
from maxent.core.potentials.parameters import (
    ROUNDING,
    check_curvature,
    fraction,
    parameter,
    vector_size,
)
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array


class Separable(Potential):
    """A sum over coordinates, with vector parameters: steps in one coordinate are a 1-D prox."""

    decomposable = True

    @abstractmethod
    def _coordinate(self, j: int) -> Potential: ...

    @abstractmethod
    def _terms(self, v: Array) -> Array: ...

    def conjugate(self, v: Array) -> float:
        """The sum of the terms."""
        return float(np.sum(self._terms(v)))

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """The terms of the penalty and their derivatives."""
        return self._terms(v), self.conjugate_gradient(v)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """prox of the coordinate's own penalty."""
        check_curvature(curvature)
        goal = np.array([-(w[j] - gradient / curvature)])
        new = self._coordinate(j).prox_conjugate(goal, 1 / curvature)
        return float(-new[0] - w[j])


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class SmoothBox(Separable):
    """Smoothed l1: penalty `sum a_j b_j log cosh(w_j/a_j)`, b = beta, a = smoothing (§5.2).

    `V(r) = sum a_j b_j KL((1 + r_j/b_j)/2 || 1/2)` on `|r_j| <= b_j`.

    Parameters
    ----------
    beta : float or array (n_features,)
        b, half the width of the box, and the slope of the penalty far from 0.
    smoothing : float or array (n_features,)
        a, the weights below which the penalty is nearly quadratic.

    Examples
    --------
    >>> SmoothBox(1.0, 0.1).conjugate(np.array([0.0]))
    0.0
    """

    beta: Any
    smoothing: Any
    smooth = True
    smooth_conjugate = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", parameter("beta", self.beta))
        object.__setattr__(self, "smoothing", parameter("smoothing", self.smoothing, True))
        self._size()

    def _size(self) -> int | None:
        return vector_size(self.beta, self.smoothing)

    def _coordinate(self, j: int) -> SmoothBox:
        return SmoothBox(*(x[j] if x.ndim else x for x in (self.beta, self.smoothing)))

    def value(self, r: Array) -> float:
        """`sum a b KL((1 + r/b)/2 || 1/2)`."""
        share = fraction(r, self.beta)
        if np.max(share, initial=0.0) > 1 + ROUNDING:
            return np.inf
        s = np.minimum(share, 1)
        # 2 KL = (1+s) log(1+s) + (1-s) log(1-s), near 0 in a form without cancellation
        inner = np.minimum(s, 0.5)
        small = inner * np.arctanh(inner) + 0.5 * np.log1p(-(inner**2))
        large = 0.5 * ((1 + s) * np.log1p(s) + special.xlog1py(1 - s, -s))
        return float(np.sum(self.smoothing * self.beta * np.where(s < 0.5, small, large)))

    def _terms(self, v: Array) -> Array:
        """a b log cosh(v/a)."""
        with np.errstate(over="ignore"):
            u = np.minimum(np.abs(v) / self.smoothing, 1e300)
        # log cosh u = u + log1p(exp(-2u)) - log 2, or by log1p(sinh^2)/2 near 0
        small = self.smoothing * 0.5 * np.log1p(np.sinh(np.minimum(u, 1.0)) ** 2)
        large = np.abs(v) + self.smoothing * (np.log1p(np.exp(-2 * u)) - np.log(2))
        return self.beta * np.where(u < 1, small, large)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`x + step b tanh(x/a) = v`."""
        size = np.abs(v)
        a, b = (np.broadcast_to(x, size.shape) for x in (self.smoothing, self.beta))

        def excess(x: Array, j: Array) -> Array:
            with np.errstate(over="ignore"):
                return size[j] - x - step * b[j] * np.tanh(x / a[j])

        return _solve_between(excess, v)

    def gauge(self, r: Array) -> float:
        """`max |r_j| / beta_j`."""
        return float(np.max(fraction(r, self.beta), initial=0.0))

    def grad(self, r: Array) -> Array:
        """a artanh(r/b)."""
        share = np.sign(r) * np.where(self.beta > 0, np.minimum(fraction(r, self.beta), 1), 0)
        with np.errstate(divide="ignore"):
            return self.smoothing * np.arctanh(share)

    def conjugate_gradient(self, v: Array) -> Array:
        """b tanh(v/a)."""
        with np.errstate(over="ignore"):
            return self.beta * np.tanh(v / self.smoothing)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """`(b/a) / cosh(v/a)^2`."""
        with np.errstate(over="ignore", under="ignore"):
            decay = np.exp(-np.abs(v) / self.smoothing)
        return self.beta / self.smoothing * (2 * decay / (1 + decay**2)) ** 2


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class LaplacePrior(Separable):
    """The Laplace prior of maximum-entropy discrimination, exactly (one convex function).

    `V(r) = sum log(lam/(lam - r^2))` on `|r| < sqrt(lam)`, with the penalty
    `V*(w) = sum s - 1 - log((s + 1)/2)`, `s = sqrt(lam w^2 + 1)` (discrimination paper, Cor. 6):
    the cumulant function of the prior and the KL divergence of the posterior from it.

    Parameters
    ----------
    lam : float or array (n_features,)
        Parameter of the prior, of variance 2 / lam.

    Examples
    --------
    >>> LaplacePrior(4.0).conjugate(np.array([0.0]))
    0.0
    """

    lam: Any
    open_domain = True
    smooth = True
    smooth_conjugate = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", parameter("lam", self.lam, positive=True))

    def _size(self) -> int | None:
        return vector_size(self.lam)

    def _coordinate(self, j: int) -> LaplacePrior:
        return LaplacePrior(self.lam[j] if self.lam.ndim else self.lam)

    def value(self, r: Array) -> float:
        """`sum log(lam/(lam - r^2))`, +inf from the border on."""
        share = fraction(r, np.sqrt(self.lam))
        if np.max(share, initial=0.0) >= 1:
            return np.inf
        return float(-np.sum(np.log1p(-(share**2))))

    def _terms(self, v: Array) -> Array:
        """s - 1 - log((s + 1)/2)."""
        u = np.sqrt(self.lam) * np.abs(v)
        s = np.hypot(u, 1.0)
        extra = u * (u / (s + 1))  # s - 1 without cancellation
        return extra - np.log1p(extra / 2)

    def conjugate_gradient(self, v: Array) -> Array:
        """`eta = lam v / (1 + s)`, the only root of `v = 2 eta/(lam - eta^2)` inside the domain."""
        return np.sqrt(self.lam) * ((u := np.sqrt(self.lam) * v) / (1 + np.hypot(u, 1.0)))

    def conjugate_hessian(self, v: Array) -> Array | None:
        """`lam / (s (1 + s))`, `s = sqrt(lam v^2 + 1)`."""
        s = np.hypot(np.sqrt(self.lam) * v, 1.0)
        return self.lam / s / (1 + s)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`x + step eta(x) = v`: a cubic equation, solved for `x = 2 eta/(lam - eta^2)`."""
        size = np.abs(v)
        lam = np.broadcast_to(self.lam, size.shape)

        def excess(x: Array, j: Array) -> Array:
            return size[j] - x - step * LaplacePrior(lam[j]).conjugate_gradient(x)

        return _solve_between(excess, v)

    def gauge(self, r: Array) -> float:
        """`max |r_j| / sqrt(lam)`."""
        return float(np.max(fraction(r, np.sqrt(self.lam)), initial=0.0))

    def grad(self, r: Array) -> Array:
        """`2 r / (lam - r^2)`."""
        return 2 * r / (self.lam - r**2)

    def posterior_mean(self, r: Array) -> Array:
        """`E[w] = 2 eta/(lam - eta^2)` with `eta = mu - F p = -r`."""
        return -self.grad(r)

    def posterior_variance(self, r: Array) -> Array:
        """`2 (lam + r^2)/(lam - r^2)^2`."""
        return 2 * (self.lam + r**2) / (self.lam - r**2) ** 2


def _solve_between(f: Callable[[Array, Array], Array], v: Array) -> Array:
    """The root of each decreasing f(x, j) between 0 and v_j, by magnitude and sign."""
    size = np.abs(v)
    return np.sign(v) * bracketed_root(f, np.zeros(v.size), size)
