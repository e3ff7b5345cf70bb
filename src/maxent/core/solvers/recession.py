"""Directions in which a dual without a penalty falls for ever, or stays as it is.

    w with <w, F_i (p~_i - p)> >= 0 for all rows i and all p of the domain, and > 0 for some:

along it no loss rises and some fall, so that where the penalty is 0 the dual has no minimum.
Without such a w, but for those that change no loss, it has one (Rockafellar, 1970, Theorem 27.1).
"""

from __future__ import annotations

import numpy as np
import scipy

from maxent.core.entropies import Zero
from maxent.core.problem import Problem, State
from maxent.core.solvers._row_planes import RowMaster
from maxent.rows.arrays import Array, Rows, row_dot

_CLEAR = 1e-6  # gain per unit of weight and moment that is more than the programme's own error
_PROGRAMMES = 200


def recession_direction(problem: Problem) -> Array | None:
    """Such a w with |w_j| <= 1, to the precision of linear programmes; None where there is none.

    It maximises the mean margin over all labels, mu - F p_0 with p_0 the prediction at w = 0, which
    is positive if one margin is, under the margins that the argmax of the domain finds negative.
    """
    cone = _Cone(problem)
    for _ in range(_PROGRAMMES):
        w = cone.solve(0.0)
        gain = -float(cone.slope @ w)
        if gain <= _CLEAR * problem.unit:
            return None
        state = problem.state(w)
        if problem.total(cone.answer_at(state)[2]) <= _CLEAR * gain:
            return w
        if not cone.add(state):
            return None
    return None


def unseen_direction(problem: Problem) -> Array | None:
    """Minus 1 for the features that no observed row has, where that is such a direction; else None.

    It is where these features are never negative, as counts are; an argmax either way tells.
    """
    w = np.where(problem.target == 0, -1.0, 0.0)
    theta, hinge = problem.features.scores(w), Zero(problem.entropy.domain)
    right = row_dot(theta, problem.observed)
    if not w.any() or (hinge.conjugate(theta)[0] > right).any():
        return None
    return w if (hinge.conjugate(-1.0 * theta)[0] > -right).any() else None


class _Cone(RowMaster):
    """max <w, mu - F p_0> under F_i (v - p~_i) w <= 0 for the answers v so far."""

    floor = 0.0

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.slope = problem.origin().gradient
        self.hinge = Zero(problem.entropy.domain)

    def answer_at(self, state: State) -> tuple[Rows, Array, Array]:
        """The best vertex of each row less its observed one, and by how much it is better."""
        observed = self.problem.observed
        values, vertex = self.hinge.conjugate(state.theta)
        better = values - row_dot(state.theta, observed)
        return vertex - observed, np.zeros(better.size), better

    def solve(self, tol: float) -> Array:
        """A linear programme in w, by HiGHS."""
        known = {} if not self.row.size else {"A_ub": self.planes, "b_ub": self.entropies}
        answer = scipy.optimize.linprog(self.slope, **known, bounds=(-1, 1), method="highs")
        return np.zeros(self.slope.size) if answer.x is None else answer.x
