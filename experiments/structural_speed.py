"""How long a round of StructMaxent takes: cells from 20,000 to 648,658, and 500 rounds on them all.

South America, 14 variables, monomials to degree 4 and trees to 8 nodes. Limits: 500 rounds in 180 s
and 1 GB on two cores, seconds a round in proportion to the cells.

python -m experiments.structural_speed [--data DIR] [--quick]
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import warnings
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import maxent as mx
from experiments.south_america import CATEGORICAL, DATA, load, main

SIZES = (20_000, 40_000, 80_000, 160_000, 320_000, 648_658)
ROUNDS = 500
RULES = ("structmaxent2", "corrective")


def fitted(data: Path, n_cells: int, rule: str, rounds: int) -> tuple[mx.StructMaxent, float]:
    """A fit with as many rounds as asked for, and its seconds."""
    land = load(data)
    assert land is not None
    y = land.counts("train", "bradypus_variegatus")
    rows = np.arange(len(y))
    if n_cells < len(y):
        drawn = np.random.default_rng(0).choice(len(y), n_cells, replace=False)
        rows = np.union1d(drawn, np.flatnonzero(y))
    X, counts = land.X.iloc[rows], y[rows]
    del land
    model = mx.StructMaxent(
        [mx.Monomials(4), mx.Trees(8)],
        lam=0.01,
        beta=0.001,
        rule=rule,
        rounds=rounds,
        categorical=CATEGORICAL,
        verbose=0,
    )
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, counts)
    return model, perf_counter() - start


def child(data: Path, n_cells: int, rule: str, rounds: int) -> dict[str, Any]:
    """One fit in a process of its own: seconds, and peak memory beside the imports and the data."""
    code = (
        "import json, sys; from pathlib import Path; import numpy as np;"
        "from maxent.cli._memory import peak_memory;"
        "from experiments.structural_speed import fitted;"
        f"model, seconds = fitted(Path({str(data)!r}), {n_cells}, {rule!r}, {rounds});"
        "steps = np.diff([0, *(h['seconds'] for h in model.history_)]);"
        "print(json.dumps({'seconds': seconds, 'rounds': model.n_rounds_,"
        "'round_median': float(np.median(steps)), 'features': len(model.coef_),"
        "'peak_mb': peak_memory() / 2**20,"
        "'gap': model.gap_, 'violation': model.violation_}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run(results: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Measure, print, write the csv and draw the picture."""
    if load(data) is None:
        print(f"no data in {data}: set MAXENT_DATA")
        return []
    rows: list[dict[str, Any]] = []
    for rule in RULES:
        for size in SIZES[:2] if quick else SIZES:
            rows.append({"rule": rule, "cells": size} | child(data, size, rule, 20))
            print(rows[-1], flush=True)
    if not quick:
        rows.append(
            {"rule": RULES[0], "cells": SIZES[-1]} | child(data, SIZES[-1], RULES[0], ROUNDS)
        )
        print(rows[-1], flush=True)
    path = results / "structural_speed.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    picture = results / "structural_speed.png"
    picture.write_bytes(_picture(rows))
    return [path, picture]


def _picture(rows: list[dict[str, Any]]) -> bytes:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(6.5, 4.2), dpi=120, layout="constrained")
    ax = figure.subplots()
    for rule, marker in zip(RULES, "os", strict=True):
        mine = [r for r in rows if r["rule"] == rule and r["rounds"] <= 20]
        cells = np.array([r["cells"] for r in mine])
        ax.loglog(cells, [r["round_median"] for r in mine], marker=marker, label=rule)
    ax.loglog(cells, mine[-1]["round_median"] * cells / cells[-1], "k:", label="in proportion")
    ax.set(xlabel="cells", ylabel="seconds a round (median)")
    ax.set_title("StructMaxent, 14 variables, degree 4 and 8 nodes", fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend()
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


if __name__ == "__main__":
    main(run, __doc__)
