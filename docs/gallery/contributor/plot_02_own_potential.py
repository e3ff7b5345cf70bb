# ruff: noqa: D102 - the base class documents the methods
"""
A potential of your own
=======================

A potential decides how closely a model follows the observed moments. Its conjugate is the penalty
on the weights. This example adds the Huber penalty: a square near 0, an absolute value further out.
"""

# %%
# A potential is a convex function :math:`V` of the residual :math:`r`, the difference between the
# moments of the model and the observed ones. Write :math:`V`, its conjugate :math:`V^*`, the
# proximity operator of :math:`V^*`, and the gauge of the domain of :math:`V`: the factor by which
# :math:`r` must shrink to be allowed. The gradient of :math:`V^*` is optional and opens L-BFGS.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import maxent as mx
from maxent.testing import check_potential


@dataclass(frozen=True)
class Huber(mx.Potential):
    """V(r) = sum delta r_j^2 / (2 beta) on |r_j| <= beta; V*(v) = sum beta huber(v_j, delta)."""

    beta: float
    delta: float
    smooth_conjugate = True

    def value(self, r):
        inside = np.abs(r).max(initial=0) <= self.beta * (1 + 1e-12)
        return float(self.delta / (2 * self.beta) * (r @ r)) if inside else np.inf

    def conjugate(self, v):
        size = np.abs(v)
        near = size**2 / (2 * self.delta)
        return float(self.beta * np.sum(np.where(size < self.delta, near, size - self.delta / 2)))

    def conjugate_gradient(self, v):
        return self.beta * np.clip(v / self.delta, -1, 1)

    def prox_conjugate(self, v, step):
        near = v / (1 + step * self.beta / self.delta)
        far = v - step * self.beta * np.sign(v)
        return np.where(np.abs(near) <= self.delta, near, far)

    def gauge(self, r):
        return float(np.abs(r).max(initial=0) / self.beta)


# %%
# The check compares ``value`` and ``conjugate`` as a pair of conjugate functions, the proximity
# operator with a numerical one, and the gauge with the domain.

check_potential(Huber(beta=0.3, delta=0.5), size=3)

# %%
# The potential goes into a problem like any other. Three logistic regressions on 30 measurements of
# tumours differ in their penalty alone.

X, y = load_breast_cancer(return_X_y=True)
features = mx.SampleMap(scale(X), 2)
potentials = {
    "l1": mx.Box(0.02),
    "Huber": Huber(beta=0.02, delta=0.05),
    "squared": mx.Quadratic(0.02 / 0.05),
}
weights = {}
for name, potential in potentials.items():
    solution = mx.Problem(mx.Shannon(), features, potential, observed=y).solve(tol=1e-6)
    w = solution.w.reshape(-1, 2)[:, 1]
    weights[name] = np.sort(np.abs(w))[::-1]
    print(f"{name:>8}: gap {solution.gap:.0e}, {np.sum(w == 0):2d} of 30 weights are exactly 0")

# %%
# What the three penalties look like, and what they do to the weights:

line = np.linspace(-0.2, 0.2, 201)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
for (name, potential), style in zip(potentials.items(), (":", "-", "--"), strict=True):
    left.plot(line, [potential.conjugate(np.array([v])) for v in line], style, label=name)
    right.plot(np.arange(1, 31), weights[name], style, label=name)
left.set(title="Penalty on one weight", xlabel="weight", ylabel="penalty")
right.set(title="Fitted weights", xlabel="rank", ylabel="size of the weight")
right.legend()

# %%
# **How to read this.** Left, the Huber penalty follows the square near 0 and the absolute value
# further out. Right, the weights of each fit, largest first. The l1 penalty makes most of them
# exactly 0; the square spreads the weight over all measurements; Huber allows a few large weights,
# as l1 does, and keeps the small ones, as the square does.
