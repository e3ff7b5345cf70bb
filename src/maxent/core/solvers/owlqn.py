"""Orthant-wise L-BFGS for l1 penalties with many weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.problem import Problem, State
from maxent.core.solvers.base import Solver, bottomless, elastic_terms, needs_gradient
from maxent.core.solvers.lbfgs import Pair, remember, two_loop
from maxent.rows.arrays import Array

_DECREASE = 1e-4  # share of the predicted decrease that a step must reach
_HALVINGS = 50
_LEVEL = 1e6  # times the rounding of a value, below which predicted decreases tell nothing


@io.register
@dataclass(frozen=True)
class OWLQN(Solver):
    """Orthant-wise limited-memory quasi-Newton (Andrew and Gao, 2007).

    For a differentiable entropy and an elastic penalty `sum l1 |w| + l2/2 w^2` (Box, ElasticNet,
    Quadratic, Families of them). Inside an orthant the penalty has a gradient; a step of L-BFGS
    along the pseudo-gradient stays in the orthant, and weights that would leave it become 0. It
    needs a few vectors of the number of weights, where ``ProxNewton`` needs matrices of the
    working set: the solver for l1-regularised random fields over sparse attributes. Its objective
    falls fast; the duality gap of an l1 penalty, which asks for the largest residual, follows late.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 5000
        Iterations at most.
    memory : int, default 10
        Pairs of steps and changes of the gradient that are kept.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.

    Examples
    --------
    >>> from maxent import Box, Problem, Shannon
    >>> cells = np.arange(5.0)[:, None]
    >>> problem = Problem(Shannon(), cells, Box(0.1), observed=[0, 0, 0, 0.5, 0.5])
    >>> round(float(OWLQN().solve(problem).p @ cells[:, 0]), 3)
    3.4
    """

    max_iter: int = 5_000
    memory: int = 10

    @classmethod
    def missing(cls, problem: Problem) -> str | None:
        """A differentiable conjugate of the entropy, and an elastic penalty."""
        if problem.potential.elastic(problem.features.n_features) is None:
            return (
                f"orthants need a penalty sum l1 |w| + l2/2 w^2 (Box, ElasticNet, Quadratic), got "
                f"{problem.potential!r}; use FISTA"
            )
        return needs_gradient(problem)

    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        l1, l2 = elastic_terms(problem)
        pairs: deque[Pair] = deque(maxlen=self.memory)
        gradient = state.gradient + l2 * state.w
        while True:
            pseudo = _pseudo_gradient(state.w, gradient, l1)
            direction = two_loop(pseudo, pairs)
            direction[direction * pseudo >= 0] = 0.0
            if not direction.any() and pseudo.any():
                pairs.clear()
                direction = -pseudo
            new = _search(problem, state, pseudo, direction, not pairs)
            if new is None:
                if not pairs:
                    return
                pairs.clear()  # once more along the pseudo-gradient itself
                continue
            new_gradient = new.gradient + l2 * new.w
            remember(pairs, new.w - state.w, new_gradient - gradient)
            state, gradient = new, new_gradient
            yield state


def _pseudo_gradient(w: Array, gradient: Array, l1: Array) -> Array:
    """The smallest subgradient: 0 where a weight at 0 is held there by its l1."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(w == 0, at_zero, gradient + l1 * np.sign(w))


def _search(
    problem: Problem, state: State, pseudo: Array, direction: Array, first: bool
) -> State | None:
    """A step inside the orthant that lowers the dual enough; None if there is none."""
    orthant = np.where(state.w == 0, -np.sign(pseudo), np.sign(state.w))
    length = min(1.0, 1 / max(float(np.abs(pseudo).sum()), 1e-300)) if first else 1.0
    slack = 1e-14 * max(1.0, abs(state.dual))
    grown: State | None = None
    for _ in range(_HALVINGS):
        w = state.w + length * direction
        w[np.sign(w) != orthant] = 0.0
        predicted = float(pseudo @ (w - state.w))
        if not predicted < 0:
            return grown
        new = problem.state(w)
        enough = new.dual <= state.dual + _DECREASE * predicted
        if first and enough and (grown is None or new.dual < grown.dual):
            grown = new  # the first length is a guess: longer ones as long as they pay
            if bottomless(new, state.dual):
                return new
            length *= 4
            continue
        if grown is not None:
            return grown
        # near the optimum values round off: a smaller pseudo-gradient counts as well
        level = new.dual <= state.dual + slack and -predicted <= _LEVEL * slack
        if enough or (level and _steepness(new) < float(pseudo @ pseudo)):
            return new
        length /= 2
    return grown


def _steepness(state: State) -> float:
    """The squared norm of the pseudo-gradient."""
    l1, l2 = elastic_terms(state.problem)
    pseudo = _pseudo_gradient(state.w, state.gradient + l2 * state.w, l1)
    return float(pseudo @ pseudo)
