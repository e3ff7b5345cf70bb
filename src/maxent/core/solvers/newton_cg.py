"""Truncated Newton: conjugate gradients on the Hessian, for penalties with a second derivative."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.problem import Problem, Ray, State
from maxent.core.quasi_newton import bottomless
from maxent.core.solvers._outputs_apart import lie_apart, steps_apart
from maxent.core.solvers.base import Solver, needs_gradient
from maxent.core.solvers.hessian import Model, second_order
from maxent.core.solvers.lbfgs import LBFGS
from maxent.rows.arrays import Array

_ENOUGH = 1e-4  # share of the slope that a step must gain (Armijo)
_FLAT = 0.25  # share of the slope that may be left at the end of a step
_EDGE = 0.1  # share of a bracket by which it shrinks at least
_FURTHER = 4.0  # the longest next trial, in units of the last, while a step is too short
_TRIALS = 60
_CUT = 0.5  # share of a step below which the model is damped: it reached beyond a kink
_LEAST = 1e-100  # curvature, as a share of what is left of the gradient, that counts as none
_ENDLESS = 1e16  # growth of what is left that shows a gradient without curvature along it
_CUTS = 20  # such steps in all after which L-BFGS goes on, which asks no model to look past kinks
_DAMPING = 4.0  # by which the damping grows and shrinks


@io.register
@dataclass(frozen=True)
class NewtonCG(Solver):
    """Semismooth Newton steps, each by preconditioned conjugate gradients.

    For a differentiable entropy and a penalty with a second derivative (Quadratic, QuadraticForm,
    SmoothBox, LaplacePrior ...). A sparse map has little curvature: the products visit only the
    entries that have some, so sparsemax is cheaper than softmax. Where the kinks of a sparse map
    cut steps short again and again, as with few samples and many columns, L-BFGS takes over.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 5000
        Iterations at most.
    accuracy : float, default 0.25
        Share of the gradient, in the norm of the preconditioner, that a step may leave.
    cg_iter : int, default 200
        Products with the Hessian per step, at most.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    max_iter: int = 5_000  # as for L-BFGS, which may take over
    accuracy: float = 0.25
    cg_iter: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.accuracy < 1:
            raise ValueError(f"accuracy must lie between 0 and 1, got {self.accuracy!r}")
        if self.cg_iter < 1:
            raise ValueError(f"cg_iter must be >= 1, got {self.cg_iter!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate of the entropy, a second derivative of the penalty."""
        potential = problem.potential
        curved = potential.conjugate_hessian(np.zeros(problem.features.n_features)) is not None
        if not (potential.smooth_conjugate and curved):
            return (
                f"the penalty of {problem.potential!r} has no second derivative; use ProxNewton or "
                "FISTA, or a smooth penalty such as Quadratic or SmoothBox"
            )
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        if lie_apart(problem):
            for better in steps_apart(problem, state, self.accuracy, self.cg_iter):
                state = better
                yield better
            # outputs by themselves gain no more, as from a start without curvature: all together
        curvature, damping, cuts = second_order(problem), 0.0, 0
        while cuts < _CUTS:
            gradient = state.gradient - problem.potential.conjugate_gradient(-state.w)
            model = curvature.model_at(state, damping)
            step = self._step(model, gradient)
            reached = _search(problem, state, gradient, step)
            if reached is None:
                return
            state, length = reached
            yield state
            if length < _CUT:
                cuts += 1
                damping = max(damping * _DAMPING, _bend(model, step))
            elif length >= 1:
                damping /= _DAMPING
        yield from LBFGS()._iterate(problem, state)

    def _step(self, model: Model, gradient: Array) -> Array:
        """An approximate solution of H step = -gradient."""
        step, residual = np.zeros_like(gradient), -gradient
        scaled = model.precondition(residual)
        norm = float(residual @ scaled)
        direction, goal, most = scaled, self.accuracy**2 * norm, _ENDLESS * norm
        for _ in range(int(min(self.cg_iter, model.patience))):
            image = model.product(direction)
            bend = float(direction @ image)
            if not bend > _LEAST * norm:
                return step if step.any() else scaled
            length = norm / bend
            step += length * direction
            residual -= length * image
            scaled = model.precondition(residual)
            new = float(residual @ scaled)
            if not goal < new < most:
                break
            direction = scaled + (new / norm) * direction
            norm = new
        return step


def _bend(model: Model, step: Array) -> float:
    """The curvature along a step."""
    return float(step @ model.product(step)) / float(step @ step)


def _search(
    problem: Problem, state: State, gradient: Array, step: Array
) -> tuple[State, float] | None:
    """A point along the step that gains enough, and the share of the step; or None.

    Near the lowest point, where the slope is 0: a sparse map has kinks and a model that knows
    nothing of the next one, so the whole step may be too long, or much too short. Scores are
    linear along the step, so a trial costs no product.
    """
    ray = problem.ray(state, step)
    slack = 1e-15 * max(1.0, abs(state.dual))
    first = float(gradient @ step)
    low, high = (0.0, first), (np.inf, 0.0)
    length, short = 1.0, (state, 0.0)
    for _ in range(_TRIALS):
        new = ray.state(length)
        if bottomless(new, state.dual):
            return new, length
        slope = _slope(new, ray)
        enough = new.dual <= state.dual + _ENOUGH * length * min(first, 0.0) + slack
        if enough and abs(slope) <= _FLAT * abs(first):
            stuck = abs(new.dual - state.dual) <= slack
            return (new, length) if not stuck or new.optimality < state.optimality else None
        if enough and slope < 0:
            low, short = (length, slope), (new, length)
        else:
            high = (length, slope)
        length = _between(low, high) if np.isfinite(high[0]) else _beyond(low, first)
    return short if short[0].dual < state.dual - slack else None


def _slope(state: State, ray: Ray) -> float:
    """Derivative of the dual along a step."""
    penalty = state.problem.potential.conjugate_gradient(-state.w)
    return ray.slope(state) - float(penalty @ ray.step)


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a straight line through the slopes at both ends is 0, away from the ends."""
    (a, down), (b, up) = low, high
    share = down / (down - up) if up > 0 else 0.5
    return a + min(max(share, _EDGE), 1 - _EDGE) * (b - a)


def _beyond(low: tuple[float, float], first: float) -> float:
    """Where a straight line through the slopes at 0 and at the last trial is 0, not too far."""
    length, slope = low
    share = first / (first - slope) if slope > first else np.inf
    return length * min(max(share, 1 + _EDGE), _FURTHER)
