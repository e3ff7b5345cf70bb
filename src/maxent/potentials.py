"""Potentials: how far the moments may be from the observed ones (density paper, §4 and §5).

V is a closed convex function of the residual r = F p - mu; its conjugate V* is the penalty on
the weights, V*(-w). All potentials here but ``ShiftedPotential`` are even with V(0) = 0 = min V.

=====================================  =====================  ================================
potential                              V(r)                   penalty V*(v)
=====================================  =====================  ================================
``Equality()``                         I(r = 0)               0
``Box(beta)``                          I(|r_j| <= beta_j)     sum beta_j |v_j|
``Ball(radius)``                       I(||r||_2 <= radius)   radius ||v||_2
``NormBall(radius, p)``                I(||r||_p <= radius)   radius ||v||_p'
``Quadratic(strength)``                ||r||^2 / 2 strength   strength/2 ||v||^2
``QuadraticForm(A)``                   r'A^+r / 2             v'Av / 2
``ElasticNet(beta, strength)``         dead-zone quadratic    beta |v| + strength/2 v^2
``SquaredNormPotential(strength, p)``  ||r||_p^2 / 2 strength strength/2 ||v||_p'^2
``NormPlusSquare(radius, s, p)``       dist(r, ball)^2 / 2 s  radius ||v||_p' + s/2 ||v||_2^2
``SmoothBox(beta, smoothing)``         a b KL                 a b log cosh(v/a)
``DualBall(radius, p)``                radius ||r||_p'        I(||v||_p <= radius)
``LaplacePrior(lam)``                  log(lam/(lam - r^2))   KL to the Laplace prior
=====================================  =====================  ================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, optimize, special

from maxent._roots import bracketed_root
from maxent._rows import Array

_ROUNDING = 1e-12  # share by which a residual may pass a bound before it counts as outside


class Potential(ABC):
    """V on residuals (vectors). A subclass writes value, conjugate, prox_conjugate and gauge.

    Attributes
    ----------
    open_domain : whether dom V is open, so that its border is infeasible.
    smooth : whether V has a gradient (inside its domain), see ``grad``.
    smooth_conjugate : whether V* has one, see ``conjugate_gradient``.
    decomposable : whether V is a sum over the features (density paper, Def. 16), see
        ``conjugate_terms``.
    """

    open_domain: ClassVar[bool] = False
    smooth: bool = False
    smooth_conjugate: bool = False
    decomposable: bool = False

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
        """V*(v), the penalty."""

    @abstractmethod
    def prox_conjugate(self, v: Array, step: float) -> Array:
        """argmin_x 1/2 ||x - v||^2 + step V*(x)."""

    @abstractmethod
    def gauge(self, r: Array) -> float:
        """inf {c > 0 : r in c dom V}: 0 where dom V is everything, inf where no multiple fits."""

    def critical_multiplier(self, r: Array) -> float:
        """The smallest c for which w = 0 is optimal under ``ScaledPotential(V, c)``; inf if none.

        It is the gauge of {V = 0} at r: where a regularization path starts.
        """
        return np.inf if np.any(r) else 0.0

    def grad(self, r: Array) -> Array:
        """Gradient of V."""
        raise TypeError(f"{self!r} has no gradient: V is an indicator or has kinks")

    def conjugate_gradient(self, v: Array) -> Array:
        """Gradient of V*."""
        raise TypeError(f"the penalty of {self!r} has no gradient everywhere")

    def conjugate_hessian(self, v: Array) -> Array | None:
        """Hessian of V*, a vector where it is diagonal; None where it is not known or infinite."""
        return None

    def strong_convexity(self) -> float:
        """The modulus of V* in the 2-norm, so that grad V is 1/modulus-Lipschitz; 0 if none."""
        return 0.0

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """V_j*(v_j) of each feature and its slope there (at a kink any), where V is a sum."""
        raise TypeError(f"{self!r} is not a sum over the features")

    def elastic(self, n: int) -> tuple[Array, Array] | None:
        """(l1, l2) where V*(v) = sum l1_j |v_j| + l2_j/2 v_j^2, else None."""
        return None

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The d that minimises gradient d + curvature/2 d^2 + V*(-(w + d e_j)).

        Here by a search between 0 and the unpenalized optimum, which is right for a penalty that
        depends on |w_j| and grows with it; others override.
        """
        _check_curvature(curvature)
        goal = w[j] - gradient / curvature
        trial = np.array(w, dtype=np.float64)

        def objective(x: float) -> float:
            trial[j] = x
            return 0.5 * curvature * (x - goal) ** 2 + self.conjugate(-trial)

        if goal == 0:
            return float(-w[j])
        ends = sorted((0.0, float(goal)))
        found = optimize.minimize_scalar(
            objective, bounds=ends, method="bounded", options={"xatol": 1e-12 * abs(goal)}
        )
        best = min((found.x, 0.0, float(goal)), key=objective)
        return float(best - w[j])

    def check_size(self, n: int) -> None:
        """Refuse a number of features that the parameters do not fit."""
        size = self._size()
        if size is not None and size != n:
            raise ValueError(f"{type(self).__name__} was made for {size} features, there are {n}")

    def _size(self) -> int | None:
        return None


def _farthest(inside: Callable[[float], bool], start: float, least: float) -> float:
    """The largest t of an interval from ``start`` on; 0 where there is none over ``least``."""
    if not inside(start):
        return 0.0
    low, high = start, max(2 * start, 1.0)
    while inside(high):
        low, high = high, 2 * high
        if high > 1e150:
            return np.inf
    while high - low > 1e-15 * high and high > least:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low if high > least else 0.0


def _check_kind(potential: Any) -> None:
    if not isinstance(potential, Potential):
        raise TypeError(f"expected a Potential, got {potential!r}")


