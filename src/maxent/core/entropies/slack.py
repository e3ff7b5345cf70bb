"""Slack functions other than the linear one (discrimination paper §3.1): functions of a hinge.

A network with slacks xi_i pays sum_i U(xi_i), xi_i = max_y cost_i(y) - <theta_i, y_i - y>. With
U(xi) = xi that is the Fenchel-Young loss of Zero with a cost. Other U are losses of an entropy on
the cone of the differences m (q - y_i), m >= 0: Omega(p) = -<cost, p> + U*(m) with the smallest m.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent import io
from maxent.core.domains import Domain, Simplex
from maxent.core.entropies.base import Entropy, positive
from maxent.core.entropies.wrappers import Shifted, Zero
from maxent.rows.arrays import Array, Ragged, Rows, Tied, as_float, row_dot, row_scale, row_sum
from maxent.structured.chain.domain import Chain
from maxent.structured.trees.rows import TreeRows
from maxent.structured.trees.tree import Tree

SLACKS = ("squared", "kl")


@io.register
@dataclass(frozen=True, eq=False)
class DifferenceCone(Domain):
    """`{m (q - y) : m >= 0}` with q in the inner domain: differences from observed vertices y.

    Parameters
    ----------
    inside : Domain
        The inner domain.
    observed : array
        The observed vertices y, one row each.

    Examples
    --------
    >>> cone = DifferenceCone(Simplex(), np.array([[0.0, 1.0, 0.0]]))
    >>> cone.contains([[2.0, -3.0, 1.0]]), cone.mass([[2.0, -3.0, 1.0]])
    (array([ True]), array([3.]))
    """

    inside: Domain
    observed: Any
    bounded = False
    rows_alike = False

    def __post_init__(self) -> None:
        if not isinstance(self.inside, Simplex | Chain | Tree | TreeRows):
            raise TypeError(
                f"differences are for Simplex, Chain and Tree, got {self.inside!r}: of other "
                "domains the entries alone do not tell how large a difference is"
            )
        observed = as_float(self.observed)
        if isinstance(observed, Tied):
            raise TypeError("differences need a block of transitions per position; write them out")
        object.__setattr__(self, "observed", observed)

    @property
    def ragged(self) -> bool:
        """As the inner domain."""
        return self.inside.ragged

    def mass(self, p: Any) -> Array:
        """The smallest m of each row: how much of its observed vertex a difference takes away."""
        taken = -as_float(p) * self.observed
        if isinstance(taken, Ragged):
            return np.maximum(np.maximum.reduceat(taken.values, taken.offsets[:-1]), 0.0)
        return np.maximum(taken.max(axis=-1), 0.0)

    def vertices(self, size: int) -> Array:
        """The apex 0."""
        return np.zeros((1, size))

    def _argmax(self, theta: Rows) -> Rows:
        raise ValueError("a linear function is unbounded on a cone; use an entropy on it (Slack)")

    def _contains(self, p: Rows, atol: float) -> Array:
        mass = self.mass(p)
        scale = np.where(mass > 0, 1 / np.maximum(mass, 1e-300), 1.0)
        zero = row_sum(abs(p)) <= atol
        return zero | self.inside.contains(row_scale(p, scale) + self.observed, 1e-7 + atol)


@io.register
@dataclass(frozen=True, eq=False)
class Slack(Entropy):
    """U of the hinge of an observed output, for a hinge = Zero with a cost that is 0 there.

    kind "squared": `U(xi) = xi^2 / 2`, `U*(m) = m^2 / 2`.
    kind "kl": U is the smallest KL divergence from an exponential prior of rate c of a
    distribution of slacks with mean xi, over c (Jaakkola et al., 1999; here slacks are >= 0):
    `U(xi) = xi - (1 + log(c xi)) / c` beyond 1/c and 0 below, `U*(m) = -log(1 - m) / c`.

    Parameters
    ----------
    entropy : Entropy
        The hinge, ``Zero`` with a cost that is 0 at ``observed``.
    observed : array
        The observed outputs, one row each.
    kind : "squared" or "kl", default "squared"
        U, see above.
    rate : float, default 1.0
        c, the rate of the exponential prior of "kl".

    Examples
    --------
    >>> y = np.array([[1.0, 0.0]])
    >>> loss = Slack(Shifted(Zero(), 1 - y), y, "squared")
    >>> loss.conjugate([[0.5, 1.5]])  # the hinge is 2
    (array([2.]), array([[-2.,  2.]]))
    """

    entropy: Entropy
    observed: Any
    kind: str = "squared"
    rate: float = 1.0
    _cone: Any = field(init=False, repr=False, default=None)
    differentiable = False

    def __post_init__(self) -> None:
        inner = self.entropy.entropy if isinstance(self.entropy, Shifted) else self.entropy
        if not isinstance(inner, Zero):
            raise TypeError(f"Slack takes Zero with a cost, a hinge, got {self.entropy!r}")
        if self.kind not in SLACKS:
            raise ValueError(f"kind must be one of {SLACKS}, got {self.kind!r}")
        positive("rate", self.rate)
        object.__setattr__(self, "observed", as_float(self.observed))
        object.__setattr__(self, "_cone", DifferenceCone(inner.domain, self.observed))

    def __repr__(self) -> str:
        return f"Slack({self.entropy!r}, kind={self.kind!r}, rate={self.rate:g})"

    @property
    def domain(self) -> Domain:
        """The cone of differences."""
        return self._cone

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        value, vertex = self.entropy.conjugate(theta)
        hinge = np.maximum(value - row_dot(theta, self.observed), 0.0)
        if self.kind == "squared":
            total, slope = hinge**2 / 2, hinge
        else:
            beyond = np.maximum(self.rate * hinge, 1.0)
            total = np.where(beyond > 1, hinge - (1 + np.log(beyond)) / self.rate, 0.0)
            slope = 1 - 1 / beyond
        return total, row_scale(vertex - self.observed, slope)

    def _value(self, p: Rows) -> Array:
        mass = self._cone.mass(p)
        if self.kind == "squared":
            price = mass**2 / 2
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                price = np.where(mass < 1, -np.log1p(-np.minimum(mass, 1.0)) / self.rate, np.inf)
        cost = self.entropy.cost if isinstance(self.entropy, Shifted) else 0.0
        return price - (row_dot(p, cost) if isinstance(self.entropy, Shifted) else 0.0)
