"""
Presences, a survey and counts in one fit
=========================================

Presences know where there are more of a species, and not how many. A survey with absences and
counts say how many, and are few. One fit uses all of them. Here the truth is known, so that one can
see what each is worth.
"""

# %%
# An island with a virtual species: 250 presences from near the roads, 300 visits to plots of 5 to
# 20 hectares, and 60 transects on which individuals were counted. On average there are 2
# individuals in a square kilometre.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import maxent as mx
from maxent.datasets import virtual_landscape, virtual_visits

island = virtual_landscape(height=100, width=130)
visits = virtual_visits(island, n_survey=300, n_counts=60, per_km2=2.0, seed=0)
land = pd.DataFrame({name: layer[island.land] for name, layer in island.layers.items()})
truth = visits.intensity[island.land]


def at(x, y):
    """The layers at some places."""
    cells = island.grid.cells_at(np.asarray(x), np.asarray(y))
    return land.iloc[np.searchsorted(np.flatnonzero(island.land), cells)].reset_index(drop=True)


# %%
# Each kind is a :class:`maxent.Source`. The presences are compared with the places of other
# records, which say where people went. All areas are in km². ``maxent fit occurrences.csv layers/
# --survey sites.csv --counts transects.csv`` does the same from files.

group = at(island.group_x, island.group_y)
here = at(island.x, island.y)
presences = mx.Source(
    "presences",
    pd.concat([here, group], ignore_index=True),
    np.arange(len(here) + len(group)) < len(here),
)
survey, counts = visits.survey, visits.counts
plots = mx.Source(
    "survey",
    at(survey["x"], survey["y"]),
    survey["presence"],
    area=survey["area"] / 100,
)
transects = mx.Source("counts", at(counts["x"], counts["y"]), counts["count"], area=counts["area"])


def fitted(*sources):
    """One intensity of some of the sources."""
    return mx.IntegratedDensity(categorical=["biome"]).fit(list(sources))


ways = {
    "presences": fitted(presences),
    "survey": fitted(plots),
    "counts": fitted(transects),
    "all three": fitted(presences, plots, transects),
}
print(ways["all three"].summary())

# %%
# Which is closest to the truth? Correlation is of shape. The mean says how many there are;
# presences alone cannot know.

rows = {
    name: {
        "correlation": np.corrcoef(model.predict(land), truth)[0, 1],
        "mean per km2": model.predict(land).mean() if model.is_absolute_ else np.nan,
    }
    for name, model in ways.items()
}
table = pd.DataFrame(rows).T
print(table.round(2).to_string())
print(f"in truth {truth.mean():.2f} per km2")

# %%
# Maps in one scale, that of the truth; the one of presences is relative, and scaled to its mean.

fig, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
shown = {"truth": truth} | {name: model.predict(land) for name, model in ways.items()}
shown["presences"] = shown["presences"] / shown["presences"].mean() * truth.mean()
top = np.quantile(truth, 0.99)
for axis, (name, values) in zip(axes, shown.items(), strict=True):
    picture = np.full(island.land.shape, np.nan)
    picture[island.land] = values
    image = axis.imshow(picture, vmin=0, vmax=top)
    axis.set(title=name, xticks=[], yticks=[])
fig.colorbar(image, ax=axes, shrink=0.8, label="per km²")
plt.show()

# %%
# Do the sources tell the same story? The test compares the fit of all with a fit of each. Records
# of another thing, here a survey in which presence and absence were exchanged, are found out:

print(ways["all three"].agreement([presences, plots, transects]))
wrong = mx.Source("survey", plots.X, 1 - plots.y, area=plots.area, name="exchanged")
print()
print(mx.IntegratedDensity(categorical=["biome"]).agreement([presences, wrong, transects]))

# %%
# **How to read this.** The survey and the counts know the scale, but their few finds make a rough
# map of the shape. The presences know the shape, and not the scale. Together they have both, and a
# map that is a little closer to the truth than any of them. The p-value of the agreement is large
# where the sources tell the same story, and next to 0 where one of them tells another;
# ``maxent fit`` then maps where each says more or less than all together.
