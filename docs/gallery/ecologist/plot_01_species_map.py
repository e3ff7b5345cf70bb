"""
A species map from records and rasters
======================================

Occurrence records and environmental rasters go in. A suitability map comes out.

The data are made up: an island with six layers and a species whose true range is known. They are
written to a folder as a CSV file and GeoTIFFs, so the code below is what you would write for your
own files.
"""

# %%
# :func:`maxent.species.fit` reads the records, puts them on the grid, draws the background and
# fits the model. The settings after ``features`` switch off diagnostics that need many
# refits. :func:`maxent.species.project_xarray` then draws the map as an xarray dataset.

import tempfile

import matplotlib.pyplot as plt

from maxent import species
from maxent.datasets import virtual_landscape, write_landscape

quick = species.Settings(features="lqh", jackknife=False, bootstrap=0, permutations=0, verbose=0)
with tempfile.TemporaryDirectory() as folder:
    files = write_landscape(virtual_landscape(height=80, width=100), folder)
    result = species.fit(files["occurrences"], files["layers"], quick, categorical=["biome"])
    with species.Layers.open(files["layers"], categorical=["biome"]) as layers:
        maps = species.project_xarray(result.model, layers, verbose=0)

fig, axis = plt.subplots(figsize=(7, 4.6), layout="constrained")
maps["cloglog"].plot.imshow(ax=axis, vmin=0, vmax=1, cbar_kwargs={"label": "suitability (cloglog)"})
axis.plot(result.records["x"], result.records["y"], "o", ms=3, color="white", mec="black", mew=0.5)
axis.set(title="Arbor fictus: suitability and records", xlabel="longitude", ylabel="latitude")

# %%
# **How to read this.** Yellow cells are suitable, dark cells are not, white areas are sea. Each
# dot is a record that the fit used: one per cell, because several records in a cell count once by
# default. Good maps put most dots on bright cells. A bright area without dots is a prediction:
# the climate suits the species, but nobody has recorded it there.
#
# The result holds the scores and a log of what happened to the records. AUC is the chance that a
# record scores higher than a random cell. The last lines hold out one block of the map at a time,
# which is a harder and fairer test than the records that the model was fitted to.

print(result)
for step in result.cleaning:
    print(f"{step.what}: {step.records}")
for fold in result.replicates[0].table:
    print(f"{fold['name']}: AUC of {fold['n_test']:.0f} held-out records {fold['test_auc']:.3f}")
