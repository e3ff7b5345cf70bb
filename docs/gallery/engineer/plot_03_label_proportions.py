"""
Predicting proportions that can be zero
=======================================

Some targets are proportions: the share of each product in sales, of each topic in a document, of
each power source in the grid. :class:`maxent.FenchelYoungRegressor` predicts such rows, and with
``alpha`` above 1 a share can be exactly zero.
"""

# %%
# Our data are made up: the shares of three power sources by hour of the day. Solar power is zero
# at night, and gas is switched off when there is enough of the others. The features are sines and
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
supply = np.column_stack(
    [4 * np.sin(np.pi * (hour - 6) / 12), np.full(300, 1.2), np.full(300, 1.0)]
)
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

grid = np.linspace(0, 24, 241)
predictions = {name: model.predict(features(grid)) for name, model in models.items()}
fig, axes = plt.subplots(1, 3, figsize=(7, 3.2), sharey=True)
for k, axis in enumerate(axes):
    axis.scatter(hour, shares[:, k], s=5, color="0.7")
    for (name, p), color in zip(predictions.items(), ["#0072B2", "#D55E00"], strict=True):
        axis.plot(grid, p[:, k], color=color, label=name)
    axis.set(title=names[k], xlabel="hour", xticks=[0, 6, 12, 18, 24])
axes[0].set_ylabel("share")
handles, labels = axis.get_legend_handles_labels()
fig.legend(handles, labels, loc="lower center", ncols=2)
fig.tight_layout(rect=(0, 0.1, 1, 1))

# %%
# **How to read this.** Grey dots are observed shares, and the lines are predictions. The sparsemax
# line lies on zero where the dots do: solar power at night, gas at noon. The softmax line never
# reaches zero, rounds off the corners at sunrise and sunset, and overshoots the wind there.

for name, model in models.items():
    error = np.abs(model.predict(features(hour)) - shares).mean()
    print(f"{name:>21}: mean absolute error {error:.3f}")
for name, p in {**predictions, "observed": shares}.items():
    print(f"{name:>21}: {24 * np.mean(p[:, 0] == 0):4.1f} hours a day without solar power")
