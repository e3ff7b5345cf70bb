"""Every solver on the same densities: python -m experiments.solver_agreement [--data DIR].

The density paper's algorithms (SUMMET, PLUMMET, the search for l2) beside the default, on the
regularized maxent problems of maxnet (preset "maxnet") for Bradypus and the synthetic tables. The
objective is compared with the best one found; PLUMMET's steps shrink with the number of features
that overlap, so it gets the linear and quadratic features as well as all of them.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import maxent as mx
from experiments.south_america import DATA, main

SECONDS = 60.0  # a slow solver is stopped here and its objective reported as it is


class _OutOfTime(Exception):
    """Carries the last state of a solver."""

    def __init__(self, state: mx.State, iteration: int) -> None:
        super().__init__()
        self.state, self.iteration = state, iteration


def tables(data: Path) -> Iterator[tuple[str, object, np.ndarray, list[str]]]:
    """Name, cells, counts and categorical columns of each table that is there."""
    import pandas as pd

    path = data / "bradypus_maxnet" / "bradypus.csv"
    if path.exists():
        frame = pd.read_csv(path)
        yield "bradypus", frame.drop(columns="presence"), frame["presence"].to_numpy(), ["ecoreg"]
    for count in (100, 1000):
        parts = [
            data / "synthetic_swd" / f"p{count}_b10000_{kind}.parquet" for kind in ("bg", "pres")
        ]
        if all(part.exists() for part in parts):
            columns = [f"v{i}" for i in range(1, 11)]
            background, presences = (pd.read_parquet(part)[columns] for part in parts)
            counts = np.repeat([0, 1], [len(background), len(presences)])
            yield f"synthetic {count}", pd.concat([background, presences]), counts, []


def timed(
    problem: mx.Problem, solver: mx.Solver, limit: float
) -> tuple[float, float, float, int, float, str]:
    """Objective, gap, optimality, iterations, seconds and how it ended."""
    begin = time.perf_counter()

    def watch(iteration: int, state: mx.State) -> None:
        if time.perf_counter() - begin > limit:
            raise _OutOfTime(state, iteration)

    try:
        s = solver.run(problem, callback=watch)
        found = (s.objective, s.gap, s.optimality, s.n_iter, s.status.value)
    except _OutOfTime as stop:
        state = stop.state
        found = (state.dual, state.gap, state.optimality, stop.iteration, "out of time")
    return *found[:4], time.perf_counter() - begin, found[4]


SCALING = [mx.SUMMET(1e-5), mx.PLUMMET(1e-5), mx.PLUMMET(1e-5, overrelax=1.1)]
TASKS: list[tuple[str, str, list[mx.Solver]]] = [
    ("lq", "box", [mx.ProxNewton(1e-9), mx.FISTA(1e-7, 20_000), *SCALING]),
    ("lqph", "box", [mx.ProxNewton(1e-9), mx.FISTA(1e-7, 20_000), *SCALING]),
    ("lq", "quadratic", [mx.ProxNewton(1e-9), mx.LBFGS(1e-8, 5000)]),
    ("lq", "ball", [mx.FISTA(1e-7, 20_000), mx.BallSearch(1e-8)]),
]


def label(solver: mx.Solver) -> str:
    longer = isinstance(solver, mx.PLUMMET) and solver.overrelax > 1
    return type(solver).__name__ + (" overrelaxed" if longer else "")


def rows(data: Path, limit: float) -> Iterator[dict[str, object]]:
    for name, X, y, categorical in tables(data):
        for features, potential, solvers in TASKS:
            model = mx.MaxentDensity(features, potential, preset="maxnet", categorical=categorical)
            problem = model.problem(X, y)
            found = [(solver, *timed(problem, solver, limit)) for solver in solvers]
            best = min(f[1] for f in found)
            for solver, objective, gap, optimality, iterations, seconds, status in found:
                yield {
                    "table": name,
                    "features": features,
                    "potential": potential,
                    "n_features": problem.features.n_features,
                    "solver": label(solver),
                    "gain": f"{-objective:.9f}",
                    "above_best": f"{objective - best:.1e}",
                    "gap": f"{gap:.1e}",
                    "optimality": f"{optimality:.1e}",
                    "iterations": iterations,
                    "seconds": f"{seconds:.2f}",
                    "status": status,
                }


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write one row a problem and solver; nothing where the data are absent."""
    found = []
    for row in rows(data, 5.0 if quick else SECONDS):
        print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
        found.append(row)
    if not found:
        print(f"no table under {data}: give --data or set MAXENT_DATA")
        return []
    path = out / "solver_agreement.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    return [path]


if __name__ == "__main__":
    main(run, __doc__ or "")
