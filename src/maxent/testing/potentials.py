"""The mathematics that every potential must obey, as a public one-line check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from maxent.core.potentials import Potential, ScaledPotential
from maxent.rows.arrays import Array

_SCALES = (0.03, 1.0, 30.0)
_STEPS = (0.3, 1.0, 4.0)
_EXACT = 1e-9  # share of the terms by which an identity may fail
_NOTHING = 1e-30  # and what is nothing: a prox that is found numerically is not exactly 0 at 0
_BORDER = 1e-9  # share by which a point must lie inside of dom V* to count as inside
_DIFFERENCE = 1e-4  # the same for a gradient against central differences


def check_potential(potential: Potential, size: int, random_state: Any = 0) -> None:
    """Check a potential's methods against each other at random points.

    Fenchel's inequality, the prox (strong optimality and Moreau's identity), gradients, gauge,
    ``critical_multiplier``, ``coordinate_step``, ``elastic``, convexity, untouched inputs.

    Parameters
    ----------
    potential : Potential
        The potential to check.
    size : int
        Number of features.
    random_state : int or Generator, default 0
        Seed of what is drawn.

    Raises
    ------
    AssertionError
        With what was violated, by how much and where.

    Examples
    --------
    >>> from maxent.core.potentials import Box
    >>> check_potential(Box(0.5), size=3)
    """
    potential.check_size(size)
    rng = np.random.default_rng(random_state)
    checks = []
    for scale in _SCALES:
        points = [scale * rng.standard_normal(size) for _ in range(4)]
        points.append(scale * np.sign(rng.standard_normal(size)))  # ties
        points.append(np.where(np.arange(size) == rng.integers(size), scale, 0.0))
        checks.append(_Check(potential, points, scale, rng))
    for part in (
        _Check.inputs,
        _Check.prox,
        _Check.fenchel,
        _Check.elastic,
        _Check.gradients,
        _Check.gauge,
        _Check.critical_multiplier,
        _Check.coordinate_step,
        _Check.convexity,
        _Check.strong_convexity,
    ):
        for check in checks:
            part(check)
    _Check(potential, [np.zeros(size)], 0.0, rng).prox()


def _fail(potential: Potential, what: str, **where: Any) -> NoReturn:
    at = ", ".join(f"{name} = {value}" for name, value in where.items())
    raise AssertionError(f"{potential!r}: {what} (at {at})")


@dataclass
class _Check:
    """The checks at one set of random points."""

    potential: Potential
    points: list[Array]
    scale: float
    rng: np.random.Generator

    @cached_property
    def inside(self) -> list[Array]:
        """Points of dom V: r = v - prox(v) is a subgradient of V* at the prox."""
        return [v - x for v, x in zip(self.points, self.inside_conjugate, strict=True)]

    @cached_property
    def inside_conjugate(self) -> list[Array]:
        """Points of dom V*."""
        return [self.potential.prox_conjugate(v, 1.0) for v in self.points]

    def inputs(self) -> None:
        V = self.potential
        names = ["value", "conjugate", "gauge", "critical_multiplier"]
        calls: dict[str, Callable[[Array], Any]] = {name: getattr(V, name) for name in names}
        calls["prox_conjugate"] = lambda v: V.prox_conjugate(v, 1.0)
        calls["coordinate_step"] = lambda w: V.coordinate_step(0, w, 0.1 * self.scale, 1.0)
        if V.smooth:
            calls["grad"] = V.grad
        if V.smooth_conjugate:
            calls["conjugate_gradient"] = V.conjugate_gradient
        own = self._interior()
        for name, call in calls.items():
            given = -self.inside_conjugate[0] if name == "coordinate_step" else own.copy()
            before = given.copy()
            result = call(given)
            if not np.array_equal(given, before):
                _fail(V, f"{name} modifies its input", input=before, afterwards=given)
            shape = () if isinstance(result, float) else np.shape(result)
            vector = name in ("prox_conjugate", "grad", "conjugate_gradient")
            if shape != (before.shape if vector else ()):
                _fail(V, f"{name} returns shape {shape}", input=before)
            if np.isnan(result).any():
                _fail(V, f"{name} returns NaN", input=before)

    def fenchel(self) -> None:
        V = self.potential
        values = [(r, V.value(r)) for r in self.points + self.inside]
        conjugates = [(v, V.conjugate(v)) for v in self.points + self.inside_conjugate]
        for r, value in values:
            for v, conjugate in conjugates:
                product = float(r @ v)
                missing = product - value - conjugate
                terms = abs(product) + abs(value) + abs(conjugate)
                rounding = 1e-13 * self.scale * float(np.linalg.norm(v))
                if np.isfinite(missing) and missing > _EXACT * terms + rounding:
                    _fail(V, f"Fenchel: V(r) + V*(v) is {missing:.3g} below <r, v>", r=r, v=v)

    def prox(self) -> None:
        V = self.potential
        for step in _STEPS:
            for v in self.points:
                x = V.prox_conjugate(v, step)
                if not np.isfinite(V.conjugate(x)):
                    _fail(V, "V* is infinite at prox_conjugate", v=v, step=step, prox=x)
                self._prox_optimal(v, step, x)
                self._moreau(v, step, x)

    def _prox_optimal(self, v: Array, step: float, x: Array) -> None:
        """The objective grows by 1/2 ||d||^2 at least, being strongly convex."""

        def penalty(x: Array) -> float:
            return step * self.potential.conjugate(x)

        old = penalty(x)
        for size in (1e-4, 1e-2, 1.0):
            for toward in (self.rng.standard_normal(v.size), v - x, -x):
                d = size * (self.scale * toward if toward.any() else toward)
                new = penalty(x + d)
                short = old - new - float((x - v) @ d)
                terms = abs(old) + np.linalg.norm(d) * np.linalg.norm(v)
                if np.isfinite(new) and short > _EXACT * terms:
                    _fail(
                        self.potential,
                        f"prox_conjugate is not optimal: the objective grows by {short:.3g} less "
                        "than 1/2 ||d||^2",
                        v=v,
                        step=step,
                        prox=x,
                        d=d,
                    )

    def _inside(self, r: Array, v: Array, step: float) -> tuple[Array, float]:
        """The nearest point of dom V, and V there, to one that rounding took out of it."""
        V = self.potential
        gauge = V.gauge(r)
        last_digits = 4 * np.finfo(float).eps * np.abs(v) / step  # beside a narrow dom V not few
        rounding = max(V.gauge(last_digits), V.gauge(-last_digits))
        if gauge <= 1 + _EXACT + (rounding if np.isfinite(rounding) else 0.0):
            r = r * ((1 - 1e-12) / max(gauge, 1.0))
            return r, V.value(r)
        zero = np.zeros_like(v)
        if not np.isfinite(V.value(zero)):  # then the gauge says nothing
            # towards the middle of some points of dom V, unless it has but one
            across = (-v - V.prox_conjugate(-v, step)) / step
            nearly = r + _EXACT * (np.mean([across, *self.inside], axis=0) - r)
            if np.isfinite(value := V.value(nearly)):
                return nearly, value
            if np.abs(r - across).max() <= _EXACT * (1 + np.abs(v).max() / step):
                return r, -V.conjugate(zero)
        _fail(
            V, f"Moreau: r = (v - prox)/step leaves dom V, gauge {gauge:.12g}", v=v, step=step, r=r
        )

    def _moreau(self, v: Array, step: float, x: Array) -> None:
        """r = (v - x)/step is a subgradient of V* at x: V(r) + V*(x) = <r, x>."""
        V = self.potential
        r = (v - x) / step
        value = V.value(r)
        if not np.isfinite(value):
            r, value = self._inside(r, v, step)
        conjugate, product = V.conjugate(x), float(r @ x)
        excess = value + conjugate - product
        rounding = float(np.linalg.norm(v) * np.linalg.norm(x)) / step
        terms = abs(value) + abs(conjugate) + abs(product) + rounding
        if not abs(excess) <= _EXACT * terms + _NOTHING:
            _fail(
                V,
                f"Moreau: V(r) + V*(x) - <r, x> = {excess:.3g}, not 0, for x = prox_conjugate and "
                "r = (v - x)/step",
                v=v,
                step=step,
                x=x,
                r=r,
            )

    def _interior(self) -> Array:
        """A point well inside dom V: a mean of its points on opposite sides."""
        V = self.potential
        centred = np.isfinite(V.value(np.zeros_like(self.points[0])))
        far = 1.0 if centred else 1e3 / self.scale
        sides = [s * far * v for v in self.points[:2] for s in (1, -1)]
        inside = [v - V.prox_conjugate(v, 1.0) for v in sides]
        r = 0.4 * inside[0] + 0.1 * inside[1] + 0.3 * inside[2] + 0.2 * inside[3]
        return r * (0.9 / max(V.gauge(r), 0.9)) if centred else r

    def gradients(self) -> None:
        V = self.potential
        size = self.points[0].size
        random = list(self.rng.standard_normal((3, size)))
        if V.smooth:
            spread = [r - self.inside[0] for r in self.inside[1:3]]  # for a flat domain
            self._differences("grad", V.value, V.grad, self._interior(), random + spread)
        if V.smooth_conjugate:
            for v in self.points[:4]:
                self._differences(
                    "conjugate_gradient", V.conjugate, V.conjugate_gradient, v, random
                )
        self._hessian(random)

    def strong_convexity(self) -> None:
        V = self.potential
        modulus = V.strong_convexity()
        if not modulus >= 0:
            _fail(V, f"strong_convexity is {modulus}, not >= 0")
        if modulus == 0:
            return
        for a, b in pairwise(self.points):
            moved = float(np.linalg.norm(V.grad(a) - V.grad(b)))
            if moved > (1 + 1e-9) * float(np.linalg.norm(a - b)) / modulus:
                _fail(
                    V, f"grad moves by {moved:.3g}, more than 1/strong_convexity allows", a=a, b=b
                )

    def _hessian(self, directions: list[Array]) -> None:
        V = self.potential
        slopes = V.conjugate_gradient if V.smooth_conjugate else lambda v: V.conjugate_terms(v)[1]
        for v in self.points[:4]:
            hessian = V.conjugate_hessian(v)
            if hessian is None:
                return
            if not np.isfinite(hessian).all():  # outside the domain
                continue
            if hessian.shape not in (v.shape, 2 * v.shape):
                _fail(V, f"conjugate_hessian returns shape {hessian.shape}", v=v)
            start = np.abs(slopes(np.zeros_like(v)))  # part of every slope
            for d in directions:
                h = 1e-6 * (float(np.linalg.norm(v)) or self.scale) / float(np.linalg.norm(d))
                ends = slopes(v + h * d), slopes(v - h * d)
                measured = (ends[0] - ends[1]) / (2 * h)
                stated = hessian * d if hessian.ndim == 1 else hessian @ d
                rounding = 1e-15 * (np.abs(ends[0]) + np.abs(ends[1]) + start) / h
                if (np.abs(measured - stated) > 1e-4 * np.abs(stated).max() + rounding).any():
                    _fail(V, f"conjugate_hessian gives {stated}, differences {measured}", v=v, d=d)

    def _differences(
        self,
        name: str,
        function: Callable[[Array], float],
        gradient: Callable[[Array], Array],
        x: Array,
        directions: list[Array],
    ) -> None:
        slope = gradient(x)
        for d in directions:
            norm = float(np.linalg.norm(d))
            if norm == 0:
                continue
            d = d / norm
            h = 1e-6 * (float(np.linalg.norm(x)) or self.scale)
            ends = x + h * d, x - h * d
            high, low = function(ends[0]), function(ends[1])
            if not np.isfinite(high - low):
                continue
            measured, stated = (high - low) / (2 * h), float(slope @ d)
            rounding = 1e-14 * (abs(high) + abs(low)) / h
            allowed = _DIFFERENCE * float(np.linalg.norm(slope)) + rounding
            # of a convex function both slopes lie between those at the ends, far apart near a bend
            if abs(measured - stated) > allowed:
                allowed += abs(float((gradient(ends[0]) - gradient(ends[1])) @ d))
            if not abs(measured - stated) <= allowed:
                _fail(
                    self.potential,
                    f"{name} says slope {stated:.8g}, central differences {measured:.8g}",
                    x=x,
                    direction=d,
                )

    def gauge(self) -> None:
        V = self.potential
        if not np.isfinite(V.value(np.zeros_like(self.points[0]))):
            return  # multiples of a domain without 0 are not nested
        for r in self.points + self.inside:
            gauge = V.gauge(r)
            if not gauge >= 0:
                _fail(V, f"gauge is {gauge}, not >= 0", r=r)
            if gauge == 0:
                expected = [(1.0, True), (100.0, True)]
            elif np.isinf(gauge):
                expected = [(1.0, False), (0.01, False)]
            else:
                expected = [(0.99 / gauge, True), (1.01 / gauge, False)]
            for share, finite in expected:
                value = V.value(share * r)
                if np.isfinite(value) != finite:
                    _fail(V, f"gauge(r) = {gauge:.6g} but V({share:.6g} r) = {value}", r=r)

    def critical_multiplier(self) -> None:
        V = self.potential
        for r in self.points:
            c = V.critical_multiplier(r)
            if not c >= 0:
                _fail(V, f"critical_multiplier is {c}, not >= 0", r=r)
            if c == 0:
                expected = [(1e-3, True)]
            elif np.isinf(c):
                expected = [(1e6, False)]
            else:
                expected = [(1.01 * c, True), (0.99 * c, False)]
            for multiplier, zero in expected:
                w = ScaledPotential(V, multiplier).prox_conjugate(r, 1.0)
                rounding = 0.0 if np.isinf(c) else 1e-12 * np.abs(r).max()
                if (np.abs(w).max() <= rounding) != zero:
                    _fail(
                        V,
                        f"critical_multiplier is {c:.6g}, but under multiplier {multiplier:.6g} "
                        f"w = 0 is {'not ' if zero else ''}optimal",
                        r=r,
                        w=w,
                    )

    def coordinate_step(self) -> None:
        V = self.potential
        for x, curvature in zip(self.inside_conjugate, (0.3, 1.0, 5.0) * 2, strict=True):
            w = -x
            j = int(self.rng.integers(w.size))
            gradient = self.scale * curvature * float(self.rng.standard_normal())
            d = V.coordinate_step(j, w, gradient, curvature)
            unit = np.eye(w.size)[j]
            old = V.conjugate(-(w + d * unit))
            if not np.isfinite(old):
                _fail(V, "coordinate_step leaves dom V*", j=j, w=w, d=d)
            reach = abs(d) + abs(w[j]) + abs(gradient) / curvature
            for size in (1e-3, 0.1, 1.0, 1 / 3):
                for e in (size * reach, -size * reach, -size * d, -size * (w[j] + d)):
                    if abs(e) < 1e-6 * reach:
                        continue
                    there = -(w + (d + e) * unit)
                    if not np.isfinite(V.conjugate((1 + _BORDER) * there)):
                        continue  # outside, or within the rounding that dom V* allows itself
                    new = V.conjugate(there)
                    # strong convexity again: grows by curvature/2 e^2 at least
                    short = old - new - (gradient + curvature * d) * e
                    rounding = 1e-12 * (abs(old) + abs(gradient * e))
                    if short > 1e-6 * curvature * reach * abs(e) + rounding:
                        _fail(
                            V,
                            f"coordinate_step is not optimal: going on by {e:.6g} the objective "
                            f"grows by {short:.3g} less than curvature/2 e^2",
                            j=j,
                            w=w,
                            gradient=gradient,
                            curvature=curvature,
                            step=d,
                        )

    def convexity(self) -> None:
        V = self.potential
        sides: list[tuple[str, Callable[[Array], float], list[Array]]] = [
            ("V", V.value, self.inside),
            ("V*", V.conjugate, self.inside_conjugate + self.points),
        ]
        # moving an argument by rounding moves V by |x| |r| times that, x = prox(v) its slope
        slopes = zip(self.inside_conjugate, self.inside, strict=True)
        rounding = 1e-14 * max(np.linalg.norm(x) * np.linalg.norm(r) for x, r in slopes)
        for name, function, points in sides:
            for a, b in pairwise(points):
                ends = function(a), function(b)
                middle = function((a + b) / 2)
                above = middle - sum(ends) / 2
                allowed = _EXACT * (abs(ends[0]) + abs(ends[1])) + rounding
                if np.isfinite(sum(ends)) and not above <= allowed:
                    _fail(V, f"{name} is not convex: {above:.3g} above the chord", ends=(a, b))

    def elastic(self) -> None:
        V = self.potential
        size = self.points[0].size
        parts = V.elastic(size)
        if parts is None:
            return
        l1, l2 = parts
        if np.shape(l1) != (size,) or np.shape(l2) != (size,):
            _fail(V, f"elastic({size}) returns shapes {np.shape(l1)}, {np.shape(l2)}", size=size)
        for v in self.points:
            stated, conjugate = float(np.sum(l1 * abs(v) + l2 / 2 * v**2)), V.conjugate(v)
            if not abs(stated - conjugate) <= _EXACT * abs(conjugate):
                _fail(V, f"elastic gives the penalty {stated:.8g}, conjugate {conjugate:.8g}", v=v)
