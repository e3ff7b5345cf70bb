"""Renyi entropies of the simplex (Fenchel-Young paper, §4.3), against a base measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.entropies._measures import log_ratio, measure_norm
from maxent.core.entropies._renyi_search import (
    maximise,
    maximise_min_entropy,
    negative_renyi,
)
from maxent.core.entropies.base import MeasuredEntropy, positive, same_type
from maxent.core.entropies.simplex import Shannon
from maxent.core.prediction_maps import renyi_map
from maxent.rows.arrays import Array, Rows, row_dot


@io.register
@dataclass(frozen=True)
class Renyi(MeasuredEntropy):
    """`Omega(p) = -H(p)` with `H(p) = log(sum_j p_j^beta) / (1 - beta)`, `beta > 0`.

    `beta in (0, 1]` is convex and dense; `beta = 1` is Shannon. Beyond 1 `Omega` is in general
    not convex: the maximiser is found by an exact one-dimensional search (docs, "Differences from
    the papers") and the loss is still convex and non-negative. `beta = inf` is the min-entropy
    `H(p) = -log max_j p_j`, whose best distribution is uniform on the best k entries.

    Parameters
    ----------
    beta : float
        Order, in (0, inf]; convex up to 1 for any number of entries.

    Examples
    --------
    >>> Renyi(0.5).conjugate([1.0, 1.0])[1]
    array([0.5, 0.5])
    """

    beta: float

    def __post_init__(self) -> None:
        if self.beta != np.inf:
            positive("Renyi's beta", self.beta)

    @property
    def convex(self) -> bool:
        """True up to `beta = 1`, where it holds for any number of entries."""
        return self.beta <= 1

    @property
    def differentiable(self) -> bool:
        """True up to `beta = 1`; beyond, the best distribution can jump."""
        return self.beta <= 1

    @property
    def smoothness(self) -> float:
        """1 for Shannon; no bound is known otherwise."""
        return 1.0 if self.beta == 1 else np.inf

    @property
    def link_power(self) -> float:
        """`beta - 1`; the slope is negative below `beta = 1`."""
        return float(self.beta - 1)

    def link_slope(self, p: Array, q: Array) -> float | None:
        """`(beta - 1) / beta sum_i q_i (p_i / q_i)^beta`, from the gradient of `Omega`."""
        if self.beta in (1, np.inf):
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
        if np.isinf(self.beta):
            return maximise_min_entropy(theta, q)
        if self.beta > 1:
            return maximise(theta, self.beta, q)
        return renyi_map(theta, self.beta, q)

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        if self.beta == 1:
            return Shannon()._hvp(theta, p, v)
        if np.isinf(self.beta):
            return np.zeros_like(p)  # flat between the jumps
        if self.beta > 1:
            return super()._hvp(theta, p, v, q)
        # p_i ~ q_i d_i^-m under E_p[d] = m - 1, where 1/d_i ~ slope_i = (p_i/q_i)^(1-beta) / mean
        log_density = log_ratio(p.astype(np.float64), q)
        log_mean = np.log1p(row_dot(p, np.expm1((self.beta - 1) * log_density)))
        bend = np.expm1((1 - self.beta) * log_density + log_mean[:, None])
        m = 1 / (1 - self.beta)
        shift = (row_dot(p, v) + m * row_dot(p, bend * v)) / (1 + m * row_dot(p, bend))
        u = (1 + bend) * (v - shift[:, None])
        return same_type(p * (u - row_dot(p, u)[:, None]) / self.beta, p)
