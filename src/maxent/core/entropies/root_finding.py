"""Any separable entropy `sum_j g(p_j)`, from g' and its inverse (Fenchel-Young paper, Prop. 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from maxent.core.domains import Cube, Domain, NonNegative, Simplex
from maxent.core.entropies._measures import separable_prox
from maxent.core.entropies.base import Entropy, same_type
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array, Rows, row_sum

Function = Callable[[Array], Array]

_TINY = np.finfo(np.float64).tiny
_PROBES = np.linspace(0.05, 0.95, 19)  # where the two functions are tried
# nodes of (0, 1) and weights of the tanh-sinh rule, which singular ends do not disturb
_STEPS = np.arange(-6.0, 3.1, 1 / 16)
_NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_STEPS)))
_WEIGHTS = np.pi / 16 * np.cosh(_STEPS) * _NODES / (1 + np.exp(np.pi * np.sinh(_STEPS)))


@dataclass(frozen=True)
class SeparableEntropy(Entropy):
    """`Omega(p) = sum_j g(p_j)` for a strictly convex g of your own, given by `g'` and its inverse.

    On the simplex `p_j = (g')^-1(max(theta_j - tau, g'(0)))`, with the one tau whose p sums to 1
    (Prop. 9, Algorithm 1; appendix A.1 for the proximity operator): a root between
    `max theta - g'(1)` and `max theta - g'(1/d)`, found for all rows at once. On the cube and the
    cone every entry is by itself, `tau = 0`. Entries are exactly 0 where `g'(0)` is finite.

    Parameters
    ----------
    derivative : callable
        `g'`, increasing on [0, 1] and vectorised; `g'(0)` may be -inf and `g'(1)` inf.
    inverse : callable
        The inverse of `g'`, vectorised.
    function : callable, default None
        g itself, up to a constant. None integrates `g'` from 0, with some 150 calls of it.
    domain : Simplex, Cube or NonNegative, default Simplex()
        Where p lies.

    Examples
    --------
    >>> import numpy as np
    >>> gini = SeparableEntropy(lambda t: t, lambda s: s, lambda t: t**2 / 2)  # sparsemax
    >>> gini.conjugate([1.2, 0.9, -0.5])[1]
    array([0.65, 0.35, 0.  ])
    >>> gini.margin
    1.0
    """

    derivative: Function = field(repr=False)
    inverse: Function = field(repr=False)
    function: Function | None = field(default=None, repr=False)
    domain: Domain = Simplex()
    __unsaved__ = (
        "it holds Python functions (the derivative and its inverse), and a model file holds "
        "numbers only; save the other parts and make the entropy again"
    )

    def __post_init__(self) -> None:
        if not (callable(self.derivative) and callable(self.inverse)):
            raise TypeError("SeparableEntropy needs two functions, g' and its inverse")
        if not isinstance(self.domain, Simplex | Cube | NonNegative):
            raise TypeError(
                f"SeparableEntropy lives on Simplex, Cube or NonNegative, got {self.domain}; "
                "frank_wolfe minimises it over any bounded domain"
            )
        slopes = np.asarray(self.derivative(_PROBES))
        if slopes.shape != _PROBES.shape or not (np.diff(slopes) > 0).all():
            raise ValueError("the derivative of a strictly convex g increases from 0 to 1")
        back = np.asarray(self.inverse(slopes))
        if back.shape != _PROBES.shape or not np.allclose(back, _PROBES, rtol=1e-6, atol=0):
            raise ValueError("the inverse does not give back p from the derivative at p")

    @property
    def margin(self) -> float | None:
        """`g'(1) - g'(0)` on the simplex where both are finite, eq. (24)."""
        if not isinstance(self.domain, Simplex):
            return None
        width = self._slope(1.0) - self._slope(0.0)
        return width if np.isfinite(width) else None

    def _slope(self, t: float) -> float:
        """g' at one point."""
        with np.errstate(divide="ignore"):
            return float(np.asarray(self.derivative(np.array([t])))[0])

    def _finite_slope(self, t: float) -> float:
        """g' at t, or just before 1 where it ends in infinity."""
        slope = self._slope(t)
        return slope if slope < np.inf else self._slope(float(np.nextafter(1.0, 0.0)))

    def _densities(self, slopes: Array) -> Array:
        """(g')^-1 of each entry, 0 below g'(0); at most 1 but on the cone."""
        least, most = self._slope(0.0), np.inf
        if not isinstance(self.domain, NonNegative):
            most = self._slope(1.0)
        inside = (slopes > least) & (slopes < most)
        safe = np.where(inside, slopes, self._slope(0.5))
        p = np.where(inside, np.asarray(self.inverse(safe)), np.where(slopes >= most, 1.0, 0.0))
        return np.clip(p, 0.0, np.inf if isinstance(self.domain, NonNegative) else 1.0)

    def _value(self, p: Rows) -> Array:
        x = np.maximum(p.astype(np.float64), 0.0)
        if self.function is not None:
            return row_sum(np.asarray(self.function(x)))
        total, safe = np.zeros_like(x), np.where(x > 0, x, 1.0)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):  # g(p) = p int_0^1 g'(p u) du
            total += weight * np.asarray(self.derivative(np.maximum(node * safe, _TINY)))
        return row_sum(np.where(x > 0, x * total, 0.0))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        x = theta.astype(np.float64)
        top = np.zeros((len(x), 1))
        if isinstance(self.domain, Simplex):
            top = np.max(x, axis=1, keepdims=True)
            with np.errstate(over="ignore"):
                x = x - top
            p = self._densities(x - self._threshold(x)[:, None])
            p /= p.sum(axis=1, keepdims=True)
        else:
            p = self._densities(x)
        p = same_type(p, theta)
        exact = p.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # on the cone Omega* may be beyond
            values = top[:, 0] + row_sum(np.where(p > 0, x, 0.0) * exact) - self._value(exact)
        return np.where(np.isnan(values), np.inf, values), p

    def _threshold(self, x: Array) -> Array:
        """tau of each row, whose largest score is 0 (Algorithm 1, by faster steps)."""

        def excess(tau: Array, rows: Array) -> Array:
            return self._densities(x[rows] - tau[:, None]).sum(axis=1) - 1

        low, high = (np.full(len(x), -self._finite_slope(t)) for t in (1.0, 1 / x.shape[1]))
        return bracketed_root(excess, low, high)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        if isinstance(self.domain, NonNegative):
            return super()._prox(eta, tau)
        if isinstance(self.domain, Cube):
            y = np.maximum(eta.astype(np.float64), -1e300)
            return same_type(self._inverse_of_prox(y, tau), eta)
        return separable_prox(
            eta,
            lambda y, rows: self._inverse_of_prox(y, tau),
            lambda t: np.array(t + tau * self._finite_slope(t)),
        )

    def _inverse_of_prox(self, y: Array, tau: float) -> Array:
        """The p in [0, 1] with p + tau g'(p) = y, or the end that is nearest to it (App. A.1)."""
        flat = y.ravel()

        def excess(p: Array, rows: Array) -> Array:
            with np.errstate(divide="ignore"):
                return flat[rows] - p - tau * np.asarray(self.derivative(p))

        return bracketed_root(excess, np.zeros(flat.size), np.ones(flat.size)).reshape(y.shape)
