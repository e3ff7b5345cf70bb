"""
Species fitted together
=======================

Most species of a checklist have few records. Fitted together with others that respond alike, they
are known better than from their own records. Here the truth is known, so that one can see how much.
"""

# %%
# An island with 36 virtual species in 6 families. Species of a family respond alike to climate,
# though not in the same way: 85 % of the variance of their log niche is that of the family. Each
# family has species of 120 records and of 4. All records come from near the roads.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.cluster import hierarchy

import maxent as mx
from maxent.datasets import virtual_community, virtual_landscape

island = virtual_landscape(height=60, width=75)
numbers = (120, 60, 30, 15, 8, 4)
community = virtual_community(island, numbers, families=6)
land = pd.DataFrame({name: layer[island.land] for name, layer in island.layers.items()})

# %%
# The places of a joint fit are the cells where any of the species was recorded, so that all of
# them are compared under the same effort (a target group). ``seen`` has a row for each place and a
# column for each species. :class:`maxent.MultiDensity` fits all of them as one convex problem;
# with ``own=0.25`` a quarter of every log density is that of the species' own model, as
# ``maxent fit many.csv layers/ --joint`` does it from files.

cell_of_land = np.flatnonzero(island.land)
cell = island.grid.cells_at(community.x, community.y)
places = np.unique(cell)
seen = np.zeros((len(places), len(community.species)), dtype=int)
for column, name in enumerate(community.species):
    seen[np.searchsorted(places, cell[community.name == name]), column] = 1
X = land.iloc[np.searchsorted(cell_of_land, places)].reset_index(drop=True)

model = mx.MultiDensity(own=0.25, categorical=["biome"])
joint = model.fit(X, seen, community.species).joint_
print(joint.summary())

# %%
# Three ways to make a map of a species, each compared with the truth by the rank correlation over
# all cells of land: its own model with a random background, as most people would fit it; its own
# model with the places of all species as background; and the joint one.

rng = np.random.default_rng(0)
background = land.iloc[rng.choice(len(land), 1500, replace=False)]


def agreement(density, species):
    """Rank correlation with the truth over all cells of land."""
    truth = community.truth[species][island.land]
    return pd.Series(truth).corr(pd.Series(density.predict(land, "log")), method="spearman")


rows = []
for species, name in enumerate(community.species):
    records = X[seen[:, species] > 0]
    table = pd.concat([background, records], ignore_index=True)
    here = np.arange(len(table)) >= len(background)
    plain = mx.MaxentDensity(categorical=["biome"], verbose=0).fit(table, here).density_
    rows.append(
        {
            "records drawn": numbers[species % len(numbers)],
            "own, random background": agreement(plain, species),
            "own, target group": agreement(joint.own[species], species),
            "joint": agreement(joint.density(name), species),
        }
    )
scores = pd.DataFrame(rows)
by_number = scores.groupby("records drawn").mean()
print(by_number.round(2).to_string())

# %%
# The gain by number of records, and the tree of the species by how alike their fitted weights are.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.6), layout="constrained")
for way, colour in zip(by_number, ("#9aa5a0", "#2a6fb0", "#d4790e"), strict=True):
    left.plot(by_number.index, by_number[way], "o-", color=colour, label=way)
    left.plot(scores["records drawn"], scores[way], ".", color=colour, alpha=0.3, markersize=4)
left.set_xscale("log")
left.set_xticks(numbers, [str(n) for n in numbers])
left.minorticks_off()
left.set(xlabel="records of the species", ylabel="rank correlation with the truth")
left.legend(loc="lower right", frameon=False)
families = dict(zip(sorted(set(community.family)), plt.cm.Dark2.colors, strict=False))
tree = hierarchy.dendrogram(
    joint.linkage(),
    labels=list(community.species),
    orientation="left",
    ax=right,
    color_threshold=0,
    above_threshold_color="#9aa5a0",
    leaf_font_size=7,
)
family = dict(zip(community.species, community.family, strict=True))
for label in right.get_yticklabels():
    label.set_color(families[family[label.get_text()]])
right.set(xlabel="1 - correlation of weights")
plt.show()

# %%
# **How to read this.** Left: lines are means over the six families, small points single species.
# The joint model is above the species' own at every number of records. At 120 records there is
# little left to borrow; at 8 records it gains most. At 4 records all three are poor: so few do
# not tell whom a species is like. Right: names have the colour of their family, of which nobody
# told the model. Most species stand beside some of their own; but the tree is one of responses, not
# of descent. Herbs and palms share a branch, as the true niches of the two families are alike, and
# the ferns (Filix) are scattered, as theirs are less alike than those of other families:

log_truth = np.corrcoef(np.log(community.truth[:, island.land]))
owner = np.array(community.family)
alike = pd.DataFrame(
    {
        one: [log_truth[np.ix_(owner == one, owner == other)].mean() for other in families]
        for one in families
    },
    index=list(families),
)
print(alike.round(2).to_string())

# %%
# Three maps of one species with 8 records, beside the truth.

one = int(scores[scores["records drawn"] == 8]["joint"].idxmax())
name = community.species[one]
ways = {
    "truth": community.truth[one][island.land],
    "own, target group": joint.own[one].predict(land),
    "joint": joint.density(name).predict(land),
}
fig, axes = plt.subplots(1, 3, figsize=(8, 2.6), layout="constrained")
for axis, (way, values) in zip(axes, ways.items(), strict=True):
    picture = np.full(island.land.shape, np.nan)
    picture[island.land] = pd.Series(values).rank(pct=True)
    axis.imshow(picture)
    axis.set(title=way, xticks=[], yticks=[])
rows, columns = np.divmod(cell[community.name == name], island.land.shape[1])
axes[0].plot(columns, rows, "o", color="white", markeredgecolor="black", markersize=4)
fig.suptitle(name, style="italic", fontsize=10)
plt.show()

# %%
# **How to read this.** Colours are ranks of the cells, yellow for the most suitable; dots are the
# eight records. This is the species of 8 records that the joint model knows best, chosen to show
# what borrowing can do; the left figure above has all of them.
