"""Maps: the same rasters drawn by us and by elapid, and memory on a raster of 200 million cells.

python -m benchmarks.projection [--quick]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import maxent as mx
from benchmarks import report
from benchmarks.density import PATIENCE, ROOT, peak
from benchmarks.peers import elapid, elapid_raster
from benchmarks.report import Row, missing
from benchmarks.timing import median
from maxent.species.input.layers.layers import Layers
from maxent.species.projecting import project

SUITE = "projection"
OURS = "maxent"
VARIABLES = 10
KNOTS = 7  # a variable: 2 (7 - 1) hinges, of which about half are in use
SIDE = 2000
SPEED = 10.0  # at least so many times elapid's
LARGE = (10_000, 20_000)  # rows and columns
WRITTEN = 8  # one in so many tiles of the large raster holds values
MEMORY = 1000  # MB in all
REPEATS = 3
TILE = 512
DISK = 4 << 30  # bytes that should be free


def smooth(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A landscape: a few waves and some noise, in tenths as climate layers are."""
    y, x = np.linspace(0, 1, height)[:, None], np.linspace(0, 1, width)[None]
    values = np.zeros((height, width))
    for _ in range(6):
        a, b, phase = rng.uniform([-20, -20, 0], [20, 20, 6.3])
        values += np.sin(a * x + b * y + phase)
    return np.round(100 * values + rng.normal(size=values.shape), 1).astype(np.float32)


def profile(height: int, width: int) -> dict:
    import rasterio

    return {
        "driver": "GTiff", "count": 1, "height": height, "width": width, "dtype": "float32",
        "crs": "EPSG:4326", "transform": rasterio.Affine(0.01, 0, -100, 0, -0.01, 50),
        "nodata": -9999.0, "tiled": True, "blockxsize": TILE, "blockysize": TILE,
        "compress": "deflate", "zlevel": 1, "sparse_ok": True, "bigtiff": "if_safer",
    }  # fmt: skip


def write_rasters(folder: Path, side: int) -> list[Path]:
    import rasterio

    rng = np.random.default_rng(0)
    files = []
    for v in range(VARIABLES):
        files.append(folder / f"v{v}.tif")
        with rasterio.open(files[-1], "w", **profile(side, side)) as file:
            file.write(smooth(rng, side, side), 1)
    return files


def write_sparse(folder: Path, height: int, width: int) -> int:
    """Large rasters with values in some tiles; returns the number of known cells."""
    import rasterio
    from rasterio.windows import Window

    rng = np.random.default_rng(1)
    tiles = [smooth(rng, TILE, TILE) for _ in range(VARIABLES)]
    places = [(r, c) for r in range(0, height, TILE) for c in range(0, width, TILE)][::WRITTEN]
    cells = 0
    for v, tile in enumerate(tiles):
        with rasterio.open(folder / f"v{v}.tif", "w", **profile(height, width)) as file:
            for r, c in places:
                part = tile[: height - r, : width - c]
                file.write(part, 1, window=Window(c, r, part.shape[1], part.shape[0]))
                cells += part.size if v == 0 else 0
    return cells