def _plain(value: Any) -> Any:
    """A number for an array of one number, as it was given."""
    return float(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _check_curvature(curvature: float) -> None:
    if not (np.isfinite(curvature) and curvature > 0):
        raise ValueError(f"a coordinate step needs a curvature > 0, got {curvature!r}")


def _parameter(name: str, value: Any, positive: bool = False) -> Array:
    """A finite non-negative (or positive) number or vector, as a read-only float64 array."""
    array = np.array(value, dtype=np.float64)
    wrong = array <= 0 if positive else array < 0
    if array.ndim > 1 or array.size == 0 or not np.isfinite(array).all() or wrong.any():
        what = "> 0" if positive else ">= 0"
        raise ValueError(
            f"{name} must be a finite number {what} or a vector of them, got {value!r}"
        )
    array.setflags(write=False)
    return array


def _number(name: str, value: Any, positive: bool = False) -> float:
    array = _parameter(name, value, positive)
    if array.ndim:
        raise ValueError(f"{name} must be a single number, got {value!r}")
    return float(array)


def _order(p: Any) -> float:
    p = float(p)
    if not p >= 1:
        raise ValueError(f"the order p of a norm must lie in [1, inf], got {p!r}")
    return p


def _dual_order(p: float) -> float:
    return 1.0 if np.isinf(p) else np.inf if p == 1 else p / (p - 1)


def _vector_size(*arrays: Array) -> int | None:
    sizes = {a.size for a in arrays if a.ndim}
    if len(sizes) > 1:
        raise ValueError(f"parameters have different lengths: {sorted(sizes)}")
    return sizes.pop() if sizes else None


def _norm(v: Array, p: float) -> float:
    """||v||_p without overflow."""
    largest = float(np.max(np.abs(v), initial=0.0))
    if largest == 0 or np.isinf(p) or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(v / largest, ord=p))


def _unit_norm_gradient(v: Array, p: float) -> Array:
    """Gradient of ||v||_p at v != 0: sign(v) (|v| / ||v||_p)^(p-1)."""
    norm = _norm(v, p)
    if norm == 0:
        return np.zeros_like(v)
    return np.sign(v) * (np.abs(v) / norm) ** (p - 1)


def _project_ball(v: Array, p: float, radius: float) -> Array:
    """Projection on {||x||_p <= radius}."""
    v = np.asarray(v, dtype=np.float64)
    norm = _norm(v, p)
    if norm <= radius:
        return v.copy()
    if radius == 0:
        return np.zeros_like(v)
    if np.isinf(p):
        return np.clip(v, -radius, radius)
    if p == 2:
        return v / norm * radius
    size = np.abs(v)
    largest = size.max()
    if p == 1:  # a projection on the simplex, which does not see a common shift
        with np.errstate(over="ignore"):
            below = np.maximum((size - largest) / radius, -2)
        ordered = np.sort(below)[::-1]
        t = (np.cumsum(ordered) - 1) / np.arange(1, v.size + 1)
        last = int(np.flatnonzero(ordered > t)[-1])
        return np.sign(v) * np.maximum(below - t[last], 0) * radius
    # The multiplier t puts x on the unit sphere: linear x + t x^(p-1) = |v| / largest. The
    # largest entry of x gives t, and lies between n^(-1/p) and 1.
    rest = size > 0
    target, linear = size[rest] / largest, radius / largest

    def point(top: Array) -> Array:
        t = max(1 - linear * top[0], 0.0) / top[0] ** (p - 1)
        return _linear_plus_power(target, linear, t, p - 1)

    def room(top: Array, rows: Array) -> Array:
        return np.array([1 - _norm(point(top), p)])

    top = np.array([1.0 if linear <= 1 else 1 / linear])
    x = np.zeros_like(v)
    x[rest] = point(bracketed_root(room, np.array([target.size ** (-1 / p)]), top))
    return np.sign(v) * x * radius


def _linear_plus_power(y: Array, linear: float, weight: float, a: float) -> Array:
    """The x with linear x + weight x^a = y > 0, by Newton from above on a convex function."""
    if a < 1:  # x = z^(1/a)
        return _linear_plus_power(y, weight, linear, 1 / a) ** (1 / a)
    if a == 2:
        return 2 * y / (linear + np.sqrt(linear**2 + 4 * weight * y))
    with np.errstate(divide="ignore", over="ignore"):
        x = np.minimum(y / np.float64(linear), (y / np.float64(weight)) ** (1 / a))
    for _ in range(100):
        power = weight * x ** (a - 1)
        new = x - ((linear + power) * x - y) / (linear + a * power)
        done = np.abs(new - x) <= 2 * np.finfo(float).eps * x
        x = new
        if done.all():
            break
    return x


def _fraction(x: Array, bound: Array) -> Array:
    """|x| / bound with 0/0 = 0 and x/0 = inf."""
    x = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(x == 0, 0.0, x / bound)


