"""Half a squared norm of order > 2 on the simplex, whose map is steep where an entry becomes 0.

With m = 1/(q - 1) stationarity gives p_i ~ mass_i (theta_i - tau)_+^m, and the entries sum to 1
where A B^((q - 2)/q) = 1 for A and B the sums of mass (theta - tau)_+^m and its power m + 1: an
increasing function of -tau. It finds the smallest score of the support by bisection over the
scores; then the unknown is not tau but the density y of that entry, which keeps all its digits
while tau is its score to the last one.
"""

from __future__ import annotations

import numpy as np

from maxent.core.entropies._measures import measure_norm
from maxent.core.entropies.base import same_type
from maxent.core.roots import bracketed_root
from maxent.rows.arrays import Array, Rows, row_dot


def steep_norm_map(theta: Rows, order: float, q: Array | None) -> tuple[Array, Rows]:
    """Conjugate value and maximiser of 1/2 ||p||^2, the norm of the density p/q in L^order(q)."""
    scores = theta.astype(np.float64)
    mass = np.where(scores > -np.inf, 1.0 if q is None else q, 0.0)
    top = np.max(np.where(mass > 0, scores, -np.inf), axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        x = np.where(mass > 0, np.maximum(scores - top, -1e300), -1e300)
    ranked = -np.sort(-x, axis=1)
    rows = np.arange(len(x))
    # the support ends at the smallest score at which the sums are still too small
    first, beyond = np.zeros(len(x), int), np.full(len(x), x.shape[1])
    while (beyond - first > 1).any():
        middle = (first + beyond) // 2
        inside = _log_product(x, mass, ranked[rows, middle], np.zeros(len(x)), order)[0] < 0
        first, beyond = np.where(inside, middle, first), np.where(inside, beyond, middle)
    last = ranked[rows, first]
    held = np.where(x >= last[:, None], mass, 0.0)

    def excess(y: Array, some: Array) -> Array:
        return -_log_product(x[some], held[some], last[some], y, order)[0]

    y = bracketed_root(excess, np.zeros(len(x)), held.sum(axis=1) ** (-2 / order))
    p = held * _log_product(x, held, last, y, order)[1]
    p /= p.sum(axis=1, keepdims=True)
    value = top[:, 0] + row_dot(np.where(p > 0, x, 0.0), p)
    return value - 0.5 * measure_norm(p, order, q) ** 2, same_type(p, theta)


def _log_product(x: Array, mass: Array, last: Array, y: Array, order: float) -> tuple[Array, Array]:
    """log of A B^((order - 2)/order) and the densities (x - tau)_+^m, (last - tau)^m being y."""
    a = order - 1
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        far = np.maximum(x - last[:, None], 0.0) ** (1 / a)
        large, small = np.maximum(far, y[:, None]), np.minimum(far, y[:, None])
        ratio = np.where(large > 0, small / large, 0.0)
        density = large * np.exp(np.log1p(ratio**a) / a)  # the a-norm of (far, y)
        terms = np.where(mass > 0, mass * density, 0.0)
        powers = np.where(mass > 0, terms * density**a, 0.0)
        sums = np.log(terms.sum(axis=1)) + (order - 2) / order * np.log(powers.sum(axis=1))
    return sums, density
