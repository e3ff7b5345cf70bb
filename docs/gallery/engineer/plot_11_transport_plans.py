"""
Sparse and entropic transport plans
===================================

Optimal transport moves one set of masses onto another at the least cost. Some regularization makes
the plan stable and differentiable. The usual one, Sinkhorn's, spreads a little mass over all
pairs. The Euclidean one keeps most pairs at exactly zero.
"""

# %%
# Twelve depots deliver to fifteen shops. Each shop needs the same amount, and depots differ. Costs
# are squared distances.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(1)
depots, shops = rng.uniform(size=(12, 2)), rng.uniform(size=(15, 2))
stock = rng.dirichlet(np.full(12, 5.0))
demand = np.full(15, 1 / 15)
cost = ((depots[:, None] - shops) ** 2).sum(axis=-1)

# %%
# :class:`maxent.Transport` is the set of all plans. ``argmax`` of minus the costs is the cheapest
# plan, ``project`` is the Euclidean regularization and ``project_kl`` is Sinkhorn's. A division of
# the scores sets the strength. The two strengths were chosen so that the plans cost about the
# same.

transport = mx.Transport(stock, demand)
plans = {
    "cheapest": transport.argmax(-cost.ravel()),
    "Euclidean": transport.project(-cost.ravel() / 1.0),
    "Sinkhorn": transport.project_kl(-cost.ravel() / 0.015),
}

fig, axes = plt.subplots(1, 3, figsize=(7, 3.0))
for axis, (name, plan) in zip(axes, plans.items(), strict=True):
    plan = plan.reshape(12, 15)
    for i, j in np.argwhere(plan > 0):
        width = 60 * plan[i, j]
        axis.plot(*np.stack([depots[i], shops[j]]).T, color="0.35", linewidth=width, zorder=1)
    axis.scatter(*depots.T, s=500 * stock, color="#0072B2", marker="s", label="depot")
    axis.scatter(*shops.T, s=35, color="#D55E00", label="shop")
    axis.set(title=name, xticks=[], yticks=[], aspect="equal")
fig.tight_layout()

# %%
# **How to read this.** Squares are depots, their size is their stock. Dots are shops. The width of
# a line is the mass that goes that way. The Euclidean plan adds a few routes to the cheapest one.
# Sinkhorn's plan uses every route, most of them too thin to see.

for name, plan in plans.items():
    print(f"{name:>9}: {np.sum(plan > 0):3d} of 180 routes, cost {cost.ravel() @ plan:.4f}")
