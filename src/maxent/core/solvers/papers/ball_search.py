"""l2-regularized densities through a sequence of quadratic problems (density paper, §6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from maxent import io
from maxent.core.potentials import NormBall, Quadratic
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, needs_gradient
from maxent.rows.arrays import Array

_STRIDE = 5.0  # largest change of the log strength in a step
_NARROW = 1e-14  # a strength known to this share is known
_VANISHING = 1e-12  # a strength that fell by this factor means that the ball is out of reach


@io.register
@dataclass(frozen=True)
class BallSearch(Solver):
    """`||F p - mu||_2 <= radius` as the quadratic problem whose optimum lies on that sphere.

    With the multiplier m of the squared constraint the problem is
    `min_p Omega(p) + m (||F p - mu||^2 - radius^2)`, a ``Quadratic`` of strength 1/(2 m). The
    residual grows with the strength, and the search stops where its length is the radius: secant
    steps on logarithms inside a bracket, each solve starting from the last weights.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 100
        Quadratic problems at most; each is a step of this solver.
    inner : Solver or str, default "auto"
        Solver of the quadratic problems, a Solver or a name ("summet", "plummet" as in the paper,
        or "auto").
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.

    Examples
    --------
    >>> import numpy as np
    >>> import maxent as mx
    >>> problem = mx.Problem(mx.Shannon(), np.eye(3), mx.Ball(0.1), observed=[0.8, 0.1, 0.1])
    >>> solution = problem.solve(mx.BallSearch(inner="plummet"))
    >>> round(float(np.linalg.norm(solution.p - [0.8, 0.1, 0.1])), 6)
    0.1
    """

    max_iter: int = 100
    inner: Solver | str = "auto"

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A ball of the 2-norm with a radius > 0, a differentiable conjugate."""
        potential = problem.potential
        if not (isinstance(potential, NormBall) and potential.p == 2):
            return f"it needs the potential Ball(radius), got {potential!r}; use FISTA"
        if potential.radius == 0:
            return "a ball of radius 0 is Equality(); use that, with any other solver"
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        assert isinstance(problem.potential, NormBall)
        ball = float(problem.potential.radius)
        size, residual = (float(np.linalg.norm(x)) for x in (state.w, state.gradient))
        log_strength = float(np.log(ball / size if size else ball * residual))
        least = log_strength + np.log(_VANISHING)
        low, high = -np.inf, np.inf
        last: tuple[float, float] | None = None
        while log_strength > least and high - low > _NARROW * max(1, abs(log_strength)):
            state = problem.state(self._solve(problem, float(np.exp(log_strength)), state.w))
            yield state
            # inside the ball the gap is ||w|| (radius - ||r||): finite without observed data
            margin = min(self.tol / 4 / float(np.linalg.norm(state.w)), ball / 2)
            excess = float(np.log(np.linalg.norm(state.gradient) / (ball - margin)))
            low, high = (low, log_strength) if excess > 0 else (log_strength, high)
            # log ||r|| grows with the log strength at a rate in (0, 1]
            rate = 1.0
            if last is not None and log_strength != last[0]:
                rate = float(np.clip((excess - last[1]) / (log_strength - last[0]), 0.05, 1))
            last = log_strength, excess
            log_strength -= float(np.clip(excess / rate, -_STRIDE, _STRIDE))
            if not low < log_strength < high:
                log_strength = (low + high) / 2

    def _solve(self, problem: Problem, strength: float, w: Array) -> Array:
        """The weights of the quadratic problem, its optimality r = -strength w nearly exact.

        Its gap is ||r + strength w||^2 / (2 strength), so a small gap alone would leave the length
        of r, which the search compares with the radius, with half of the digits.
        """
        from maxent.core.solvers import choose

        quadratic = Problem(
            problem.entropy,
            problem.features,
            Quadratic(strength),
            target=problem.target,
            weights=problem.weights,
        ).with_unit(problem.unit)
        inner = choose(self.inner, quadratic)
        lack = inner.missing(quadratic)
        if lack:
            raise TypeError(f"{type(inner).__name__} cannot be the inner solver: {lack}")
        steps = inner._iterate(quadratic, state := inner._initial(quadratic.state(w)))
        for state in islice(steps, inner.max_iter):
            error = float(np.linalg.norm(state.gradient + strength * state.w))
            if error * float(np.linalg.norm(state.w)) <= self.tol / 16:
                break
        return state.w
