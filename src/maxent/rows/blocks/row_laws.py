"""How one row that is cut in pieces is normalised, for the entropies whose map is

    p_i = q_i h(theta_i - tau),   tau such that sum_i p_i = 1:

Shannon, h = exp, and Tsallis, h(t) = [1 + (alpha - 1) t]_+^(1/(alpha - 1)). Given tau the cells are
independent of each other, so that a block needs nothing of the other blocks but one number. Their
Jacobian is diag(s) - s s' / sum s with s_i = q_i h'(theta_i - tau).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from maxent.core.entropies import Entropy, Relative, Shannon, Tsallis
from maxent.rows.arrays import Array

_ROUNDS = 200  # of a search for tau; a dozen do
_EXACT = 4e-16  # share of the mass that may be missing

Masses = Callable[[float], tuple[float, float]]


def law_of(entropy: Entropy) -> RowLaw:
    """The law of an entropy; an error where cells are not independent given one number."""
    inner = entropy.entropy if isinstance(entropy, Relative) else entropy
    if isinstance(inner, Shannon) or (isinstance(inner, Tsallis) and inner.alpha == 1):
        return ShannonLaw()
    if isinstance(inner, Tsallis):
        return TsallisLaw(float(inner.alpha))
    raise TypeError(
        f"cells in blocks need the entropy Shannon or Tsallis, whose cells hang together by one "
        f"number, got {inner!r}; fit it in memory"
    )


class RowLaw(ABC):
    """The map of a row, cell by cell."""

    gibbs: ClassVar[bool] = False  # whether h is exp: pieces merge by their masses, tau unknown

    @abstractmethod
    def search(self, top: float, log_mass: float, total: float, masses: Masses) -> float:
        """tau, from the largest score, log sum q exp(theta), sum q, and tau -> (sum p, sum s)."""

    @abstractmethod
    def density(self, theta: Array, q: Array, tau: float) -> Array:
        """p at given cells."""

    @abstractmethod
    def slopes(self, theta: Array, q: Array, p: Array, tau: float) -> Array:
        """s at given cells; the p itself where they are the same."""

    @abstractmethod
    def conjugate(self, tau: float, above: float) -> float:
        """Omega*(theta), from ``above`` = sum p (theta - tau)."""

    @abstractmethod
    def value_less_score(self, x: Array, q: Array, theta: Array) -> float:
        """The part of Omega(x) - <theta, x> that given cells add."""


@dataclass(frozen=True)
class ShannonLaw(RowLaw):
    """p = q exp(theta - tau), tau the log-partition."""

    gibbs: ClassVar[bool] = True

    def search(self, top: float, log_mass: float, total: float, masses: Masses) -> float:
        """In closed form."""
        return log_mass

    def density(self, theta: Array, q: Array, tau: float) -> Array:
        """q exp(theta - tau)."""
        p = theta - tau
        np.exp(p, out=p)
        p *= q
        return p

    def slopes(self, theta: Array, q: Array, p: Array, tau: float) -> Array:
        """p."""
        return p

    def conjugate(self, tau: float, above: float) -> float:
        """tau."""
        return tau

    def value_less_score(self, x: Array, q: Array, theta: Array) -> float:
        """sum x (log(x / q) - theta)."""
        return float(special.rel_entr(x, q).sum() - x @ theta)


@dataclass(frozen=True)
class TsallisLaw(RowLaw):
    """p = q [1 + (alpha - 1)(theta - tau)]_+^(1/(alpha - 1))."""

    alpha: float

    def search(self, top: float, log_mass: float, total: float, masses: Masses) -> float:
        """Newton's method on (sum p)^(alpha - 1) = 1, which is nearly linear, between bounds."""
        a = self.alpha - 1
        low, high = -np.inf, top - np.expm1(-a * np.log(total)) / a  # where every h is 1 / total
        tau = min(log_mass, high)  # that of Shannon is a fair guess
        if a < 0:  # h is infinite at -1/a and nowhere below exp: two lower bounds
            low, tau = max(log_mass, top + 1 / a), high
        for _ in range(_ROUNDS):
            mass, slope = masses(tau)
            if abs(mass - 1) <= _EXACT:
                break
            low, high = (tau, high) if mass > 1 else (low, tau)
            step = (mass - mass ** (1 - a)) / (a * slope) if mass > 0 and slope > 0 else -np.inf
            new = tau + step
            if not low < new < high:
                new = (low + high) / 2 if np.isfinite(low) else high - 2 * max(abs(top - high), 1.0)
            if new in (tau, low, high):
                break
            tau = new
        return tau

    def _above(self, theta: Array, tau: float) -> Array:
        above = (self.alpha - 1) * (theta - tau)
        above += 1.0
        return np.maximum(above, 0.0, out=above)

    def density(self, theta: Array, q: Array, tau: float) -> Array:
        """q [1 + (alpha - 1)(theta - tau)]_+^(1/(alpha - 1))."""
        p = _power(self._above(theta, tau), 1 / (self.alpha - 1))
        p *= q
        return p

    def slopes(self, theta: Array, q: Array, p: Array, tau: float) -> Array:
        """q (p/q)^(2 - alpha) on the support."""
        above = self._above(theta, tau)
        s = np.zeros_like(p)
        inside = above > 0
        s[inside] = q[inside] * _power(above[inside], (2 - self.alpha) / (self.alpha - 1))
        return s

    def conjugate(self, tau: float, above: float) -> float:
        """tau + (1 - 1/alpha) sum p (theta - tau): Omega(p) is sum p (theta - tau) / alpha."""
        return tau + (1 - 1 / self.alpha) * above

    def value_less_score(self, x: Array, q: Array, theta: Array) -> float:
        """sum x ((x/q)^(alpha - 1) - 1) / (alpha (alpha - 1)) - x theta."""
        a = self.alpha - 1
        inside = x > 0
        x, q = x[inside], q[inside]
        return float(x @ np.expm1(a * np.log(x / q)) / (a * self.alpha) - x @ theta[inside])


def _power(x: Array, power: float) -> Array:
    if power == 1:
        return x.copy()
    return np.square(x) if power == 2 else x**power
