"""How far each rule of StructMaxent gets on two species, and what is proved of the rest.

South America with every cell, the training records of the first partition, monomials to degree 4
and trees to 8 nodes, lambda 0.1 and beta 0.01. For every rule: the objective, the violation of
optimality that is found at its end and the bound on that of any feature, both duality gaps, and CPU
seconds. "greedy" is the corrective rule without longer searches. Trees of one or two nodes and
monomials alone are families small enough for a whole proof.

python -m experiments.structural_search [--data DIR] [--quick]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx
from experiments.run import write_rows
from experiments.south_america import CATEGORICAL, DATA, SPECIES, Landscape, load, main

ALL = (mx.Monomials(4), mx.Trees(8))
PROVABLE = (mx.Monomials(4), mx.Trees(2))
FITS: dict[str, tuple[Sequence[mx.Family], dict[str, Any]]] = {
    "greedy": (ALL, {"searches": 0}),
    "corrective": (ALL, {}),
    "structmaxent2": (ALL, {"rule": "structmaxent2"}),
    "corrective, trees of 2 nodes": (PROVABLE, {"searches": 20, "proof_budget": 2e9}),
}
FEWER = 60_000  # cells of a quick run


def cpu_seconds() -> float:
    """Of this process and its threads."""
    times = os.times()
    return times.user + times.system


def rows(land: Landscape, cells: int | None) -> Iterator[dict[str, Any]]:
    """One row a species and fit."""
    for species, name in SPECIES.items():
        y, X = land.counts("train", f"{species}_0"), land.X
        if cells is not None:
            drawn = np.random.default_rng(0).choice(len(y), cells, replace=False)
            kept = np.union1d(drawn, np.flatnonzero(y))
            X, y = X.iloc[kept], y[kept]
        for fit, (families, settings) in FITS.items():
            model = mx.StructMaxent(
                families, lam=0.1, beta=0.01, categorical=CATEGORICAL, verbose=0, **settings
            )
            start = cpu_seconds()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            row = {
                "species": name,
                "fit": fit,
                "cells": len(X),
                "status": model.status_.value,
                "objective": float(model.objective_[-1]),
                "rounds": model.n_rounds_,
                "features": len(model.features_),
                "violation_found": model.violation_found_,
                "violation_bound": model.violation_,
                "gap": model.gap_,
                "family_gap": model.family_gap_,
                "cpu_seconds": cpu_seconds() - start,
            }
            print("  " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
            yield row


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the table; nothing where the data are absent."""
    land = load(data)
    if land is None:
        print(f"no South America data in {data}: set MAXENT_DATA or give --data")
        return []
    return [write_rows(out / "structural_search.csv", rows(land, FEWER if quick else None))]


if __name__ == "__main__":
    main(run, __doc__)
