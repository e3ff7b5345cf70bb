"""Many species x 5 blocks through the command: two workers of a dask cluster beside `-j 2`.

    python -m benchmarks.species_cluster                  1,000 species, for the csv in results
    python -m benchmarks.species_cluster --species 50     a trial, nothing is written

Seconds of the clock, from the start of the command to its end, one run after the other on the same
files; run it on a quiet machine. A species has 40 records on a small island of its own taste in
temperature and rain, and a page of its own, but no maps, jackknife or bootstraps.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import report
from maxent.datasets.landscape import VirtualLandscape, virtual_landscape, write_landscape

SUITE = "species_cluster"
SPECIES, RECORDS, FOLDS = 1000, 40, 5
LAYERS = ("temperature", "precipitation")
OURS, PEER = "--workers 2", "-j 2"
TARGET = ("no slower than 1.1 times -j 2", 1 / 1.1)


def run(n_species: int = SPECIES) -> list[report.Row]:
    """One row for each way to fit all species, with how many results differ between them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        landscape = virtual_landscape(height=60, width=78, n_occurrences=10, n_group=10, seed=1)
        write_landscape(landscape, folder)
        write_records(landscape, n_species, folder / "species.csv")
        write_records(landscape, 4, folder / "few.csv")
        times: dict[str, list[float]] = {}
        for way in (PEER, OURS):
            command(folder, "few.csv", way)  # kernels are compiled, files are in memory
            times[way] = [command(folder, "species.csv", way)]
        tables = [results(folder / out_of("species.csv", way)) for way in (PEER, OURS)]
    assert len(tables[0]) >= n_species, f"{len(tables[0])} results of {n_species} species"
    differing = sum(a != b for a, b in zip(*tables, strict=True))
    problem = f"{n_species} species x {FOLDS} blocks, from records and layers to tables and pages"
    rows = report.compared(
        SUITE, problem, times, OURS, dict.fromkeys(times, float(differing)), {PEER: TARGET}
    )
    return [replace(row, note="accuracy: results that differ") for row in rows]


def write_records(landscape: VirtualLandscape, n_species: int, path: Path) -> None:
    """Records of species whose niches are bells in temperature and log rain."""
    rng = np.random.default_rng(0)
    inside = np.flatnonzero(landscape.land)
    climate = np.array(
        [
            landscape.layers["temperature"].ravel()[inside],
            np.log(landscape.layers["precipitation"].ravel()[inside]),
        ]
    ).T
    climate = (climate - climate.mean(axis=0)) / climate.std(axis=0)
    x, y = landscape.grid.centres(inside)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["species", "longitude", "latitude"])
        for number in range(n_species):
            best, width = climate[rng.integers(len(climate))], rng.uniform(0.4, 1.2, size=2)
            taste = np.exp(-0.5 * (((climate - best) / width) ** 2).sum(axis=1))
            cells = rng.choice(inside.size, RECORDS, replace=False, p=taste / taste.sum())
            writer.writerows([f"Species {number:04d}", x[c], y[c]] for c in cells)


def out_of(records: str, way: str) -> str:
    return f"{records} {way}"


def command(folder: Path, records: str, way: str) -> float:
    """Seconds of a fit of all species of a file."""
    layers = [f"layers/{name}.tif" for name in LAYERS]
    words = [sys.executable, "-m", "maxent", "fit", records, *layers, "-o", out_of(records, way)]
    words += ["-f", "lq", "--cv", "blocks", "--folds", str(FOLDS), "--background", "1000"]
    words += ["--no-jackknife", "--bootstrap", "0", "--permutations", "0", "--no-maps", "-q"]
    start = time.perf_counter()
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
    subprocess.run([*words, *way.split()], cwd=folder, check=True, env=environment)
    return time.perf_counter() - start


def results(out: Path) -> list[dict[str, str]]:
    """The table of all species, without times."""
    with (out / "maxentResults.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "Seconds"} for row in csv.DictReader(file)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--species", type=int, default=SPECIES)
    arguments = parser.parse_args()
    rows = run(arguments.species)
    report.show(rows)
    if arguments.species == SPECIES:
        print(f"written: {report.write(SUITE, rows).relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
