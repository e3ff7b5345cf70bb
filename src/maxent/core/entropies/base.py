"""Entropy: a convex regulariser Omega on a domain, known through its conjugate.

Conventions. ``theta`` and ``p`` are batches of rows (last axis, or Ragged); values are one
float64 number per row; outputs keep the float type of the input. Omega is +inf off its domain.
Public methods check their input once; the hooks ``_value``, ``_conjugate`` ... see clean float
rows with one leading axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from maxent.core.domains import Domain, Simplex, central_difference
from maxent.core.entropies._moreau import prox_by_moreau
from maxent.rows.arrays import Array, Rows, as_float, as_rows, check_scores, leading, like, uneven


class Entropy(ABC):
    """`Omega` on a domain. A subclass writes ``_value`` and ``_conjugate``; the rest is derived.

    What else it knows it says by overriding the properties here, with a class attribute
    (``margin = 1.0``) where the answer is always the same.
    """

    @property
    def domain(self) -> Domain:
        """The convex set `Omega` lives on."""
        return Simplex()

    @property
    def margin(self) -> float | None:
        """Separation margin of the loss (Fenchel-Young paper, §5), None where no formula is known.

        ``FenchelYoungLoss.margin`` finds it for rows of a size, and whether there is one.
        """
        return None

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of `grad Omega*` in the 2-norm, inf where none is known."""
        return np.inf

    @property
    def differentiable(self) -> bool:
        """Whether `Omega*` has a gradient everywhere (`Omega` strictly convex)."""
        return True

    @property
    def convex(self) -> bool:
        """Whether `Omega` is convex (Renyi beyond 1 is not; its loss still is)."""
        return True

    @property
    def has_curvature(self) -> bool:
        """Whether the Jacobian is a diagonal less a rank one, see ``curvature``."""
        return False

    @property
    def separable(self) -> bool:
        """Whether `Omega` is a sum over entries that are free of each other: outputs lie apart."""
        return False

    @property
    def has_prox(self) -> bool:
        """Whether ``prox`` is there: by a differentiable conjugate, else only in closed form."""
        return self.convex and self.differentiable

    @property
    def largest_score(self) -> float:
        """The score from which on `Omega*` may be beyond the largest float, inf where it never is.

        A conjugate that grows like an exponential has one.
        """
        return np.inf

    @property
    def link_power(self) -> float | None:
        """The power a of the map `p_i = q_i [slope (theta_i - tau)]_+^(1/a)`, None for other maps.

        q is the base measure, 1 without one; slope and tau belong to the whole row. At `a = 0` the
        map is `p_i = q_i exp(theta_i - tau)`, at `a = inf` it is
        `p_i = slope q_i` where `theta_i > tau`,
        else 0.
        """
        return None

    def link_slope(self, p: Array, q: Array) -> float | None:
        """The slope of that map for the row p with base measure q, None where no formula is known.

        Where p has a single score in its support, nothing but a formula tells the slope.
        """
        return None

    @property
    def _checks_scores(self) -> bool:
        """Whether the conjugate refuses bad scores itself, so that they need no look before."""
        return False

    def cheap_value(self, p: Rows) -> bool:
        """Whether the value at such rows costs no more than a few passes over them."""
        return True

    def value(self, p: Any) -> Array:
        """`Omega(p)` of each row; +inf outside the domain."""
        p = as_float(p)
        rows = self.domain.check_rows(p)
        inside = np.asarray(self.domain.contains(rows))
        if inside.all():
            return leading(self._value(rows), p)
        with np.errstate(all="ignore"):
            values = self._value(rows)
        return leading(np.where(inside, values, np.inf), p)

    def value_inside(self, p: Rows) -> Array:
        """`Omega(p)` of float rows that are known to lie in the domain: no check, no cost."""
        return leading(self._value(self.domain.check_rows(p)), p)

    def conjugate(self, theta: Any) -> tuple[Array, Rows]:
        """`Omega*(theta) = max_p <theta, p> - Omega(p)` of each row, and the p that attains it.

        No entry of p leaves its set by a rounding, and its sums are right to as many units in the
        last place as ``domain.roundings`` says: one for each entry and four more on the simplex.
        """
        theta = self._scores(theta)
        values, p = self._conjugate(self.domain.check_rows(theta))
        return leading(values, theta), like(p, theta)

    def hvp(self, theta: Any, p: Any, v: Any) -> Rows:
        """Jacobian of the map `theta -> p` at theta, times v (p as ``conjugate`` returned it)."""
        theta = self._scores(theta)
        parts = (as_rows(x) for x in (theta, as_float(p), as_float(v)))
        return like(self._hvp(*parts), theta)

    def prox(self, eta: Any, tau: float) -> Rows:
        """`argmin_p 1/2 ||p - eta||^2 + tau Omega(p)` of each row."""
        if not (np.isfinite(tau) and tau > 0):
            raise ValueError(f"prox needs a finite step tau > 0, got {tau!r}")
        if not self.convex:
            raise ValueError(f"{self!r} is not convex, so its proximity operator is not defined")
        eta = self.domain.check_scores(eta, "points")
        return like(self._prox(self.domain.check_rows(eta), float(tau)), eta)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """(d, u) with Jacobian diag(d) - u u' row by row; u is None where it is diagonal."""
        raise TypeError(f"the Jacobian of {self!r} is not a diagonal less a rank one; use hvp")

    def _scores(self, theta: Any) -> Rows:
        if self._checks_scores and not uneven(theta):
            theta = as_float(theta)
            if theta.ndim and theta.shape[-1]:
                return theta
        return self.domain.check_scores(theta)

    @abstractmethod
    def _value(self, p: Rows) -> Array: ...

    @abstractmethod
    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]: ...

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return central_difference(lambda t: self._conjugate(t)[1], theta, v)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        self._require_gradient()
        return prox_by_moreau(self._conjugate, self._hvp, eta, tau, self.domain.project(eta))

    def _require_gradient(self) -> None:
        if not self.differentiable:
            raise NotImplementedError(
                f"{self!r} has no closed proximity operator and its conjugate has kinks"
            )


