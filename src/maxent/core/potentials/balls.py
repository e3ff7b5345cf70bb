"""Norms of order p, their balls and their squares: gradients, projections, proximity operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maxent.core.roots import bracketed_root, linear_plus_power, linear_plus_powers
from maxent.rows.arrays import Array

_CLOSE = 1e-13  # error of a log norm that Newton's method stops at
_FAR = 1e300  # a multiplier beyond it, or below its inverse, is as good as infinite, or 0


def dual_order(p: float) -> float:
    """The p' with 1/p + 1/p' = 1."""
    return 1.0 if np.isinf(p) else np.inf if p == 1 else p / (p - 1)


def p_norm(v: Array, p: float) -> float:
    """||v||_p without overflow."""
    largest = float(np.max(np.abs(v), initial=0.0))
    if largest == 0 or np.isinf(p) or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(v / largest, ord=p))


def unit_norm_gradient(v: Array, p: float) -> Array:
    """Gradient of ||v||_p at v != 0: sign(v) (|v| / ||v||_p)^(p-1)."""
    norm = p_norm(v, p)
    if norm == 0:
        return np.zeros_like(v)
    return np.sign(v) * (np.abs(v) / norm) ** (p - 1)


def project_ball(v: Array, p: float, radius: float, q: float = 2.0) -> Array:
    """A point of {||x||_p <= radius} that is nearest to v in the q-norm."""
    v = np.asarray(v, dtype=np.float64)
    norm = p_norm(v, p)
    if norm <= radius:
        return v.copy()
    if radius == 0:
        return np.zeros_like(v)
    if np.isinf(p):
        return np.clip(v, -radius, radius)
    if p == q:
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
    rest = size > 0
    target, linear = size[rest] / largest, radius / largest
    x, ends = np.zeros_like(v), (np.zeros(1), np.ones(1))
    if q == 1:  # entries above a level come down to it
        level = bracketed_root(lambda t, _: linear - _norms(np.minimum(target, t), p), *ends)
        x[rest] = np.minimum(target, level)
        return np.sign(v) * x * largest
    if np.isinf(q):  # all entries come down by as much
        less = bracketed_root(lambda t, _: _norms(np.maximum(target - t, 0), p) - linear, *ends)
        x[rest] = np.maximum(target - less, 0)
        return np.sign(v) * x * largest
    # The multiplier t puts x on the unit sphere: linear x + t x^power = |v| / largest. The largest
    # entry of x gives t, and lies between n^(-1/p) and 1.
    power = (p - 1) / (q - 1)

    def point(top: Array) -> Array:
        t = max(1 - linear * top[0], 0.0) / top[0] ** power
        return linear_plus_power(target, linear, t, power)

    def room(top: Array, rows: Array) -> Array:
        return 1 - _norms(point(top), p)

    top = np.array([1.0 if linear <= 1 else 1 / linear])
    x[rest] = point(bracketed_root(room, np.array([target.size ** (-1 / p)]), top))
    return np.sign(v) * x * radius


def _norms(x: Array, p: float) -> Array:
    """||x||_p as a vector of one number, which roots are searched for with."""
    return np.array([p_norm(x, p)])


def prox_norm(v: Array, q: float, c: float) -> Array:
    """argmin_x 1/2 ||x - v||^2 + c ||x||_q, by Moreau's identity."""
    return v - project_ball(v, dual_order(q), c)


def prox_squared_norm(v: Array, q: float, c: float) -> Array:
    """argmin_x 1/2 ||x - v||^2 + c/2 ||x||_q^2."""
    v = np.asarray(v, dtype=np.float64)
    scale = float(np.max(np.abs(v), initial=0.0))
    if scale == 0 or c < 1 / _FAR:  # nothing, or less than rounding
        return v.copy()
    size, c = np.abs(v) / scale, min(c, _FAR)
    if q > 2:  # Moreau: the conjugate is a squared norm of order below 2
        return v - prox_squared_norm(v, dual_order(q), 1 / c)
    if q == 2:
        x = size / (1 + c)
    elif q == 1:
        # threshold t = c ||x||_1 = c sum_k / (1 + c k) over the k largest entries; as t tends to
        # the largest with c, entries less t are found from the sums of entries less the k-th
        ordered = np.sort(size)[::-1]
        steps = np.arange(1, v.size) * (ordered[:-1] - ordered[1:])
        above, share = np.concatenate([[0.0], np.cumsum(steps)]), 1 / (1 + c)
        last = int(np.flatnonzero(share * ordered > (1 - share) * above)[-1])
        lead = (last + 1) * (size - ordered[last]) - above[last]
        x = np.maximum(share * size + (1 - share) * lead, 0) / (share + (1 - share) * (last + 1))
    else:  # x + c N^(2-q) x^(q-1) = |v| with N = ||x||_q
        rest = size > 0

        def point(norm: Array) -> Array:
            return linear_plus_power(size[rest], 1.0, c * norm[0] ** (2 - q), q - 1)

        def excess(norm: Array, rows: Array) -> Array:
            return np.array([p_norm(point(norm), q)]) - norm

        # between ||v||_q / (1 + c n^(2/q - 1)) and ||v||_q / max(1, c), by the triangle inequality
        whole = np.array([p_norm(size, q)])
        low, high = whole / (1 + c * rest.sum() ** (2 / q - 1)), whole / max(1, c)
        x = np.zeros_like(v)
        x[rest] = point(bracketed_root(excess, low, high))
    return np.sign(v) * x * scale


