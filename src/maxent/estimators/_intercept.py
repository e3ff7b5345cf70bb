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

from maxent._rows import Array
from maxent.domains import KSubset, NonNegative, Simplex
from maxent.estimators._design import column_means
from maxent.problem import Problem, State
from maxent.structured import Permutahedron


@dataclass(frozen=True, eq=False)
class InterceptProblem(Problem):
    """A problem on samples whose last column is 1, with weights that no potential penalizes."""

    @cached_property
    def _means(self) -> Array:
        """The weighted mean of each column."""
        return column_means(self.features.X, self.weights)

    def certificate(self, state: State) -> float:
        """The gap at p_w moved to the observed mean."""
        return self.gap_near(state, np.asarray(state.p), state.gradient)

    def gap_near(self, state: State, p: Array, residual: Array) -> float:
        """The gap at p, of this residual, moved to the observed mean."""
        outputs = p.shape[1]
        target = self.target.reshape(-1, outputs)
        moments = residual.reshape(-1, outputs) + target
        mean, excess = target[-1], residual[-outputs:]
        if isinstance(self.entropy.domain, Simplex):
            p, moments = _rebalanced(p, moments, mean, excess)
        elif isinstance(self.entropy.domain, KSubset | Permutahedron):
            p, moments = self._mixed(p, moments, mean, excess)
        else:
            scale, shift = self._per_label(mean, excess)
            p = p * scale + shift
            moments = moments * scale + np.outer(self._means, shift)
        residual = moments - target
        residual[-1] = 0.0  # but for rounding, which Equality refuses
        return state.pulled_gap(p, residual.ravel())

    def _per_label(self, mean: Array, excess: Array) -> tuple[Array, Array]:
        """Factors and constants of the labels of the cube or the cone."""
        scale, shift = np.ones_like(mean), np.zeros_like(mean)
        over, under = excess > 0, excess < 0
        scale[over] = mean[over] / (mean + excess)[over]
        if isinstance(self.entropy.domain, NonNegative):
            shift[under] = -excess[under]
        else:
            rest = np.maximum(1 - mean, 0.0)
            scale[under] = rest[under] / (rest - excess)[under]
            shift[under] = 1 - scale[under]
        return scale, shift

    def _mixed(self, p: Array, moments: Array, mean: Array, excess: Array) -> tuple[Array, Array]:
        """(1 - t) p + t q, q = m - (1 - t)/t r for all rows, with the smallest t that allows it."""
        domain = self.entropy.domain
        if isinstance(domain, Permutahedron):
            room, least = domain.reach(mean, -excess), -np.inf
        else:
            room, least = _room(mean, excess), 0.0
        t = 1 / (1 + max(room, 0.0)) if excess.any() else 0.0
        shift = t * mean - (1 - t) * excess
        p = np.maximum((1 - t) * p + shift, least)
        return p, (1 - t) * moments + np.outer(self._means, shift)


def _room(mean: Array, excess: Array) -> float:
    """The largest t for which the entries of mean - t excess lie from 0 to 1."""
    room = np.full(excess.size, np.inf)
    with np.errstate(over="ignore"):
        np.divide(mean, excess, out=room, where=excess > 0)
        np.divide(mean - 1, excess, out=room, where=excess < 0)
    return float(room.min())


def _rebalanced(p: Array, moments: Array, mean: Array, excess: Array) -> tuple[Array, Array]:
    """Rows of the simplex with the surplus of some columns given to the others, and X'p of them."""
    lack = np.maximum(-excess, 0.0)
    over = excess > 0
    if not (over.any() and lack.any()):
        return p, moments
    scale = np.ones_like(mean)
    scale[over] = mean[over] / (mean + excess)[over]
    share = lack / lack.sum()

    def move(rows: Array) -> Array:
        return rows * scale + np.outer(rows @ (1 - scale), share)

    return move(p), move(moments)
