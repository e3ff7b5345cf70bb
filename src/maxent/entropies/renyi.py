"""Renyi entropies of the simplex (Fenchel-Young paper, §4.3), against a base measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from maxent import io
from maxent._roots import bracketed_root
from maxent._rows import Array, Rows, row_dot
from maxent.entropies._measures import measure_norm, of_rows
from maxent.entropies._renyi_search import maximise, negative_renyi
from maxent.entropies.base import MeasuredEntropy, positive, same_type
from maxent.entropies.simplex import Shannon


@io.register
@dataclass(frozen=True)
class Renyi(MeasuredEntropy):
    """Omega(p) = -H(p) with H(p) = log(sum_j p_j^beta) / (1 - beta), beta > 0.

    beta in (0, 1] is convex and dense; beta = 1 is Shannon. Beyond 1 Omega is not convex:
    the maximiser is found by an exact one-dimensional search (docs, "Differences from the
    papers") and the loss is still convex and non-negative.

    >>> Renyi(0.5).conjugate([1.0, 1.0])[1]
    array([0.5, 0.5])
    """

    beta: float

    def __post_init__(self) -> None:
        positive("Renyi's beta", self.beta)

    @property
    def convex(self) -> bool:
        """True up to beta = 1."""
        return self.beta <= 1

    @property
    def differentiable(self) -> bool:
        """True up to beta = 1; beyond, the best distribution can jump."""
        return self.beta <= 1

    @property
    def smoothness(self) -> float:
        """1 for Shannon; no bound is known otherwise."""
        return 1.0 if self.beta == 1 else np.inf

    @property
    def link_power(self) -> float:
        """beta - 1; the slope is negative below beta = 1."""
        return float(self.beta - 1)

    def link_slope(self, p: Array, q: Array) -> float | None:
        """(beta - 1) / beta sum_i q_i (p_i / q_i)^beta, from the gradient of Omega."""
        if self.beta == 1:
            return None
        norm = measure_norm(p[None], self.beta, q)[0]
        return float((self.beta - 1) / self.beta * norm**self.beta)

    def _value(self, p: Rows, q: Array | None = None) -> Array:
        if self.beta == 1:
            return Shannon()._value(p, q)
        return negative_renyi(p, self.beta, q)

    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]:
        if self.beta == 1:
            return Shannon()._conjugate(theta, q)
        if self.beta > 1:
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
            w = of_rows(base, rows)
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
            return super()._hvp(theta, p, v, q)
        # differentiate p ~ q d^-m under E_p[d] = m - 1
        m = 1 / (1 - self.beta)
        a = 1 / self._distances(theta, q)[1]
        shift = (row_dot(p, v) - m * row_dot(p, a * v)) / (1 - m * row_dot(p, a))
        u = a * (v - shift[:, None])
        return same_type(m * p * (u - row_dot(p, u)[:, None]), p)
