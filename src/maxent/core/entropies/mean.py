"""The entropy of the mean of structures (Fenchel-Young paper, §7.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from maxent import io
from maxent.core.domains import Domain, Simplex
from maxent.core.entropies.base import Entropy
from maxent.rows.arrays import Array, Ragged, Rows, row_dot, row_sum


@io.register
@dataclass(frozen=True)
class MeanEntropy(Entropy):
    """`Omega(p) = sum_i p_i log p_i` of the mean parameters, on any bounded domain.

    Its map is the Kullback-Leibler projection: the softmax on the simplex, Sinkhorn's on
    ``Birkhoff()`` and ``Transport(a, b)``, where the entropy of the distribution (Shannon) would
    be a permanent. On other structures (``Chain``, ``Alignment``, ``Arborescence``, your own) it
    takes nothing but their argmax, row by row (§7.2). Every entry that may be positive is (§7.3).

    Parameters
    ----------
    domain : Domain, default Simplex()
        A bounded domain whose points have no negative entry.

    Examples
    --------
    >>> from maxent.structured import Birkhoff
    >>> MeanEntropy(domain=Birkhoff()).conjugate([1.0, 0.0, 0.0, 1.0])[1].round(3)
    array([0.731, 0.269, 0.269, 0.731])
    """

    domain: Domain = Simplex()

    def __post_init__(self) -> None:
        if not (self.domain.has_project_kl or self.domain.bounded):
            raise TypeError(
                f"MeanEntropy needs a bounded domain, or one with a Kullback-Leibler projection "
                f"(project_kl); {self.domain} is not. SquaredNorm(domain=...) regularizes the mean "
                "everywhere"
            )

    @property
    def smoothness(self) -> float:
        """The largest entry of the domain: the Hessian diag(1/p) is at least its inverse."""
        return self.domain.largest_entry

    def _value(self, p: Rows) -> Array:
        return -row_sum(_entries(special.entr, np.maximum(p, 0)))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        p = self.domain.project_kl(theta)
        return row_dot(theta, p) - self._value(p.astype(np.float64)), p

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return self.domain.project_kl_jvp(theta, p, v)


def _entries(function: np.ufunc, rows: Rows) -> Rows:
    """A function of every entry in float64."""
    if isinstance(rows, Ragged):
        return Ragged(function(rows.values.astype(np.float64)), rows.offsets)
    return function(rows.astype(np.float64))