def table(files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Presences and background drawn from the rasters."""
    rng = np.random.default_rng(2)
    with Layers.open(files) as layers:
        X, _ = layers.read_cells(np.sort(rng.choice(layers.grid.size, 10_000, replace=False)))
    X = X.to_numpy()
    score = np.sin(X / 80).sum(axis=1)
    present = rng.random(len(X)) < 0.4 / (1 + np.exp(3 - score))
    return X[present], X


def fit(presence: np.ndarray, background: np.ndarray) -> mx.MaxentDensity:
    import pandas as pd

    names = [f"v{v}" for v in range(VARIABLES)]
    X = pd.DataFrame(np.vstack([background, presence]), columns=names)
    y = np.repeat([0, 1], [len(background), len(presence)])
    model = mx.MaxentDensity([mx.features.Hinge(KNOTS)], multiplier=0.01, verbose=0)
    return model.fit(X, y)


def error(model: mx.MaxentDensity, files: list[Path], drawn: Path) -> float:
    """The largest difference between the map and the model's own prediction, at some cells."""
    with Layers.open(files) as layers, Layers.open(drawn) as result:
        index = np.random.default_rng(3).choice(layers.grid.size, 1000)
        X, known = layers.read_cells(index)
        found, _ = result.read_cells(index)
    return float(np.abs(found.to_numpy()[known, 0] - model.predict(X[known], "cloglog")).max())


def speed(quick: bool) -> list[Row]:
    """The cloglog map of a square raster."""
    side = 600 if quick else SIDE
    name = f"cloglog map, {side} x {side} cells x {VARIABLES} float32 layers, hinges"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = write_rasters(folder, side)
        presence, background = table(files)
        model = fit(presence, background)

        def ours(threads: int | None) -> dict:
            wall, cpu = time.perf_counter(), time.process_time()
            with Layers.open(files) as layers:
                project(model, layers, folder / "out", extras=(), threads=threads, verbose=0)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            return {"seconds": wall, "cpu_seconds": cpu}

        ours(None)  # compiles
        answers: dict[str, list[dict]] = {OURS: [], f"{OURS} (1 thread)": [], elapid.NAME: []}
        for _ in range(1 if quick else REPEATS):
            answers[OURS].append(ours(None))
            answers[f"{OURS} (1 thread)"].append(ours(1))
            if elapid.available():
                answer = elapid_raster.project(files, presence, background, KNOTS)
                answers[elapid.NAME].append(answer)
        wrong = error(model, files, folder / "out" / "cloglog.tif")
    base = median([a["seconds"] for a in answers[OURS]])
    rows = []
    for method, found in answers.items():
        if not found:
            rows.append(missing(SUITE, name, method, elapid.reason()))
            continue
        seconds, cpu = (median([a[what] for a in found]) for what in ("seconds", "cpu_seconds"))
        peer = method == elapid.NAME
        note = f"CPU {cpu:.3g} s; {side * side / seconds / 1e6:.3g} million cells a second; "
        if peer:
            note += f"{found[0]['nonzero']} of {found[0]['features']} features; "
            note += f"{elapid.describe()}; a GeoTIFF without overviews"
        else:
            note += f"{len(model.coef_)} features; a cloud-optimized GeoTIFF"
        rows.append(
            Row(
                SUITE, name, method, seconds=seconds, ratio=seconds / base,
                accuracy=np.nan if peer else wrong, repeats=len(found),
                target=f"at least {SPEED:g} x faster" if peer else "",
                met=("yes" if seconds / base >= SPEED else "no") if peer else "", note=note,
            )
        )  # fmt: skip
    return rows


def memory(quick: bool) -> list[Row]:
    """A large sparse raster in a process of its own."""
    height, width = (2_000, 4_000) if quick else LARGE
    name = f"cloglog map, {height * width:.3g} cells x {VARIABLES} float32 layers, sparse"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if shutil.disk_usage(folder).free < DISK:
            return [missing(SUITE, name, OURS, f"less than {DISK >> 30} GiB free in {folder}")]
        small = folder / "small"
        small.mkdir()
        mx.save(fit(*table(write_rasters(small, 600))), folder / "model.json")
        shutil.rmtree(small)
        (folder / "layers").mkdir()
        cells = write_sparse(folder / "layers", height, width)
        command = [sys.executable, "-m", "benchmarks.projection", "child", str(folder)]
        out = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE
        )
        if out.returncode != 0:
            raise RuntimeError(out.stderr.strip())
        found = json.loads(out.stdout.splitlines()[-1])
    assert found["cells"] == cells
    return [
        Row(
            SUITE, name, OURS, seconds=found["seconds"], repeats=1,
            target=f"under {MEMORY} MB, used {found['peak']:.0f} MB",
            met="yes" if found["peak"] < MEMORY else "no",
            note=f"{cells / 1e6:.3g} million known cells, in one of {WRITTEN} tiles",
        )
    ]  # fmt: skip


def run(quick: bool = False) -> list[Row]:
    """Every competitor; what is not installed gets a row that says so."""
    return speed(quick) + memory(quick)


def _child(folder: Path) -> None:
    model = mx.load(folder / "model.json")
    begin = time.perf_counter()
    with Layers.open(folder / "layers") as layers:
        found = project(model, layers, folder / "out", extras=(), verbose=0)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "peak": peak(), "cells": found.n_cells}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        _child(Path(sys.argv[2]))
    else:
        rows = run("--quick" in sys.argv)
        report.show(rows)
        if "--quick" not in sys.argv:
            print(f"written: {report.write(SUITE, rows)}")
