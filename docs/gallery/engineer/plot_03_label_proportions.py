"""
Predicting proportions that can be zero
=======================================

Some targets are proportions: the share of each product in sales, of each topic in a document, of
each power source in the grid. :class:`maxent.FenchelYoungRegressor` predicts such rows, and with
``alpha`` above 1 a share can be exactly zero.
"""

# %%
# Our data are made up: the shares of three power sources by hour of the day. Solar power is zero at
# night, and gas is switched off when there is enough of the others. The features are sines and
# cosines of the hour.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

names = ["solar", "wind", "gas"]


def features(hour):
    """Two waves per day, as columns."""
    angle = 2 * np.pi * np.asarray(hour)[:, None] / 24
    return np.hstack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)])


rng = np.random.default_rng(0)
hour = rng.uniform(0, 24, size=300)
supply = np.column_stack([4 * np.sin(np.pi * (hour - 6) / 12), np.full(300, 1.2), np.full(300, 1.0)])
supply = np.maximum(supply + rng.normal(scale=0.25, size=supply.shape), 0)
supply[:, 2] = np.maximum(3.0 - supply[:, :2].sum(axis=1), 0)
shares = supply / supply.sum(axis=1, keepdims=True)

# %%
# The two models differ in one argument.

models = {
    "alpha = 1 (softmax)": mx.FenchelYoungRegressor(alpha=1, potential=1e-4),
    "alpha = 2 (sparsemax)": mx.FenchelYoungRegressor(alpha=2, potential=1e-4),
}
for model in models.values():
    model.fit(features(hour), shares)

grid = np.linspace(0, 24, 200)
fig, axes = plt.subplots(1, 3, figsize=(7, 3.2), sharey=True)
colors = ["#F0C94A", "#56B4E9", "#7F7F7F"]
order = np.argsort(hour)
axes[0].stackplot(hour[order], shares[order].T, labels=names, colors=colors)
axes[0].set_title("observed")
axes[0].set_ylabel("share")
axes[0].legend(loc="lower left", framealpha=0.9)
for axis, (name, model) in zip(axes[1:], models.items()):
    axis.stackplot(grid, model.predict(features(grid)).T, colors=colors)
    axis.set_title(name)
for axis in axes:
    axis.set(xlim=(0, 24), ylim=(0, 1), xlabel="hour", xticks=[0, 6, 12, 18, 24])
fig.tight_layout()

# %%
# **How to read this.** The height of a band is the share of that source. With softmax a thin band of
# solar power remains at midnight and of gas at noon. With sparsemax these bands have height zero.

night = (grid < 4) | (grid > 20)
for name, model in models.items():
    error = np.abs(model.predict(features(hour)) - shares).mean()
    solar = model.predict(features(grid[night]))[:, 0]
    print(f"{name:>21}: mean absolute error {error:.3f}, largest solar share at night {solar.max():.3f}")