class ElasticPotential(Potential):
    """V*(v) = sum l1_j |v_j| + l2_j/2 v_j^2 and V_j(r) = [|r| - l1_j]_+^2 / (2 l2_j).

    Where l2_j = 0 that is the indicator of |r_j| <= l1_j. Subclasses give ``_l1`` and ``_l2``.
    """

    _l1: Array
    _l2: Array
    decomposable: ClassVar[bool] = True  # type: ignore[misc]

    def _size(self) -> int | None:
        return _vector_size(self._l1, self._l2)

    def elastic(self, n: int) -> tuple[Array, Array]:
        """The two vectors, for n features."""
        return np.broadcast_to(self._l1, (n,)).copy(), np.broadcast_to(self._l2, (n,)).copy()

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """True where every coordinate has a square."""
        return bool((self._l2 > 0).all())

    @property
    def smooth_conjugate(self) -> bool:  # type: ignore[override]
        """True where no coordinate has an absolute value."""
        return not self._l1.any()

    def value(self, r: Array) -> float:
        """sum [|r_j| - l1_j]_+^2 / (2 l2_j); an indicator where l2_j = 0."""
        over = np.maximum(np.abs(r) - self._l1, 0)
        over = np.where(over <= _ROUNDING * self._l1, 0.0, over)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return float(np.sum(np.where(over > 0, over / (2 * self._l2) * over, 0.0)))

    def conjugate(self, v: Array) -> float:
        """sum l1_j |v_j| + l2_j/2 v_j^2."""
        return float(np.sum(self.conjugate_terms(v)[0]))

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """l1 |v| + l2/2 v^2 and sign(v) l1 + l2 v."""
        size = np.abs(v)
        with np.errstate(over="ignore"):
            values = (self._l1 + 0.5 * self._l2 * size) * size
            return values, np.sign(v) * self._l1 + self._l2 * v

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Soft threshold, then shrink."""
        with np.errstate(over="ignore"):
            kept = np.maximum(np.abs(v) - step * self._l1, 0)
        return np.sign(v) * kept / (1 + step * self._l2)

    def gauge(self, r: Array) -> float:
        """max |r_j| / l1_j over the coordinates without a square."""
        return float(np.max(np.where(self._l2 > 0, 0.0, _fraction(r, self._l1)), initial=0.0))

    def critical_multiplier(self, r: Array) -> float:
        """max |r_j| / l1_j."""
        return float(np.max(_fraction(r, self._l1), initial=0.0))

    def grad(self, r: Array) -> Array:
        """sign(r) [|r| - l1]_+ / l2."""
        if not self.smooth:
            return super().grad(r)
        return np.sign(r) * np.maximum(np.abs(r) - self._l1, 0) / self._l2

    def conjugate_gradient(self, v: Array) -> Array:
        """l2 v."""
        return self._l2 * v if self.smooth_conjugate else super().conjugate_gradient(v)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """l2, without an absolute value."""
        return np.broadcast_to(self._l2, v.shape) if self.smooth_conjugate else None

    def strong_convexity(self) -> float:
        """The smallest l2."""
        return float(np.min(self._l2))

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Soft threshold in one coordinate."""
        _check_curvature(curvature)
        l1, l2 = (float(x[j]) for x in self.elastic(len(w)))
        pull = curvature * w[j] - gradient
        new = np.sign(pull) * max(abs(pull) - l1, 0.0) / (curvature + l2)
        return float(new - w[j])


