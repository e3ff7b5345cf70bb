"""Potentials made from potentials: blocks of features, a multiplier, a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import linalg

from maxent import io
from maxent.core.potentials.base import Potential
from maxent.core.potentials.norms import Ball
from maxent.core.potentials.parameters import ROUNDING, number
from maxent.rows.arrays import Array


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Families(Potential):
    """A different potential for each block of consecutive features (structural maxent).

    Parameters
    ----------
    potentials : sequence of Potential
        One potential for each block.
    sizes : sequence of int
        Number of features of each block.

    Examples
    --------
    >>> from maxent.core.potentials import Box, Quadratic
    >>> Families([Box(1.0), Quadratic(2.0)], sizes=[1, 2]).conjugate(np.array([3.0, 1.0, 1.0]))
    5.0
    """

    potentials: Sequence[Potential]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        if not len(self.potentials) or len(self.potentials) != len(self.sizes):
            raise ValueError(
                f"Families needs one size per potential, got {len(self.potentials)} potentials and "
                f"{len(self.sizes)} sizes"
            )
        for potential, size in zip(self.potentials, self.sizes, strict=True):
            check_kind(potential)
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
    def open_domain(self) -> bool:
        """True where any block's domain is open."""
        return any(p.open_domain for p in self.potentials)

    @property
    def smooth(self) -> bool:
        """True where every block is smooth."""
        return self._all("smooth")

    @property
    def smooth_conjugate(self) -> bool:
        """True where every block's penalty is smooth."""
        return self._all("smooth_conjugate")

    @property
    def decomposable(self) -> bool:
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


class WrappedPotential(Potential):
    """What a potential made from another inherits from it."""

    potential: Potential

    @property
    def open_domain(self) -> bool:
        """As the potential inside."""
        return self.potential.open_domain

    @property
    def smooth(self) -> bool:
        """As the potential inside."""
        return self.potential.smooth

    @property
    def smooth_conjugate(self) -> bool:
        """As the potential inside."""
        return self.potential.smooth_conjugate

    @property
    def decomposable(self) -> bool:
        """As the potential inside."""
        return self.potential.decomposable


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class ScaledPotential(WrappedPotential):
    """`V_c(r) = c V(r/c)`, so that `V_c* = c V*`: one multiplier for the path of any model.

    Parameters
    ----------
    potential : Potential
        The potential V.
    multiplier : float
        c, > 0.

    Examples
    --------
    >>> from maxent.core.potentials import Box
    >>> ScaledPotential(Box(1.0), 3.0).conjugate(np.array([2.0]))
    6.0
    """

    potential: Potential
    multiplier: float

    def __post_init__(self) -> None:
        check_kind(self.potential)
        object.__setattr__(self, "multiplier", number("multiplier", self.multiplier, True))

    def _size(self) -> int | None:
        return self.potential._size()

    def value(self, r: Array) -> float:
        """c V(r/c)."""
        return self.multiplier * self.potential.value(r / self.multiplier)

    def conjugate(self, v: Array) -> float:
        """`c V*(v)`."""
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
        """`c grad V*(v)`."""
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
        if inside is None:
            return None
        l1, l2 = inside
        return self.multiplier * l1, self.multiplier * l2

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


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class ShiftedPotential(WrappedPotential):
    """`U_r(u) = U(reference - u)`: from an absolute to a relative potential (density paper §4.1).

    `U_r*(v) = U*(-v) + <v, reference>`, eq. (7). Shifting twice by one reference gives U back, so
    the same class turns a relative potential into the absolute one.

    Parameters
    ----------
    potential : Potential
        The potential U.
    reference : array (n_features,)
        Where residuals are measured from.

    Examples
    --------
    >>> from maxent.core.potentials import Box
    >>> absolute = ShiftedPotential(Box(0.1), np.array([0.5]))  # |0.5 - u| <= 0.1
    >>> absolute.value(np.array([0.55]))
    0.0
    """

    potential: Potential
    reference: Any

    def __post_init__(self) -> None:
        check_kind(self.potential)
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
        away[np.abs(away) <= ROUNDING * np.abs(self.reference)] = 0
        return self.potential.value(away)

    def conjugate(self, v: Array) -> float:
        """`U*(-v) + <v, reference>`."""
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
        lost = 10 * ROUNDING * np.abs(self.reference).max() / np.abs(r).max()
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
        return float(scipy.optimize.minimize_scalar(gauge, bounds=bounds, method="bounded").x)

    def critical_multiplier(self, r: Array) -> float:
        """By a search, where `V(0) = min V`; else inf: no weights stay 0 for all large c."""
        still = lambda t: not self.prox_conjugate(t * r, 1.0).any()  # noqa: E731
        if not np.any(r):
            return 0.0 if still(0.0) else np.inf
        return self._one_over_farthest(still, 0.0, r)

    def grad(self, r: Array) -> Array:
        """-grad U(reference - r)."""
        return -self.potential.grad(self.reference - r)

    def conjugate_gradient(self, v: Array) -> Array:
        """`reference - grad U*(-v)`."""
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


def check_kind(potential: Any) -> None:
    """Refuse what is no potential."""
    if not isinstance(potential, Potential):
        raise TypeError(f"expected a Potential, got {potential!r}")
