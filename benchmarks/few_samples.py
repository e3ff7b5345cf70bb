"""Sparsemax with fewer samples than columns: "auto" beside Newton's method and L-BFGS.

Generated sets, and Mulan's multi-label sets medical and enron as label proportions where the folder
``MAXENT_MULTILABEL`` holds their npz files (X_train, Y_train). Each stops at a duality gap of 1e-6,
which is the accuracy that is reported.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx
from benchmarks.report import Row, missing
from benchmarks.timing import once

SUITE = "few_samples"
OURS = "auto"
SOLVERS = (OURS, "newton-cg", "lbfgs")
STRENGTHS = {"generated": (1e-2, 1e-3)}
STORED = (1e-2,)
FOLDER = "MAXENT_MULTILABEL"


def generated(samples: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(samples, columns)), rng.normal(size=(columns, classes))
    scores = 2 * X @ W / np.sqrt(columns) + rng.gumbel(size=(samples, classes))
    return X, np.eye(classes)[np.argmax(scores, axis=1)]


def stored(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples and label proportions of those with a label."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or ".", f"{name}.npz")
    if folder is None or not path.exists():
        raise FileNotFoundError(f"{name}.npz: set {FOLDER} to a folder that has it")
    with np.load(path, allow_pickle=False) as data:
        X, Y = data["X_train"].astype(float), data["Y_train"].astype(float)
    some = Y.any(axis=1)
    return X[some], Y[some] / Y[some].sum(axis=1, keepdims=True)


def fit(X: np.ndarray, Y: np.ndarray, strength: float, solver: str) -> Any:
    model = mx.FenchelYoungRegressor(alpha=2, potential=strength, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.ConvergenceWarning)  # the gap is in the table
        return model.fit(X, Y)


def run(quick: bool = False) -> list[Row]:
    """One row per set, strength and solver."""
    sets = {f"generated {k} classes": partial(generated, 400, 1000, k) for k in (2, 10)}
    if not quick:
        sets |= {name: partial(stored, name) for name in ("medical", "enron")}
    rows: list[Row] = []
    for label, read in sets.items():
        try:
            X, Y = read()
        except FileNotFoundError as error:
            rows += [missing(SUITE, label, solver, str(error)) for solver in SOLVERS]
            continue
        fit(X[:50], Y[:50], 1.0, "newton-cg")  # compiled by now
        for strength in STRENGTHS.get(label.split()[0], STORED):
            problem = f"{label} {X.shape[0]} x {X.shape[1]}, strength={strength:g}"
            found: dict[str, Any] = {}

            def take(solver: str, found: dict[str, Any], task: tuple[Any, ...]) -> None:
                found[solver] = fit(*task, solver)

            task = (X, Y, strength)
            seconds = {s: once(partial(take, s, found, task)) for s in SOLVERS}
            rows += [
                Row(
                    *(SUITE, problem, solver),
                    status="OK" if found[solver].gap_ <= found[solver].tol else "NC",
                    seconds=seconds[solver],
                    ratio=seconds[solver] / seconds[OURS],
                    accuracy=found[solver].gap_,
                    repeats=1,
                    note=f"{found[solver].n_iter_} steps",
                )
                for solver in SOLVERS
            ]
    return rows
