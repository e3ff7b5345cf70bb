"""Predictions at other weights nearby, which keep to the limits of a certificate.

Under an l1 penalty a residual must keep to |r_j| <= beta_j, and that of p_w does so late. Of all
distributions that do, the nearest is

    argmin_q KL(q || p_w)   where   |F q - mu|_j <= beta_j,      q = p_v,

v minimising the dual's smooth part + sum_j beta_j |v_j - w_j|: the same kind of problem around w
instead of 0 (for any entropy, with its Bregman divergence). It moves no more weights than limits
are missed, so a few steps of ``OrthantSteps``, scaled by the curvature of each weight, find one
that keeps to all limits or nearly; what is still missed is pulled towards the observed rows. The
entropy's part of the gap at p_v is

    Omega(p_v) + Omega*(F'w) - <p_v, F'w> = Omega*(F'w) - Omega*(F'v) + <F'(v - w), p_v>.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from maxent.core.quasi_newton import OrthantSteps
from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.core.problem import State

_MEMORY = 10  # pairs of L-BFGS
_MARGIN = 0.1  # of what limits are missed by, that the search keeps away from them
_MOST = 0.01  # of the limit, that it keeps away at most
_FLAT = 0.01  # of a limit: curvature that counts as none
_OUT_OF_PLAY = 1e300  # l1 of weights without a limit, which stay


def within_limits(state: State, limit: Array, scale: Array, steps: int) -> State:
    """A state near ``state`` whose residuals are within the limits, or nearly: so many steps.

    ``scale`` : about the diagonal of the Hessian.
    """
    size = np.abs(state.gradient)
    over = size > limit
    with np.errstate(invalid="ignore", divide="ignore"):
        missed = float(np.mean((size / limit)[over])) - 1.0
    aim = np.where(np.isinf(limit), _OUT_OF_PLAY, (1 - min(_MARGIN * missed, _MOST)) * limit)
    floor = _FLAT * float(limit[over].mean())
    search = OrthantSteps(aim, np.zeros_like(aim), _MEMORY, state.w, np.maximum(scale, floor))
    found = start = state.problem.state(state.w)  # whose sums write no distribution out
    for ahead in islice(search.from_state(start), steps):
        found = ahead
        if not (np.abs(found.gradient) > limit).any():
            break
    return found


def mixed_with_a_vertex(s: Array, loss: Array) -> Array:
    """KL(s p + (1 - s) y || p) of a vertex y, -log p(y) its loss: <= (1 - s) loss, often far less.

    >>> p, s = np.array([0.2, 0.5, 0.3]), 0.9
    >>> q = s * p + (1 - s) * np.array([1.0, 0.0, 0.0])
    >>> bool(np.isclose(mixed_with_a_vertex(s, -np.log(0.2)), np.sum(q * np.log(q / p))))
    True
    """
    missing = -np.expm1(-loss)
    mass = 1 - s * missing
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(mass > 0, mass * (np.log(mass) + loss), 0.0)
    return np.asarray(np.maximum(grown + missing * special.xlogy(s, s), 0.0))
