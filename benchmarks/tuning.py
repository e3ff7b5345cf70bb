"""Tuning: 20 candidates x 4 blocks of Bradypus beside single fits, and from files to page.

CPU seconds, which busy neighbours lengthen less than those of the clock: python -m benchmarks.run
tuning. The rasters are those of dismo's example (9,766 cells, 8 climate layers and biomes); no
times of ENMeval are on record for them, so that the peer is our own single fit.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

import maxent as mx
from benchmarks.report import Row, compared, missing
from benchmarks.species_data import DATA
from benchmarks.timing import in_turns
from maxent import evaluation, species

SUITE = "tuning"
OURS = "maxent tune"
FEATURES = ("l", "lq", "lqh", "lqph")
MULTIPLIERS = (0.5, 1.0, 2.0, 4.0, 8.0)
FOLDS = 4
REPEATS = 3
ALONE = "the same 100 fits, each alone"
TARGET = ("less than the fits alone, with all statistics", 1.0)


def run(quick: bool = False) -> list[Row]:
    """The comparison in Python beside its fits made one by one, and both commands from files."""
    folder = DATA / "bradypus_rasters"
    n = len(FEATURES) * len(MULTIPLIERS)
    problem = f"Bradypus, {n} candidates x {FOLDS} blocks and all records: {n * (FOLDS + 1)} fits"
    if not folder.is_dir():
        return [missing(SUITE, problem, OURS, f"no rasters in {folder}")]
    features = FEATURES[:2] if quick else FEATURES
    ready = _prepared(folder)
    competitors = {OURS: lambda: _tune(ready, features), ALONE: lambda: _alone(ready, features)}
    times = in_turns(competitors, 1 if quick else REPEATS, clock=time.process_time)
    one = in_turns({"fit": lambda: _fit(ready, "auto", 1.0)}, REPEATS, clock=time.process_time)
    single = statistics.median(one["fit"])
    rows = compared(SUITE, problem, times, OURS, dict.fromkeys(times, np.nan), {ALONE: TARGET})
    fits = statistics.median(times[OURS]) / single
    note = f"CPU seconds; {fits:.1f} fits with features auto and multiplier 1 ({single:.3g} s)"
    return [*(_noted(row, note) for row in rows), *_commands(folder, 1 if quick else REPEATS)]


def _prepared(folder: Path) -> species.Prepared:
    settings = species.Settings(verbose=0)
    rasters = [folder / "bio.tif", folder / "biome.tif"]
    with species.Layers.open(rasters, categorical=["biome"]) as layers:
        found = species.read_occurrences(folder / "bradypus.csv")
        records, _ = species.located(found, layers.grid)
        return species.prepare(species.survey(layers, records, settings), records, settings)


def _tune(ready: species.Prepared, features: tuple[str, ...]) -> object:
    return species.tune(
        ready,
        species.Settings(verbose=0),
        ["biome"],
        features=features,
        multipliers=MULTIPLIERS,
        potentials=["box"],
    )


def _fit(
    ready: species.Prepared, features: str, multiplier: float, rows: np.ndarray | None = None
) -> object:
    sample = ready.train if rows is None else ready.train.take(rows)
    model = mx.MaxentDensity(features, multiplier=multiplier, categorical=["biome"])
    return model.fit(sample.X, sample.counts)


def _alone(ready: species.Prepared, features: tuple[str, ...]) -> None:
    sample = ready.train
    blocks = evaluation.SpatialBlocks(sample.coordinates, n_splits=FOLDS)
    parts = [None, *(train for train, _ in blocks.split(None, sample.counts))]
    for letters, multiplier, rows in product(features, MULTIPLIERS, parts):
        _fit(ready, letters + "c", multiplier, rows)


def _commands(folder: Path, repeats: int) -> list[Row]:
    """Both commands in processes of their own: CPU seconds with start-up and writing."""
    rasters = [str(folder / "bio.tif"), str(folder / "biome.tif")]
    rows = []
    for name, page in (("tune", "tables and page"), ("fit", "maps and report")):
        command = [sys.executable, "-m", "maxent.cli", name, str(folder / "bradypus.csv")]
        command += [*rasters, "-c", "biome", "-q", "-o"]
        wall, cpu = [], []
        for _ in range(repeats + 1):  # the first compiles what is not cached
            with tempfile.TemporaryDirectory() as place:
                before, start = _children(), time.perf_counter()
                subprocess.run([*command, f"{place}/out"], check=True)
                wall.append(time.perf_counter() - start)
                cpu.append(_children() - before)
        rows.append(
            Row(
                SUITE,
                f"Bradypus from files to {page}",
                f"maxent {name}",
                seconds=statistics.median(cpu[1:]),
                repeats=repeats,
                note=f"CPU seconds; {statistics.median(wall[1:]):.1f} s by the clock, load "
                f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
            )
        )
    return rows


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _noted(row: Row, note: str) -> Row:
    return replace(row, note=note) if row.method == OURS else row
