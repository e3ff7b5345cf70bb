"""
An entropy of your own
======================

An entropy decides how scores become probabilities. This one is sparsemax with a price for each
class: an expensive class needs a larger lead in score for the same probability.
"""

# %%
# Two methods are enough. ``_value`` is the entropy itself, :math:`\Omega(p) = \frac12 \sum_j c_j
# p_j^2` with prices :math:`c_j`. ``_conjugate`` returns :math:`\Omega^*(\theta) = \max_p\, \langle
# \theta, p \rangle - \Omega(p)` and the :math:`p` that attains it, :math:`p_j = [\theta_j - \tau]_+
# / c_j`. Both see a batch of rows, (rows, classes).

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import maxent as mx
from maxent.testing import check_entropy


@dataclass(frozen=True)
class WeightedGini(mx.Entropy):
    """Omega(p) = 1/2 sum_j c_j p_j^2 on the simplex; the map is p_j = [theta_j - tau]_+ / c_j."""

    costs: tuple[float, ...]

    def _value(self, p):
        return 0.5 * np.square(p, dtype=np.float64) @ np.array(self.costs)

    def _conjugate(self, theta):
        c, top = np.array(self.costs), theta.max(axis=1, keepdims=True)
        x = (theta - top).astype(np.float64)
        order = np.argsort(-x, axis=1)
        sorted_x, weight = np.take_along_axis(x, order, axis=1), 1 / c[order]
        tau = (np.cumsum(weight * sorted_x, axis=1) - 1) / np.cumsum(weight, axis=1)
        last = np.sum(sorted_x > tau, axis=1, keepdims=True) - 1
        p = np.maximum(x - np.take_along_axis(tau, last, axis=1), 0) / c
        score = np.sum(np.where(p > 0, x, 0) * p, axis=1)
        return top[:, 0] + score - self._value(p), p.astype(theta.dtype)


# %%
# One line checks it: that ``_conjugate`` is the conjugate of ``_value``, that :math:`p` is its
# gradient, that shapes, float types and scores of :math:`-\infty` are handled, and more. It raises
# an ``AssertionError`` that names the property if one fails.

check_entropy(WeightedGini((1.0, 0.5, 2.0, 1.0)), size=4)

# %%
# The entropy now works in any :class:`maxent.Problem`. Here it classifies irises by the width of
# their petals, with three prices of the last species, *virginica*. A price of 1 is plain sparsemax.

iris = load_iris()
width = iris.data[:, 3]
grid = np.linspace(0, 3.2, 321)
lead = np.linspace(-4, 4, 401)


def design(x):
    """A constant and the width, in units of its deviation."""
    return np.column_stack([np.ones_like(x), (x - width.mean()) / width.std()])


fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True, layout="constrained")
for price, style in ((0.25, ":"), (1.0, "-"), (6.0, "--")):
    entropy = WeightedGini((1.0, 1.0, price))
    _, p = entropy.conjugate(np.column_stack([0 * lead, 0 * lead, lead]))
    left.plot(lead, p[:, 2], style, label=f"price {price:g}")

    features = mx.SampleMap(design(width), 3)
    solution = mx.Problem(entropy, features, mx.Quadratic(0.1), observed=iris.target).solve()
    _, p = entropy.conjugate(design(grid) @ solution.w.reshape(2, 3))
    right.plot(grid, p[:, 2], style, label=f"price {price:g}")
    certain = (
        f"certain from {grid[p[:, 2] == 1][0]:.2f} cm" if p[:, 2].max() == 1 else "never certain"
    )
    print(f"price {price:4g}: virginica is {certain}, gap {solution.gap:.0e}")
left.set(title="The map", xlabel="lead in score", ylabel="probability of the class")
right.set(title="A fit to irises", xlabel="petal width (cm)", ylabel="probability of virginica")
right.legend()

# %%
# **How to read this.** Left, two classes with score 0 and price 1 against one whose score varies.
# Where a line is at 0 the class is ruled out, where it is at 1 it is certain. The higher its price,
# the larger the lead that it needs. Right, the same prices in a fit. The weights make up for a part
# of the price, but an expensive class is still predicted with more caution.
