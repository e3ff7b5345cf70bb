"""Bregman: how far p is from a default distribution, by the Bregman divergence of an entropy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent import io
from maxent.core.domains import Simplex
from maxent.core.entropies.base import Entropy
from maxent.core.entropies.wrappers import Shifted, Wrapper
from maxent.rows.arrays import Array, Rows


@io.register
@dataclass(frozen=True, eq=False)
class Bregman(Wrapper):
    """`B(p || p0) = Omega(p) - Omega(p0) - <grad Omega(p0), p - p0>`, which is 0 at p0 alone.

    For Shannon `KL(p || p0)`, for ``Tsallis(2)`` half the squared distance: the generalization that
    the structural paper names in §5. Up to a constant it is a shifted `Omega`, and scores 0 give
    back p0. ``Relative`` is another one, a Csiszar divergence; it alone leaves a model as it is
    where a cell is split into two. With a uniform p0 they are the same but for a factor.

    Parameters
    ----------
    entropy : Entropy
        `Omega`, of the simplex, with a ``link_power``: ``Shannon()``, ``Tsallis(1.5)`` ...
    p0 : array (n_cells,)
        Default distribution, positive; it is normalised to sum to 1.

    Examples
    --------
    >>> from maxent.core.entropies.simplex import Tsallis
    >>> distance = Bregman(Tsallis(2.0), [0.5, 0.25, 0.25])
    >>> float(distance.value([0.75, 0.25, 0.0]))
    0.0625
    >>> distance.conjugate([0.0, 0.0, 0.0])[1]
    array([0.5 , 0.25, 0.25])
    """

    entropy: Entropy
    p0: Any
    _shifted: Shifted = field(init=False, repr=False)
    _constant: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        power = self.entropy.link_power
        if not isinstance(self.entropy.domain, Simplex) or power is None or power == np.inf:
            raise TypeError(
                "Bregman needs a differentiable entropy of the simplex with a link_power (Shannon, "
                f"Tsallis, SquaredNorm), got {self.entropy!r}"
            )
        p0 = np.asarray(self.p0, dtype=np.float64)
        if p0.ndim != 1 or not (np.isfinite(p0).all() and (p0 > 0).all() and p0.size):
            raise ValueError(f"p0 must be a row of positive masses, got shape {p0.shape}")
        total = float(p0.sum())
        if abs(total - 1) > p0.size * np.finfo(float).eps:  # else it was normalised before
            p0 = p0 / total
        gradient = self._gradient(p0, power)
        object.__setattr__(self, "p0", p0)
        object.__setattr__(self, "_shifted", Shifted(self.entropy, gradient))
        object.__setattr__(self, "_constant", float(self._shifted.value(p0)))

    def _gradient(self, p0: Array, power: float) -> Array:
        """Of Omega at p0, up to a constant: the scores whose p is p0."""
        if power == 0:
            return np.log(p0)
        slope = self.entropy.link_slope(p0, np.ones_like(p0))
        if slope is None:
            raise TypeError(f"{self.entropy!r} does not say its gradient: it has no link_slope")
        return np.asarray(p0**power / slope)

    def __repr__(self) -> str:  # p0 has an entry per cell
        return f"Bregman({self.entropy!r}, p0 of shape {np.shape(self.p0)})"

    @property
    def has_prox(self) -> bool:
        """As the entropy inside."""
        return self.entropy.has_prox

    def _value(self, p: Rows) -> Array:
        return self._shifted._value(p) - self._constant

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, p = self._shifted._conjugate(theta)
        return values + self._constant, p

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return self._shifted._hvp(theta, p, v)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """That of the entropy inside, at the shifted scores."""
        return self._shifted.curvature(theta, p)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return self._shifted._prox(eta, tau)
