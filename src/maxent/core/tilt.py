"""Predictions moved a little, so that their moments are those a certificate needs.

For Shannon's entropy and p_i = p_w,i, on the vertices y of a row and for any step d of the weights,

    q_i(y) = p_i(y) (1 + t_i u_i(y)),    u_i(y) = <d, F_i y> - <d, F_i p_i>,    0 <= t_i <= 1,

is a distribution wherever t_i u_i >= -1, and its moments are F_i p_i + t_i Cov_i d: with t = 1 the
residual of all rows becomes exactly g + H d, g and H the gradient and the Hessian of the dual. So
a Newton step gives moments that keep to their limits, where p_w misses them. It costs

    KL(q_i || p_i) = E psi(t_i u_i) <= t_i^2 Var_i psi(-x_i) / x_i^2,

psi(u) = (1 + u) log(1 + u) - u, as psi(u) / u^2 falls in u; an argmax finds x_i = -min t_i u_i. It
is about half the variance, of second order in d. A mixture with the observed rows, which pulls a
residual into its limits as well, costs a share of their losses, of first order.

Unlikely labels of long sequences keep linear tilts short. So p_i may be that of other weights, a
Newton step from w: KL(q_i || p_w,i) is known as well, and the rest of the way is shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from maxent.core.entropies import Shannon, Zero, unwrap
from maxent.core.maps import RowMap
from maxent.rows.arrays import Array, Rows, row_dot, row_scale

if TYPE_CHECKING:
    from maxent.core.problem import State

_STAGES = 2  # Newton steps, of which the last is a tilt and those before move its base
_LENGTHS = (1.0, 0.5, 0.25)  # of such a step, that are tried
_CLOSE = 1e-5  # share of a goal that conjugate gradients may leave, as their products are no finer
_REFINED = 4  # times that they go on from the exact residual
_DIFFERENCE = 1e-6  # largest change of a weight for a difference of gradients
_SHORT = 1e-4  # x below which psi(-x) / x^2 is 1/2 to four digits
_EQUAL = 1e-9  # share of the moments below which two of them are equal to rounding


class Tilted(NamedTuple):
    """The moved rows q, what they cost at most, and their residual F q - mu."""

    p: Rows
    cost: Array
    residual: Array


def can_tilt(state: State) -> bool:
    """Whether predictions of this entropy can be moved, and single rows are at hand."""
    inside = unwrap(state.problem.entropy)
    gibbs = isinstance(inside.entropy, Shannon) and inside.temperature == 1.0
    return gibbs and isinstance(state.problem.features, RowMap)


def tilted(state: State, l1: Array, l2: Array, products: int) -> Tilted:
    """Rows near p_w whose residual r has r_j = -l1 sign w_j - l2 w_j where w_j is not 0, or nearly.

    That makes the potential's part of the gap 0. Weights that a step of their own would take across
    0 are as good as 0: what they lose is less than such a residual would cost. Theirs and those of
    weights that are 0 may not grow beyond l1. ``products`` : with the Hessian at most.
    """
    w, residual, scale = state.w, state.gradient, curvature_sizes(state)
    wanted = -l1 * np.sign(w) - l2 * w
    held = (w != 0) & ((wanted - residual) * np.sign(w) >= -scale * np.abs(w))
    used, base = held | (l1 + l2 == 0), state
    for stage in range(1, _STAGES + 1):
        over = ~used & (np.abs(base.gradient) > l1)
        wanted[over] = (l1 * np.sign(base.gradient))[over]
        used |= over
        goal = np.where(used, wanted - base.gradient, 0.0)
        step, _ = _solved(base, used, goal, scale, products // _STAGES)
        if stage < _STAGES:
            base = _lower(base, np.where(used, wanted, 0.0), step)
    return _distributions(state, base, step)


def _lower(state: State, wanted: Array, step: Array) -> State:
    """The state after a step, or a part of it, towards these residuals of the features in use."""

    def height(at: State) -> float:
        return at.smooth - float(wanted @ at.w)

    here = height(state)
    for length in _LENGTHS:
        w = state.w + length * step
        ahead = state.problem.state(w, state.problem.features.scores(w))
        if height(ahead) <= here:
            return ahead
    return state


def equal_gap(state: State, products: int) -> float:
    """The gap at rows whose moments are the observed ones; inf where a step is not short enough.

    Moments are equal to ``_EQUAL`` of their size. What is left of the residual, by conjugate
    gradients or by rounding, counts by the length of the weights and of the step: as much as a
    direction might gain that is too flat to be seen.
    """
    everywhere, scale = np.ones(state.w.size, bool), curvature_sizes(state)
    d, left = np.zeros_like(state.w), state.gradient
    for _ in range(_REFINED):
        d = d + _solved(state, everywhere, -left, scale, products // _REFINED)[0]
        moved = _moved(state, d)
        left = state.gradient + state.problem.moments(moved)
    left = np.abs(left)
    cost, share = _costs(state, d, moved)
    if (share < 1).any() or not left.max(initial=0.0) <= _EQUAL * state.problem.unit:
        return np.inf
    target = state.problem.target
    rounding = np.finfo(np.float64).eps * (np.abs(target) + np.abs(target + state.gradient))
    return state.problem.total(cost) + 2 * float((left + rounding) @ (np.abs(state.w) + np.abs(d)))


def _moved(state: State, d: Array) -> Rows:
    """Cov_i F_i'd of each row."""
    problem = state.problem
    return problem.entropy.hvp(state.theta, state.p, problem.features.scores(d))


