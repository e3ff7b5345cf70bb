"""Weights that are a matrix (features, columns), with columns that depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent import io
from maxent.core.potentials.base import Potential
from maxent.core.potentials.elastic import Quadratic
from maxent.core.potentials.parameters import ROUNDING, check_curvature, fraction, number
from maxent.core.potentials.spiked import Spiked
from maxent.rows.arrays import Array

_STEPS = 20_000  # of a prox without closed form
_STILL = 4e-16  # relative change that is rounding
_IDLE = 3  # steps without more in a row: one may be where an oscillation turns
_GOLDEN = (np.sqrt(5) - 1) / 2
_NARROW = 70  # cuts of a bracket, to 1e-14 of it


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Coupled(Potential):
    """`V(R) = inner(R B)` with `A = B B'`: the penalty `inner*(W B^-1)`, B the symmetric root of A.

    R and W are flattened matrices (features, columns), one column for each task that shares its
    features with the others, such as a species of a group. With ``inner`` = Quadratic the penalty
    is `1/2 tr(W A^-1 W')` times its strength: columns that A says are alike cost less where they
    are. ``inner`` may be any potential of the flattened matrix; with the identity for A it is the
    penalty.

    Parameters
    ----------
    A : array (n_columns, n_columns) or Spiked
        How alike the columns are: symmetric, positive definite.
    inner : Potential, default Quadratic(1.0)
        The potential of the columns once they are made independent.

    Examples
    --------
    >>> alike = Coupled([[1.0, 0.8], [0.8, 1.0]])
    >>> W = np.array([[1.0, 1.0], [0.0, 0.5]])
    >>> round(alike.conjugate(W.ravel()), 6), Quadratic(1.0).conjugate(W.ravel())
    (0.902778, 1.125)
    """

    A: Any
    inner: Potential = Quadratic(1.0)
    _A: Spiked = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Potential):
            raise TypeError(f"expected a Potential, got {self.inner!r}")
        A = self.A if isinstance(self.A, Spiked) else Spiked.from_matrix(self.A)
        if not isinstance(self.A, Spiked):
            object.__setattr__(self, "A", np.array(self.A, dtype=np.float64))
        object.__setattr__(self, "_A", A)

    @property
    def columns(self) -> int:
        """Number of columns of the weights."""
        return self._A.size

    @property
    def relation(self) -> Spiked:
        """A, by its eigenvalues."""
        return self._A

    @property
    def open_domain(self) -> bool:
        """As the potential inside."""
        return self.inner.open_domain

    @property
    def smooth(self) -> bool:
        """As the potential inside."""
        return self.inner.smooth

    @property
    def smooth_conjugate(self) -> bool:
        """As the potential inside."""
        return self.inner.smooth_conjugate

    def check_size(self, n: int) -> None:
        """Refuse a number of weights that is no multiple of the columns, or that inner refuses."""
        if n % self.columns:
            raise ValueError(
                f"Coupled has {self.columns} columns, and {n} weights are no multiple of them"
            )
        self.inner.check_size(n)

    def _times(self, x: Array, power: float) -> Array:
        return self._A.times(np.reshape(x, (-1, self.columns)), power).ravel()

    def ridge(self) -> Array | None:
        """The strength of a Quadratic inside, one number or one for each row of weights.

        None where inner is something else, or where the columns of a row differ.
        """
        if type(self.inner) is not Quadratic:
            return None
        strength = np.asarray(self.inner.strength)
        if not strength.ndim:
            return strength
        rows = strength.reshape(-1, self.columns)
        return rows[:, 0].copy() if (rows == rows[:, :1]).all() else None

    def value(self, r: Array) -> float:
        """inner(R B)."""
        return self.inner.value(self._times(r, 0.5))

    def conjugate(self, v: Array) -> float:
        """`inner*(V B^-1)`."""
        return self.inner.conjugate(self._times(v, -0.5))

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """`V (I + step c A^-1)^-1` where inner is quadratic, else by accelerated steps."""
        ridge = self.ridge()
        if ridge is None:
            return self._prox_by_steps(v, step)
        A = self._A
        per_row = (step * ridge)[:, None] if ridge.ndim else step * ridge
        shrunk = A.scaled_by(
            np.reshape(v, (-1, self.columns)),
            1 / (1 + per_row / A.spectrum),
            1 / (1 + step * ridge / A.rest),
        )
        return shrunk.ravel()

    def _prox_by_steps(self, v: Array, step: float) -> Array:
        """With `X = U B`: min `1/2 ||U B - V||^2 + step inner*(U)`, smooth in U but for inner*."""
        low, high = self._A.extremes
        pull = (np.sqrt(high) - np.sqrt(low)) / (np.sqrt(high) + np.sqrt(low))
        fixed = self._times(v, 0.5)
        u = self.inner.prox_conjugate(fixed / high, step / high)
        # beside the terms of the slope a small u has few digits, and they come and go
        rounding = _STILL * float(np.abs(fixed).max(initial=0.0)) / high
        ahead, idle = u, 0
        for _ in range(_STEPS):
            slope = self._times(ahead, 1.0) - fixed
            new = self.inner.prox_conjugate(ahead - slope / high, step / high)
            moved = float(np.abs(new - u).max(initial=0.0))
            ahead, u = new + pull * (new - u), new
            still = moved <= max(rounding, _STILL * float(np.abs(u).max(initial=0.0)))
            idle = idle + 1 if still else 0
            if idle == _IDLE:
                break
        return self._times(u, 0.5)

    def gauge(self, r: Array) -> float:
        """That of R B inside."""
        return self.inner.gauge(self._times(r, 0.5))

    def critical_multiplier(self, r: Array) -> float:
        """That of R B inside."""
        return self.inner.critical_multiplier(self._times(r, 0.5))

    def grad(self, r: Array) -> Array:
        """`(grad inner)(R B) B`."""
        return self._times(self.inner.grad(self._times(r, 0.5)), 0.5)

    def conjugate_gradient(self, v: Array) -> Array:
        """`(grad inner*)(V B^-1) B^-1`."""
        return self._times(self.inner.conjugate_gradient(self._times(v, -0.5)), -0.5)

    def strong_convexity(self) -> float:
        """That inside over the largest eigenvalue of A."""
        return self.inner.strong_convexity() / self._A.extremes[1]

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """Newton's step where inner is quadratic, else a search."""
        ridge = self.ridge()
        if ridge is None:
            return step_by_search(self, j, w, gradient, curvature)
        check_curvature(curvature)
        row, column = divmod(j, self.columns)
        c = float(ridge[row]) if ridge.ndim else float(ridge)
        slope = c * self._times(w, -1.0)[j]
        bend = c * self._A.diagonal(-1.0)[column]
        return float(-(gradient + slope) / (curvature + bend))


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Spectral(Potential):
    """The nuclear norm of a matrix of weights, with a square: all columns share few directions.

    For W (features, ``columns``) with singular values s the penalty is
    `radius sum_k s_k + strength/2 sum_k s_k^2`, and V(R) of the singular values of R is
    `sum_k [s_k - radius]_+^2 / (2 strength)`; where strength is 0 that is the indicator of
    `||R|| <= radius`. It is what ``Coupled`` comes to where A is chosen as well, at the price of
    its trace: `min_A 1/2 tr(W A^-1 W') + radius^2/2 tr(A) = radius ||W||_*`.

    Parameters
    ----------
    columns : int
        Columns of the weights.
    radius : float
        Factor of the nuclear norm.
    strength : float, default 0.0
        Factor of half the square.

    Examples
    --------
    >>> Spectral(2, 0.5).conjugate(np.array([3.0, 0.0, 0.0, 4.0]))
    3.5
    """

    columns: int
    radius: float
    strength: float = 0.0

    def __post_init__(self) -> None:
        if int(self.columns) != self.columns or self.columns < 1:
            raise ValueError(f"columns must be an integer >= 1, got {self.columns!r}")
        object.__setattr__(self, "columns", int(self.columns))
        object.__setattr__(self, "radius", number("radius", self.radius))
        object.__setattr__(self, "strength", number("strength", self.strength))

    @property
    def smooth(self) -> bool:
        """True with a square."""
        return self.strength > 0

    def check_size(self, n: int) -> None:
        """Refuse a number of weights that is no multiple of the columns."""
        if n % self.columns:
            raise ValueError(
                f"Spectral has {self.columns} columns, and {n} weights are no multiple of them"
            )

    def _singular(self, x: Array) -> Array:
        return np.linalg.svd(np.reshape(x, (-1, self.columns)), compute_uv=False)

    def _mapped(self, x: Array, function: Callable[[Array], Array]) -> Array:
        """The matrix with other singular values."""
        left, s, right = np.linalg.svd(np.reshape(x, (-1, self.columns)), full_matrices=False)
        return ((left * function(s)) @ right).ravel()

    def _over(self, s: Array) -> Array:
        over = np.maximum(s - self.radius, 0.0)
        return np.where(over <= ROUNDING * self.radius, 0.0, over)

    def value(self, r: Array) -> float:
        """`sum [s_k - radius]_+^2 / (2 strength)`; an indicator without a square."""
        over = self._over(self._singular(r))
        if not self.strength:
            return np.inf if over.any() else 0.0
        return float(np.sum(over / (2 * self.strength) * over))

    def conjugate(self, v: Array) -> float:
        """`radius sum s_k + strength/2 sum s_k^2`."""
        s = self._singular(v)
        return float(self.radius * s.sum() + 0.5 * self.strength * (s @ s))

    def prox_conjugate(self, v: Array, step: float) -> Array:
        """Singular values drawn towards 0, and shrunk by the square."""
        return self._mapped(
            v, lambda s: np.maximum(s - step * self.radius, 0.0) / (1 + step * self.strength)
        )

    def gauge(self, r: Array) -> float:
        """The largest singular value over radius; 0 with a square."""
        return 0.0 if self.strength else self.critical_multiplier(r)

    def critical_multiplier(self, r: Array) -> float:
        """The largest singular value over radius."""
        return float(fraction(np.array(self._singular(r).max()), np.array(self.radius)))

    def grad(self, r: Array) -> Array:
        """Singular values less radius, over strength."""
        if not self.smooth:
            return super().grad(r)
        return self._mapped(r, lambda s: self._over(s) / self.strength)

    def strong_convexity(self) -> float:
        """Strength."""
        return self.strength

    def coordinate_step(self, j: int, w: Array, gradient: float, curvature: float) -> float:
        """By a search."""
        return step_by_search(self, j, w, gradient, curvature)


