"""Priors of maximum-entropy discrimination as potentials: V(r) = K(-r), K the cumulant function.

K(eta) = log E_prior exp<w, eta>, eta = mu - F p, and the penalty V*(-w) = K*(w) is the smallest
KL divergence from the prior of a distribution with mean w (discrimination paper, Theorem 2).
``LaplacePrior`` is the one with a closed form of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from maxent import io
from maxent.core.potentials.base import Potential
from maxent.core.potentials.elastic import Quadratic
from maxent.core.potentials.norms import QuadraticForm
from maxent.core.potentials.parameters import number, parameter
from maxent.core.potentials.separable import Separable
from maxent.core.potentials.wrappers import WrappedPotential, check_kind
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array

_EDGE = 1 - 1e-15  # of an open domain, where a root is looked for
_MISSED = 1e-12  # by which a mean that the prior can have may be missed
_ANY = 1e6  # a mean that large under the steepest tilt counts as without a limit
_FAR = 1e305  # beyond which a cumulant function without a bound is not followed
_STEP = 1e-5  # of differences of K', in units of 1 / the prior's deviation
_TRIES = 8  # to find that unit


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Centred(WrappedPotential):
    """Weights held near a centre instead of near 0: penalty `V*(-(w - centre))`.

    `V_c(r) = V(r) - <centre, r>`. With ``Quadratic`` it is the Gaussian prior with that mean, the
    weights of a model of another domain, for instance.

    Parameters
    ----------
    potential : Potential
        The potential V.
    centre : float or array (n_features,)
        Where the weights are pulled to.

    Examples
    --------
    >>> from maxent.core.potentials import Quadratic
    >>> Centred(Quadratic(2.0), np.array([1.0])).conjugate(np.array([-1.0]))  # w = 1
    0.0
    """

    potential: Potential
    centre: Any

    def __post_init__(self) -> None:
        check_kind(self.potential)
        centre = np.array(self.centre, dtype=np.float64)
        if centre.ndim != 1 or not np.isfinite(centre).all():
            raise ValueError(f"the centre must be a finite vector, got {self.centre!r}")
        self.potential.check_size(centre.size)
        object.__setattr__(self, "centre", centre)

    def _size(self) -> int | None:
        return int(self.centre.size)

    def value(self, r: Array) -> float:
        """`V(r) - <centre, r>`."""
        return self.potential.value(r) - float(self.centre @ r)

    def conjugate(self, v: Array) -> float:
        """`V*(v + centre)`."""
        return self.potential.conjugate(v + self.centre)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """The prox inside, shifted to and fro."""
        return self.potential.prox_conjugate(v + self.centre, step) - self.centre

    def gauge(self, r: Array) -> float:
        """As the potential inside."""
        return self.potential.gauge(r)

    def critical_multiplier(self, r: Array) -> float:
        """inf: no multiplier holds the weights at 0, unless 0 is the centre."""
        return np.inf if self.centre.any() else self.potential.critical_multiplier(r)

    def grad(self, r: Array) -> Array:
        """grad V(r) - centre."""
        return self.potential.grad(r) - self.centre

    def conjugate_gradient(self, v: Array) -> Array:
        """`grad V*(v + centre)`."""
        return self.potential.conjugate_gradient(v + self.centre)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """The Hessian inside at v + centre."""
        return self.potential.conjugate_hessian(v + self.centre)

    def strong_convexity(self) -> float:
        """As the potential inside."""
        return self.potential.strong_convexity()

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """The terms inside at v + centre."""
        return self.potential.conjugate_terms(v + self.centre)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The step inside, seen from the centre."""
        return self.potential.coordinate_step(j, np.asarray(w) - self.centre, gradient, curvature)