_ZERO = _parameter("zero", 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Equality(ElasticPotential):
    """Moments must match: V = I(r = 0), no penalty (basic maxent, density paper §4).

    >>> Equality().conjugate(np.array([3.0]))
    0.0
    """

    _l1: ClassVar[Array] = _ZERO  # type: ignore[misc]
    _l2: ClassVar[Array] = _ZERO  # type: ignore[misc]


@dataclass(frozen=True, eq=False, repr=False)
class Box(ElasticPotential):
    """|r_j| <= beta_j: the l1 penalty sum beta_j |w_j| (density paper §5.1).

    >>> Box([1.0, 2.0]).conjugate(np.array([3.0, -1.0]))
    5.0
    """

    beta: Any
    _l2: ClassVar[Array] = _ZERO  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", _parameter("beta", self.beta))

    @property
    def _l1(self) -> Array:  # type: ignore[override]
        return self.beta


@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(ElasticPotential):
    """||r||^2 / (2 strength): the ridge penalty strength/2 ||w||^2 (density paper §5.4).

    >>> Quadratic(2.0).conjugate(np.array([3.0]))
    9.0
    """

    strength: Any
    _l1: ClassVar[Array] = _ZERO  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", _parameter("strength", self.strength, positive=True))

    @property
    def _l2(self) -> Array:  # type: ignore[override]
        return self.strength


@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(ElasticPotential):
    """Dead-zone quadratic: penalty sum beta_j |w_j| + strength_j/2 w_j^2 (density paper §5.6).

    >>> ElasticNet(1.0, 2.0).value(np.array([3.0, 0.5]))
    1.0
    """

    beta: Any
    strength: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", _parameter("beta", self.beta))
        object.__setattr__(self, "strength", _parameter("strength", self.strength, positive=True))
        self._size()

    @property
    def _l1(self) -> Array:  # type: ignore[override]
        return self.beta

    @property
    def _l2(self) -> Array:  # type: ignore[override]
        return self.strength


@dataclass(frozen=True, eq=False, repr=False)
class QuadraticForm(Potential):
    """r'A^+r / 2 on the range of A: the penalty w'Aw / 2, A symmetric positive semidefinite.

    >>> QuadraticForm([[2.0, 0.0], [0.0, 0.0]]).conjugate(np.array([1.0, 5.0]))
    1.0
    """

    A: Any
    _basis: Array = field(init=False, repr=False)
    _spectrum: Array = field(init=False, repr=False)
    smooth: ClassVar[bool] = True  # type: ignore[misc]
    smooth_conjugate: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        A = np.array(self.A, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not A.size or not np.isfinite(A).all():
            raise ValueError(f"A must be a finite square matrix, got shape {A.shape}")
        if np.abs(A - A.T).max() > 1e-10 * np.abs(A).max():
            raise ValueError("A must be symmetric; use (A + A.T) / 2")
        spectrum, basis = np.linalg.eigh((A + A.T) / 2)
        floor = len(A) * np.finfo(float).eps * np.abs(spectrum).max()
        if spectrum.min() < -max(floor, 1e-12 * np.abs(spectrum).max()):
            raise ValueError(
                f"A must be positive semidefinite, has eigenvalue {spectrum.min():.3g}"
            )
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "_basis", basis)
        object.__setattr__(self, "_spectrum", np.where(spectrum > floor, spectrum, 0.0))

    def _size(self) -> int | None:
        return len(self.A)

    def _coordinates(self, r: Array) -> tuple[Array, bool]:
        """r in the eigenbasis, and whether it lies in the range of A."""
        c = self._basis.T @ r
        off = np.abs(c[self._spectrum == 0])
        return c, bool(np.max(off, initial=0.0) <= _ROUNDING * max(np.abs(c).max(initial=0.0), 0.0))

    def value(self, r: Array) -> float:
        """r'A^+r / 2, +inf off the range."""
        c, inside = self._coordinates(r)
        on = self._spectrum > 0
        with np.errstate(over="ignore"):
            return float(0.5 * np.sum(c[on] / self._spectrum[on] * c[on])) if inside else np.inf

    def conjugate(self, v: Array) -> float:
        """v'Av / 2."""
        with np.errstate(over="ignore"):
            c = self._basis.T @ v
            return float(0.5 * np.sum(self._spectrum * c * c))

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """(I + step A)^-1 v."""
        return self._basis @ ((self._basis.T @ v) / (1 + step * self._spectrum))

    def gauge(self, r: Array) -> float:
        """0 on the range of A, inf off it."""
        return 0.0 if self._coordinates(r)[1] else np.inf

    def grad(self, r: Array) -> Array:
        """A^+ r."""
        on = self._spectrum > 0
        return self._basis[:, on] @ ((self._basis[:, on].T @ r) / self._spectrum[on])

    def conjugate_gradient(self, v: Array) -> Array:
        """A v."""
        return self.A @ v

    def conjugate_hessian(self, v: Array) -> Array | None:
        """A."""
        return self.A

    def strong_convexity(self) -> float:
        """The smallest eigenvalue of A."""
        return float(self._spectrum.min())

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Newton's step, exact for a quadratic."""
        _check_curvature(curvature)
        return float(-(gradient + self.A[j] @ w) / (curvature + self.A[j, j]))


@dataclass(frozen=True, eq=False, repr=False)
class NormBall(Potential):
    """||r||_p <= radius: the penalty radius ||w||_p', 1/p + 1/p' = 1 (density paper §5.7).

    >>> NormBall(2.0, p=1).conjugate(np.array([3.0, -1.0]))
    6.0
    """

    radius: float
    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _number("radius", self.radius))
        object.__setattr__(self, "p", _order(self.p))

    def value(self, r: Array) -> float:
        """0 in the ball, +inf outside."""
        return 0.0 if _norm(r, self.p) <= self.radius * (1 + _ROUNDING) else np.inf

    def conjugate(self, v: Array) -> float:
        """radius ||v||_p'."""
        return self.radius * _norm(v, _dual_order(self.p)) if self.radius else 0.0

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Moreau: v less its projection on the ball of radius step * radius."""
        return v - _project_ball(v, self.p, step * self.radius)

    def gauge(self, r: Array) -> float:
        """||r||_p / radius."""
        return float(_fraction(np.array(_norm(r, self.p)), np.array(self.radius)))

    def critical_multiplier(self, r: Array) -> float:
        """||r||_p / radius."""
        return self.gauge(r)


@dataclass(frozen=True, eq=False, repr=False)
class Ball(NormBall):
    """||r||_2 <= radius: the penalty radius ||w||_2 (density paper §5.3).

    >>> Ball(2.0).conjugate(np.array([3.0, 4.0]))
    10.0
    """

    p: float = field(default=2.0, init=False, repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class SquaredNormPotential(Potential):
    """||r||_p^2 / (2 strength): the penalty strength/2 ||w||_p'^2 (density paper §5.7).

    >>> SquaredNormPotential(1.0, p=float("inf")).conjugate(np.array([3.0, -1.0]))
    8.0
    """

    strength: float
    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", _number("strength", self.strength, positive=True))
        object.__setattr__(self, "p", _order(self.p))

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """True for 1 < p < inf."""
        return 1 < self.p < np.inf

    @property
    def smooth_conjugate(self) -> bool:  # type: ignore[override]
        """True for 1 < p < inf."""
        return self.smooth

    def value(self, r: Array) -> float:
        """||r||_p^2 / (2 strength)."""
        norm = _norm(r, self.p)
        return norm / (2 * self.strength) * norm

    def conjugate(self, v: Array) -> float:
        """strength/2 ||v||_p'^2."""
        norm = _norm(v, _dual_order(self.p))
        return 0.5 * self.strength * norm * norm

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """prox of a squared norm, by one scalar equation."""
        return _prox_squared_norm(v, _dual_order(self.p), step * self.strength)

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def grad(self, r: Array) -> Array:
        """||r||_p times the gradient of the norm, over strength."""
        if not self.smooth:
            return super().grad(r)
        return _norm(r, self.p) * _unit_norm_gradient(r, self.p) / self.strength

    def conjugate_gradient(self, v: Array) -> Array:
        """strength ||v||_p' times the gradient of the norm."""
        if not self.smooth_conjugate:
            return super().conjugate_gradient(v)
        q = _dual_order(self.p)
        return self.strength * _norm(v, q) * _unit_norm_gradient(v, q)

    def strong_convexity(self) -> float:
        """strength (p' - 1) for p' <= 2, whose norm is above the 2-norm; else none."""
        q = _dual_order(self.p)
        return self.strength * (q - 1) if 1 < q <= 2 else 0.0


