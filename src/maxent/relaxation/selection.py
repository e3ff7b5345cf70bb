"""The relaxation value of the largest held-out likelihood, exactly.

With t = 1/nu and z = mu/nu, p_j = clip(u_j z, q_j - t, q_j + t), and on a segment z and every p_j
are linear in t: there the log likelihood is concave. Over a run of segments it is bounded row by
row: by tangents of log(u_j z), log(q_j + t) or log(q_j - t) for rows that stay in I_0, I_+ or I_-,
whose sum is largest at a knot, and by log clip(u_j z_max, q_j - t_min, q_j + t_max) for the others.
Runs are halved, the most promising first, until no bound is above the best value found.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from maxent._rows import Array

if TYPE_CHECKING:
    from maxent.relaxation.path import RelaxationPath

_SLACK = 1e-13  # share of a log likelihood that rounding may hide


def best_nu(path: RelaxationPath, counts: Array) -> float:
    """The nu, from the first knot to infinity or the path's stop, of the largest likelihood."""
    seen = np.flatnonzero(counts)
    weights, u, q = counts[seen], path._u[seen], path._q[seen]
    if not (u > 0).all():
        raise ValueError(
            f"{int((u == 0).sum())} rows with held-out counts have prior 0, and p = 0 at every nu: "
            "give them a positive prior"
        )
    if path.segments == 1:
        return float(path.nu_stop)
    knots = np.append(path.nu[1:], path.nu_stop)
    z, t = path._ratio(knots), 1 / knots

    def value(place: int) -> float:
        return _log_likelihood(weights, path.at(knots[place], seen))

    def bound(first: int, last: int) -> float:
        run = slice(first, last + 1)
        return _bound(weights, u, q, z[run], t[run])

    last = len(knots) - 1
    best, nu = max((value(0), float(knots[0])), (value(last), float(knots[last])))
    runs = [(-np.inf, 0, last)]
    while runs:
        above, first, last = heapq.heappop(runs)
        if -above <= best + _SLACK * abs(best):
            break
        if last - first == 1:
            best, nu = max((best, nu), _inside(path, seen, weights, knots[first], knots[last]))
            continue
        middle = (first + last) // 2
        best, nu = max((best, nu), (value(middle), float(knots[middle])))
        for part in ((first, middle), (middle, last)):
            heapq.heappush(runs, (-bound(*part), *part))
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


def _inside(
    path: RelaxationPath, seen: Array, weights: Array, first: float, last: float
) -> tuple[float, float]:
    """The largest likelihood within a segment, and its nu."""
    start, change = path.at(first, seen), path.at(last, seen) - path.at(first, seen)

    def slope(share: float) -> float:
        with np.errstate(divide="ignore"):
            return float(weights @ (change / (start + share * change)))

    if not slope(0.0) > 0 > slope(1.0):
        return -np.inf, first  # an end is the best, and ends are known
    share = float(brentq(slope, 0.0, 1.0, xtol=1e-15))
    t = (1 - share) / first + share / last
    return _log_likelihood(weights, start + share * change), float(1 / t if t > 0 else last)
