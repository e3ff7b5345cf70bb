"""Entropies of the simplex made from norms (Fenchel-Young paper, §4.3).

Both know their base measure q, see ``MeasuredEntropy``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import Cube, Domain, NonNegative, Simplex
from maxent.core.entropies._measures import measure_norm, of_rows
from maxent.core.entropies._steep_norm import steep_norm_map
from maxent.core.entropies.base import MeasuredEntropy, number, same_type
from maxent.core.entropies.simplex import Tsallis
from maxent.core.prediction_maps import norm_map, squared_norm_map
from maxent.core.roots import bracketed_root, linear_plus_power
from maxent.rows.arrays import Array, Rows, row_dot, row_sum


@io.register
@dataclass(frozen=True)
class NormEntropy(MeasuredEntropy):
    """`Omega(p) = ||p||_q - 1`, `q in (1, inf]`, eq. (20); `q = inf` is Berger-Parker dominance.

    Parameters
    ----------
    q : float
        Order of the norm, in (1, inf].

    Examples
    --------
    >>> NormEntropy(float("inf")).conjugate([2.0, 1.9, 0.0])[1]
    array([0.5, 0.5, 0. ])
    """

    q: float
    margin = 1.0
    has_prox = True
    _checks_scores = True

    def __post_init__(self) -> None:
        number("NormEntropy's q", self.q)
        if not self.q > 1:
            raise ValueError(f"NormEntropy needs q > 1 (inf allowed), got {self.q!r}")

    @property
    def differentiable(self) -> bool:
        """False for `q = inf`: uniform on the support, which jumps."""
        return bool(np.isfinite(self.q))

    @property
    def link_power(self) -> float:
        """q - 1."""
        return float(self.q - 1)

    def link_slope(self, p: Array, q: Array) -> float | None:
        """`||p||_q^(q-1)`, from `theta_i - tau = (p_i / ||p||_q)^(q-1)`."""
        if np.isinf(self.q):
            return None
        return float(measure_norm(p[None], self.q, q)[0] ** (self.q - 1))

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
        if 2 < self.q < np.inf:
            return _prox_of_norm(eta, tau, self.q, q)
        if np.isfinite(self.q) or q is not None:
            return super()._prox(eta, tau, q)
        # prox of tau max on all of R^d, then the simplex: permutation-symmetric, so they compose
        project = Simplex().project
        return project(eta - tau * project(eta / tau))


@io.register
@dataclass(frozen=True)
class SquaredNorm(MeasuredEntropy):
    """`Omega(p) = 1/2 ||p||_q^2`, `q in (1, inf)`.

    `q = 2` is the projection onto any domain: sparsemax on the simplex, relu on the cone, the
    squared loss on `R^d`, SparseMAP on a structure. Other q live on the simplex, where
    `H = 1/2 - Omega` is the squared norm entropy of §4.3; beyond 2 it is strictly but not
    strongly convex, and the map is steep where an entry becomes 0.

    Parameters
    ----------
    q : float, default 2.0
        Order of the norm, > 1; other than 2 on the simplex only.
    domain : Domain, default Simplex()
        Where p lies.

    Examples
    --------
    >>> from maxent.core.domains import NonNegative
    >>> SquaredNorm(domain=NonNegative()).conjugate([-1.0, 2.0])
    (array(2.), array([0., 2.]))
    """

    q: float = 2.0
    domain: Domain = Simplex()

    def __post_init__(self) -> None:
        number("SquaredNorm's q", self.q)
        if not 1 < self.q < np.inf:
            raise ValueError(f"SquaredNorm needs a finite q > 1, got {self.q!r}")
        if self.q != 2 and not isinstance(self.domain, Simplex):
            raise ValueError(
                f"SquaredNorm(q={self.q}) is defined on the simplex only; q = 2 works on "
                f"{self.domain}"
            )

    @property
    def has_curvature(self) -> bool:
        """For `q = 2` on the simplex."""
        return self.q == 2 and isinstance(self.domain, Simplex)

    @property
    def separable(self) -> bool:
        """On the cube and the cone."""
        return isinstance(self.domain, Cube | NonNegative)

    @property
    def margin(self) -> float | None:
        """1 where all vertices have one length (Prop. 8), none otherwise."""
        return 1.0 if self.domain.constant_norm else None

    @property
    def smoothness(self) -> float:
        """`1/(q - 1)` up to 2, where `Omega` is (q-1)-strongly convex in the q-norm; else inf."""
        return 1 / (self.q - 1) if self.q <= 2 else np.inf

    @property
    def link_power(self) -> float | None:
        """q - 1 on the simplex."""
        return float(self.q - 1) if isinstance(self.domain, Simplex) else None

    def link_slope(self, p: Array, q: Array) -> float:
        """`||p||_q^(q-2)`, from `theta_i - tau = ||p||_q^(2-q) p_i^(q-1)`."""
        return float(measure_norm(p[None], self.q, q)[0] ** (self.q - 2))

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if self.q == 2 and q is None:
            return 0.5 * row_dot(p, p)
        return 0.5 * measure_norm(np.maximum(p, 0), self.q, q) ** 2

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.q == 2 and q is None:
            p = self.domain.project(theta)
            with np.errstate(over="ignore", invalid="ignore"):
                return row_dot(p, theta - 0.5 * p), p
        if self.q > 2:
            return steep_norm_map(theta, self.q, q)
        return squared_norm_map(theta, self.q, q)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        if self.q == 2 and q is None:
            return self.domain.project_jvp(theta, p, v)
        # the Hessian of 1/2||.||_q^2 on the support is diagonal + rank one, inverted on sum = 0
        on = p > 0
        base = np.ones((1, 1)) if q is None else np.atleast_2d(q)
        norm = measure_norm(p, self.q, q)[:, None]
        ratio = np.where(on, p, 1.0) / np.where(base > 0, base, 1.0)
        with np.errstate(over="ignore"):  # beyond q = 2 an entry near 0 is as steep as need be
            steep = np.minimum((ratio / norm) ** (2 - self.q), 1e200)
        inverse = np.where(on, base * steep / (self.q - 1), 0.0)
        g = np.where(on, ratio ** (self.q - 1) * norm ** (1 - self.q), 0.0)
        coefficient = 2 - self.q

        def solve(rhs: Array) -> Array:
            """(diag(1/inverse) + coefficient g g')^-1 rhs (Sherman-Morrison)."""
            y, k = inverse * rhs, inverse * g
            scale = coefficient * row_dot(g, y) / (1 + coefficient * row_dot(g, k))
            return y - scale[:, None] * k

        v = np.asarray(v, dtype=np.float64)
        if self.q > 2:  # one entry may be far steeper than the others: its own v cancels
            v = v - np.take_along_axis(v, inverse.argmax(axis=1)[:, None], axis=1)
        one = solve(on.astype(np.float64))
        y = solve(v)
        return same_type(y - one * (row_sum(y) / row_sum(one))[:, None], p)

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """The support, centred, for sparsemax."""
        if not self.has_curvature:
            return super().curvature(theta, p)
        return Tsallis(2.0).curvature(theta, p, q)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        if self.q == 2 and q is None:
            return self.domain.project(eta / (1 + tau))
        if self.q > 2:
            return _prox_of_norm(eta, tau, self.q, q, 2.0)
        return super()._prox(eta, tau, q)


def _prox_of_norm(eta: Rows, tau: float, order: float, q: Array | None, power: float = 1.0) -> Rows:
    """prox of a norm of order > 2, or half its square (power 2): too steep for Newton's method.

    p + tau N^(power-order) (p/q)^(order-1) = eta - nu with N the norm of p: separable for a given
    N, and a larger N gives a p of larger norm. The answer is the one N that is the norm of its p.
    """
    base = np.ones((1, eta.shape[1])) if q is None else np.atleast_2d(q)
    off, a = base == 0, order - 1
    safe = np.where(off, 1.0, base)

    def point(norm: Array, rows: Array) -> Array:
        x = eta[rows].astype(np.float64)
        x = np.where(np.isfinite(x), x, -1e300)
        weight = tau * norm[:, None] ** (power - order) * of_rows(safe, rows) ** -a
        closed, weight = (np.broadcast_to(z, x.shape) for z in (of_rows(off, rows), weight))

        def entries(t: Array, inner: Array) -> Array:
            """p where nu leaves t to the best entry (Prop. 9, where nu is far larger than t)."""
            t = t[:, None]
            with np.errstate(over="ignore"):
                slope = np.where(closed[inner], np.inf, t + weight[inner] * t**a)
            y = x[inner] - np.max(x[inner] - slope, axis=1, keepdims=True)
            p, on = np.zeros_like(y), (y > 0) & ~closed[inner]
            p[on] = linear_plus_power(y[on], 1.0, weight[inner][on], a)
            return p

        ends = np.full(len(x), 1 / x.shape[1]), np.ones(len(x))
        t = bracketed_root(lambda t, inner: 1 - entries(t, inner).sum(axis=1), *ends)
        p = entries(t, np.arange(len(x)))
        return p / p.sum(axis=1, keepdims=True)

    def excess(norm: Array, rows: Array) -> Array:
        return measure_norm(point(norm, rows), order, of_rows(base, rows)) - norm

    least, most = base.sum(axis=1) ** (1 / order - 1), safe.min(axis=1) ** (1 / order - 1)
    rows = len(eta)
    norm = bracketed_root(excess, *(np.broadcast_to(end, rows) for end in (least, most)))
    return same_type(point(norm, np.arange(rows)), eta)
