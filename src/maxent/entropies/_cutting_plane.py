"""Cutting planes for entropies that are given by a loss: linear programmes over supporting planes.

Each round replaces every loss_i by the maximum of its tangents so far (a lower bound) and solves
the linear programme; its value and the true objective close on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from maxent._rows import Array

if TYPE_CHECKING:
    from maxent.entropies.hinge import Youngized

_MAX_ROUNDS = 500


def _solve(entropy: Youngized, weights: Array | None, theta: Array) -> tuple[float, Array]:
    """min_s sum_i weights_i loss_i(s), or max_i (loss_i(s) + theta_i); and the planes' weights.

    Variables s (d), one bound u_i a loss (d), and for the minimax their common bound (1).
    """
    d = entropy.n_classes
    minimax = weights is None
    cost = np.concatenate(
        [np.zeros(d), np.zeros(d) if weights is None else weights, [1.0 * minimax]]
    )
    bounds = [(-entropy.radius, entropy.radius)] * d + [(None, None)] * d
    bounds += [(None, None) if minimax else (0.0, 0.0)]
    above = np.hstack([np.zeros((d, d)), np.eye(d), -np.ones((d, 1))])  # u_i + theta_i <= bound
    rows, limits = ([above] if minimax else []), ([-theta] if minimax else [])
    point, best = np.zeros(d), np.inf
    p = np.full(d, 1 / d)
    for _ in range(_MAX_ROUNDS):
        values, jacobian = (np.asarray(x, dtype=np.float64) for x in entropy.loss(point))
        objective = float(np.max(values + theta)) if weights is None else float(weights @ values)
        best = min(best, objective)
        rows.append(np.hstack([jacobian, -np.eye(d), np.zeros((d, 1))]))
        limits.append(jacobian @ point - values)
        found = optimize.linprog(
            cost, np.vstack(rows), np.concatenate(limits), bounds=bounds, method="highs"
        )
        if found.status != 0:
            raise ArithmeticError(f"the cutting-plane programme failed: {found.message}")
        point = found.x[:d]
        if minimax:
            p = np.maximum(-np.asarray(found.ineqlin.marginals[:d]), 0)
        if best - found.fun <= entropy.tolerance * (1 + abs(best)):
            break
    return best, p / p.sum()


def best_response(entropy: Youngized, weights: Array) -> float:
    """H(p) = min_s sum_i p_i loss_i(s)."""
    return _solve(entropy, np.maximum(weights, 0), np.zeros(entropy.n_classes))[0]


def minimax(entropy: Youngized, theta: Array) -> tuple[float, Array]:
    """min_s max_i (loss_i(s) + theta_i) and the p that attains the maximum over the simplex."""
    live = np.isfinite(theta)
    lowest = theta[live].min() - 4 * entropy.radius * entropy.n_classes
    return _solve(entropy, None, np.where(live, theta, lowest))