def prox_norm_and_square(v: Array, q: float, c: float, squared_q: float, square: float) -> Array:
    """argmin_x 1/2 ||x - v||^2 + c ||x||_q + square/2 ||x||_squared_q^2."""
    v = np.asarray(v, dtype=np.float64)
    scale = float(np.max(np.abs(v), initial=0.0))
    if scale == 0 or c == 0 or square < 1 / _FAR:
        return prox_squared_norm(prox_norm(v, q, c), squared_q, square)
    if squared_q == 2:
        return prox_norm(v / (1 + square), q, c / (1 + square))
    # Yu (2013): the prox of f + g is that of f after that of g where prox_f keeps dg. Those of
    # p-norms and their squares keep signs, for the 1-norm, and what is largest, for the inf-norm.
    if q == 1 or np.isinf(q):
        return prox_squared_norm(prox_norm(v, q, c), squared_q, square)
    size, c, square = np.abs(v) / scale, c / scale, min(square, _FAR)
    if p_norm(size, dual_order(q)) <= c:
        return np.zeros_like(v)
    if squared_q in (1, q) or np.isinf(squared_q):
        # the square is as good as t ||x|| with t = square ||x||
        def given(t: Array) -> Array:
            if squared_q == q:
                return prox_norm(size, q, c + float(t[0]))
            return prox_norm(prox_norm(size, squared_q, float(t[0])), q, c)

        def excess(t: Array, rows: Array) -> Array:
            return _norms(given(t), squared_q) - t / square

        high = p_norm(size, dual_order(squared_q)) * (1 + 1e-9)  # where nothing is left
        high = min(high, square * p_norm(size, squared_q))
        x = given(bracketed_root(excess, np.zeros(1), np.array([high])))
    else:
        x = np.zeros_like(size)
        x[size > 0] = _TwoNorms(size[size > 0], q, c, squared_q, square).point()
    return np.sign(v) * x * scale


@dataclass(frozen=True)
class _TwoNorms:
    """The same for y > 0 and orders q, r in (1, inf), where x is not 0.

    `x + c N^(1-q) x^(q-1) + square M^(2-r) x^(r-1) = y` with `N = ||x||_q`, `M = ||x||_r`.
    """

    y: Array
    q: float
    c: float
    r: float
    square: float

    def point(self) -> Array:
        """x by Newton's method on log N and log M; where it fails, one search in the other."""
        y, q, r = self.y, self.q, self.r
        start = prox_squared_norm(prox_norm(y, q, self.c), r, self.square)
        logs = np.log(np.maximum([p_norm(start, q), p_norm(start, r)], 1 / _FAR))
        for _ in range(50):
            x, prices = self._given(*np.exp(logs))
            with np.errstate(divide="ignore"):
                miss = np.log([p_norm(x, q), p_norm(x, r)]) - logs
            if not np.isfinite(miss).all():
                break
            if np.abs(miss).max() <= _CLOSE:
                return x
            slopes = [price * x ** (k - 1) for price, k in zip(prices, (q, r), strict=True)]
            curvature = 1 + ((q - 1) * slopes[0] + (r - 1) * slopes[1]) / x
            moves = np.stack([(q - 1) * slopes[0], (r - 2) * slopes[1]]) / curvature
            shares = [x ** (k - 1) / np.sum(x**k) for k in (q, r)]
            logs = logs - np.clip(
                np.linalg.solve(np.stack(shares) @ moves.T - np.eye(2), miss), -2, 2
            )
        return self._inner(_falling_root(self._outer, p_norm(y, r)))

    def _given(self, norm: float, squared: float) -> tuple[Array, Array]:
        """x for given N and M, and the factors of its two powers."""
        with np.errstate(over="ignore"):
            first = self.c * np.float64(norm) ** (1 - self.q)
            second = self.square * np.float64(squared) ** (2 - self.r)
        x = linear_plus_powers(self.y, first, second, self.q - 1, self.r - 1)
        return x, np.array([first, second])

    def _inner(self, squared: float) -> Array:
        """x for given M."""

        def excess(t: Array, rows: Array) -> Array:
            return _norms(self._given(t[0], squared)[0], self.q) - t

        return self._given(_falling_root(excess, p_norm(self.y, self.q)), squared)[0]

    def _outer(self, t: Array, rows: Array) -> Array:
        return _norms(self._inner(t[0]), self.r) - t


def _falling_root(f: Callable[[Array, Array], Array], high: float) -> float:
    """The root of a function that is > 0 next to 0 and <= 0 at ``high``."""
    row, low = np.zeros(1, dtype=int), high
    while low > 1 / _FAR and f(np.array([low]), row)[0] < 0:
        low, high = low / 8, low
    return float(bracketed_root(f, np.array([low]), np.array([high]))[0])