def gaussian_prior(mean: Any = 0.0, covariance: Any = 1.0) -> Potential:
    """The potential of a normal prior: penalty `1/2 (w - mean)' covariance^-1 (w - mean)`.

    With mean 0 and variance 1 a max-margin loss makes it the M3N (discrimination paper, Theorem 3).

    Parameters
    ----------
    mean : float or array (n_features,), default 0.0
        Mean of the weights.
    covariance : float, array (n_features,) or (n_features, n_features), default 1.0
        A variance, one for each weight, or a matrix.

    Examples
    --------
    >>> gaussian_prior(covariance=4.0)
    Quadratic(strength=0.25)
    """
    spread = np.asarray(covariance, dtype=np.float64)
    if spread.ndim == 2:
        try:
            factor = linalg.cho_factor(spread)
        except (linalg.LinAlgError, ValueError) as error:
            raise ValueError(
                f"the covariance must be a symmetric positive definite matrix: {error}"
            ) from error
        inverse = linalg.cho_solve(factor, np.eye(len(spread)))
        potential: Potential = QuadraticForm((inverse + inverse.T) / 2)
    else:
        potential = Quadratic(1 / parameter("covariance", spread, positive=True))
    centre = np.asarray(mean, dtype=np.float64)
    if not centre.any():
        return potential
    if centre.ndim == 0:
        raise ValueError("a mean other than 0 is a vector, one number for each weight")
    return Centred(potential, centre)


