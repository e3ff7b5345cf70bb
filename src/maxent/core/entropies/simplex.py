"""Shannon and Tsallis entropies (Fenchel-Young paper, §4.3).

Both know their base measure q: the plain entropy is the counting measure (q = 1), ``Relative``
passes its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from maxent import io
from maxent.core.domains import Cube, Domain, Simplex, SumProductDomain
from maxent.core.entropies._measures import log_ratio, of_rows, separable_prox
from maxent.core.entropies.base import MeasuredEntropy, finite, number, same_type
from maxent.core.prediction_maps import dense_tsallis_map, softmax_map, tsallis_map
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array, Rows, row_dot, row_sum


@io.register
@dataclass(frozen=True)
class Shannon(MeasuredEntropy):
    """`Omega(p) = -H(p)`, the negative Shannon entropy of the distribution over vertices.

    On the simplex `sum p log p`: softmax and the logistic loss. On any domain with a
    log-partition it is marginal inference: ``Shannon(domain=Chain(k))`` is the CRF.

    Parameters
    ----------
    domain : Domain, default Simplex()
        Domain with a log-partition.

    Examples
    --------
    >>> Shannon().conjugate([0.0, 0.0])
    (array(0.69314718), array([0.5, 0.5]))
    """

    domain: Domain = Simplex()
    _checks_scores = True

    def __post_init__(self) -> None:
        if not isinstance(self.domain, SumProductDomain):
            raise TypeError(
                f"Shannon needs a domain with a log-partition (softmax); {self.domain} has none. "
                "SquaredNorm(domain=...) regularizes the mean and needs only its argmax, "
                "MeanEntropy(domain=...) does where there is a project_kl"
            )

    @property
    def smoothness(self) -> float:
        """1 on the simplex, 1/4 on the cube; no bound is given for structures."""
        if isinstance(self.domain, Simplex):
            return 1.0
        return 0.25 if isinstance(self.domain, Cube) else np.inf

    @property
    def has_curvature(self) -> bool:
        """On the simplex."""
        return isinstance(self.domain, Simplex)

    @property
    def link_power(self) -> float | None:
        """0 on the simplex."""
        return 0.0 if isinstance(self.domain, Simplex) else None

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if q is not None:
            return row_sum(special.rel_entr(np.maximum(p, 0), q))
        return self._sum_product.negentropy(np.maximum(p, 0))

    def cheap_value(self, p: Rows) -> bool:
        """As the domain's negentropy."""
        return self._sum_product.cheap_negentropy(p)

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if isinstance(self.domain, Simplex):
            values, p = softmax_map(theta, q)
            return finite(values, theta), p
        return self._sum_product.softmax(theta)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        return self._sum_product.softmax_jvp(theta, p, v)

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """diag(p) - p p' on the simplex."""
        return (p, p) if self.has_curvature else super().curvature(theta, p)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if not isinstance(self.domain, Simplex):
            return super()._prox(eta, tau, q)
        # App. A.1: p + tau log(p/q) = y  <=>  p = tau omega(y/tau + log(q/tau)), Wright's omega
        with np.errstate(divide="ignore"):
            log_q = np.zeros((1, 1)) if q is None else np.log(q)

        def inverse(y: Array, rows: Array) -> Array:
            argument = y / tau + of_rows(log_q, rows) - np.log(tau)
            return tau * np.real(special.wrightomega(np.maximum(argument, -1e300)))

        def slope(t: float) -> Array:
            with np.errstate(invalid="ignore"):
                return t + tau * (np.log(t) - log_q)

        return separable_prox(eta, inverse, slope)

    @property
    def _sum_product(self) -> SumProductDomain:
        assert isinstance(self.domain, SumProductDomain)
        return self.domain


