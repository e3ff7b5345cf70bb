"""
Many species at once
====================

One table of records, several species, one set of layers. The layers are read once for all of
them.
"""

# %%
# Six virtual species on one island. Each has its own best temperature and its own best rainfall.

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from maxent import evaluation, species
from maxent.datasets import virtual_landscape, write_landscape

island = virtual_landscape(height=60, width=75)
heat, rain = island.layers["temperature"], np.log(island.layers["precipitation"])
best = {
    "Fern of the peaks": (9, 7.0),
    "Moss of the slopes": (13, 7.3),
    "Oak of the hills": (15, 6.5),
    "Lily of the lowlands": (18, 7.0),
    "Vine of the north": (20, 6.8),
    "Thorn of the west": (19, 6.0),
}
rng = np.random.default_rng(0)
truth, tables = {}, []
for number, (name, (warm, wet)) in enumerate(best.items()):
    niche = np.exp(-(((heat - warm) / 2) ** 2) - ((rain - wet) / 0.4) ** 2)
    truth[name] = np.nan_to_num(niche / np.nansum(niche))
    cells = rng.choice(niche.size, size=40 + 20 * number, p=truth[name].ravel())
    x, y = island.grid.centres(cells)
    tables.append(pd.DataFrame({"species": name, "x": x, "y": y}))
records = species.Occurrences.from_frame(pd.concat(tables))

# %%
# :func:`maxent.species.survey` reads the layers. Then each species is cleaned
# (:func:`maxent.species.prepare`), fitted and judged (:func:`maxent.species.fit_species`), and
# drawn.

settings = species.Settings(features="lq", jackknife=False, bootstrap=0, permutations=0, verbose=0)
climate = ["temperature", "precipitation", "seasonality"]
results, maps = {}, {}
with tempfile.TemporaryDirectory() as folder:
    files = write_landscape(island, folder)
    with species.Layers.open(files["layers"], only=climate) as layers:
        region = species.survey(layers, records, settings)
        for name in records.names():
            ready = species.prepare(region, records.of_species(name), settings)
            results[name], _ = species.fit_species(ready, settings)
            maps[name] = species.project_xarray(results[name].model, layers, verbose=0)["cloglog"]

fig, axes = plt.subplots(2, 3, figsize=(8, 4.8), layout="constrained")
for axis, (name, layer) in zip(axes.flat, maps.items(), strict=True):
    picture = axis.imshow(layer, vmin=0, vmax=1)
    axis.set(title=name, xticks=[], yticks=[])
fig.colorbar(picture, ax=axes, label="suitability (cloglog)", shrink=0.7)

# %%
# **How to read this.** All maps share one colour scale. The ranges follow the niches: the fern
# keeps to the mountains, the thorn to the dry north-west, and the lily grows in most of the
# lowlands.
#
# The table has three AUCs for each species. *Training* is of the records of the fit. *Blocks* is
# the mean over four blocks of the map, each held out in turn. *Truth* is what endless new records
# would give, which only a virtual species can tell. Note that the fern beats the lily in every
# column. That does not make its model better. A species of few places is easier to tell from the
# background, so do not compare AUC between species.

rows = []
for name, result in results.items():
    density, true = maps[name].values[island.land], truth[name][island.land]
    rows.append(
        {
            "species": name,
            "records": int(result.model.n_presences),
            "training": result.evaluation.scores["auc"],
            "blocks": np.mean([fold["test_auc"] for fold in result.replicates[0].table]),
            "truth": evaluation.auc(density, density, presence_weights=true),
        }
    )
table = pd.DataFrame(rows).set_index("species")
print(table.round(3).to_string())
