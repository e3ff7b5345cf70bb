"""The relative entropy of positive measures: masses need not add up to 1 (density paper, §3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from maxent import io
from maxent.core.domains import NonNegative
from maxent.core.entropies.base import Entropy, same_type
from maxent.rows.arrays import Array, Rows, row_sum, uneven

_LARGEST = 700.0  # e^709 is the largest power of e in float64


@io.register
@dataclass(frozen=True, eq=False)
class UnnormalisedRelativeEntropy(Entropy):
    """`Omega(p) = sum_j p_j log(p_j/q_j) - p_j + q_j` on the cone `p >= 0`.

    The Bregman divergence of `sum p log p` (density paper, §3). Its conjugate is
    `Omega*(theta) = sum_j q_j (e^theta_j - 1)` with `p_j = q_j e^theta_j`: with counts as the
    observed measure, the loss of Poisson regression. With a total mass of 1 it is ``Shannon``
    relative to q. Scores beyond ``largest_score`` may have the conjugate inf.

    Parameters
    ----------
    q0 : float or array (n_cells,), default 1.0
        The masses q that scores of 0 give; they need not add up to 1.

    Examples
    --------
    >>> UnnormalisedRelativeEntropy([2.0, 3.0]).conjugate(np.log([2.0, 1.0]))
    (array(2.), array([4., 3.]))
    """

    q0: Any = 1.0
    _log_q: Any = field(init=False, repr=False, compare=False)
    domain = NonNegative()
    has_curvature = True
    largest_score = _LARGEST

    def __post_init__(self) -> None:
        q = np.array(self.q0, dtype=np.float64)
        if q.ndim > 1 or q.size == 0 or not np.isfinite(q).all() or (q < 0).any():
            raise ValueError(
                f"q0 must be a finite number >= 0 or a row of them, got {self.q0!r:.80}"
            )
        q.setflags(write=False)
        object.__setattr__(self, "q0", q)
        with np.errstate(divide="ignore"):
            object.__setattr__(self, "_log_q", np.asarray(np.log(q)))

    def __repr__(self) -> str:  # q0 may have an entry per cell
        inside = f"q0={float(self.q0)!r}" if self.q0.ndim == 0 else f"q0 of shape {self.q0.shape}"
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnnormalisedRelativeEntropy):
            return NotImplemented
        return np.array_equal(self.q0, other.q0)

    def __hash__(self) -> int:
        return hash((type(self), self.q0.tobytes()))

    def _fits(self, rows: Rows) -> Array:
        q: Array = self.q0
        if q.ndim and (uneven(rows) or q.size != rows.shape[-1]):
            raise ValueError(
                f"q0 has {q.size} entries, the rows have "
                f"{'different sizes' if uneven(rows) else rows.shape[-1]}"
            )
        return q

    def _value(self, p: Rows) -> Array:
        return row_sum(special.kl_div(np.maximum(p, 0), self._fits(p)))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        q = self._fits(theta)
        with np.errstate(over="ignore"):
            # q = 0 forbids a cell, whatever its score
            p = same_type(np.exp(theta + self._log_q), theta)
            values = row_sum(np.where(q > 0, np.expm1(theta), 0.0) * q)
        return values, p

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return p * v

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, None]:
        """diag(p)."""
        return p, None

    def _prox(self, eta: Rows, tau: float) -> Rows:
        # p + tau log(p/q) = eta  <=>  p = tau omega(eta/tau + log(q/tau)), Wright's omega
        self._fits(eta)
        argument = eta / tau + self._log_q - np.log(tau)
        p = tau * np.real(special.wrightomega(np.maximum(argument, -1e300)))
        return same_type(p, eta)
