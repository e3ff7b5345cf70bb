"""A species distribution in Python, step by step, without the command line."""

import tempfile

from maxent import species
from maxent.datasets import virtual_landscape, write_landscape


def main(folder: str) -> None:
    """Records and rasters in, a fitted model and an xarray map out."""
    write_landscape(virtual_landscape(height=60, width=80, seed=1), folder)
    with species.Layers.open(f"{folder}/layers", categorical=["biome"]) as layers:
        everything = species.read_occurrences(f"{folder}/occurrences.csv")
        records, notes = species.located(everything, layers.grid)  # in the CRS of the layers
        settings = species.Settings(background=2000, features="lqc", bootstrap=0, verbose=0)
        region = species.survey(layers, records, settings)  # background and cells with records
        ready = species.prepare(region, records, settings)  # cleaned, on the grid
        result, _ = species.fit_species(ready, settings, categorical=layers.categorical)
        maps = species.project_xarray(result.model, layers)  # an xarray Dataset with its CRS
    print(notes, result.model.summary())
    print(result.evaluation.scores["auc"], maps["cloglog"].shape)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
