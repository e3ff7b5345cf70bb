"""
A regularization path with warm starts
======================================

How strongly should a density be regularized? Solve for the strongest multiplier first, start each
problem from the solution of the one before, and let held-out records choose.
"""

# %%
# A potential :math:`V` multiplied by :math:`c` penalizes the weights :math:`c` times as much:
# :math:`V_c^* = c V^*`. The path starts at the smallest :math:`c` for which all weights are 0,
# which the library knows, and goes down in equal ratios.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 25))
strengths = np.r_[1.0, -0.8, 0.6, -0.5, 0.4, np.zeros(20)]
truth = np.exp(X @ strengths)
counts = rng.multinomial(300, truth / truth.sum())
held_out = rng.multinomial(3000, truth / truth.sum()) / 3000

problem = mx.Problem(mx.Shannon(), X, mx.Box(1.0), observed=counts / counts.sum())
grid = mx.path.multiplier_grid(problem, n=25, smallest=5e-3)
path = list(mx.solution_path(problem, grid, mx.FISTA(tol=1e-6)))
weights = np.array([solution.w for _, _, solution in path])

# %%
# How many steps did the warm starts save? Solve the same problems again, each from 0. The path also
# has a duality gap for every point.

warm = sum(solution.n_iter for _, _, solution in path)
cold = sum(one.solve(mx.FISTA(tol=1e-6)).n_iter for _, one, _ in path)
largest = max(solution.gap for _, _, solution in path)
print(f"{warm} steps with warm starts, {cold} without; largest gap {largest:.0e}")

loss = [-held_out @ np.log(1000 * solution.p) for _, _, solution in path]
best = int(np.argmin(loss))
print(f"best multiplier {grid[best]:.3f}: {np.sum(weights[best] != 0)} of 25 weights are not 0")

# %%
# The weights and the held-out loss along the path:

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
left.semilogx(grid, weights[:, 5:], color="0.75", linewidth=0.8)
left.semilogx(grid, weights[:, :5], color="C0")
left.set(title="Weights", xlabel="multiplier $c$", ylabel="weight")
right.semilogx(grid, loss, marker=".")
right.set(title="Loss on held-out records", xlabel="multiplier $c$", ylabel="nats less uniform")
for axis in (left, right):
    axis.axvline(grid[best], color="black", linewidth=0.8, linestyle=":")
    axis.invert_xaxis()

# %%
# **How to read this.** Regularization weakens from left to right. Blue weights belong to the five
# features that matter, grey ones to the twenty that do not. The five come in first. Further to the
# right the grey ones follow, and the loss on held-out records rises. The dotted line is where that
# loss is smallest.
