"""
A future projection, and where not to trust it
==============================================

A model can be applied to another climate. Where that climate is unlike anything the model was
fitted to, the map is a guess. MESS, ExDet and a comparison with and without clamping show where.

With files this is ``maxent fit occurrences.csv layers --project future -o out``, which writes the
same maps; ``--mask mess`` leaves out cells that are unlike those of the fit.
"""

# %%
# A virtual island, surveyed only in its cool south. The species likes 17 degrees and needs rain.
# The future is 2.5 degrees warmer everywhere, with a tenth less rain, and we want a map of all of
# the island.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

import maxent as mx
from maxent import species
from maxent.datasets import virtual_landscape

island = virtual_landscape(height=80, width=100)
land = island.land
names = ["temperature", "precipitation", "elevation"]
now, future = (
    pd.DataFrame({name: layers[name][land] for name in names})
    for layers in (island.layers, island.future())
)


def niche(climate):
    """The true suitability, 0 to 1."""
    warmth = np.exp(-0.5 * ((climate["temperature"] - 17) / 1.8) ** 2)
    return warmth / (1 + np.exp((700 - climate["precipitation"]) / 120))


_, latitude = island.grid.centres(np.flatnonzero(land))
surveyed = now[latitude < -31]
chance = niche(surveyed) / niche(surveyed).sum()
presence = np.random.default_rng(0).multinomial(150, chance) > 0
model = mx.MaxentDensity("lq").fit(surveyed, presence)

# %%
# *Clamping* treats a value beyond the range of the fit as if it were at the edge of that range.
# :class:`maxent.species.Reference` gives MESS, which is negative where a variable is outside its
# range. :class:`maxent.species.Extrapolation` gives ExDet: negative for the same reason, and
# above 1 where each variable is within its range but their combination is new.

clamped = model.predict(future, "cloglog")
unclamped = model.predict(future, "cloglog", clamp=False)
mess, _ = species.Reference.from_table(surveyed).similarity(future)
exdet = species.Extrapolation.from_table(surveyed).novelty(future)
kind = np.select([exdet < 0, exdet > 1], [2, 1], 0)
kinds = ["like the survey", "new combination", "outside a range"]

fig, axes = plt.subplots(2, 3, figsize=(8, 5), layout="constrained")
three = ListedColormap(["#cccccc", "#56b4e9", "#d55e00"])
panels = [
    ("true future suitability", niche(future), "viridis", 0, 1),
    ("predicted, clamped", clamped, "viridis", 0, 1),
    ("predicted, not clamped", unclamped, "viridis", 0, 1),
    ("predicted minus true", clamped - niche(future), "PuOr", -1, 1),
    ("MESS", mess, "RdBu", -60, 60),
    ("ExDet", kind, three, -0.5, 2.5),
]
for axis, (title, values, colours, low, high) in zip(axes.flat, panels, strict=True):
    layer = np.full(land.shape, np.nan)
    layer[land] = values
    picture = axis.imshow(layer, cmap=colours, vmin=low, vmax=high)
    axis.set(title=title, xticks=[], yticks=[])
    bar = fig.colorbar(picture, ax=axis, location="bottom", shrink=0.9)
bar.set_ticks(range(3), labels=["like it", "new mix", "outside"])

# %%
# **How to read this.** The upper row is the future: what is true, and what the model says. In the
# south the two agree well. In the hot north and east they do not. The survey saw hardly any place
# that is too warm for the species. Clamping holds suitability at its value at the edge, and
# without clamping the curve goes on rising. Both are guesses.
#
# The lower row shows that the diagnostics knew. The error (lower left, purple where the
# prediction is too high) sits where MESS is negative (red), and where ExDet says that a variable
# is outside its range (orange). Blue cells have a new combination, such as more warmth than usual
# at their elevation.

for number, name in enumerate(kinds):
    cells = kind == number
    error = np.abs(clamped - niche(future))[cells].mean()
    print(f"{name:>16}: {cells.mean():4.0%} of the island, mean error {error:.2f}")

# %%
# A new combination is a warning, not a proof: the model may still be right there, as it is here.
