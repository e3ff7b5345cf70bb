"""Generalized entropies of the simplex (Fenchel-Young paper, §4.3).

Every class here is an integral against a base measure q: the plain entropy is the counting
measure (q = 1), ``Relative`` passes its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from maxent._maps import norm_map, softmax_map, tsallis_map
from maxent._roots import bracketed_root
from maxent._rows import Array, Rows, row_dot, row_sum
from maxent.domains import Cube, Domain, Simplex, SumProductDomain
from maxent.entropies.base import Entropy, finite, number, positive, same_type


@dataclass(frozen=True)
class Shannon(Entropy):
    """Omega(p) = -H(p), the negative Shannon entropy of the distribution over vertices.

    On the simplex sum p log p: softmax and the logistic loss. On any domain with a
    log-partition it is marginal inference: ``Shannon(domain=Chain(k))`` is the CRF.

    >>> Shannon().conjugate([0.0, 0.0])
    (array(0.69314718), array([0.5, 0.5]))
    """

    domain: Domain = Simplex()
    margin: ClassVar[None] = None  # type: ignore[misc]
    _has_measure: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.domain, SumProductDomain):
            raise TypeError(
                f"Shannon needs a domain with a log-partition (softmax); {self.domain} has none. "
                "SquaredNorm(domain=...) regularizes the mean and needs only its argmax"
            )

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """1 on the simplex, 1/4 on the cube; no bound is given for structures."""
        if isinstance(self.domain, Simplex):
            return 1.0
        return 0.25 if isinstance(self.domain, Cube) else np.inf

    @property
    def has_curvature(self) -> bool:  # type: ignore[override]
        """On the simplex."""
        return isinstance(self.domain, Simplex)

    @property
    def _checks_scores(self) -> bool:  # type: ignore[override]
        return isinstance(self.domain, Simplex)

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if q is not None:
            return row_sum(special.rel_entr(np.maximum(p, 0), q))
        return self._sum_product.negentropy(np.maximum(p, 0))

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if isinstance(self.domain, Simplex):
            values, p = softmax_map(theta, q)
            return finite(values, theta), p
        return self._sum_product._softmax(theta)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        return self._sum_product.softmax_jvp(theta, p, v)

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """diag(p) - p p' on the simplex."""
        return (p, p) if self.has_curvature else super().curvature(theta, p)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if not isinstance(self.domain, Simplex):
            return super()._prox(eta, tau)
        # App. A.1: p + tau log(p/q) = y  <=>  p = tau omega(y/tau + log(q/tau)), Wright's omega
        with np.errstate(divide="ignore"):
            log_q = np.zeros((1, 1)) if q is None else np.log(q)

        def inverse(y: Array, rows: Array) -> Array:
            argument = y / tau + _of_rows(log_q, rows) - np.log(tau)
            return tau * np.real(special.wrightomega(np.maximum(argument, -1e300)))

        def slope(t: float) -> Array:
            with np.errstate(invalid="ignore"):
                return t + tau * (np.log(t) - log_q)

        return separable_prox(eta, inverse, slope)

    @property
    def _sum_product(self) -> SumProductDomain:
        assert isinstance(self.domain, SumProductDomain)
        return self.domain


