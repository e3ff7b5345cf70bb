"""Entropy: a convex regulariser Omega on a domain, known through its conjugate.

Conventions. ``theta`` and ``p`` are batches of rows (last axis, or Ragged); values are one
float64 number a row; outputs keep the float type of the input. Omega is +inf off its domain.
Public methods check their input once; the hooks ``_value``, ``_conjugate`` ... see clean float
rows with one leading axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from maxent._moreau import prox_by_moreau
from maxent._rows import Array, Ragged, Rows, as_float, as_rows, check_scores, flat, leading, like
from maxent.domains import Domain, Simplex, _central_difference


class Entropy(ABC):
    """Omega on a domain. A subclass writes ``_value`` and ``_conjugate``; the rest is derived.

    Attributes
    ----------
    domain : the convex set Omega lives on.
    margin : separation margin of the loss (Fenchel-Young paper, §5), None where there is none.
    smoothness : Lipschitz constant of grad Omega* in the 2-norm, inf where there is none known.
    differentiable : whether Omega* has a gradient everywhere (Omega strictly convex).
    convex : whether Omega is convex (Renyi beyond 1 is not; its loss still is).
    has_curvature : whether the Jacobian is a diagonal less a rank one, see ``curvature``.
    """

    domain: Domain = Simplex()
    margin: float | None = None
    smoothness: float = np.inf
    differentiable: bool = True
    convex: bool = True
    has_curvature: bool = False
    _has_measure: ClassVar[bool] = False  # hooks take a base measure q: works with Relative
    _checks_scores: ClassVar[bool] = False  # the kernel itself refuses bad scores

    def value(self, p: Any) -> Array:
        """Omega(p) of each row; +inf outside the domain."""
        p = as_float(p)
        rows = self.domain.check_rows(p)
        inside = np.asarray(self.domain.contains(rows))
        if inside.all():
            return leading(self._value(rows), p)
        with np.errstate(all="ignore"):
            values = self._value(rows)
        return leading(np.where(inside, values, np.inf), p)

    def value_inside(self, p: Rows) -> Array:
        """Omega(p) of float rows that are known to lie in the domain: no check, no cost."""
        return leading(self._value(self.domain.check_rows(p)), p)

    def conjugate(self, theta: Any) -> tuple[Array, Rows]:
        """Omega*(theta) = max_p <theta, p> - Omega(p) of each row, and the p that attains it."""
        theta = self._scores(theta)
        values, p = self._conjugate(self.domain.check_rows(theta))
        return leading(values, theta), like(p, theta)

    def hvp(self, theta: Any, p: Any, v: Any) -> Rows:
        """Jacobian of the map theta -> p at theta, times v (p as ``conjugate`` returned it)."""
        theta = self._scores(theta)
        parts = (as_rows(x) for x in (theta, as_float(p), as_float(v)))
        return like(self._hvp(*parts), theta)

    def prox(self, eta: Any, tau: float) -> Rows:
        """argmin_p 1/2 ||p - eta||^2 + tau Omega(p) of each row."""
        if not (np.isfinite(tau) and tau > 0):
            raise ValueError(f"prox needs a finite step tau > 0, got {tau!r}")
        if not self.convex:
            raise ValueError(f"{self!r} is not convex, so its proximity operator is not defined")
        eta = check_scores(eta, "points")
        return like(self._prox(self.domain.check_rows(eta), float(tau)), eta)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """(d, u) with Jacobian diag(d) - u u' row by row; u is None where it is diagonal."""
        raise TypeError(f"the Jacobian of {self!r} is not a diagonal less a rank one; use hvp")

    def _scores(self, theta: Any) -> Rows:
        if self._checks_scores and not isinstance(theta, Ragged):
            theta = as_float(theta)
            if theta.ndim and theta.shape[-1]:
                return theta
        return check_scores(theta)

    @abstractmethod
    def _value(self, p: Rows) -> Array: ...

    @abstractmethod
    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]: ...

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return _central_difference(lambda t: self._conjugate(t)[1], theta, v)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return prox_by_moreau(self, eta, tau)


def finite(values: Array, theta: Rows) -> Array:
    """Values, after a kernel without checks of its own: explain what made one not finite."""
    if not np.isfinite(values).all():
        check_scores(theta)
    return values


def number(name: str, value: object) -> None:
    """Refuse a parameter that is not a single real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a single number, got {value!r}")


def positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a finite number above 0."""
    number(name, value)
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def same_type(x: Rows, template: Rows) -> Rows:
    """x in the float type of the template."""
    return x.astype(flat(template).dtype, copy=False)


def double(x: Rows) -> Rows:
    """x in float64, where a shift or a division of large scores loses no digits."""
    return x.astype(np.float64, copy=False)
