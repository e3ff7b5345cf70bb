"""Relaxation problems solved in fractions: no states, no pivots, no rounding.

The path follows one-sided slopes. From a point (nu, mu) of it, x_j = mu u_j - nu q_j changes at the
rate u_j s - q_j along a slope s, and G(nu, mu) = 0 goes on along the s at which the rates of the
F(x_j) add up to 0; rows at their boundary count where they move inwards.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf

import numpy as np


def clip(value, low, high):
    return max(low, min(high, value))


def level(c, e, low, high, m, total):
    """A y with sum_j m_j clip(c_j y + e_j, low_j, high_j) = total: the corners in order."""
    rows = list(zip(c, e, low, high, m, strict=True))

    def mass(y):
        return sum(k * clip(a * y + b, lo, hi) for a, b, lo, hi, k in rows)

    corners = sorted({(end - b) / a for a, b, lo, hi, _ in rows for end in (lo, hi)})
    before = corners[0]
    for y in corners:
        if mass(y) >= total:
            break
        before = y
    first, last = mass(before), mass(y)
    return y if first == last else before + (y - before) * (total - first) / (last - first)


def root(f, kinks):
    """A zero of f, nondecreasing and linear between kinks and beyond them; None without one."""
    places = [min(kinks) - 1, *sorted(kinks), max(kinks) + 1]
    values = [f(s) for s in places]
    for (a, b), (f_a, f_b) in zip(pairwise(places), pairwise(values), strict=True):
        inside = (f_a <= 0 or a == places[0]) and (f_b >= 0 or b == places[-1])
        if inside and f_a < f_b:
            return a - f_a * (b - a) / (f_b - f_a)
    return next((s for s, value in zip(places, values, strict=True) if value == 0), None)


@dataclass(frozen=True)
class Exact:
    """Prior and observed counts of rows of m_j symbols."""

    prior: tuple[int, ...]
    observed: tuple[int, ...]
    m: tuple[int, ...]

    @property
    def given(self):
        """The arguments of RelaxationPath."""
        return tuple([float(a) for a in row] for row in (self.prior, self.observed, self.m))

    @cached_property
    def rows(self):
        """(u, q, m) of every row, in fractions."""
        rows = list(zip(self.prior, self.observed, self.m, strict=True))
        u_sum, q_sum = sum(u * m for u, _, m in rows), sum(q * m for _, q, m in rows)
        return [(Fraction(u, u_sum), Fraction(q, q_sum), Fraction(m)) for u, q, m in rows]

    @cached_property
    def free(self):
        """The rows with prior mass."""
        return [row for row in self.rows if row[0] > 0]

    @cached_property
    def lost(self):
        """The observed mass of the other rows."""
        return 1 - sum(q * m for _, q, m in self.free)

    @cached_property
    def stop(self):
        """The largest nu at which p = 0 on rows without prior mass is feasible."""
        if not self.lost:
            return inf
        most = max(q for u, q, _ in self.rows if u == 0)
        return min(1 / most, sum(m for *_, m in self.free) / self.lost)

    def distribution_at(self, nu):
        """p(nu) of relative entropy, (6)."""
        u, q, m = zip(*self.free, strict=True)
        t = 1 / Fraction(nu)
        z = level(u, [0] * len(u), [a - t for a in q], [a + t for a in q], m, 1)
        return np.array([float(clip(u * z, q - t, q + t)) if u else 0.0 for u, q, _ in self.rows])

    def euclidean_at(self, nu):
        """p(nu) of half the squared distance over p >= 0."""
        u, q, m = zip(*self.rows, strict=True)
        t = 1 / Fraction(nu)
        low, high = [max(a - t, 0) for a in q], [a + t for a in q]
        tau = level([1] * len(u), u, low, high, m, 1)
        return np.array(
            [float(clip(a + tau, lo, hi)) for a, lo, hi in zip(u, low, high, strict=True)]
        )

    @cached_property
    def path(self):
        """Knots [(nu, mu)] from (0, 0) to the last below ``stop``, and the nu of an empty I_0."""
        knots, nu, mu = [], Fraction(0), Fraction(0)
        while nu < self.stop:
            x = [u * mu - q * nu for u, q, _ in self.free]
            slope = self._slope(x)
            if slope is None:  # I_0 has only rows without prior mass: mu jumps to the next line
                mu = min((nu * q - 1) / u for u, q, _ in self.free if u * mu - q * nu < -1)
                continue
            knots.append((nu, mu))
            moves = [(a, u * slope - q) for a, (u, q, _) in zip(x, self.free, strict=True)]
            if not self.lost and not any(_inside(*move) for move in moves):
                return knots, nu
            steps = [(side - a) / rate for a, rate in moves if rate for side in (-1, 1)]
            step = min((step for step in steps if step > 0), default=None)
            if step is None:
                break
            nu, mu = nu + step, mu + step * slope
        return knots, inf

    def _slope(self, x):
        rows = [(a, *row) for a, row in zip(x, self.free, strict=True) if abs(a) <= 1]

        def rate(s):
            inside = (m * (u * s - q) for a, u, q, m in rows if _inside(a, u * s - q))
            return sum(inside) - self.lost

        return root(rate, {q / u for _, u, q, _ in rows}) if rows else None


def _inside(x, rate):
    """Whether F(x) changes when x does at this rate."""
    return abs(x) < 1 or (abs(x) == 1 and x * rate < 0)


def violation(u, q, t, p):
    """How far p is from (6), with the Z that its own rows imply."""
    inside = np.abs(p - q) < t * (1 - 1e-9) - 1e-15 * q
    ratio = p / u
    z = ratio[np.argmax(np.where(inside, u, 0))] if inside.any() else np.max(ratio[p > q])
    return float(np.abs(p - np.clip(u * z, q - t, q + t)).max())


def linear_gap(gradient, low, high, m, p):
    """<gradient, p> less its least value over the feasible set: a bound of what p could gain."""
    order = np.argsort(gradient)
    room = (m * (high - low))[order]
    taken = np.clip(1 - m @ low - (np.cumsum(room) - room), 0, room)
    best = low.copy()
    best[order] += taken / m[order]
    return float((m * gradient) @ (p - best))
