"""
Response curves, and why a place is suitable
============================================

Two questions that readers of a map ask. How does the species respond to each variable? And why is
this place suitable, and that one not?
"""

# %%
# A virtual species on an island. It has its optimum at 17 degrees, needs rain, and is indifferent
# to seasonality and to the distance from the coast.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

import maxent as mx
from maxent import species
from maxent.datasets import virtual_landscape

island = virtual_landscape(height=60, width=75)
land = island.land
names = ["temperature", "precipitation", "seasonality", "coast_distance"]
X = pd.DataFrame({name: island.layers[name][land] for name in names})
presence = np.random.default_rng(0).multinomial(200, island.truth[land]) > 0
recipe = mx.Recipe("lqh")
density = recipe.task(X, presence).fit().density

# %%
# :func:`maxent.species.responses` moves one variable at a time and holds the others at their mean
# over the records. The band holds 90 % of the curves of refits to resampled records.

sample = species.Sample(X, presence.astype(float))
curves = species.responses(recipe, density, sample, bootstrap=10, verbose=0)
units = dict(zip(names, ["°C", "mm", "index", "km"], strict=True))

fig, axes = plt.subplots(1, 4, figsize=(9, 2.8), layout="constrained", sharey=True)
for axis, curve in zip(axes, curves[: len(names)], strict=True):
    axis.fill_between(curve.x, curve.low, curve.high, alpha=0.3)
    axis.plot(curve.x, curve.y)
    axis.set(title=curve.variable.replace("_", " "), xlabel=units[curve.variable], ylim=(0, 1))
axes[0].set_ylabel("suitability (cloglog)")

# %%
# **How to read this.** The curve is the model, and the band shows how much it depends on the
# records at hand. Temperature has a peak near the true optimum. Suitability rises steeply with
# rain until it is wet enough. After that the true curve stays level. The model falls, but the wide
# band says that this part rests on few records. Seasonality and distance from the coast are nearly
# flat over most of their range: the model has found out that they hardly matter.

# %%
# :meth:`maxent.FittedDensity.explain` splits the score of every cell among the variables. A share
# is a Shapley value: what the value of a variable adds to the score, compared with its mean over
# the island. Shares add up exactly, and :math:`e^{\mathrm{share}}` is a factor of the density.

told = density.explain(X)
places = {
    "best cell": int(density.predict(X).argmax()),
    "hottest cell": int(X["temperature"].argmax()),
    "driest cell": int(X["precipitation"].argmin()),
}

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
limiting = np.full(land.shape, np.nan)
limiting[land] = np.where(told.shares.min(axis=1) < -0.5, told.shares.argmin(axis=1), 4)
colours = ListedColormap(["#d55e00", "#56b4e9", "#f0e442", "#009e73", "#dddddd"])
picture = left.imshow(limiting, cmap=colours, vmin=-0.5, vmax=4.5, interpolation="nearest")
left.set(title="what lowers suitability most", xticks=[], yticks=[])
labels = [name.replace("_", " ") for name in names]
fig.colorbar(picture, ax=left, shrink=0.8).set_ticks(range(5), labels=[*labels, "none much"])
rows, columns = np.nonzero(land)
for number, (place, cell) in enumerate(places.items()):
    shade = ["black", "#777777", "#bbbbbb"][number]
    left.plot(columns[cell], rows[cell], "os^"[number], ms=9, color=shade, mec="white")
    at = np.arange(4) + 0.27 * (number - 1)
    right.barh(at, told.shares[cell], 0.25, color=shade, label=place)
right.axvline(0, color="black", lw=0.8)
right.set_yticks(range(4), labels)
right.invert_yaxis()
right.set(title="shares of the score", xlabel="share (nats)")
right.legend()

# %%
# **How to read this.** Colours on the map name the variable that lowers the score most. In grey
# areas none of them lowers it by more than half a nat. The mountains are too cold and the north
# is too hot (orange); the land behind the mountains is too dry (blue). The bars show three cells,
# which are the circle (best), square (hottest) and triangle (driest) on the map. A bar of -3
# means that the value of this variable makes the cell :math:`e^3`, about 20, times less suitable.
#
# The sum of the first number, which is the score of the mean place, and the shares is the score
# of the cell:

for place, cell in places.items():
    parts = " ".join(f"{share:+.2f}" for share in told.shares[cell])
    print(f"{place:>12}: {told.base:.2f} {parts} = {told.exponent[cell]:.2f}")
# sphinx_gallery_thumbnail_number = 2
