"""The relaxation value of the largest held-out likelihood, exactly.

With t = 1/nu and z = mu/nu, p_j = clip(u_j z, q_j - t, q_j + t), and on a segment z and every p_j
are linear in t: there the log likelihood is concave. Over a run of segments it is bounded row by
row: by tangents of log(u_j z), log(q_j + t) or log(q_j - t) for rows that stay in I_0, I_+ or I_-,
whose sum is largest at a knot, and by log clip(u_j z_max, q_j - t_min, q_j + t_max) for the others.
Runs are halved, the most promising first, until no bound is above the best value found.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import scipy

from maxent.relaxation.single import probabilities
from maxent.rows.arrays import Array

_SLACK = 1e-13  # share of a log likelihood that rounding may hide


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Counts of the rows that were seen, and those rows along a path.

    weights : the counts; u, q : prior and observation of their rows; nu : the knots, the last one
    infinity or the path's stop; z : mu / nu at them.
    """

    weights: Array
    u: Array
    q: Array
    nu: Array
    z: Array

    def estimate_at(self, place: int) -> Array:
        """p at a knot."""
        return probabilities(self.u, self.q, self.z[place], 1 / self.nu[place], "kl")

    def log_likelihood(self, place: int) -> float:
        """At a knot."""
        return _log_likelihood(self.weights, self.estimate_at(place))

    def bound(self, first: int, last: int) -> float:
        """No log likelihood between two knots is larger."""
        run = slice(first, last + 1)
        return _bound(self.weights, self.u, self.q, self.z[run], 1 / self.nu[run])


def best_nu(seen: HeldOut) -> float:
    """The nu of the largest likelihood, from the first knot to the last."""
    if not (seen.u > 0).all():
        raise ValueError(
            f"{int((seen.u == 0).sum())} rows with held-out counts have prior 0, and p = 0 at "
            "every nu: give them a positive prior"
        )
    knots, value, last = seen.nu, seen.log_likelihood, seen.nu.size - 1
    if last == 0:  # the path never bends
        return float(knots[0])
    best, nu = max((value(0), float(knots[0])), (value(last), float(knots[last])))
    runs = [(-np.inf, 0, last)]
    while runs:
        above, first, last = heapq.heappop(runs)
        if -above <= best + _SLACK * abs(best):
            break
        if last - first == 1:
            best, nu = max((best, nu), _inside(seen, first, last))
            continue
        middle = (first + last) // 2
        best, nu = max((best, nu), (value(middle), float(knots[middle])))
        for part in ((first, middle), (middle, last)):
            heapq.heappush(runs, (-seen.bound(*part), *part))
    return nu


def _bound(weights: Array, u: Array, q: Array, z: Array, t: Array) -> float:
    """An upper bound of the log likelihood on the segments between knots (z, t)."""
    z_min, z_max, t_min, t_max = z.min(), z.max(), t[-1], t[0]
    z_mid, t_mid = (z_min + z_max) / 2, (t_min + t_max) / 2
    free = (u * z_max <= q + t_min) & (u * z_min >= q - t_min)
    plus, minus = u * z_min >= q + t_max, u * z_max <= q - t_max
    top = np.clip(u * z_max, q - t_min, q + t_max)
    top = np.where(free, u * z_mid, np.where(plus, q + t_mid, np.where(minus, q - t_mid, top)))
    rate_z = weights[free].sum() / z_mid
    rate_t = (weights[plus] / top[plus]).sum() - (weights[minus] / top[minus]).sum()
    tangent = rate_z * (z - z_mid) + rate_t * (t - t_mid)
    return _log_likelihood(weights, top) + float(tangent.max())


def _log_likelihood(weights: Array, p: Array) -> float:
    with np.errstate(divide="ignore"):
        return float(weights @ np.log(p))


def _inside(seen: HeldOut, first: int, last: int) -> tuple[float, float]:
    """The largest likelihood within a segment, and its nu."""
    weights, start = seen.weights, seen.estimate_at(first)
    change = seen.estimate_at(last) - start

    def slope(share: float) -> float:
        with np.errstate(divide="ignore"):
            return float(weights @ (change / (start + share * change)))

    if not slope(0.0) > 0 > slope(1.0):
        return -np.inf, float(seen.nu[first])  # an end is the best, and ends are known
    share = float(scipy.optimize.brentq(slope, 0.0, 1.0, xtol=1e-15))
    t = (1 - share) / seen.nu[first] + share / seen.nu[last]
    best = _log_likelihood(weights, start + share * change)
    return best, float(1 / t if t > 0 else seen.nu[last])
