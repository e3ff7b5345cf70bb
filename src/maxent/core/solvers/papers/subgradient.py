"""Subgradient steps for entropies without a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from maxent import io
from maxent.core.entropies import Zero
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, needs_kinks
from maxent.core.solvers.cutting_plane import MixedState
from maxent.rows.arrays import Array, Rows


@io.register
@dataclass(frozen=True)
class Subgradient(Solver):
    """Subgradient method of Ratliff, Bagnell and Zinkevich (2007), any hinge, any potential.

    `w <- argmin_x 1/2 ||x - (w - s_t g)||^2 + s_t V*(-x)`, `g = F p - mu` with p the oracle's
    answer at w, and `s_t = 1/(2 beta sqrt t)` (discrimination paper, §7). Under
    ``DualBall(radius, p=1)`` this is the projected subgradient method on the l1 ball. The average
    of the answers with weights `t s_t` is the primal point of the certificate, that of the weights
    w the solution, unless ``average`` is False. The gap falls like `1/sqrt(t)`, so ask for a modest
    tolerance.

    Parameters
    ----------
    tol : float, default 0.01
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 5000
        Iterations at most.
    beta : float, default 1.0
        beta of the step sizes.
    step : float, default None
        One step size for all t instead.
    average : bool, default True
        Whether the solution is the average of the weights, with weights `t s_t`.
    online : bool, default False
        One sequence per step, compiled, for chains with tied transitions; else all rows at once.
        Steps are fastest under Quadratic with one strength; another penalty is applied to all
        weights after each of them, the projection on an l1 ball, for instance.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    looks : int, default 10
        Steps (passes where online) between two looks at the certificate.
    random_state : int, default 0
        Seed of the order in which rows are visited.

    Examples
    --------
    >>> from maxent import DualBall, Problem, SampleMap, Shifted
    >>> X, y = np.array([[1.0, 0.5], [-1.0, 0.3]]), np.eye(2)
    >>> ball = DualBall(1.0, p=1)
    >>> hinge = Problem(Shifted(Zero(), 1 - y), SampleMap(X, 2), ball, observed=y)
    >>> solution = Subgradient(tol=0.01).solve(hinge)
    >>> bool(np.abs(solution.w).sum() <= 1 + 1e-9), solution.gap <= 0.01
    (True, True)
    """

    tol: float = 1e-2
    max_iter: int = 5_000
    beta: float = 1.0
    step: float | None = None
    average: bool = True
    online: bool = False
    looks: int = field(default=10, kw_only=True)
    random_state: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0 or not (self.step is None or self.step > 0):
            raise ValueError(f"beta and step must be > 0, got {self.beta!r} and {self.step!r}")
        if self.looks < 1:
            raise ValueError(f"looks must be >= 1, got {self.looks!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A conjugate with kinks."""
        return needs_kinks(problem)

    def steps(self, first: int, count: int) -> Array:
        """`s_t` for t = first, ..., first + count - 1."""
        if self.step is not None:
            return np.full(count, self.step)
        return 1 / (2 * self.beta * np.sqrt(np.arange(first, first + count)))

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        return self._sequences(problem, state) if self.online else self._batches(problem, state)

    def _batches(self, problem: Problem, state: State) -> Iterator[State]:
        w, mean, total = state.w, np.zeros_like(state.w), 0.0
        point: Rows = None
        first = 1
        while True:
            for t, step in enumerate(self.steps(first, self.looks), start=first):
                total += t * step
                share = t * step / total
                mean = mean + share * (state.w - mean)
                point = state.p if point is None else (1 - share) * point + share * state.p
                w = problem.prox(state.w - step * state.gradient, step)
                state = problem.state(w)
            first += self.looks
            yield _certified(problem, mean if self.average else w, point)

    def _sequences(self, problem: Problem, state: State) -> Iterator[State]:
        from maxent.core.solvers._online import OnlineChains, online_lack

        lack = online_lack(problem, Zero, any_penalty=True)
        if lack:
            raise TypeError(f"Subgradient(online=True) cannot solve this problem: {lack}")
        rng = np.random.default_rng(self.random_state)
        chains = OnlineChains(problem, Zero, state.w, average=True)
        mean, total, first = np.zeros_like(state.w), 0.0, 1
        while True:
            for _ in range(self.looks):
                order = rng.permutation(chains.counted)
                steps = self.steps(first, order.size)
                chains.pass_over(order, steps, first)
                first += order.size
                total += first * float(steps.sum())
                mean += first * float(steps.sum()) / total * (chains.w - mean)
            yield _certified(problem, mean if self.average else chains.w, chains.mean())


def _certified(problem: Problem, w: Array, point: Rows) -> MixedState:
    return MixedState(problem, np.array(w), problem.scored(w), point)
