"""The generic proximity operator, from the conjugate alone.

prox_{tau Omega}(eta) = eta - tau prox_{Omega*/tau}(eta/tau)    (Fenchel-Young paper, §8.4)
The inner problem min_theta 1/2 ||theta - eta/tau||^2 + Omega*(theta)/tau is unconstrained and
strongly convex: a semismooth Newton method on the whole batch, with the gradient
theta - eta/tau + p(theta)/tau and conjugate-gradient steps through products with the Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxent.rows.arrays import Array, Rows, row_dot, row_scale

Conjugate = Callable[[Rows], tuple[Array, Rows]]
JacobianProduct = Callable[[Rows, Rows, Rows], Rows]  # of (theta, p, v)

_NEWTON_STEPS = 100
_CG_STEPS = 200
_NEAR = 1e3  # gradients below this multiple of their rounding need not shrink any more


def prox_by_moreau(
    conjugate: Conjugate, hvp: JacobianProduct, eta: Rows, tau: float, guess: Rows
) -> Rows:
    """prox_{tau Omega}(eta) for a differentiable conjugate, all rows at once.

    ``guess`` is a point of the domain near the answer: theta = (eta - p)/tau at the answer p.
    """
    dtype = eta.dtype
    eta = eta.astype(np.float64)
    center = eta / tau
    theta = center - guess / tau

    def objective(point: Rows) -> tuple[Array, Rows, Rows]:
        value, p = conjugate(point)
        offset = point - center
        return 0.5 * row_dot(offset, offset) + value / tau, offset + p / tau, p

    value, gradient, p = objective(theta)
    scale = 1e-15 * (1 + np.sqrt(row_dot(center, center)) + 1 / tau)
    settled = np.zeros(len(scale), dtype=bool)
    for _ in range(_NEWTON_STEPS):
        size = np.sqrt(row_dot(gradient, gradient))
        active = (size > scale) & ~settled
        if not active.any():
            break
        step = _newton_step(hvp, theta, p, gradient, tau)
        slope = row_dot(gradient, step)
        length = np.where(active, 1.0, 0.0)
        for _ in range(40):
            trial = theta + row_scale(step, length)
            trial_value, trial_gradient, trial_p = objective(trial)
            # near the optimum the value is flat to rounding: there a smaller gradient decides
            flat = np.abs(trial_value - value) <= 1e-14 * (1 + np.abs(value))
            better = (trial_value <= value + 1e-4 * length * slope) | (
                flat & (row_dot(trial_gradient, trial_gradient) < size**2)
            )
            if (better | ~active).all():
                break
            length = np.where(better, length, length / 2)
        else:
            length = np.where(better, length, 0.0)
            trial = theta + row_scale(step, length)
            trial_value, trial_gradient, trial_p = objective(trial)
            if not (better & active).any():
                break
        # so close, a step that does not shorten the gradient has met its rounding
        settled |= (size < _NEAR * scale) & (
            row_dot(trial_gradient, trial_gradient) > 0.25 * size**2
        )
        theta, value, gradient, p = trial, trial_value, trial_gradient, trial_p
    return p.astype(dtype)


def _newton_step(hvp: JacobianProduct, theta: Rows, p: Rows, gradient: Rows, tau: float) -> Rows:
    """Solve (I + J/tau) step = -gradient by conjugate gradients, row by row in one batch."""

    def matvec(v: Rows) -> Rows:
        return v + hvp(theta, p, v) / tau

    step = 0.0 * gradient
    residual = -gradient
    direction = residual
    norm = row_dot(residual, residual)
    goal = 1e-24 * norm
    for _ in range(_CG_STEPS):
        live = norm > goal
        if not live.any():
            break
        image = matvec(direction)
        curvature = row_dot(direction, image)
        length = np.where(live & (curvature > 0), norm / np.where(curvature > 0, curvature, 1), 0)
        step = step + row_scale(direction, length)
        residual = residual - row_scale(image, length)
        new = row_dot(residual, residual)
        direction = residual + row_scale(
            direction, np.where(live, new / np.maximum(norm, 1e-300), 0)
        )
        norm = new
    return step
