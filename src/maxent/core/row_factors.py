"""A factor for every row: how far each prediction may be from its observed row in a certificate.

The residual of p_s,i = s_i p_i + (1 - s_i) p~_i is r = sum_i s_i r_i, r_i that of row i alone. The
larger the s_i, the smaller the gap, and r must lie in the box |r_j| <= limit_j. One factor for all
rows has to serve the worst feature; with many rare features most rows have no part in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from scipy import sparse

from maxent.rows.arrays import Array

_PROGRAMME = 20_000  # entries up to which a linear programme takes a fraction of a second
_ROUNDS = 50
_INSIDE = 1 - 1e-12  # of the limits, so that rounding does not leave the box


def largest(R: Any, limit: Array, gains: Array) -> Array:
    """The factors between 0 and 1 with the largest <gains, s> for which |R's| <= limit.

    A linear programme (HiGHS), or where it would be large some that ``shrunk`` finds.
    """
    if R.nnz <= _PROGRAMME:
        rows, bounds = sparse.vstack([R.T, -R.T], "csr"), _INSIDE * np.concatenate([limit, limit])
        answer = scipy.optimize.linprog(-gains, rows, bounds, bounds=(0, 1), method="highs")
        if answer.status == 0:
            return shrunk(R, limit, np.clip(answer.x, 0.0, 1.0))  # HiGHS may miss by its tolerance
    return shrunk(R, limit, np.ones(gains.size))


def shrunk(R: Any, limit: Array, s: Array) -> Array:
    """Factors at most s for which |R's| <= limit, or nearly, R (rows, features) sparse.

    Of a feature beyond its limit the rows that push it there give up the same share: with P their
    sum and N that of the others, (limit + N) / P of it remains. A row obeys the strictest of its
    features. What this takes from other features may let them grow, so it is done again.
    """
    entries = sparse.coo_array(R)
    row, column = entries.coords
    s, limit = s.copy(), _INSIDE * limit
    for _ in range(_ROUNDS):
        total = R.T @ s
        over = np.abs(total) > limit
        if not over.any():
            break
        push = entries.data * s[row] * np.sign(total)[column]
        mine = (push > 0) & over[column]
        pushed = np.bincount(column[mine], push[mine], limit.size)
        rest = np.maximum(pushed - np.abs(total), 0.0)
        left = np.ones(limit.size)
        left[over] = (limit[over] + rest[over]) / pushed[over]
        factor = np.ones(s.size)
        np.minimum.at(factor, row[mine], left[column[mine]])
        s *= factor
    return s


def chain_columns(X: Any, lengths: Array, unary: Array, attribute: Array, state: Array) -> Any:
    """sum over the positions t of each sequence of x_t,a p_t(y), for pairs (a, y): sparse."""
    chosen = sparse.csc_array(X)[:, attribute]
    column = np.repeat(np.arange(attribute.size), np.diff(chosen.indptr))
    values = chosen.data * unary[chosen.indices, state[column]]
    sequence = np.repeat(np.arange(lengths.size), lengths)[chosen.indices]
    return sparse.csr_array((values, (sequence, column)), (lengths.size, attribute.size))
