"""The `maxent` command on real rasters: seconds from files to report, and the map's exactness.

South America (648,658 cells x 14 layers, written as GeoTIFFs here): `maxent fit` in a process of
its own for Bradypus variegatus, with 10,000 background cells and with every cell. bradypus_rasters:
the map under preset "maxnet" beside the density estimator's own prediction at every cell.

python -m experiments.species_command [--data DIR]
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import maxent as mx
from experiments.south_america import DATA, main

SPECIES = "bradypus_variegatus"
LIMITS = {"10000": 30.0, "all": 120.0}
RUNS = 3


def write_south_america(data: Path, folder: Path) -> Path:
    """The 14 layers as GeoTIFFs, and the records of one species; returns the records."""
    import rasterio

    stored = np.load(data / "south_america" / "coverages.npz")
    size = float(stored["grid_size"])
    _, height, width = stored["layers"].shape
    north = float(stored["y_left_lower_corner"]) + size * height
    transform = rasterio.Affine(size, 0, float(stored["x_left_lower_corner"]), 0, -size, north)
    (folder / "layers").mkdir(parents=True)
    for name, layer in zip(stored["names"].astype(str), stored["layers"], strict=True):
        with rasterio.open(
            folder / "layers" / f"{name}.tif",
            "w",
            driver="GTiff",
            width=width,
            height=height,
            count=1,
            dtype=layer.dtype,
            crs="EPSG:4326",
            transform=transform,
            nodata=int(stored["nodata"]),
            compress="deflate",
        ) as file:
            file.write(layer, 1)
    lines = (data / "south_america" / "alltrain.csv").read_text().splitlines()
    kept = [lines[0], *(line for line in lines if line.split(",")[0] == SPECIES)]
    (folder / "records.csv").write_text("\n".join(kept) + "\n")
    return folder / "records.csv"


def timed_fit(records: Path, background: str, out: Path) -> dict[str, Any]:
    """`maxent fit` from files to report in a new process: seconds, and seconds by stage."""
    command = [sys.executable, "-m", "maxent.cli", "fit", str(records)]
    command += [str(records.parent / "layers"), "-c", "ecoreg", "--background", background]
    start = perf_counter()
    subprocess.run([*command, "-o", str(out), "-q"], check=True)
    seconds = perf_counter() - start
    result = mx.load(out / "result.json")
    return {
        "seconds": seconds,
        "limit": LIMITS[background],
        "n_background": result.n_background,
        "n_records": int(result.model.n_presences_),
        "gap": result.model.gap_,
        "auc": result.evaluation.scores["auc"],
        "peak_gb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
        "stages": json.dumps({k: round(v, 2) for k, v in result.seconds.items()}),
    }


def map_error(data: Path, folder: Path) -> float:
    """Largest difference of the written map from the estimator, over all cells."""
    import rasterio

    from maxent import species

    source = data / "bradypus_rasters"
    out = folder / "bradypus"
    command = [sys.executable, "-m", "maxent.cli", "fit", str(source / "bradypus.csv")]
    command += [str(source / "bio.tif"), str(source / "biome.tif"), "-c", "biome"]
    command += ["--preset", "maxnet", "--background", "1000", "-q", "-o", str(out)]
    subprocess.run(command, check=True)
    with species.Layers.open(
        [source / "bio.tif", source / "biome.tif"], categorical=["biome"]
    ) as layers:
        records, _ = species.located(species.read_occurrences(source / "bradypus.csv"), layers.grid)
        settings = species.Settings(preset="maxnet", background=1000, verbose=0)
        ready = species.prepare(species.survey(layers, records, settings), records, settings)
        block = layers.read(species.Window(0, 0, layers.grid.height, layers.grid.width))
    sample = ready.train
    model = mx.MaxentDensity(preset="maxnet", categorical=["biome"])
    model.fit(sample.X, sample.counts)
    with rasterio.open(out / "maps" / "cloglog.tif") as file:
        drawn = file.read(1, masked=True)
    assert np.array_equal(~np.ma.getmaskarray(drawn), block.valid), "the map has other cells"
    expected = model.predict(block.frame(), output="cloglog")
    return float(np.abs(drawn.data[block.valid] - expected).max())


def run(results: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Measure, print and write the csv."""
    if not (data / "south_america" / "coverages.npz").exists():
        print(f"no data in {data}: set MAXENT_DATA")
        return []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        records = write_south_america(data, Path(folder) / "south_america")
        for background in LIMITS:
            for i in range(1 if quick else RUNS):
                row = timed_fit(records, background, Path(folder) / f"out_{background}_{i}")
                rows.append({"what": f"south america, background {background}", "run": i} | row)
                print(rows[-1], flush=True)
        error = map_error(data, Path(folder))
        print(f"bradypus_rasters, preset maxnet: map differs by at most {error:.1e} (limit 1e-6)")
        rows.append({"what": "bradypus_rasters map error", "run": 0, "map_error": error})
    path = results / "species_command.csv"
    names = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return [path]


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    main(run, __doc__)