def _costs(state: State, d: Array, moved: Rows) -> tuple[Array, Array]:
    """What rows cost that move by d as far as they can, and as what share of it."""
    theta = state.problem.features.scores(d)
    variance = np.maximum(row_dot(theta, moved), 0.0)
    down, _ = Zero(state.problem.entropy.domain).conjugate(-1.0 * theta)
    x = np.maximum(down + row_dot(theta, state.p), 0.0)
    share = 1 / np.maximum(x, 1.0)
    return share**2 * variance * _rate(share * x), share


def _rate(x: Array) -> Array:
    """psi(-x) / x^2 for 0 <= x <= 1, from above where the difference would be all rounding."""
    x = np.minimum(x, 1.0)
    above = np.maximum(x, _SHORT)
    exact = (above + special.xlog1py(1 - above, -above)) / above**2
    return np.where(x < _SHORT, 0.5 / (1 - _SHORT), exact)


def _distributions(state: State, base: State, d: Array) -> Tilted:
    """Rows that are tilted by d from the predictions at ``base``, and KL(q_i || p_w,i) at most.

    It is KL(q_i || p_i) of the base's p_i and <theta_i - theta_w,i, q_i> - (A_i - A_w,i), A the
    log-partitions.
    """
    moved = _moved(base, d)
    cost, share = _costs(base, d, moved)
    if (share < 1).any():
        moved = row_scale(moved, share)
    q = base.p + moved
    if base is not state:
        further = row_dot(base.theta - state.theta, q) - (base.conjugate - state.conjugate)
        cost = np.maximum(cost + further, 0.0)
    return Tilted(q, cost, base.gradient + state.problem.moments(moved))


def curvature_sizes(state: State) -> Array:
    """About the diagonal of the Hessian, for features that are not negative."""
    p = state.p
    sizes = state.problem.moments(np.abs(p * (1 - p)))
    if sizes.min(initial=0.0) < 0:
        return np.ones(sizes.size)
    return np.maximum(sizes, 1e-12 * sizes.max(initial=0.0) or 1.0)


def _solved(
    state: State, used: Array, goal: Array, scale: Array, products: int
) -> tuple[Array, Array]:
    """A d, 0 off ``used``, with H d = goal there or nearly, and H d: conjugate gradients.

    Products are differences of gradients, which cost a tenth of exact ones.
    """
    d, image, left = np.zeros_like(goal), np.zeros_like(goal), goal.copy()
    scaled = left / scale
    norm = first = float(left @ scaled)
    direction = scaled
    for _ in range(products):
        if not norm > _CLOSE**2 * first:
            break
        short = _DIFFERENCE / float(np.abs(direction).max())
        along = (state.problem.state(state.w + short * direction).gradient - state.gradient) / short
        bend = float(direction @ along)
        if not bend > 0:
            break
        length = norm / bend
        d += length * direction
        image += length * along
        left -= np.where(used, length * along, 0.0)
        scaled = left / scale
        new = float(left @ scaled)
        direction = scaled + new / norm * direction
        norm = new
    return d, image
