"""Steps of limited-memory quasi-Newton methods, which solvers and certificates take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.core.problem import State

_DECREASE = 1e-4  # share of the predicted decrease that a step must reach
_HALVINGS = 50
_LEVEL = 1e6  # times the rounding of a value, below which predicted decreases tell nothing
BOTTOMLESS = -1e15  # a dual that far down, in multiples of its start, has no minimum


class Pair(NamedTuple):
    """A step s and the change y of the gradient, with <s, y> and <y, y>."""

    s: Array
    y: Array
    sy: float
    yy: float


def remember(pairs: deque[Pair], s: Array, y: Array) -> None:
    """Keep a step and the change of the gradient along it, where the curvature is positive."""
    sy, yy = float(s @ y), float(y @ y)
    if sy > 1e-16 * np.sqrt(float(s @ s) * yy):
        pairs.append(Pair(s, y, sy, yy))


def two_loop(gradient: Array, pairs: deque[Pair], scale: Array | None = None) -> Array:
    """Minus the approximate inverse Hessian times the gradient.

    ``scale`` : about the diagonal of the Hessian, where it is known.
    """
    q = -gradient
    kept = []
    for pair in reversed(pairs):
        a = float(pair.s @ q) / pair.sy
        q = daxpy(pair.y, q, a=-a)
        kept.append(a)
    if scale is not None:
        q /= scale
    if pairs:
        last = pairs[-1]
        q *= last.sy / (last.yy if scale is None else float(last.y @ (last.y / scale)))
    for pair, a in zip(pairs, reversed(kept), strict=True):
        q = daxpy(pair.s, q, a=a - float(pair.y @ q) / pair.sy)
    return q


def bottomless(state: State, start: float) -> bool:
    """Whether the dual, which was ``start`` once, is so far down that it has no minimum."""
    return state.dual < BOTTOMLESS * (1 + abs(start))


class OrthantSteps:
    """Descent of `Omega*(F'w) - <w, mu> + sum l1 |w - c| + l2/2 (w - c)^2` (Andrew and Gao, 2007).

    Inside an orthant around c the penalty has a gradient. A step of L-BFGS along the
    pseudo-gradient stays in the orthant, and weights that would leave it become c.

    Parameters
    ----------
    l1, l2 : array (n_features,)
        Factors of the penalty.
    memory : int
        Pairs of steps and changes of the gradient that are kept.
    centre : array (n_features,), default None
        c; None is 0, where the objective is the problem's own dual.
    scale : array (n_features,), default None
        About the diagonal of the Hessian, where it is known.
    """

    def __init__(
        self,
        l1: Array,
        l2: Array,
        memory: int,
        centre: Array | None = None,
        scale: Array | None = None,
    ) -> None:
        self._l1, self._l2, self._memory = l1, l2, memory
        self._centre, self._scale = centre, scale

    def from_state(self, state: State) -> Iterator[State]:
        """The state after each step; ends where no progress is possible."""
        pairs: deque[Pair] = deque(maxlen=self._memory)
        gradient = self._gradient(state)
        while True:
            pseudo = self._pseudo_gradient(state, gradient)
            direction = two_loop(pseudo, pairs, self._scale)
            direction[direction * pseudo >= 0] = 0.0
            if not direction.any() and pseudo.any():
                pairs.clear()
                direction = -pseudo
            new = self._search(state, pseudo, direction, not pairs)
            if new is None:
                if not pairs:
                    return
                pairs.clear()  # once more along the pseudo-gradient itself
                continue
            new_gradient = self._gradient(new)
            remember(pairs, new.w - state.w, new_gradient - gradient)
            state, gradient = new, new_gradient
            yield state

    def _from_centre(self, w: Array) -> Array:
        return w if self._centre is None else w - self._centre

    def _value(self, state: State) -> float:
        if self._centre is None:
            return state.dual
        size = np.abs(self._from_centre(state.w))
        return state.smooth + float(((self._l1 + 0.5 * self._l2 * size) * size).sum())

    def _gradient(self, state: State) -> Array:
        return state.gradient + self._l2 * self._from_centre(state.w)

    def _pseudo_gradient(self, state: State, gradient: Array) -> Array:
        """The smallest subgradient: 0 where a weight at c is held there by its l1."""
        x, l1 = self._from_centre(state.w), self._l1
        at_centre = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
        return np.where(x == 0, at_centre, gradient + l1 * np.sign(x))

    def _search(self, state: State, pseudo: Array, direction: Array, first: bool) -> State | None:
        """A step inside the orthant that lowers the objective enough; None if there is none."""
        here, value = self._from_centre(state.w), self._value(state)
        orthant = np.where(here == 0, -np.sign(pseudo), np.sign(here))
        guessed = first and self._scale is None
        length = min(1.0, 1 / max(float(np.abs(pseudo).sum()), 1e-300)) if guessed else 1.0
        slack = 1e-14 * max(1.0, abs(value))
        grown: State | None = None
        for _ in range(_HALVINGS):
            x = here + length * direction
            x[np.sign(x) != orthant] = 0.0
            predicted = float(pseudo @ (x - here))
            if not predicted < 0:
                return grown
            new = state.problem.state(x if self._centre is None else self._centre + x)
            reached = self._value(new)
            enough = reached <= value + _DECREASE * predicted
            if guessed and enough and (grown is None or reached < self._value(grown)):
                grown = new  # the first length is a guess: longer ones as long as they pay
                if bottomless(new, state.dual):
                    return new
                length *= 4
                continue
            if grown is not None:
                return grown
            # near the optimum values round off: a smaller pseudo-gradient counts as well
            level = reached <= value + slack and -predicted <= _LEVEL * slack
            if enough or (level and self._steepness(new) < float(pseudo @ pseudo)):
                return new
            length /= 2
        return grown

    def _steepness(self, state: State) -> float:
        """The squared norm of the pseudo-gradient."""
        pseudo = self._pseudo_gradient(state, self._gradient(state))
        return float(pseudo @ pseudo)