def _prox_squared_norm(v: Array, q: float, c: float) -> Array:
    """argmin_x 1/2 ||x - v||^2 + c/2 ||x||_q^2."""
    v = np.asarray(v, dtype=np.float64)
    scale = float(np.max(np.abs(v), initial=0.0))
    if scale == 0 or c == 0:
        return v.copy()
    size = np.abs(v) / scale
    if q > 2:  # Moreau: the conjugate is a squared norm of order below 2
        return v - _prox_squared_norm(v, _dual_order(q), 1 / c)
    if q == 2:
        x = size / (1 + c)
    elif q == 1:  # threshold t = c ||x||_1 over the k largest entries
        ordered = np.sort(size)[::-1]
        k = np.arange(1, v.size + 1)
        t = c * np.cumsum(ordered) / (1 + c * k)
        last = int(np.flatnonzero(ordered > t)[-1])
        x = np.maximum(size - t[last], 0)
    else:  # x + c N^(2-q) x^(q-1) = |v| with N = ||x||_q
        rest = size > 0

        def point(norm: Array) -> Array:
            return _linear_plus_power(size[rest], 1.0, c * norm[0] ** (2 - q), q - 1)

        def excess(norm: Array, rows: Array) -> Array:
            return np.array([_norm(point(norm), q)]) - norm

        # between ||v||_q / (1 + c n^(2/q - 1)) and ||v||_q / max(1, c), by the triangle inequality
        whole = np.array([_norm(size, q)])
        low, high = whole / (1 + c * rest.sum() ** (2 / q - 1)), whole / max(1, c)
        x = np.zeros_like(v)
        x[rest] = point(bracketed_root(excess, low, high))
    return np.sign(v) * x * scale


@dataclass(frozen=True, eq=False, repr=False)
class NormPlusSquare(Potential):
    """dist_2(r, {||.||_p <= radius})^2 / (2 strength) (density paper §5.7).

    The penalty is radius ||w||_p' + strength/2 ||w||_2^2.

    >>> NormPlusSquare(1.0, 2.0, p=2).value(np.array([3.0, 4.0]))
    4.0
    """

    radius: float
    strength: float
    p: float

    smooth: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _number("radius", self.radius))
        object.__setattr__(self, "strength", _number("strength", self.strength, positive=True))
        object.__setattr__(self, "p", _order(self.p))

    def value(self, r: Array) -> float:
        """Half the squared distance to the ball, over strength."""
        away = _norm(r - _project_ball(r, self.p, self.radius), 2)
        return away / (2 * self.strength) * away

    def conjugate(self, v: Array) -> float:
        """radius ||v||_p' + strength/2 ||v||_2^2."""
        norm = _norm(v, 2)
        return self.radius * _norm(v, _dual_order(self.p)) + 0.5 * self.strength * norm * norm

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Shrink by 1 + step strength, then the prox of the norm with the shrunken step."""
        shrink = 1 + step * self.strength
        return NormBall(self.radius, self.p).prox_conjugate(v / shrink, step / shrink)

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def critical_multiplier(self, r: Array) -> float:
        """||r||_p / radius."""
        return NormBall(self.radius, self.p).gauge(r)

    def grad(self, r: Array) -> Array:
        """(r - projection) / strength."""
        return (r - _project_ball(r, self.p, self.radius)) / self.strength

    def strong_convexity(self) -> float:
        """The strength."""
        return self.strength


@dataclass(frozen=True, eq=False, repr=False)
class DualBall(Potential):
    """Weights kept in ||w||_p <= radius, with V(r) = radius ||r||_p' (density paper §5.5).

    >>> DualBall(2.0).value(np.array([3.0, 4.0]))
    10.0
    """

    radius: float
    p: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _number("radius", self.radius, positive=True))
        object.__setattr__(self, "p", _order(self.p))

    def value(self, r: Array) -> float:
        """radius ||r||_p'."""
        return self.radius * _norm(r, _dual_order(self.p))

    def conjugate(self, v: Array) -> float:
        """0 in the ball, +inf outside."""
        return 0.0 if _norm(v, self.p) <= self.radius * (1 + _ROUNDING) else np.inf

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Projection on the ball, whatever the step."""
        return _project_ball(v, self.p, self.radius)

    def gauge(self, r: Array) -> float:
        """0: V is finite everywhere."""
        return 0.0

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The unpenalized optimum, clipped to the room the other weights leave."""
        _check_curvature(curvature)
        rest = _norm(np.delete(w, j), self.p) / self.radius
        if np.isinf(self.p):
            room = self.radius
        else:
            room = self.radius * max(1 - rest**self.p, 0.0) ** (1 / self.p)
        return float(np.clip(w[j] - gradient / curvature, -room, room) - w[j])


class _Separable(Potential):
    """A sum over coordinates, with vector parameters: steps in one coordinate are a 1-D prox."""

    decomposable: ClassVar[bool] = True  # type: ignore[misc]

    @abstractmethod
    def _coordinate(self, j: int) -> Potential: ...

    @abstractmethod
    def _terms(self, v: Array) -> Array: ...

    def conjugate(self, v: Array) -> float:
        """The sum of the terms."""
        return float(np.sum(self._terms(v)))

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """The terms of the penalty and their derivatives."""
        return self._terms(v), self.conjugate_gradient(v)

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """prox of the coordinate's own penalty."""
        _check_curvature(curvature)
        goal = np.array([-(w[j] - gradient / curvature)])
        new = self._coordinate(j).prox_conjugate(goal, 1 / curvature)
        return float(-new[0] - w[j])


def _solve_between(f: Any, v: Array) -> Array:
    """The root of each decreasing f(x, j) between 0 and v_j, by magnitude and sign."""
    size = np.abs(v)
    return np.sign(v) * bracketed_root(f, np.zeros(v.size), size)


