"""Passes of gradient steps over chains, one sequence at a time."""

from __future__ import annotations

import numpy as np

from maxent.core.entropies import Entropy, Zero, unwrap
from maxent.core.problem import Problem
from maxent.core.solvers._chains import layout
from maxent.rows.arrays import Array, Ragged, Rows, Tied


class OnlineChains:
    """Weights that move sequence by sequence; with ``average`` the mean of the answers is kept."""

    def __init__(self, problem: Problem, kind: type[Entropy], w: Array, average: bool) -> None:
        parts = layout(problem, kind)
        assert parts is not None
        assert problem.observed is not None
        self.problem, self.parts = problem, parts
        self.strength = _strength(problem)
        self.kind = 0 if kind is Zero else 1
        self.heat = unwrap(problem.entropy).temperature
        k = parts.n_states
        self.v, self.scale = np.array(w, dtype=np.float64), 1.0
        observed = problem.observed
        self.goal = observed.own.values.astype(np.float64).reshape(-1, k)
        self.edge_goal = observed.tied.astype(np.float64).reshape(-1, k, k)
        self.ones = np.ones(parts.cut)
        count = len(parts.chains.lengths) if average else 0
        self.mass = np.zeros(count)
        self.point = np.zeros_like(self.goal) if average else np.zeros((0, k))
        self.edge_point = np.zeros_like(self.edge_goal) if average else np.zeros((0, k, k))
        assert problem.weights is not None
        self.counted = np.flatnonzero(problem.weights)

    @property
    def w(self) -> Array:
        """The weights here."""
        return self.scale * self.v

    def pass_over(self, order: Array, steps: Array, first: int = 1) -> None:
        """A step for each row of the order; the t-th of all counts t times its length."""
        shares = steps * np.arange(first, first + steps.size)
        if self.strength is not None:
            self.scale = self._steps(order, steps, shares, self.strength)
            return
        for t, step in enumerate(steps):  # the prox of the whole penalty after every row
            one = slice(t, t + 1)
            self._steps(order[one], steps[one], shares[one], 0.0)
            self.v[:] = self.problem.prox(self.v, float(step))

    def _steps(self, order: Array, steps: Array, shares: Array, strength: float) -> float:
        """The scale of the weights after a step for each row under a squared norm."""
        from maxent.structured.chain.kernels.online_steps import online_pass

        parts = self.parts
        unary, edges = parts.split(self.v)
        scale = online_pass(
            order, steps, shares, self.kind, self.heat, strength, parts.tokens, parts.chains,
            unary, edges, self.scale, self.ones, self.goal, self.edge_goal, self.point,
            self.edge_point, self.mass, parts.longest,
        )  # fmt: skip
        return float(scale)

    def mean(self) -> Rows:
        """The average of the answers of each row; the observed one where there are none."""
        k, chains = self.parts.n_states, self.parts.chains
        known = self.mass > 0
        share = 1 / np.where(known, self.mass, 1.0)
        tokens = np.repeat(known, chains.lengths)
        unary = self.point * np.repeat(share, chains.lengths)[:, None]
        unary = np.where(tokens[:, None], unary, self.goal)
        edges = self.edge_point * share[:, None, None]
        edges = np.where(known[:, None, None], edges, self.edge_goal)
        offsets = np.append(chains.first, len(chains.cost)) * k
        return Tied(Ragged(unary.reshape(-1), offsets), edges.reshape(-1, k * k))


def online_lack(problem: Problem, kind: type[Entropy], any_penalty: bool = False) -> str | None:
    """What steps of single sequences need that the problem does not have."""
    if not any_penalty and _strength(problem) is None:
        return f"steps of single sequences need Quadratic with one strength, got {problem!r}"
    if problem.observed is None or layout(problem, kind) is None:
        return (
            f"steps of single sequences need observed paths, {kind.__name__} with costs of states "
            f"on Chain, and tied transitions (ChainMap, PairChainMap), got {problem!r}"
        )
    return None


def _strength(problem: Problem) -> float | None:
    """That of a squared norm; None for any other penalty."""
    elastic = problem.potential.elastic(problem.features.n_features)
    if elastic is None or elastic[0].any() or np.ptp(elastic[1]) or not elastic[1][0] > 0:
        return None
    return float(elastic[1][0])
