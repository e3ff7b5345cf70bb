"""Many one-dimensional equations at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxent.rows.arrays import Array

_MAX_ITER = 200


def bracketed_root(f: Callable[[Array, Array], Array], low: Array, high: Array) -> Array:
    """Roots of decreasing functions, f(low) >= 0 >= f(high), to the last digit.

    ``f(x, rows)`` evaluates the equations ``rows`` at ``x``. Inverse quadratic interpolation
    where it is safe, else bisection (Chandrupatla, 1997).
    """
    a, b = np.array(high, dtype=np.float64), np.array(low, dtype=np.float64)
    rows = np.arange(a.size)
    fa, fb = f(a, rows), f(b, rows)
    # where rounding leaves no change of sign the root sits at an end
    roots = np.where(fb <= 0, b, np.where(fa >= 0, a, np.nan))
    live = np.isnan(roots)
    rows, a, b, fa, fb = rows[live], a[live], b[live], fa[live], fb[live]
    c, fc = a.copy(), fa.copy()
    t = np.full(rows.size, 0.5)
    for _ in range(_MAX_ITER):
        if not rows.size:
            break
        x = a + t * (b - a)
        fx = f(x, rows)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.abs(fa) < np.abs(fb)
        x_best = np.where(best, a, b)
        tolerance = 2 * np.finfo(float).eps * np.abs(x_best) + 1e-300
        width = np.abs(b - a)
        done = (width <= 2 * tolerance) | (fa == 0) | (fb == 0)
        if done.any():
            exact = np.where(fa == 0, a, np.where(fb == 0, b, x_best))
            roots[rows[done]] = exact[done]
            keep = ~done
            rows, a, b, c = rows[keep], a[keep], b[keep], c[keep]
            fa, fb, fc = fa[keep], fb[keep], fc[keep]
            tolerance, width = tolerance[keep], width[keep]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            xi = (a - b) / (c - b)
            phi = (fa - fb) / (fc - fb)
            inverse_quadratic = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
                fc - fb
            )
            least = tolerance / width
        t = np.where(inverse_quadratic & np.isfinite(t), t, 0.5)
        t = np.clip(t, least, 1 - least)
    roots[rows] = (a + b) / 2
    return roots


def linear_plus_power(y: Array, linear: float | Array, weight: float | Array, a: float) -> Array:
    """The x with linear x + weight x^a = y > 0, by Newton from above on a convex function."""
    if a < 1:  # x = z^(1/a)
        return linear_plus_power(y, weight, linear, 1 / a) ** (1 / a)
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


def linear_plus_powers(y: Array, weight: float, other: float, a: float, b: float) -> Array:
    """The x with x + weight x^a + other x^b = y > 0, in a bracket from each term alone."""
    if a == 1 or b == 1:
        linear, rest, power = (1 + weight, other, b) if a == 1 else (1 + other, weight, a)
        return linear_plus_power(y, linear, rest, power)
    with np.errstate(divide="ignore", over="ignore"):
        high = _least_of_three(y, weight, other, a, b)
        low = _least_of_three(y / 3, weight, other, a, b)

        def excess(x: Array, rows: Array) -> Array:
            return y[rows] - x - weight * x**a - other * x**b

        return bracketed_root(excess, low, high)


def _least_of_three(y: Array, weight: float, other: float, a: float, b: float) -> Array:
    powers = (y / np.float64(weight)) ** (1 / a), (y / np.float64(other)) ** (1 / b)
    return np.minimum(y, np.minimum(*powers))