@io.register
@dataclass(frozen=True)
class Tsallis(MeasuredEntropy):
    """`Omega(p) = sum_j (p_j^alpha - p_j) / (alpha (alpha - 1))`, `alpha > 0`.

    Softmax at `alpha = 1`, 1.5-entmax, sparsemax at 2, towards argmax as alpha grows; every
    `alpha > 1` gives exact zeros. Below 1 every entry is positive, with heavy tails:
    `p_j = [1 + (1 - alpha)(tau - theta_j)]^(-1/(1 - alpha))` falls as a power of its score.
    Exact at 1, 1.5 and 2, safeguarded root finding otherwise (Prop. 9).

    Parameters
    ----------
    alpha : float
        Index, > 0; sparse above 1.

    Examples
    --------
    >>> Tsallis(2.0).conjugate([0.0, 0.5, 3.0])[1]
    array([0., 0., 1.])
    """

    alpha: float
    has_curvature = True
    _checks_scores = True

    def __post_init__(self) -> None:
        number("Tsallis's alpha", self.alpha)
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(
                f"Tsallis needs a finite alpha > 0, got {self.alpha!r}; "
                "for the limit alpha = inf use Zero()"
            )

    @property
    def margin(self) -> float | None:
        """`1 / (alpha - 1)`, eq. (24); none for Shannon and below."""
        return 1 / (self.alpha - 1) if self.alpha > 1 else None

    @property
    def smoothness(self) -> float:
        """1 for `alpha <= 2` (second derivative `p^(alpha-2) >= 1`), none beyond."""
        return 1.0 if self.alpha <= 2 else np.inf

    @property
    def link_power(self) -> float:
        """`alpha - 1`."""
        return float(self.alpha - 1)

    def link_slope(self, p: Array, q: Array) -> float:
        """`alpha - 1`."""
        return float(self.alpha - 1)

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        p = np.maximum(p, 0).astype(np.float64)
        if self.alpha == 1:
            return Shannon()._value(p, q)
        if q is None and self.alpha in (1.5, 2):  # without logarithms
            power = p if self.alpha == 2 else np.sqrt(p)
            return (row_dot(p, power) - row_sum(p)) / (self.alpha * (self.alpha - 1))
        a = self.alpha - 1
        # p expm1(a log(p/q)) / a: no cancellation as alpha -> 1
        return row_sum(p * np.expm1(a * log_ratio(p, q)) / a) / self.alpha

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.alpha == 1:
            return Shannon()._conjugate(theta, q)
        if self.alpha < 1:
            return dense_tsallis_map(theta, self.alpha, q)
        return tsallis_map(theta, self.alpha, q)

    def _sensitivity(self, p: Rows, q: Array | None) -> Array:
        """dp/dtheta at a fixed threshold: q (p/q)^(2 - alpha) on the support."""
        if q is None and self.alpha == 1:
            return p
        if q is None and self.alpha == 1.5:
            return np.sqrt(np.maximum(p, 0))
        if q is None and self.alpha == 2:
            return (p > 0).astype(p.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (p > 0) * np.exp((2 - self.alpha) * log_ratio(p, q))
        return same_type(s if q is None else s * q, p)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        s = self._sensitivity(p, q)
        if self.alpha > 2:  # one s may be far larger than the others: its own v cancels
            v = v - np.take_along_axis(v, s.argmax(axis=1)[:, None], axis=1)
        return s * (v - same_type(row_dot(s, v) / row_sum(s), p)[:, None])

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """`diag(s) - s s'/sum s` with `s = p^(2 - alpha)`."""
        s = self._sensitivity(p, q)
        return s, s / same_type(np.sqrt(row_sum(s)), s)[:, None]

    def alpha_gradient(self, theta: Rows, p: Rows) -> Array:
        """Derivative of the map `p = grad Omega*(theta)` with respect to alpha, finite at 1.

        With `u = theta - tau` and `x = (alpha-1) u`: `dp = b - s (sum b / sum s)`, where
        `b = p u^2 (x/(1+x) - log(1+x))/x^2` and `s = p^(2-alpha)`.

        >>> import numpy as np
        >>> theta, h = np.array([[0.0, 1.0, 1.5]]), 1e-6
        >>> p = Tsallis(1.0).conjugate(theta)[1]
        >>> forward = (Tsallis(1 + h).conjugate(theta)[1] - p) / h
        >>> bool(np.allclose(Tsallis(1.0).alpha_gradient(theta, p), forward, atol=1e-5))
        True
        """
        shape, p = np.shape(p), np.atleast_2d(np.asarray(p, dtype=np.float64))
        a = self.alpha - 1
        on = p > 0
        log_p = np.log(np.where(on, p, 1.0))
        # on the support u = (p^a - 1)/a and log(1 + x) = a log p
        x = np.expm1(a * log_p)
        u = log_p if a == 0 else x / a
        small = np.abs(x) < 1e-3
        safe = np.where(small, 1.0, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = (safe / (1 + safe) - np.log1p(safe)) / safe**2
        series = -1 / 2 + x * (2 / 3 + x * (-3 / 4 + x * (4 / 5 + x * (-5 / 6 + x * 6 / 7))))
        b = np.where(on, p * u**2 * np.where(small, series, exact), 0.0)
        s = self._sensitivity(p, None)
        return (b - s * (row_sum(b) / row_sum(s))[:, None]).reshape(shape)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if self.alpha == 1:
            return Shannon()._prox(eta, tau, q)
        if self.alpha == 2 and q is None:
            return Simplex().project(eta / (1 + tau))
        a = self.alpha - 1
        base = np.ones((1, 1)) if q is None else q
        off = base == 0
        safe = np.where(off, 1.0, base)

        # g'(p) = p + tau ((p/q)^a - 1)/a, in a form that has the logarithm as its limit
        def inverse(y: Array, rows: Array) -> Array:
            p = _inverse_tsallis(y, tau, a, of_rows(safe, rows))
            return np.where(of_rows(off, rows), 0.0, p)

        def slope(t: float) -> Array:
            return np.where(off, np.inf, t + tau * np.expm1(a * np.log(t / safe)) / a)

        return separable_prox(eta, inverse, slope)


def _inverse_tsallis(y: Array, tau: float, a: float, q: Array) -> Array:
    """The p >= 0 with p + tau ((p/q)^a - 1)/a = y, 0 where y is too small (App. A.1)."""
    room = np.maximum(y + tau / a, 0.0)
    if a == 1:
        return room / (1 + tau / q)
    if a == 0.5:  # p + 2 h sqrt(p) = room, without cancellation
        half = tau / np.sqrt(q)
        return (room / (np.sqrt(room + half**2) + half)) ** 2
    flat_y, flat_q = y.ravel(), np.broadcast_to(q, y.shape).ravel()
    if a < 0:  # p > 0 is a power of y where y is far below 0: its logarithm, between bounds
        log_q = np.log(flat_q)

        def excess_at(u: Array, rows: Array) -> Array:
            return flat_y[rows] - np.exp(u) - tau * np.expm1(a * (u - log_q[rows])) / a

        low = log_q + np.log1p(np.maximum(flat_q - flat_y, 0.0) * (-a / tau)) / a
        high = np.log(np.maximum(flat_y, flat_q))
        return np.exp(bracketed_root(excess_at, low, high)).reshape(y.shape)

    def excess(p: Array, rows: Array) -> Array:
        with np.errstate(divide="ignore"):
            power = np.expm1(a * np.log(p / flat_q[rows])) / a
        return flat_y[rows] - p - tau * power

    return bracketed_root(excess, np.zeros(y.size), np.maximum(flat_y, flat_q)).reshape(y.shape)