@dataclass(frozen=True, eq=False, repr=False)
class SmoothBox(_Separable):
    """Smoothed l1: penalty sum a_j b_j log cosh(w_j/a_j), b = beta, a = smoothing (§5.2).

    V(r) = sum a_j b_j KL((1 + r_j/b_j)/2 || 1/2) on |r_j| <= b_j.

    >>> SmoothBox(1.0, 0.1).conjugate(np.array([0.0]))
    0.0
    """

    beta: Any
    smoothing: Any
    smooth: ClassVar[bool] = True  # type: ignore[misc]
    smooth_conjugate: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", _parameter("beta", self.beta))
        object.__setattr__(self, "smoothing", _parameter("smoothing", self.smoothing, True))
        self._size()

    def _size(self) -> int | None:
        return _vector_size(self.beta, self.smoothing)

    def _coordinate(self, j: int) -> SmoothBox:
        return SmoothBox(*(x[j] if x.ndim else x for x in (self.beta, self.smoothing)))

    def value(self, r: Array) -> float:
        """sum a b KL((1 + r/b)/2 || 1/2)."""
        share = _fraction(r, self.beta)
        if np.max(share, initial=0.0) > 1 + _ROUNDING:
            return np.inf
        s = np.minimum(share, 1)
        # 2 KL = (1+s) log(1+s) + (1-s) log(1-s), near 0 in a form without cancellation
        inner = np.minimum(s, 0.5)
        small = inner * np.arctanh(inner) + 0.5 * np.log1p(-(inner**2))
        large = 0.5 * ((1 + s) * np.log1p(s) + special.xlog1py(1 - s, -s))
        return float(np.sum(self.smoothing * self.beta * np.where(s < 0.5, small, large)))

    def _terms(self, v: Array) -> Array:
        """a b log cosh(v/a)."""
        with np.errstate(over="ignore"):
            u = np.minimum(np.abs(v) / self.smoothing, 1e300)
        # log cosh u = u + log1p(exp(-2u)) - log 2, or by log1p(sinh^2)/2 near 0
        small = self.smoothing * 0.5 * np.log1p(np.sinh(np.minimum(u, 1.0)) ** 2)
        large = np.abs(v) + self.smoothing * (np.log1p(np.exp(-2 * u)) - np.log(2))
        return self.beta * np.where(u < 1, small, large)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """x + step b tanh(x/a) = v."""
        size = np.abs(v)
        a, b = (np.broadcast_to(x, size.shape) for x in (self.smoothing, self.beta))

        def excess(x: Array, j: Array) -> Array:
            with np.errstate(over="ignore"):
                return size[j] - x - step * b[j] * np.tanh(x / a[j])

        return _solve_between(excess, v)

    def gauge(self, r: Array) -> float:
        """max |r_j| / beta_j."""
        return float(np.max(_fraction(r, self.beta), initial=0.0))

    def grad(self, r: Array) -> Array:
        """a artanh(r/b)."""
        share = np.sign(r) * np.where(self.beta > 0, np.minimum(_fraction(r, self.beta), 1), 0)
        with np.errstate(divide="ignore"):
            return self.smoothing * np.arctanh(share)

    def conjugate_gradient(self, v: Array) -> Array:
        """b tanh(v/a)."""
        with np.errstate(over="ignore"):
            return self.beta * np.tanh(v / self.smoothing)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """(b/a) / cosh(v/a)^2."""
        with np.errstate(over="ignore", under="ignore"):
            decay = np.exp(-np.abs(v) / self.smoothing)
        return self.beta / self.smoothing * (2 * decay / (1 + decay**2)) ** 2


@dataclass(frozen=True, eq=False, repr=False)
class LaplacePrior(_Separable):
    """The Laplace prior of maximum-entropy discrimination, exactly (one convex function).

    V(r) = sum log(lam/(lam - r^2)) on |r| < sqrt(lam), with the penalty
    V*(w) = sum s - 1 - log((s + 1)/2), s = sqrt(lam w^2 + 1) (discrimination paper, Cor. 6):
    the cumulant function of the prior and the KL divergence of the posterior from it.

    >>> LaplacePrior(4.0).conjugate(np.array([0.0]))
    0.0
    """

    lam: Any
    open_domain: ClassVar[bool] = True
    smooth: ClassVar[bool] = True  # type: ignore[misc]
    smooth_conjugate: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", _parameter("lam", self.lam, positive=True))

    def _size(self) -> int | None:
        return _vector_size(self.lam)

    def _coordinate(self, j: int) -> LaplacePrior:
        return LaplacePrior(self.lam[j] if self.lam.ndim else self.lam)

    def value(self, r: Array) -> float:
        """sum log(lam/(lam - r^2)), +inf from the border on."""
        share = _fraction(r, np.sqrt(self.lam))
        if np.max(share, initial=0.0) >= 1:
            return np.inf
        return float(-np.sum(np.log1p(-(share**2))))

    def _terms(self, v: Array) -> Array:
        """s - 1 - log((s + 1)/2)."""
        u = np.sqrt(self.lam) * np.abs(v)
        s = np.hypot(u, 1.0)
        extra = u * (u / (s + 1))  # s - 1 without cancellation
        return extra - np.log1p(extra / 2)

    def conjugate_gradient(self, v: Array) -> Array:
        """eta = lam v / (1 + s), the only root of v = 2 eta/(lam - eta^2) inside the domain."""
        return np.sqrt(self.lam) * ((u := np.sqrt(self.lam) * v) / (1 + np.hypot(u, 1.0)))

    def conjugate_hessian(self, v: Array) -> Array | None:
        """lam / (s (1 + s)), s = sqrt(lam v^2 + 1)."""
        s = np.hypot(np.sqrt(self.lam) * v, 1.0)
        return self.lam / s / (1 + s)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """x + step eta(x) = v: the cubic of one-problem.md, solved for x = 2 eta/(lam - eta^2)."""
        size = np.abs(v)
        lam = np.broadcast_to(self.lam, size.shape)

        def excess(x: Array, j: Array) -> Array:
            return size[j] - x - step * LaplacePrior(lam[j]).conjugate_gradient(x)

        return _solve_between(excess, v)

    def gauge(self, r: Array) -> float:
        """max |r_j| / sqrt(lam)."""
        return float(np.max(_fraction(r, np.sqrt(self.lam)), initial=0.0))

    def grad(self, r: Array) -> Array:
        """2 r / (lam - r^2)."""
        return 2 * r / (self.lam - r**2)

    def posterior_mean(self, r: Array) -> Array:
        """E[w] = 2 eta/(lam - eta^2) with eta = mu - F p = -r."""
        return -self.grad(r)

    def posterior_variance(self, r: Array) -> Array:
        """2 (lam + r^2)/(lam - r^2)^2."""
        return 2 * (self.lam + r**2) / (self.lam - r**2) ** 2