class MeasuredEntropy(Entropy):
    """An entropy of the simplex against a base measure q, such as `sum_i q_i phi(p_i / q_i)`.

    Every hook takes q after its other arguments: None for the counting measure (`q_i = 1`), which
    is the entropy itself, else an array of one row, (1, size), or of one row per row of the batch.
    That is all that :class:`Relative` needs to make the entropy relative to a default distribution.
    Where `q_i = 0`, `p_i` must be 0.
    """

    @abstractmethod
    def _value(self, p: Rows, q: Array | None = None) -> Array: ...

    @abstractmethod
    def _conjugate(self, theta: Rows, q: Array | None = None) -> tuple[Array, Rows]: ...

    def _hvp(self, theta: Rows, p: Rows, v: Rows, q: Array | None = None) -> Rows:
        return central_difference(lambda t: self._conjugate(t, q)[1], theta, v)

    def _prox(self, eta: Rows, tau: float, q: Array | None = None) -> Rows:
        self._require_gradient()
        return prox_by_moreau(
            lambda theta: self._conjugate(theta, q),
            lambda theta, p, v: self._hvp(theta, p, v, q),
            eta,
            tau,
            self.domain.project(eta),
        )

    def curvature(self, theta: Rows, p: Rows, q: Array | None = None) -> tuple[Array, Array | None]:
        """(d, u) with Jacobian diag(d) - u u' row by row, under the base measure."""
        return super().curvature(theta, p)


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
    return x.astype(template.dtype, copy=False)


def double(x: Rows) -> Rows:
    """x in float64, where a shift or a division of large scores loses no digits."""
    return x.astype(np.float64, copy=False)
