"""Problems with a free intercept, and the primal point that certifies them.

No penalty on the intercepts asks for rows whose weighted mean is exactly the observed one, m. Let
r = mean of p - m. Only what is too much is moved:

- simplex: where r_j > 0 the column is scaled by c_j = m_j / (m_j + r_j), and what a row loses goes
  to the other columns in proportion to what they lack, max(-r, 0);
- cube: p_j is scaled down where r_j > 0, 1 - p_j where r_j < 0;
- cone: p_j is scaled down where r_j > 0, else -r_j is added;
- k-subsets and rankings: every row is mixed with one point, the same for all.

A label that never occurs is then emptied, and the other columns hardly change. The moments of the
new rows follow from those of p, without a pass over the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxent.core.domains import Domain, KSubset, NonNegative, Simplex
from maxent.core.problem import Problem, State
from maxent.rows.arrays import Array
from maxent.rows.certificate_moves import Moved
from maxent.structured import Permutahedron


@dataclass(frozen=True, eq=False)
class InterceptProblem(Problem):
    """A problem on samples whose last column is 1, with weights that no potential penalizes."""

    @cached_property
    def _means(self) -> Array:
        """The weighted mean of each column."""
        return self.features.column_means(self.weights)

    def certificate(self, state: State) -> float:
        """The gap at p_w moved to the observed mean."""
        return self.gap_near(state, None, state.gradient)

    def gap_near(self, state: State, p: Array | None, residual: Array) -> float:
        """The gap at p, of this residual, moved to the observed mean.

        None is p_w, whose rows are moved where they are.
        """
        outputs = self.features.n_outputs
        target = self.target.reshape(-1, outputs)
        move = _move(self.entropy.domain, target[-1], residual[-outputs:])
        moments = move.linear(residual.reshape(-1, outputs) + target)
        if np.any(move.shift):
            moments = moments + np.outer(self._means, move.shift)
        residual = moments - target
        residual[-1] = 0.0  # but for rounding, which Equality refuses
        return state.pulled_gap(move if p is None else move.rows(p), residual.ravel())


def _move(domain: Domain, mean: Array, excess: Array) -> Moved:
    """What takes rows of the mean ``mean + excess`` to rows of the mean ``mean``."""
    if isinstance(domain, Simplex):
        return _rebalanced(mean, excess)
    if isinstance(domain, KSubset | Permutahedron):
        return _mixed(domain, mean, excess)
    return _per_label(domain, mean, excess)


def _per_label(domain: Domain, mean: Array, excess: Array) -> Moved:
    """Factors and constants of the labels of the cube or the cone."""
    scale, shift = np.ones_like(mean), np.zeros_like(mean)
    over, under = excess > 0, excess < 0
    scale[over] = mean[over] / (mean + excess)[over]
    if isinstance(domain, NonNegative):
        shift[under] = -excess[under]
    else:
        rest = np.maximum(1 - mean, 0.0)
        scale[under] = rest[under] / (rest - excess)[under]
        shift[under] = 1 - scale[under]
    return Moved(scale=scale, shift=shift)


def _mixed(domain: KSubset | Permutahedron, mean: Array, excess: Array) -> Moved:
    """(1 - t) p + t q, q = m - (1 - t)/t r for all rows, with the smallest t that allows it."""
    if isinstance(domain, Permutahedron):
        room, least = domain.reach(mean, -excess), -np.inf
    else:
        room, least = _room(mean, excess), 0.0
    t = 1 / (1 + max(room, 0.0)) if excess.any() else 0.0
    return Moved(scale=1 - t, shift=t * mean - (1 - t) * excess, least=least)


def _room(mean: Array, excess: Array) -> float:
    """The largest t for which the entries of mean - t excess lie from 0 to 1."""
    room = np.full(excess.size, np.inf)
    with np.errstate(over="ignore"):
        np.divide(mean, excess, out=room, where=excess > 0)
        np.divide(mean - 1, excess, out=room, where=excess < 0)
    return float(room.min())


def _rebalanced(mean: Array, excess: Array) -> Moved:
    """The surplus of some columns of the simplex given to the others."""
    lack = np.maximum(-excess, 0.0)
    over = excess > 0
    if not (over.any() and lack.any()):
        return Moved()
    scale = np.ones_like(mean)
    scale[over] = mean[over] / (mean + excess)[over]
    return Moved(scale=scale, share=lack / lack.sum())
