"""A species distribution in Python, in one call."""

import tempfile

from maxent import species
from maxent.datasets import virtual_landscape, write_landscape


def main(folder: str) -> None:
    """Files in, a result and a map out."""
    write_landscape(virtual_landscape(height=30, width=40, n_occurrences=60, seed=1), folder)
    result = species.fit(
        f"{folder}/occurrences.csv", f"{folder}/layers", categorical=["biome"], features="lq"
    )
    print(result)  # records, background points, AUC and gain in one line
    print(result.evaluation.scores["auc"], result.notes)
    with species.Layers.open(f"{folder}/future", categorical=["biome"]) as layers:
        maps = species.project_xarray(result.model, layers)
    print(maps["cloglog"].shape)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