@dataclass(frozen=True, eq=False, repr=False)
class CumulantPrior(Separable):
    """Any prior under which the weights are independent and alike, by its cumulant function.

    `V(r) = sum K(-r_k)`; the penalty `K*(w)`, its gradient and its prox are roots of K'.

    Parameters
    ----------
    cumulant : callable
        `K(eta) = log E exp(eta w)` of one weight, elementwise on arrays; `K(0) = 0`.
    mean : callable
        Its derivative `K'(eta)`, the mean of the prior tilted by eta.
    bound : float, default inf
        K is finite for `|eta| < bound`; inf where it is everywhere.

    Examples
    --------
    >>> fair_coin = CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh)
    >>> round(fair_coin.conjugate(np.array([0.5])), 6)  # KL of a coin of mean 1/2 from a fair one
    0.130812
    """

    cumulant: Callable[[Array], Array] = field(repr=False)
    mean: Callable[[Array], Array] = field(repr=False)
    bound: float = np.inf
    smooth = True
    _steep: bool = field(init=False, repr=False, default=True)
    _unit: float = field(init=False, repr=False, default=1.0)  # of eta
    __unsaved__ = (
        "it holds Python functions (the cumulant and its derivative), and a model file holds "
        "numbers only; save the other parts and make the prior again"
    )

    def __post_init__(self) -> None:
        if not (callable(self.cumulant) and callable(self.mean)):
            raise TypeError("CumulantPrior needs two functions, the cumulant and its derivative")
        bound = np.inf if self.bound == np.inf else number("bound", self.bound, positive=True)
        object.__setattr__(self, "bound", bound)
        at_zero = float(np.asarray(self.cumulant(np.zeros(1)))[0])
        if not abs(at_zero) < 1e-9:
            raise ValueError(f"a cumulant function is 0 at 0, got {at_zero!r}")
        ends = 0.5 * min(self.bound, 1.0) * np.array([-1.0, 1.0])
        slopes = np.asarray(self.mean(ends))
        if not slopes[1] > slopes[0]:
            raise ValueError(
                f"the derivative of a cumulant function increases, got {slopes.tolist()} at "
                f"{ends.tolist()}"
            )
        edge = _EDGE * self.bound if np.isfinite(self.bound) else _FAR
        with np.errstate(over="ignore", invalid="ignore"):
            limits = np.asarray(self.mean(np.array([-edge, edge])))
        object.__setattr__(self, "_steep", bool(limits[0] < -_ANY and limits[1] > _ANY))
        unit = min(self.bound, 1.0)
        for _ in range(_TRIES):
            object.__setattr__(self, "_unit", unit)
            spread = float(self.posterior_variance(np.zeros(1))[0])
            if not 0 < spread < np.inf:
                break
            unit = min(self.bound, 1 / float(np.sqrt(spread)))

    @property
    def smooth_conjugate(self) -> bool:
        """Whether tilting the prior reaches any mean; else `K*` ends at the largest."""
        return self._steep

    @property
    def open_domain(self) -> bool:
        """Whether K ends at a bound."""
        return bool(np.isfinite(self.bound))

    def __repr__(self) -> str:
        names = (getattr(f, "__name__", type(f).__name__) for f in (self.cumulant, self.mean))
        return f"CumulantPrior({', '.join(names)}, bound={self.bound:g})"

    def _coordinate(self, j: int) -> CumulantPrior:
        return self

    def value(self, r: Array) -> float:
        """sum K(-r)."""
        if np.max(np.abs(r), initial=0.0) >= self.bound:
            return np.inf
        with np.errstate(over="ignore"):
            return float(np.sum(self.cumulant(-r)))

    def grad(self, r: Array) -> Array:
        """-K'(-r)."""
        return -np.asarray(self.mean(-r))

    def gauge(self, r: Array) -> float:
        """`max |r| / bound`."""
        return float(np.max(np.abs(r), initial=0.0)) / self.bound

    def _root(self, v: Array, step: float) -> Array:
        """The r with V'(r) + step r = v; an end of the domain where V' does not get there."""
        v = np.asarray(v, dtype=np.float64)
        rise = lambda r: self.grad(r) + step * r  # noqa: E731
        far = np.full(v.size, self.bound * _EDGE if np.isfinite(self.bound) else 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            while np.isinf(self.bound):
                up, down = rise(far), rise(-far)
                grows = (rise(2 * far) > up) | (rise(-2 * far) < down)  # else the mean has a limit
                short = ((up < v) | (down > v)) & (far < _FAR) & grows
                if not short.any():
                    break
                far = np.where(short, 2 * far, far)
            away = v - self.grad(np.zeros(v.size))
            if step > 0:  # rise grows at least by the step
                far = np.minimum(far, np.abs(away) / step * (1 + 1e-12))
            low, high = np.where(away < 0, -far, 0.0), np.where(away > 0, far, 0.0)
            return bracketed_root(lambda r, j: v[j] - rise(r), low, high)

    def conjugate_gradient(self, v: Array) -> Array:
        """The r with `V'(r) = v`."""
        return self._root(v, 0.0) if self._steep else super().conjugate_gradient(v)

    def posterior_variance(self, r: Array) -> Array:
        """`K''(-r)`, the variance of the tilted prior, by differences of K'."""
        eta = -np.asarray(r, dtype=np.float64)
        step = _STEP * np.maximum(self._unit, np.abs(eta))
        step = np.minimum(step, 0.1 * np.maximum(self.bound - np.abs(eta), 0.0))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ends = np.asarray(self.mean(eta + step)) - np.asarray(self.mean(eta - step))
            return np.asarray(ends / (2 * step))

    def conjugate_hessian(self, v: Array) -> Array | None:
        """`1 / K''`, inf where no tilted prior has that mean."""
        r = self._root(v, 0.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            bends = 1 / self.posterior_variance(r)
            short = np.abs(v - self.grad(r)) > _MISSED * (1 + np.abs(v))
        return np.where(short | ~np.isfinite(bends), np.inf, bends)

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """The terms of the penalty and their derivatives, at the end of `K*` the largest r."""
        return self._terms(v), self._root(v, 0.0)

    def _terms(self, v: Array) -> Array:
        r = self._root(v, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            short = np.abs(v - self.grad(r)) > _MISSED * (1 + np.abs(v))
            terms = np.maximum(r * v - self.cumulant(-r), 0.0)  # K(0) = 0
            return np.where(short | np.isnan(terms), np.inf, terms)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`v - step r = V'(r)` with `V'(r) + step r = v` (Moreau), the one with more digits."""
        r = self._root(v, step)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(step * np.abs(r) > 0.5 * np.abs(v), self.grad(r), v - step * r)
