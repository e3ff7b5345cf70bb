"""Cutting planes for entropies that are given by a loss: linear programmes over supporting planes.

Each round replaces every loss_i by the maximum of its tangents so far (a lower bound) and solves
the linear programme; its value and the true objective close on each other. Piecewise linear
losses end after finitely many rounds. For smooth ones a local solver (SLSQP) jumps close to the
optimum, where one more tangent makes the bound tight: the planes stay the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from maxent.rows.arrays import Array

Loss = Callable[[Array], tuple[Array, Array]]  # s -> (loss_i(s), their gradients)

_MAX_ROUNDS = 500
_POLISH_EVERY = 8
_HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class Search:
    """Where the losses are minimised, to a relative tolerance.

    First in |s_j| <= radius, then in twice that, until a larger box does not lower the minimum.
    """

    loss: Loss
    n_classes: int
    radius: float
    tolerance: float

    def best_response(self, weights: Array) -> float:
        """H(p) = min_s sum_i p_i loss_i(s)."""
        return _solve(_Risk(self, np.maximum(weights, 0), np.zeros(self.n_classes)))[0]

    def minimax(self, theta: Array) -> tuple[float, Array]:
        """min_s max_i (loss_i(s) + theta_i) and the p that attains the maximum over the simplex."""
        return _solve(_Risk(self, None, theta))


def check_tangents(loss: Loss, n_classes: int, radius: float) -> None:
    """Refuse a loss with a tangent above it at some of a few points, near 0 and far out.

    Planes of a loss that is not convex bound nothing: what they certify may be wrong.
    """
    rng = np.random.default_rng(0)
    scales = radius * np.array([0.002, 0.02, 0.1, 0.5])
    drawn = scales[:, None, None] * rng.uniform(-1, 1, size=(len(scales), 8, n_classes))
    axes = radius * np.vstack([np.eye(n_classes), -np.eye(n_classes)])
    points = np.vstack([np.zeros((1, n_classes)), axes, drawn.reshape(-1, n_classes)])
    with np.errstate(over="ignore"):  # far out a loss may be infinite
        found = [tuple(np.asarray(x, dtype=np.float64) for x in loss(point)) for point in points]
    values = np.array([value for value, _ in found])  # [point, class]
    if np.isnan(values).any():
        where = points[np.isnan(values).any(axis=1).argmax()].round(3).tolist()
        raise ValueError(f"the loss is NaN at {where}; it must be a number for all scores")
    for a, (value, jacobian) in enumerate(found):
        with np.errstate(invalid="ignore"):  # inf - inf says nothing
            tangent = value + (points - points[a]) @ jacobian.T
            above = tangent - values - 1e-7 * (1 + np.abs(values) + np.abs(tangent))
        above = np.where(np.isnan(above), -np.inf, above)
        b, i = np.unravel_index(above.argmax(), above.shape)
        if above[b, i] > 0:
            raise ValueError(
                f"the loss of class {i} is not convex, or the jacobian is not that of its values: "
                f"its tangent at {points[a].round(3).tolist()} is {tangent[b, i]:.4g} at "
                f"{points[b].round(3).tolist()}, where the loss is {values[b, i]:.4g}"
            )


@dataclass(frozen=True, eq=False)
class _Risk:
    """sum_i weights_i loss_i(s), or without weights max_i (loss_i(s) + theta_i).

    The maximum leaves out what theta = -inf forbids: such a loss may be as large as it likes.
    """

    search: Search
    weights: Array | None
    theta: Array

    @cached_property
    def live(self) -> Array:
        """The losses that count."""
        return np.flatnonzero(np.isfinite(self.theta))

    def tangents(self, point: Array) -> tuple[Array, Array]:
        """The losses that count at the point, with their gradients."""
        values, jacobian = self.search.loss(point)
        return (
            np.asarray(values, dtype=np.float64)[self.live],
            np.asarray(jacobian, dtype=np.float64)[self.live],
        )

    def __call__(self, point: Array) -> float:
        values = self.tangents(point)[0]
        if self.weights is None:
            return float(np.max(values + self.theta[self.live]))
        return float(self.weights @ values)

    def polish(self, point: Array, radius: float) -> Array:
        """A local solver from here: of the epigraph problem for a maximum, else of the sum."""
        d = point.size
        box = [(-radius, radius)] * d
        if self.weights is not None:
            weights = self.weights

            def smooth(s: Array) -> tuple[float, Array]:
                values, jacobian = self.tangents(s)
                return float(weights @ values), weights @ jacobian

            return scipy.optimize.minimize(
                smooth, point, jac=True, bounds=box, options={"ftol": 1e-16, "gtol": 1e-12}
            ).x
        constraint = {
            "type": "ineq",
            "fun": lambda z: z[d] - self.tangents(z[:d])[0] - self.theta[self.live],
            "jac": lambda z: np.hstack([-self.tangents(z[:d])[1], np.ones((self.live.size, 1))]),
        }
        lowest = scipy.optimize.minimize(
            lambda z: z[d],
            np.append(point, self(point)),
            jac=lambda z: np.append(np.zeros(d), 1.0),
            constraints=constraint,
            bounds=[*box, (None, None)],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 200},
        )
        return np.clip(lowest.x[:d], -radius, radius)


def _solve(risk: _Risk) -> tuple[float, Array]:
    """The minimum, and the weights of the losses that are active in it.

    Variables of the programme: s (d), one bound u_i per loss that counts, their common bound (1).
    """
    search, live = risk.search, risk.live
    d, n = search.n_classes, live.size
    minimax = risk.weights is None
    share = np.zeros(n) if risk.weights is None else risk.weights
    cost = np.concatenate([np.zeros(d), share, [1.0 * minimax]])
    above = np.hstack([np.zeros((n, d)), np.eye(n), -np.ones((n, 1))])  # u_i + theta_i <= bound
    rows, limits = ([above] if minimax else []), ([-risk.theta[live]] if minimax else [])
    point = best_point = np.zeros(d)
    best = smaller_box = np.inf
    radius = search.radius
    for count in range(1, _MAX_ROUNDS + 1):
        if risk(point) < best:
            best, best_point = risk(point), point
        values, jacobian = risk.tangents(point)
        rows.append(np.hstack([jacobian, -np.eye(n), np.zeros((n, 1))]))
        limits.append(jacobian @ point - values)
        bounds = [(-radius, radius)] * d + [(None, None)] * n
        bounds += [(None, None) if minimax else (0.0, 0.0)]
        programme = _programme(cost, np.vstack(rows), np.concatenate(limits), bounds)
        slack = search.tolerance * (1 + abs(best))
        if programme.fun - best > 100 * slack:
            break  # tangents above the loss
        if best - programme.fun <= slack:
            inside = np.abs(best_point).max() < radius * (1 - 1e-9)
            if inside or smaller_box - best <= slack:
                p = np.zeros(d)
                p[live] = np.maximum(-programme.ineqlin.marginals[:n], 0) if minimax else share
                return best, p / p.sum()
            smaller_box, radius = best, 2 * radius
            continue
        polish = count % _POLISH_EVERY == 0
        point = risk.polish(best_point, radius) if polish else programme.x[:d]
    raise ArithmeticError(
        f"no certificate after {count} cutting planes in |s| <= {radius:g} (best {best:.6g}, bound "
        f"{programme.fun:.6g}); is the loss convex and bounded below, and its jacobian that of its "
        "values?"
    )


def _programme(cost: Array, rows: Array, limits: Array, bounds: list[Any]) -> Any:
    """Solved by the first of the ways that comes to an end: planes that nearly agree are hard."""
    for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):
        options = _HIGHS | {"presolve": presolve}
        programme = scipy.optimize.linprog(
            cost, rows, limits, bounds=bounds, method=method, options=options
        )
        if programme.status == 0:
            return programme
    raise ArithmeticError(f"the cutting-plane programme failed: {programme.message}")
