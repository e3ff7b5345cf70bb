"""Potential: a convex function of the residual, known through its conjugate, the penalty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy

from maxent.core.potentials.parameters import check_curvature
from maxent.rows.arrays import Array


class Potential(ABC):
    """V on residuals (vectors). A subclass writes value, conjugate, prox_conjugate and gauge.

    What else it knows it says by overriding the properties here, with a class attribute
    (``smooth = True``) where the answer is always the same.
    """

    @property
    def open_domain(self) -> bool:
        """Whether dom V is open, so that its border is infeasible."""
        return False

    @property
    def smooth(self) -> bool:
        """Whether V has a gradient (inside its domain), see ``grad``."""
        return False

    @property
    def smooth_conjugate(self) -> bool:
        """Whether `V*` has a gradient, see ``conjugate_gradient``."""
        return False

    @property
    def decomposable(self) -> bool:
        """Whether V is a sum over features (density paper, Def. 16), see ``conjugate_terms``."""
        return False

    def __repr__(self) -> str:
        given = (f"{name}={_plain(value)!r}" for name, value in self._given().items())
        return f"{type(self).__name__}({', '.join(given)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._given(), other._given()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(repr(self))

    def _given(self) -> dict[str, Any]:
        """The parameters it was made with."""
        if not is_dataclass(self):
            return vars(self)
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    @abstractmethod
    def value(self, r: Array) -> float:
        """V(r), +inf outside the domain."""

    @abstractmethod
    def conjugate(self, v: Array) -> float:
        """`V*(v)`, the penalty."""

    @abstractmethod
    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`argmin_x 1/2 ||x - v||^2 + step V*(x)`."""

    @abstractmethod
    def gauge(self, r: Array) -> float:
        """inf {c > 0 : r in c dom V}: 0 where dom V is everything, inf where no multiple fits."""

    def critical_multiplier(self, r: Array) -> float:
        """The smallest c for which `w = 0` is optimal under ``ScaledPotential(V, c)``; inf if none.

        It is the gauge of `{V = 0}` at r: where a regularization path starts.
        """
        return np.inf if np.any(r) else 0.0

    def grad(self, r: Array) -> Array:
        """Gradient of V."""
        raise TypeError(f"{self!r} has no gradient: V is an indicator or has kinks")

    def conjugate_gradient(self, v: Array) -> Array:
        """Gradient of `V*`."""
        raise TypeError(f"the penalty of {self!r} has no gradient everywhere")

    def conjugate_hessian(self, v: Array) -> Array | None:
        """Hessian of `V*`, a vector where it is diagonal, inf outside dom `V*`; None if unknown."""
        return None

    def strong_convexity(self) -> float:
        """The modulus of `V*` in the 2-norm, so that `grad V` is 1/modulus-Lipschitz; 0 if none."""
        return 0.0

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """`V_j*(v_j)` of each feature and its slope there (at a kink any), where V is a sum."""
        raise TypeError(f"{self!r} is not a sum over the features")

    def elastic(self, n: int) -> tuple[Array, Array] | None:
        """(l1, l2) where `V*(v) = sum l1_j |v_j| + l2_j/2 v_j^2`, else None."""
        return None

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The d that minimises `gradient d + curvature/2 d^2 + V*(-(w + d e_j))`.

        Here by a search between 0 and the unpenalized optimum, which is right for a penalty that
        depends on `|w_j|` and grows with it; others override.
        """
        check_curvature(curvature)
        goal = w[j] - gradient / curvature
        trial = np.array(w, dtype=np.float64)

        def penalty(x: float) -> float:
            trial[j] = x
            return self.conjugate(-trial)

        if goal == 0:
            return float(-w[j])
        last = penalty(goal)
        last = last if np.isfinite(last) else 0.0

        def objective(x: float) -> float:
            # what the other weights add would hide the digits of a small step
            return 0.5 * curvature * (x - goal) ** 2 + (penalty(x) - last)

        ends = sorted((0.0, float(goal)))
        between = scipy.optimize.minimize_scalar(
            objective, bounds=ends, method="bounded", options={"xatol": 1e-12 * abs(goal)}
        ).x
        best = min((between, 0.0, float(goal)), key=objective)
        return float(best - w[j])

    def check_size(self, n: int) -> None:
        """Refuse a number of features that the parameters do not fit."""
        size = self._size()
        if size is not None and size != n:
            raise ValueError(f"{type(self).__name__} was made for {size} features, there are {n}")

    def _size(self) -> int | None:
        return None


def _plain(value: Any) -> Any:
    """A number for an array of one number, as it was given."""
    return float(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value
