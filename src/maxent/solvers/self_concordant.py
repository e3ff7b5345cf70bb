"""How far a model without a penalty is above its optimum: a bound from gradient and Hessian.

Let f be the dual of Shannon's entropy under no penalty, g and H its gradient and Hessian at w, and
R at least the norm of F_i (v - v') for all vertices v, v' of a row. Along any direction d the third
derivative is a third central moment of scores that lie within R |d| of their mean, so it is at most
R |d| times the second (Bach, 2010, Prop. 1), and with x = R |d|

    f(w + d) >= f(w) + <g, d> + d'H d (e^-x + x - 1) / x^2.

With rho the smallest eigenvalue of H, n = sqrt(g'H^-1 g) the Newton decrement, k = n R / sqrt(rho)
and x <= R sqrt(d'H d / rho) it gives for k < 1, minimised over d'H d,

    f(w) - min f <= rho / R^2 (k + (1 - k) log(1 - k)),

about n^2 / 2 for small k. Directions that change no differences of scores change no loss, and are
left out. For k >= 1, or where the curvature of another direction is lost in rounding, nothing is
known: there may be no optimum.
"""

from __future__ import annotations

import numpy as np

from maxent._rows import Array
from maxent.entropies import Shannon, Zero
from maxent.problem import Problem, State
from maxent.solvers.hessian import second_order

_ZERO = 1e-11  # share of the largest eigenvalue below which rounding may have made it
_LEVEL = 1e-9  # share of the largest difference of scores that counts as none


def unpenalised_gap(state: State, reach: float) -> float:
    """The bound at a state; ``reach`` is R. inf where it says nothing."""
    problem = state.problem
    if not isinstance(problem.entropy, Shannon):
        return np.inf
    product = second_order(problem).at(state).product
    H = np.array([product(unit) for unit in np.eye(state.w.size)])
    spectrum, basis = np.linalg.eigh((H + H.T) / 2)
    kept = spectrum > _ZERO * spectrum[-1]
    slopes = basis.T @ state.gradient
    if not kept.any() or any(_changes(problem, v, reach) for v in basis.T[~kept]):
        return np.inf
    rho = float(spectrum[kept].min())
    decrement = float(np.sqrt(np.sum(slopes[kept] ** 2 / spectrum[kept])))
    k = decrement * reach / np.sqrt(rho)
    return rho / reach**2 * _bregman(k) if k < 1 else np.inf


def _changes(problem: Problem, direction: Array, reach: float) -> bool:
    """Whether scores of a row differ along a direction of length 1."""
    hinge, theta = Zero(problem.entropy.domain), problem.features.scores(direction)
    spread = hinge.conjugate(theta)[0] + hinge.conjugate(-theta)[0]
    return bool(problem.total(spread) > _LEVEL * reach)


def _bregman(k: float) -> float:
    """k + (1 - k) log(1 - k), from above where the difference would be all rounding."""
    return k * k / 2 / (1 - k) if k < 1e-4 else k + (1 - k) * float(np.log1p(-k))
