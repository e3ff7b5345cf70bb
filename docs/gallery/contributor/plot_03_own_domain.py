# ruff: noqa: D102 - the base class documents the methods
"""
A domain of your own
====================

A domain is the set that predictions live in. This one serves ordinal regression: it holds the
probabilities of "above level 1", "above level 2" and so on, which can only decrease.
"""

# %%
# Its vertices are the possible answers, :math:`(1, \dots, 1, 0, \dots, 0)`. Write ``_argmax``, the
# best vertex for given scores, and ``vertices``, which the checks enumerate. ``_softmax`` is
# optional: the logarithm of the sum over all vertices of the exponential of their score, and its
# gradient, the marginals. It makes the Shannon entropy available on the domain. ``negentropy`` and
# ``_contains`` are optional too. The base class has numerical versions, and formulas are faster.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import entr, logsumexp, softmax

import maxent as mx
from maxent.testing import check_domain


@dataclass(frozen=True)
class Prefixes(mx.SumProductDomain):
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
        share = softmax(totals, axis=1)
        above = np.cumsum(share[:, :0:-1], axis=1)[:, ::-1]
        above = np.minimum(above, 1)  # a sum of rounded shares may exceed 1 by a rounding
        return logsumexp(totals, axis=1), above.astype(theta.dtype)

    def negentropy(self, p):
        share = -np.diff(p, prepend=1, append=0, axis=-1)  # of each vertex
        return -entr(np.maximum(share, 0)).sum(axis=-1)

    def _contains(self, p, atol):
        return np.diff(p, prepend=1, append=0, axis=1).max(axis=1) <= atol


# %%
# The check compares the argmax, the projection, the log-partition and the marginals with what a
# list of all vertices says.

check_domain(Prefixes(), size=4)

# %%
# Now a fit: five levels, 40 samples, one measurement. The new domain competes with one logistic
# regression per threshold, :class:`maxent.FermiDirac`, whose answers know nothing of each other.

rng = np.random.default_rng(8)
x = rng.uniform(-3, 3, size=40)
level = np.digitize(x + rng.normal(scale=2 + 0.4 * x), [-1.5, -0.5, 0.5, 1.5])
above = (level[:, None] > np.arange(4)).astype(float)
grid = np.linspace(-3, 3, 201)
entropies = {
    "One regression per threshold": mx.FermiDirac(),
    "Prefixes": mx.Shannon(domain=Prefixes()),
}


def design(x):
    """A constant and the measurement."""
    return np.column_stack([np.ones_like(x), x])


fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True, layout="constrained")
for axis, (name, entropy) in zip(axes, entropies.items(), strict=True):
    features = mx.SampleMap(design(x), 4)
    solution = mx.Problem(entropy, features, mx.Quadratic(1e-3), observed=above).solve()
    _, p = entropy.conjugate(design(grid) @ solution.w.reshape(2, 4))
    for k, style in enumerate(("-", "--", "-.", ":")):
        axis.plot(grid, p[:, k], style, label=f"above {k + 1}")
    axis.set(title=name, xlabel="measurement")
    wrong = np.mean(np.diff(p, axis=1).max(axis=1) > 0)
    print(f"{name}: the order is violated at {100 * wrong:.0f} % of the points")
axes[0].set_ylabel("probability")
axes[1].legend()

# %%
# **How to read this.** Each line is the probability that the level is above 1, 2, 3 or 4; a lower
# threshold must have the higher line. On the left lines cross, which makes the probability of some
# level negative. On the right they cannot: every prediction lies in the domain.