def step_by_search(
    potential: Potential, j: int, w: Array, gradient: float, curvature: float
) -> float:
    """The d that minimises `gradient d + curvature/2 d^2 + V*(-(w + d e_j))`, for any penalty."""
    check_curvature(curvature)
    unit = np.zeros(w.size)
    unit[j] = 1.0
    here = potential.conjugate(-w)

    def objective(d: float) -> tuple[float, float]:
        rise = potential.conjugate(-(w + d * unit)) - here
        return gradient * d + 0.5 * curvature * d * d + rise, abs(d)  # outside, back to 0

    size = abs(gradient) / curvature + abs(w[j]) + float(np.abs(w).max(initial=0.0))
    if size == 0:
        return 0.0
    width = size
    while min(objective(-width), objective(width))[0] < 0:  # convex, and 0 at 0
        width *= 2
    low, high = -width, width
    at = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [objective(d) for d in at]
    for _ in range(_NARROW):  # golden section: the penalty may be infinite on a side
        if values[0] <= values[1]:
            high, at[1], values[1] = at[1], at[0], values[0]
            at[0] = high - _GOLDEN * (high - low)
            values[0] = objective(at[0])
        else:
            low, at[0], values[0] = at[0], at[1], values[1]
            at[1] = low + _GOLDEN * (high - low)
            values[1] = objective(at[1])
    return float(min((*at, 0.0, -float(w[j])), key=objective))