@dataclass(frozen=True)
class Tsallis(Entropy):
    """Omega(p) = sum_j (p_j^alpha - p_j) / (alpha (alpha - 1)), alpha >= 1.

    Softmax at alpha = 1, 1.5-entmax, sparsemax at 2, towards argmax as alpha grows; every
    alpha > 1 gives exact zeros. Exact at 1, 1.5 and 2, safeguarded root finding otherwise
    (Prop. 9).

    >>> Tsallis(2.0).conjugate([0.0, 0.5, 3.0])[1]
    array([0., 0., 1.])
    """

    alpha: float
    has_curvature: ClassVar[bool] = True  # type: ignore[misc]
    _has_measure: ClassVar[bool] = True
    _checks_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("Tsallis's alpha", self.alpha)
        if not (np.isfinite(self.alpha) and self.alpha >= 1):
            raise ValueError(
                f"Tsallis needs a finite alpha >= 1, got {self.alpha!r}; "
                "below 1 use Renyi(beta), for the limit alpha = inf use Zero()"
            )

    @property
    def margin(self) -> float | None:  # type: ignore[override]
        """1 / (alpha - 1), eq. (24); none for Shannon."""
        return 1 / (self.alpha - 1) if self.alpha > 1 else None

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """1 for alpha <= 2 (second derivative p^(alpha-2) >= 1), none beyond."""
        return 1.0 if self.alpha <= 2 else np.inf

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        p = np.maximum(p, 0).astype(np.float64)
        if self.alpha == 1:
            return Shannon()._value(p, q)
        if q is None and self.alpha in (1.5, 2):  # without logarithms
            power = p if self.alpha == 2 else np.sqrt(p)
            return (row_dot(p, power) - row_sum(p)) / (self.alpha * (self.alpha - 1))
        a = self.alpha - 1
        # p expm1(a log(p/q)) / a: no cancellation as alpha -> 1
        return row_sum(p * np.expm1(a * _log_ratio(p, q)) / a) / self.alpha

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.alpha == 1:
            return Shannon()._conjugate(theta, q)
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
            s = (p > 0) * np.exp((2 - self.alpha) * _log_ratio(p, q))
        return same_type(s if q is None else s * q, p)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        s = self._sensitivity(p, q)
        return s * (v - same_type(row_dot(s, v) / row_sum(s), p)[:, None])

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """diag(s) - s s'/sum s with s = p^(2 - alpha)."""
        s = self._sensitivity(p, q)
        return s, s / same_type(np.sqrt(row_sum(s)), s)[:, None]

    def alpha_gradient(self, theta: Rows, p: Rows) -> Array:
        """Derivative of the map p = grad Omega*(theta) with respect to alpha, finite at 1.

        With u = theta - tau and x = (alpha-1) u: dp = b - s (sum b / sum s), where
        b = p u^2 (x/(1+x) - log(1+x))/x^2 and s = p^(2-alpha).

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
            return Simplex()._project(eta / (1 + tau))
        a = self.alpha - 1
        base = np.ones((1, 1)) if q is None else q
        off = base == 0
        safe = np.where(off, 1.0, base)

        # g'(p) = p + tau ((p/q)^a - 1)/a, in a form that has the logarithm as its limit
        def inverse(y: Array, rows: Array) -> Array:
            p = _inverse_tsallis(y, tau, a, _of_rows(safe, rows))
            return np.where(_of_rows(off, rows), 0.0, p)

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

    def excess(p: Array, rows: Array) -> Array:
        with np.errstate(divide="ignore"):
            power = np.expm1(a * np.log(p / flat_q[rows])) / a
        return flat_y[rows] - p - tau * power

    return bracketed_root(excess, np.zeros(y.size), np.maximum(flat_y, flat_q)).reshape(y.shape)


@dataclass(frozen=True)
class NormEntropy(Entropy):
    """Omega(p) = ||p||_q - 1, q in (1, inf], eq. (20); q = inf is Berger-Parker dominance.

    >>> NormEntropy(float("inf")).conjugate([2.0, 1.9, 0.0])[1]
    array([0.5, 0.5, 0. ])
    """

    q: float
    margin: ClassVar[float] = 1.0  # type: ignore[misc]
    _has_measure: ClassVar[bool] = True
    _checks_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("NormEntropy's q", self.q)
        if not self.q > 1:
            raise ValueError(f"NormEntropy needs q > 1 (inf allowed), got {self.q!r}")

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """False for q = inf: uniform on the support, which jumps."""
        return bool(np.isfinite(self.q))

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        return measure_norm(np.maximum(p, 0), self.q, q) - 1

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        return norm_map(theta, self.q, q)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        if not self.differentiable:
            return np.zeros_like(p)  # flat between the jumps
        tau = self._conjugate(theta, q)[0] - 1
        power = 1 / (self.q - 1)
        z = np.where(p > 0, theta - tau[:, None], 1.0)
        base = np.ones(1) if q is None else q
        g = np.where(p > 0, base * z**power, 0.0)
        centred = v - row_dot(p, v)[:, None]
        dg = np.where(p > 0, base * power * z ** (power - 1), 0.0) * centred
        return same_type((dg - p * row_sum(dg)[:, None]) / row_sum(g)[:, None], p)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if np.isfinite(self.q) or q is not None:
            return super()._prox(eta, tau)
        # prox of tau max on all of R^d, then the simplex: permutation-symmetric, so they compose
        project = Simplex()._project
        return project(eta - tau * project(eta / tau))


@dataclass(frozen=True)
class SquaredNorm(Entropy):
    """Omega(p) = 1/2 ||p||_q^2, q in (1, 2].

    q = 2 is the projection onto any domain: sparsemax on the simplex, relu on the cone, the
    squared loss on R^d, SparseMAP on a structure. q < 2 lives on the simplex, where
    H = 1/2 - Omega is the squared norm entropy of §4.3.

    >>> from maxent.domains import NonNegative
    >>> SquaredNorm(domain=NonNegative()).conjugate([-1.0, 2.0])
    (array(2.), array([0., 2.]))
    """

    q: float = 2.0
    domain: Domain = Simplex()

    def __post_init__(self) -> None:
        number("SquaredNorm's q", self.q)
        if not 1 < self.q <= 2:
            raise ValueError(f"SquaredNorm needs 1 < q <= 2, got {self.q!r}")
        if self.q < 2 and not isinstance(self.domain, Simplex):
            raise ValueError(
                f"SquaredNorm(q={self.q}) is defined on the simplex only; q = 2 works on "
                f"{self.domain}"
            )

    @property
    def _has_measure(self) -> bool:  # type: ignore[override]
        return isinstance(self.domain, Simplex)

    @property
    def has_curvature(self) -> bool:  # type: ignore[override]
        """For q = 2 on the simplex."""
        return self.q == 2 and isinstance(self.domain, Simplex)

    @property
    def margin(self) -> float | None:  # type: ignore[override]
        """1 where all vertices have one length (Prop. 8), none otherwise."""
        return 1.0 if self.domain.constant_norm else None

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """1/(q - 1): Omega is (q-1)-strongly convex in the q-norm, which is above the 2-norm."""
        return 1 / (self.q - 1)

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if self.q == 2 and q is None:
            return 0.5 * row_dot(p, p)
        return 0.5 * measure_norm(np.maximum(p, 0), self.q, q) ** 2

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.q == 2 and q is None:
            p = self.domain._project(theta)
            with np.errstate(over="ignore", invalid="ignore"):
                return row_dot(p, theta - 0.5 * p), p
        top, z = self._threshold(theta, q)
        base = 1.0 if q is None else q
        p = base * z ** (1 / (self.q - 1))
        p /= row_sum(p)[:, None]
        p = same_type(p, theta)
        with np.errstate(invalid="ignore"):
            shifted = np.where(p > 0, theta - top, 0.0)
        return top[:, 0] + row_dot(shifted, p) - self._value(p, q), p

    def _threshold(self, theta: Rows, q: Array | None) -> tuple[Array, Array]:
        """Row maxima, and z = [theta - tau]_+ with the tau that makes p sum to one.

        theta - tau = ||p||^(2-q) p^(q-1), so p = z^m ||z||_{q'}^(1-m), m = 1/(q-1).
        """
        x = theta.astype(np.float64)
        base = np.ones((1, 1)) if q is None else np.atleast_2d(q)
        top = np.max(np.where(base > 0, x, -np.inf), axis=1, keepdims=True)
        x = np.maximum(np.where(base > 0, x - top, -1e150), -1e150)
        m = 1 / (self.q - 1)

        def excess(tau: Array, rows: Array) -> Array:
            w = _of_rows(base, rows)
            z = np.maximum(x[rows] - tau[:, None], 0)
            largest = np.maximum(z.max(axis=1), 1e-300)
            ratio = z / largest[:, None]
            norm = np.sum(w * ratio ** (m + 1), axis=1) ** (1 / (m + 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                mass = np.sum(w * ratio**m, axis=1) * norm ** (1 - m) * largest
            return np.where(z.max(axis=1) > 0, mass, 0.0) - 1

        high = np.zeros(len(x))
        low = -np.ones(len(x))
        while (short := excess(low, np.arange(len(x))) < 0).any():
            low[short] *= 2  # a light top cell (small q) needs a lower threshold
        tau = bracketed_root(excess, low, high)
        return top, np.maximum(x - tau[:, None], 0)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        if self.q == 2 and q is None:
            return self.domain.project_jvp(theta, p, v)
        # the Hessian of 1/2||.||_q^2 on the support is diagonal + rank one, inverted on sum = 0
        on = p > 0
        base = np.ones((1, 1)) if q is None else np.atleast_2d(q)
        norm = measure_norm(p, self.q, q)[:, None]
        ratio = np.where(on, p, 1.0) / np.where(base > 0, base, 1.0)
        inverse = np.where(
            on, base * ratio ** (2 - self.q) / ((self.q - 1) * norm ** (2 - self.q)), 0.0
        )
        g = np.where(on, ratio ** (self.q - 1) * norm ** (1 - self.q), 0.0)
        coefficient = 2 - self.q

        def solve(rhs: Array) -> Array:
            """(diag(1/inverse) + coefficient g g')^-1 rhs (Sherman-Morrison)."""
            y, k = inverse * rhs, inverse * g
            scale = coefficient * row_dot(g, y) / (1 + coefficient * row_dot(g, k))
            return y - scale[:, None] * k

        one = solve(on.astype(np.float64))
        y = solve(np.asarray(v, dtype=np.float64))
        return same_type(y - one * (row_sum(y) / row_sum(one))[:, None], p)

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """The support, centred, for sparsemax."""
        if not self.has_curvature:
            return super().curvature(theta, p)
        return Tsallis(2.0).curvature(theta, p, q)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if self.q == 2 and q is None:
            return self.domain._project(eta / (1 + tau))
        return super()._prox(eta, tau)


@dataclass(frozen=True)
class Renyi(Entropy):
    """Omega(p) = -H(p) with H(p) = log(sum_j p_j^beta) / (1 - beta), beta > 0.

    beta in (0, 1] is convex and dense; beta = 1 is Shannon. Beyond 1 Omega is not convex:
    the maximiser is found by an exact one-dimensional search (docs, "Differences from the
    papers") and the loss is still convex and non-negative.

    >>> Renyi(0.5).conjugate([1.0, 1.0])[1]
    array([0.5, 0.5])
    """

    beta: float
    _has_measure: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive("Renyi's beta", self.beta)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """True up to beta = 1."""
        return self.beta <= 1

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """True up to beta = 1; beyond, the best distribution can jump."""
        return self.beta <= 1

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """1 for Shannon; no bound is known otherwise."""
        return 1.0 if self.beta == 1 else np.inf

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if self.beta == 1:
            return Shannon()._value(p, q)
        p = np.maximum(p, 0).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_terms = self.beta * _log_ratio(p, q)
            if q is not None:
                log_terms = log_terms + np.log(q)
        terms = np.where(p > 0, log_terms, -np.inf)
        return special.logsumexp(terms, axis=1) / (self.beta - 1)

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.beta == 1:
            return Shannon()._conjugate(theta, q)
        if self.beta > 1:
            from maxent.entropies._renyi_search import maximise

            return maximise(theta, self.beta, q)
        top, distance = self._distances(theta, q)
        m = 1 / (1 - self.beta)
        log_p = -m * np.log(distance)
        if q is not None:
            with np.errstate(divide="ignore"):
                log_p = log_p + np.log(q)
        p = same_type(special.softmax(log_p, axis=1), theta)
        with np.errstate(invalid="ignore"):
            shifted = np.where(p > 0, theta - top, 0.0)
        return top[:, 0] + row_dot(shifted, p) - self._value(p, q), p

    def _distances(self, theta: Rows, q: Array | None) -> tuple[Array, Array]:
        """Row maxima and d = tau - theta, where p is proportional to q d^(-1/(1-beta)).

        Stationarity gives E_p[d] = beta/(1-beta), increasing in tau with slope >= 1.
        """
        x = theta.astype(np.float64)
        base = np.ones((1, 1)) if q is None else np.atleast_2d(q)
        live = np.broadcast_to(base > 0, x.shape) & np.isfinite(x)
        top = np.max(np.where(live, x, -np.inf), axis=1, keepdims=True)
        below = np.minimum(np.where(live, top - x, 1e150), 1e150)
        m, goal = 1 / (1 - self.beta), self.beta / (1 - self.beta)

        def shortfall(log_gap: Array, rows: Array) -> Array:
            w = _of_rows(base, rows)
            d = np.exp(log_gap)[:, None] + below[rows]
            ratio = d / d.min(axis=1, keepdims=True)
            with np.errstate(under="ignore"):
                mass = w * ratio**-m
            return 1 - np.sum(mass * d, axis=1) / (np.sum(mass, axis=1) * goal)

        best = np.argmin(below, axis=1)
        share = np.broadcast_to(base, x.shape)[np.arange(len(x)), best] / (
            np.broadcast_to(base, x.shape).sum(axis=1)
        )
        high = np.full(len(x), np.log(goal))
        log_gap = bracketed_root(shortfall, high + np.log(share), high)
        return top, np.where(live, np.exp(log_gap)[:, None] + below, np.inf)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        if self.beta == 1:
            return Shannon()._hvp(theta, p, v)
        if self.beta > 1:
            return super()._hvp(theta, p, v)
        # differentiate p ~ q d^-m under E_p[d] = m - 1
        m = 1 / (1 - self.beta)
        a = 1 / self._distances(theta, q)[1]
        shift = (row_dot(p, v) - m * row_dot(p, a * v)) / (1 - m * row_dot(p, a))
        u = a * (v - shift[:, None])
        return same_type(m * p * (u - row_dot(p, u)[:, None]), p)


def _of_rows(measure: Array, rows: Array) -> Array:
    """The part of a base measure, shared or one a row, that belongs to these rows."""
    return measure if len(measure) == 1 else measure[rows]


def _log_ratio(p: Array, q: Array | None) -> Array:
    """log(p/q), 0 where p = 0 and inf where only q = 0."""
    safe = np.where(p > 0, p, 1.0)
    if q is None:
        return np.log(safe)
    with np.errstate(divide="ignore"):
        return np.where(p > 0, np.log(safe) - np.log(q), 0.0)


def measure_norm(p: Array, order: float, q: Array | None) -> Array:
    """(sum q (p/q)^order)^(1/order), the norm of the density p/q in L^order(q)."""
    p = np.asarray(p, dtype=np.float64)
    base = np.ones(1) if q is None else q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, p / base, 0.0)
    largest = ratio.max(axis=1, keepdims=True, initial=0.0)
    if np.isinf(order):
        return largest[:, 0]
    share = ratio / np.where(largest > 0, largest, 1.0)  # no underflow for a large order
    return largest[:, 0] * np.sum(base * share**order, axis=1) ** (1 / order)


def separable_prox(eta: Array, inverse, slope) -> Array:  # type: ignore[no-untyped-def]
    """prox of a uniformly separable entropy: p_i = inverse(eta_i - nu), sum p = 1 (App. A.1).

    ``inverse(y, rows)`` solves g'(p) = y, ``slope(t)`` is g'(t); Prop. 9 brackets nu between
    the values that give the best entry 1 and every entry at most 1/d.
    """
    x = eta.astype(np.float64)
    x = np.where(np.isfinite(x), x, -1e300)

    def excess(nu: Array, rows: Array) -> Array:
        return np.sum(inverse(x[rows] - nu[:, None], rows), axis=1) - 1

    low = np.max(x - slope(1.0), axis=1)
    high = np.max(x - slope(1.0 / x.shape[1]), axis=1)
    nu = bracketed_root(excess, low, high)
    p = inverse(x - nu[:, None], np.arange(len(x)))
    return same_type(p / np.sum(p, axis=1, keepdims=True), eta)
