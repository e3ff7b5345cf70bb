"""
Choosing settings by spatial blocks
===================================

How strongly should a model be regularized? Cross-validation decides by the records that it holds
out. With random folds a held-out record often has a neighbour in the training set, so memory
passes for skill. Spatial blocks hold out a whole part of the map.
"""

# %%
# Eighty records of a virtual species on an island, most of them near roads.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import maxent as mx
from maxent.datasets import virtual_landscape
from maxent.evaluation import PresenceKFold, SpatialBlocks

island = virtual_landscape(height=80, width=100, n_occurrences=80)
land = island.land
X = pd.DataFrame({name: layer[land] for name, layer in island.layers.items()})
cells = island.grid.cells_at(island.x, island.y)
presence = np.bincount(cells, minlength=land.size)[land.ravel()] > 0
places = np.column_stack(island.grid.centres(np.flatnonzero(land)))

# %%
# :class:`maxent.MaxentDensityCV` fits every multiplier of the regularization on every training
# set. The score is the mean log density at the held-out records. Adding the log of the number of
# cells makes it a *gain*: 0 is what an even map scores.

multipliers = [0.5, 1, 2, 4]
splitters = {"random folds": PresenceKFold(4), "spatial blocks": SpatialBlocks(places, 4)}
searches = {
    name: mx.MaxentDensityCV(
        ["lqhc"], multipliers=multipliers, cv=splitter, categorical=["biome"], tol=1e-3
    ).fit(X, presence)
    for name, splitter in splitters.items()
}

# %%
# The truth is known here, so we can also score each multiplier as endless unbiased records would.

path = mx.MaxentDensity("lqhc", categorical=["biome"]).path(X, presence, multipliers=multipliers)
truth = {m.multiplier: island.truth[land] @ m.predict(X, "log") + np.log(len(X)) for m in path}

fig, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
fold = np.full(land.shape, np.nan)
fold[land] = splitters["spatial blocks"].folds(presence)
west, south, east, north = island.grid.bounds
left.imshow(fold, extent=(west, east, south, north), cmap="Set2", vmin=0, vmax=7)
left.plot(island.x, island.y, "k.", ms=4)
left.set(title="four spatial blocks", xlabel="longitude", ylabel="latitude")
colours = {"random folds": "C1", "spatial blocks": "C0"}
for name, search in searches.items():
    table = search.cv_results_
    gains = np.array(table["mean_score"]) + np.log(len(X))
    right.plot(table["multiplier"], gains, "o-", color=colours[name], label=name)
    best = np.argmax(gains)
    right.plot(table["multiplier"][best], gains[best], "*", ms=15, color=colours[name])
right.plot(list(truth), list(truth.values()), "s--", color="black", label="truth")
right.set_xscale("log", base=2)
right.set_xticks(multipliers, [f"{m:g}" for m in multipliers])
right.set(title="gain at new records", xlabel="multiplier", ylabel="gain (nats per record)")
right.legend()

# %%
# **How to read this.** Colours on the left are the blocks, dots the records. On the right, a star
# marks the multiplier that each kind of cross-validation chooses. Random folds favour weak
# regularization (to the left): the fine detail along the roads helps to find more records along
# the same roads. Blocks see that this detail does not carry over to another part of the island.
# The dashed line shows how the models really do on the whole island.

for name, search in searches.items():
    chosen = search.best_params_["multiplier"]
    held_out = search.best_score_ + np.log(len(X))
    print(
        f"{name:>14}: multiplier {chosen:g}, gain promised {held_out:.2f}, true {truth[chosen]:.2f}"
    )

# %%
# This is one island with one set of records. On others the two may choose the same multiplier,
# and even blocks promise too much here, because held-out records are as close to roads as the
# rest. Blocks guard against memory, not against sampling bias; the example on the target-group
# background does that.
