"""
Raw, cloglog, logistic, cumulative, and the duality gap
=======================================================

A fitted density can be shown in several units. All of them rank places alike, but they do not
mean the same. And a fit comes with a number, the duality gap, that says how far it can be from
the exact answer.
"""

# %%
# A virtual species on an island.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import maxent as mx
from maxent.datasets import virtual_landscape

island = virtual_landscape(height=80, width=100)
land = island.land
X = pd.DataFrame({name: layer[land] for name, layer in island.layers.items()})
cells = island.grid.cells_at(island.x, island.y)
presence = np.bincount(cells, minlength=land.size)[land.ravel()] > 0
model = mx.MaxentDensity("lqhc", categorical=["biome"]).fit(X, presence)

fig, axes = plt.subplots(2, 2, figsize=(7.5, 5.6), layout="constrained")
for axis, output in zip(axes.flat, ["raw", "cloglog", "logistic", "cumulative"], strict=True):
    layer = np.full(land.shape, np.nan)
    layer[land] = model.predict(X, output)
    picture = axis.imshow(layer)
    axis.set(title=output, xticks=[], yticks=[])
    fig.colorbar(picture, ax=axis, shrink=0.85)

# %%
# **How to read this.** One model, four units.
#
# - *Raw* is the density itself. It adds up to 1 over the cells of the fit, so its values shrink
#   as the map gets finer.
# - *Cloglog* is :math:`1 - \exp(-e^H \, \mathrm{raw})`, with :math:`H` the entropy of the
#   density. It lies between 0 and 1. It is a probability of presence only if typical places with
#   the species have about one individual per cell, so read it as an index of suitability.
# - *Logistic* is the older index from 0 to 1. It assumes a prevalence, 0.5 unless you say
#   otherwise.
# - *Cumulative* is the percentage of the density on cells that are no better than this one. A
#   threshold of 5 omits about 5 % of new records, if the model is right.

raw = model.predict(X)
print(f"sum of raw: {raw.sum():.6f}")
for output in ("cloglog", "logistic", "cumulative"):
    values = model.predict(X, output)
    same = (np.diff(values[np.argsort(raw)]) >= -1e-12).all()
    print(f"{output:>10}: {values.min():.3f} to {values.max():.3f}, ranked as raw: {same}")

# %%
# What the gap tells
# ------------------
#
# The fit is a convex problem: it has one best density :math:`p^*`. A solver stops near it. The
# duality gap bounds how near, without knowing :math:`p^*`: the objective is within the gap of its
# optimum, and the share of the density that lies in the wrong cells is at most
# :math:`\sqrt{\mathrm{gap} / 2}`. Here are fits that were stopped early on purpose, compared with
# one that went on to the end.

exact = mx.MaxentDensity("lqhc", categorical=["biome"], tol=1e-10).fit(X, presence).predict(X)
rows = []
for tolerance in 10.0 ** -np.arange(0, 7):
    early = mx.MaxentDensity("lqhc", categorical=["biome"], tol=tolerance).fit(X, presence)
    misplaced = np.abs(early.predict(X) - exact).sum() / 2
    rows.append((early.gap_, early.guarantees_["l1"] / 2, misplaced))
gap, promised, misplaced = np.unique(rows, axis=0).T

fig, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.loglog(gap, promised, "k--", label="at most, by the gap")
axis.loglog(gap, misplaced, "o-", label="measured")
axis.axvline(model.tol, color="C1", label="default tolerance")
axis.invert_xaxis()
axis.set(
    title="Error of a fit that stops early",
    xlabel="duality gap when the solver stops",
    ylabel="share of density\nin the wrong cells",
)
axis.legend()

# %%
# **How to read this.** The solver goes from left to right: the gap shrinks. The measured error
# (blue) always lies below what the gap promises (dashed). The promise needs no knowledge of the
# exact answer, so it is there for every fit. At the default tolerance (orange) the error is far
# below anything that a map can show, so two people who fit the same data get the same map.

most = model.guarantees_["l1"] / 2
print(f"gap of the model above: {model.gap_:.1e}, so at most {most:.1e} of it is misplaced")
