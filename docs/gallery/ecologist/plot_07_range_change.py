"""
From suitability to range, and how the range changes
====================================================

A range map needs a threshold: how suitable must a cell be to count as occupied? Several rules are
in use. They give ranges of different size, and so a different loss under a warmer climate.
"""

# %%
# A virtual island, today and 2.5 degrees warmer, and 150 records drawn without bias. The maps are
# written as GeoTIFFs, and the three rules are names from the table of thresholds of the fit.
# ``species.compare_maps`` is what the command ``maxent change`` calls.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import rasterio
from matplotlib.colors import ListedColormap

from maxent import species
from maxent.datasets import virtual_landscape, write_landscape

island = virtual_landscape(height=80, width=100)
chance = np.nan_to_num(island.truth).ravel()
x, y = island.grid.centres(np.random.default_rng(0).choice(chance.size, size=150, p=chance))
records = {"species": ["Arbor fictus"] * len(x), "x": x, "y": y}
rules = {
    "minimum": "Minimum training presence",
    "10 percentile": "10 percentile training presence",
    "max sum": "Maximum training sensitivity plus specificity",
}
quick = species.Settings(
    features="lq", cv="none", jackknife=False, bootstrap=0, permutations=0, verbose=0
)

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    files = write_landscape(island, folder)
    result = species.fit(records, files["layers"], quick, categorical=["biome"])
    for when in ("layers", "future"):
        with species.Layers.open(files[when], categorical=["biome"]) as layers:
            species.project(result.model, layers, folder / f"{when}.tif", extras=(), verbose=0)
    table = {row["name"]: row for row in result.evaluation.thresholds}
    maps = {"warmer": folder / "future.tif"}
    changes, classes = {}, {}
    for rule, full_name in rules.items():
        threshold = table[full_name]["value"]
        compared = species.compare_maps(folder / "layers.tif", maps, threshold, folder, verbose=0)
        changes[rule] = compared.changes[0]
        with rasterio.open(folder / "change_warmer.tif") as file:
            classes[rule] = file.read(1, masked=True)

# %%
# Each rule is a point on two curves: the share of the records that fall outside the range
# (*omission*), and the share of the island that falls inside (*area*).

fig, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
curve = result.evaluation.omission
axis.plot(curve["threshold"], curve["training_omission"], color="C1", label="omission of records")
axis.plot(curve["threshold"], curve["area"], color="C0", label="area of the range")
for (rule, full_name), style in zip(rules.items(), ("-", "--", ":"), strict=True):
    axis.axvline(table[full_name]["value"], color="black", ls=style, label=rule)
axis.set(title="What a threshold does", xlabel="threshold (cloglog)", ylabel="share")
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))

# %%
# **How to read this.** Move to the right and the range shrinks (blue) while more records are left
# out (orange). *Minimum* keeps every record. *10 percentile* gives up the lowest tenth of them,
# which may be errors or strays. *Max sum* takes the point where omission plus area is least.

fig, axes = plt.subplots(1, 3, figsize=(8.5, 2.7), layout="constrained")
colours = ListedColormap(["#e5e5e5", "#d55e00", "#999999", "#0072b2"])
for axis, rule in zip(axes, rules, strict=True):
    picture = axis.imshow(classes[rule], cmap=colours, vmin=-0.5, vmax=3.5, interpolation="nearest")
    axis.set(title=rule, xticks=[], yticks=[])
bar = fig.colorbar(picture, ax=axes, shrink=0.9)
bar.set_ticks(range(4), labels=["never", "lost", "kept", "gained"])

# %%
# **How to read this.** Orange cells are lost, grey cells stay within the range, blue cells would
# be gained. The climate and the model are the same in all three maps. Only the rule differs, and
# with it the share of the range that is lost. So report the rule with the number, and better
# still, report several. Areas are in km2 on the ground, because cells in degrees get smaller
# towards the poles.

for rule, change in changes.items():
    km2 = change.ranges()
    print(
        f"{rule:>13}: now {km2['present']:8,.0f} km2, future {km2['future']:8,.0f} km2, "
        f"lost {km2['lost']:7,.0f}, gained {km2['gained']:7,.0f}, change {change.change:+.0%}"
    )
# sphinx_gallery_thumbnail_number = 2
