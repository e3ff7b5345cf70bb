"""
Target-group background against sampling bias
=============================================

Most records come from near roads. A model that compares them with random places learns where
people go, as well as where the species lives. A *target-group background* compares them with
places where people recorded similar species, so that the effort cancels out.

With files this is one command: ``maxent fit occurrences.csv layers --background-records group.csv
-o out``. In Python it is ``group=`` of :func:`maxent.species.fit`. It assumes that the group was
recorded by the same people in the same way. If you have a raster of effort instead, see
``--bias effort.tif --bias-as prior``.
"""

# %%
# The species is virtual, so its true distribution is known. Its records are drawn in proportion
# to truth times effort. The records of the target group are drawn in proportion to effort alone.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import maxent as mx
from maxent import evaluation
from maxent.datasets import agreement, virtual_landscape

island = virtual_landscape(height=80, width=100)
land = island.land
X = pd.DataFrame({name: layer[land] for name, layer in island.layers.items()})


def recorded(x, y):
    """Which land cells have a record."""
    cells = island.grid.cells_at(x, y)
    return np.bincount(cells, minlength=land.size)[land.ravel()] > 0


presence = recorded(island.x, island.y)
group = recorded(island.group_x, island.group_y)

# %%
# Both models have the same features and the same records. They differ only in the rows that serve
# as background: every land cell, or the cells with a record of any species of the group.

model = mx.MaxentDensity("lqhc", categorical=["biome"])
naive = model.fit(X, presence).predict(X)
visited = group | presence
corrected = model.fit(X[visited], presence[visited]).predict(X)

# %%
# Each density is scaled so that 1 is the average over the island.

fig, axes = plt.subplots(2, 2, figsize=(7, 5.6), layout="constrained", sharex=True, sharey=True)
west, south, east, north = island.grid.bounds
panels = {
    "truth": island.truth[land],
    "sampling effort and records": island.effort[land],
    "naive: all cells": naive,
    "corrected: target group": corrected,
}
for axis, (title, density) in zip(axes.flat, panels.items(), strict=True):
    layer = np.full(land.shape, np.nan)
    layer[land] = density / density.mean()
    picture = axis.imshow(layer, vmin=0, vmax=5, extent=(west, east, south, north))
    axis.set_title(title)
axes[0, 1].plot(island.x, island.y, ".", ms=2, color="white")
fig.colorbar(picture, ax=axes, label="density, 1 = average cell", shrink=0.7, extend="max")

# %%
# **How to read this.** The bright lines of the upper right map are roads, and the records (white
# dots) sit along them. The naive map repeats that pattern: it is brightest where the species
# *and* the roads are. The corrected map looks like the truth.
#
# Numbers confirm it. *Pearson* is the correlation with the true density over all cells. *AUC* is
# that of an endless number of unbiased records: each cell counts as a presence in proportion to
# the truth.

for name, density in {"naive": naive, "corrected": corrected}.items():
    pearson = agreement(density, island.truth[land])["pearson"]
    auc = evaluation.auc(density, density, presence_weights=island.truth[land])
    print(f"{name:>9}: Pearson {pearson:.3f}, AUC against the truth {auc:.3f}")
