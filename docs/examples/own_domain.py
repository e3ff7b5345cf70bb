"""A new domain: prefixes, the answers of ordinal regression ("above level 1, above 2 ...")."""

# ruff: noqa: D102 - the base class documents the methods

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from maxent import SumProductDomain
from maxent.testing import check_domain


@dataclass(frozen=True)
class Prefixes(SumProductDomain):
    """{1 >= p_1 >= ... >= p_d >= 0}; vertex k has ones in its first k entries."""

    def vertices(self, size):
        return np.tri(size + 1, size, -1)

    def _totals(self, theta):
        """Score of each vertex, (rows, size + 1)."""
        return np.concatenate([np.zeros_like(theta[:, :1]), np.cumsum(theta, axis=1)], axis=1)

    def _argmax(self, theta):
        best = self._totals(theta).argmax(axis=1)
        return self.vertices(theta.shape[1])[best].astype(theta.dtype)

    def _softmax(self, theta):
        totals = self._totals(theta)
        log_partition = logsumexp(totals, axis=1)
        share = np.exp(totals - log_partition[:, None])
        above = np.cumsum(share[:, :0:-1], axis=1)[:, ::-1]
        return log_partition, above.astype(theta.dtype)

    def _contains(self, p, atol):
        ends = np.pad(p, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
        return np.diff(ends, axis=1).max(axis=1) <= atol


if __name__ == "__main__":
    check_domain(Prefixes(), size=4)
