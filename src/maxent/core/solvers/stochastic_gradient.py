"""Stochastic gradient steps for a fast start of conditional random fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from maxent import io
from maxent.core.entropies import Scaled, Shannon, Shifted, unwrap
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver
from maxent.rows.arrays import Ragged, Tied

_TRIAL = 500  # sequences that first step sizes are tried on
_FIRST = 0.25  # the first of them


@io.register
@dataclass(frozen=True)
class StochasticGradient(Solver):
    """One sequence per step, compiled, for random fields over chains (Bottou, 2010).

    Steps `s_t = s_0 / (1 + s_0 strength t)`, with `s_0` the best of several on a few hundred
    sequences. A few passes come close to the optimum; their weights are a start for ``LBFGS``,
    which gets to the end of it:
    ``LBFGS().solve(problem, w0=StochasticGradient(max_iter=5).run(problem).w)``.

    For Shannon, with costs of states, on ``Chain`` with tied transitions under Quadratic with one
    strength. An iteration is a pass over the sequences.

    Parameters
    ----------
    tol : float, default 0.001
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 200
        Iterations at most.
    first_step : float, default None
        `s_0`, instead of that search.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    random_state : int, default 0
        Seed of the order in which rows are visited.
    """

    tol: float = 1e-3
    max_iter: int = 200
    first_step: float | None = None
    random_state: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.first_step is None or self.first_step > 0):
            raise ValueError(f"first_step must be > 0, got {self.first_step!r}")

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A random field over chains and a squared norm."""
        from maxent.core.solvers._online import online_lack

        return online_lack(problem, Shannon)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        from maxent.core.solvers._online import OnlineChains

        rng = np.random.default_rng(self.random_state)
        first = self.first_step or self._calibrated(problem, state, rng)
        chains = OnlineChains(problem, Shannon, state.w, average=False)
        assert chains.strength is not None  # StochasticGradient.missing
        done = 0
        while True:
            order = rng.permutation(chains.counted)
            t = np.arange(done, done + order.size)
            chains.pass_over(order, first / (1 + first * chains.strength * t))
            done += order.size
            yield problem.state(chains.w)

    @staticmethod
    def _calibrated(problem: Problem, state: State, rng: np.random.Generator) -> float:
        """The constant step that is best on a few sequences: a factor of 2 around it is tried."""
        from maxent.core.solvers._online import OnlineChains

        rows = np.flatnonzero(problem.weights)
        sample = np.sort(rng.permutation(rows)[:_TRIAL])
        part = _part(problem, sample)

        def after(step: float) -> float:
            chains = OnlineChains(part, Shannon, state.w, average=False)
            chains.pass_over(np.arange(sample.size), np.full(sample.size, step))
            value = part.dual(chains.w)
            return value if np.isfinite(value) else np.inf

        best, value = _FIRST, after(_FIRST)
        for factor in (0.5, 2.0):
            step = best
            while (new := after(factor * step)) < value:
                step, value = factor * step, new
            best = step
        return best


def _part(problem: Problem, rows: np.ndarray) -> Problem:
    """The problem of some of the sequences."""

    def chosen(x: Tied) -> Tied:
        own = x.own.rows()
        tied = x.tied[rows] if len(x.tied) > 1 else x.tied
        return Tied(Ragged.from_rows([own[i] for i in rows]), tied)

    recipe = unwrap(problem.entropy)
    entropy = recipe.entropy
    if recipe.temperature != 1:
        entropy = Scaled(entropy, recipe.temperature)
    if recipe.cost is not None:
        cost = problem.entropy.domain.conform_scores(recipe.cost, problem.observed)
        entropy = Shifted(entropy, chosen(cost))
    return Problem(
        entropy,
        problem.features.take(rows),
        problem.potential,
        weights=problem.weights[rows] / problem.weights[rows].sum(),
        observed=chosen(problem.observed),
    )