@dataclass(frozen=True, eq=False, repr=False)
class Families(Potential):
    """A different potential for each block of consecutive features (structural maxent).

    >>> Families([Box(1.0), Quadratic(2.0)], sizes=[1, 2]).conjugate(np.array([3.0, 1.0, 1.0]))
    5.0
    """

    potentials: Sequence[Potential]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        if not len(self.potentials) or len(self.potentials) != len(self.sizes):
            raise ValueError(
                f"Families needs one size a potential, got {len(self.potentials)} potentials and "
                f"{len(self.sizes)} sizes"
            )
        for potential, size in zip(self.potentials, self.sizes, strict=True):
            _check_kind(potential)
            if int(size) != size or size < 1:
                raise ValueError(f"sizes must be integers >= 1, got {size!r}")
            potential.check_size(int(size))
        object.__setattr__(self, "potentials", tuple(self.potentials))
        object.__setattr__(self, "sizes", tuple(int(s) for s in self.sizes))

    def _size(self) -> int | None:
        return sum(self.sizes)

    def _blocks(self, x: Array) -> list[tuple[Potential, Array]]:
        return list(zip(self.potentials, np.split(x, np.cumsum(self.sizes)[:-1]), strict=True))

    def _all(self, name: str) -> bool:
        return all(getattr(p, name) for p in self.potentials)

    @property
    def open_domain(self) -> bool:  # type: ignore[override]
        """True where any block's domain is open."""
        return any(p.open_domain for p in self.potentials)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """True where every block is smooth."""
        return self._all("smooth")

    @property
    def smooth_conjugate(self) -> bool:  # type: ignore[override]
        """True where every block's penalty is smooth."""
        return self._all("smooth_conjugate")

    @property
    def decomposable(self) -> bool:  # type: ignore[override]
        """True where every block is a sum over its features."""
        return self._all("decomposable")

    def value(self, r: Array) -> float:
        """Sum over the blocks."""
        return float(sum(p.value(x) for p, x in self._blocks(r)))

    def conjugate(self, v: Array) -> float:
        """Sum over the blocks."""
        return float(sum(p.conjugate(x) for p, x in self._blocks(v)))

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Block by block."""
        return np.concatenate([p.prox_conjugate(x, step) for p, x in self._blocks(v)])

    def gauge(self, r: Array) -> float:
        """The largest over the blocks."""
        return max(p.gauge(x) for p, x in self._blocks(r))

    def critical_multiplier(self, r: Array) -> float:
        """The largest over the blocks."""
        return max(p.critical_multiplier(x) for p, x in self._blocks(r))

    def grad(self, r: Array) -> Array:
        """Block by block."""
        return np.concatenate([p.grad(x) for p, x in self._blocks(r)])

    def conjugate_gradient(self, v: Array) -> Array:
        """Block by block."""
        return np.concatenate([p.conjugate_gradient(x) for p, x in self._blocks(v)])

    def conjugate_hessian(self, v: Array) -> Array | None:
        """The blocks' diagonals joined, or their matrices along a diagonal."""
        parts = [p.conjugate_hessian(x) for p, x in self._blocks(v)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if all(part.ndim == 1 for part in known):
            return np.concatenate(known)
        return linalg.block_diag(*(np.diag(x) if x.ndim == 1 else x for x in known))

    def strong_convexity(self) -> float:
        """The smallest over the blocks."""
        return min(p.strong_convexity() for p in self.potentials)

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """Block by block."""
        parts = [p.conjugate_terms(x) for p, x in self._blocks(v)]
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])

    def elastic(self, n: int) -> tuple[Array, Array] | None:
        """The blocks' vectors joined, where all have them."""
        parts = [p.elastic(s) for p, s in zip(self.potentials, self.sizes, strict=True)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return np.concatenate([a for a, _ in known]), np.concatenate([b for _, b in known])

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """In the block of feature j."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        k = int(np.searchsorted(starts, j, side="right")) - 1
        block = slice(starts[k], starts[k + 1])
        inside = j - int(starts[k])
        return self.potentials[k].coordinate_step(inside, w[block], gradient, curvature)


class _Wrapped(Potential):
    """What a potential made from another inherits from it."""

    potential: Potential

    @property
    def open_domain(self) -> bool:  # type: ignore[override]
        """As the potential inside."""
        return self.potential.open_domain

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """As the potential inside."""
        return self.potential.smooth

    @property
    def smooth_conjugate(self) -> bool:  # type: ignore[override]
        """As the potential inside."""
        return self.potential.smooth_conjugate

    @property
    def decomposable(self) -> bool:  # type: ignore[override]
        """As the potential inside."""
        return self.potential.decomposable


@dataclass(frozen=True, eq=False, repr=False)
class ScaledPotential(_Wrapped):
    """V_c(r) = c V(r/c), so that V_c* = c V*: one multiplier for the path of any model.

    >>> ScaledPotential(Box(1.0), 3.0).conjugate(np.array([2.0]))
    6.0
    """

    potential: Potential
    multiplier: float

    def __post_init__(self) -> None:
        _check_kind(self.potential)
        object.__setattr__(self, "multiplier", _number("multiplier", self.multiplier, True))

    def _size(self) -> int | None:
        return self.potential._size()

    def value(self, r: Array) -> float:
        """c V(r/c)."""
        return self.multiplier * self.potential.value(r / self.multiplier)

    def conjugate(self, v: Array) -> float:
        """c V*(v)."""
        return self.multiplier * self.potential.conjugate(v)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """The prox inside, at c times the step."""
        return self.potential.prox_conjugate(v, step * self.multiplier)

    def gauge(self, r: Array) -> float:
        """gauge(r) / c."""
        return self.potential.gauge(r) / self.multiplier

    def critical_multiplier(self, r: Array) -> float:
        """critical_multiplier(r) / c."""
        return self.potential.critical_multiplier(r) / self.multiplier

    def grad(self, r: Array) -> Array:
        """grad V(r/c)."""
        return self.potential.grad(r / self.multiplier)

    def conjugate_gradient(self, v: Array) -> Array:
        """c grad V*(v)."""
        return self.multiplier * self.potential.conjugate_gradient(v)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """c times the Hessian inside."""
        inside = self.potential.conjugate_hessian(v)
        return None if inside is None else self.multiplier * inside

    def strong_convexity(self) -> float:
        """c times that inside."""
        return self.multiplier * self.potential.strong_convexity()

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """c times the terms inside."""
        values, slopes = self.potential.conjugate_terms(v)
        return self.multiplier * values, self.multiplier * slopes

    def elastic(self, n: int) -> tuple[Array, Array] | None:
        """c times the vectors inside."""
        inside = self.potential.elastic(n)
        return None if inside is None else tuple(self.multiplier * x for x in inside)  # type: ignore[return-value]

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The step inside, with gradient and curvature over c."""
        c = self.multiplier
        return self.potential.coordinate_step(j, w, gradient / c, curvature / c)


def scaled(potential: Potential, c: float) -> Potential:
    """c V(r / c), of the potential's own kind where that is plain to see."""
    if c == 1:
        return potential
    if type(potential) is Ball:
        return Ball(c * potential.radius)
    return ScaledPotential(potential, c)


@dataclass(frozen=True, eq=False, repr=False)
class ShiftedPotential(_Wrapped):
    """U_r(u) = U(reference - u): from an absolute to a relative potential (density paper §4.1).

    U_r*(v) = U*(-v) + <v, reference>, eq. (7). Shifting twice by one reference gives U back, so
    the same class turns a relative potential into the absolute one.

    >>> absolute = ShiftedPotential(Box(0.1), np.array([0.5]))  # |0.5 - u| <= 0.1
    >>> absolute.value(np.array([0.55]))
    0.0
    """

    potential: Potential
    reference: Any

    def __post_init__(self) -> None:
        _check_kind(self.potential)
        reference = np.array(self.reference, dtype=np.float64)
        if reference.ndim != 1 or not np.isfinite(reference).all():
            raise ValueError(f"the reference must be a finite vector, got {self.reference!r}")
        self.potential.check_size(reference.size)
        object.__setattr__(self, "reference", reference)

    def _size(self) -> int | None:
        return self.reference.size

    def value(self, r: Array) -> float:
        """U(reference - r), where a difference within rounding counts as 0."""
        away = self.reference - r
        away[np.abs(away) <= _ROUNDING * np.abs(self.reference)] = 0
        return self.potential.value(away)

    def conjugate(self, v: Array) -> float:
        """U*(-v) + <v, reference>."""
        return self.potential.conjugate(-v) + float(v @ self.reference)

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """The prox inside, mirrored and shifted."""
        return -self.potential.prox_conjugate(step * self.reference - v, step)

    def gauge(self, r: Array) -> float:
        """By a search for the largest t with t r in the shifted domain.

        Where the domain does not contain 0 the search needs a gauge of U that is finite on r.
        """
        inside = lambda t: np.isfinite(self.value(t * r))  # noqa: E731
        if not np.any(r) or self.potential.gauge(-r) == 0:  # the domain has no end that way
            return 0.0 if inside(0.0) or inside(1.0) else np.inf
        return self._one_over_farthest(inside, self._multiple_inside(r), r)

    def _one_over_farthest(self, inside: Callable[[float], bool], start: float, r: Array) -> float:
        """1/t for the largest t inside; inf where t r is lost in the reference's rounding."""
        lost = 10 * _ROUNDING * np.abs(self.reference).max() / np.abs(r).max()
        t = _farthest(inside, start, max(lost, 1e-150))
        return 1 / t if t else np.inf

    def _multiple_inside(self, r: Array) -> float:
        """Some t with t r in the domain, or a guess where there is none."""
        for t in (0.0, 1.0):
            if np.isfinite(self.value(t * r)):
                return t
        far, here = self.potential.gauge(-r), self.potential.gauge(self.reference)
        if not np.isfinite(far + here):
            return 0.0
        gauge = lambda t: self.potential.gauge(self.reference - t * r)  # noqa: E731
        bounds = (0.0, 2 * here / far)
        return float(optimize.minimize_scalar(gauge, bounds=bounds, method="bounded").x)

    def critical_multiplier(self, r: Array) -> float:
        """By a search, where V(0) = min V; else inf: no weights stay 0 for all large c."""
        still = lambda t: not self.prox_conjugate(t * r, 1.0).any()  # noqa: E731
        if not np.any(r):
            return 0.0 if still(0.0) else np.inf
        return self._one_over_farthest(still, 0.0, r)

    def grad(self, r: Array) -> Array:
        """-grad U(reference - r)."""
        return -self.potential.grad(self.reference - r)

    def conjugate_gradient(self, v: Array) -> Array:
        """reference - grad U*(-v)."""
        return self.reference - self.potential.conjugate_gradient(-v)

    def conjugate_hessian(self, v: Array) -> Array | None:
        """The Hessian inside at -v."""
        return self.potential.conjugate_hessian(-v)

    def strong_convexity(self) -> float:
        """As the potential inside."""
        return self.potential.strong_convexity()

    def conjugate_terms(self, v: Array) -> tuple[Array, Array]:
        """The terms inside at -v, plus v reference."""
        values, slopes = self.potential.conjugate_terms(-v)
        return values + v * self.reference, self.reference - slopes

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """The mirrored step inside."""
        slope = float(self.reference[j]) - gradient
        return -self.potential.coordinate_step(j, -np.asarray(w), slope, curvature)
