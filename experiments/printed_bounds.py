"""Coverage of the bounds that models print, on designs with many more candidates than records.

The truth is uniform, so whatever a fit finds is chance, and a strong penalty lets in only the
features that chance favours most: a bound that forgot the features it did not choose fails here.
Each design draws occurrences again and again, fits, and compares ``bound()`` with the true loss.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maxent as mx
from maxent.density import FittedDensity

DELTA = 0.05
REPEATS = 100
Fit = Callable[[np.ndarray, np.ndarray], FittedDensity]


class Design(NamedTuple):
    """Cells, how many occurrences are drawn among them, and how a model is fitted to them."""

    name: str
    X: np.ndarray
    m: int
    fit: Fit


def _first_of_path(**settings: Any) -> Fit:
    """The first model of the path that uses any feature."""

    def fit(X: np.ndarray, y: np.ndarray) -> FittedDensity:
        task = mx.MaxentDensity(verbose=0, **settings).task(X, y)
        return next(density for _, density in task.path() if density.coef)

    return fit


def _fitted(model: Any) -> Fit:
    return lambda X, y: model.fit(X, y).density_


def designs() -> list[Design]:
    """Binary columns, balanced columns, levels, squares, products, a search, grown features."""
    rng = np.random.default_rng(0)
    binary = (rng.random((1000, 200)) < 0.5).astype(float)
    balanced = np.array([rng.permutation(np.arange(600) % 2) for _ in range(150)]).T.astype(float)
    real = rng.uniform(-1, 1, size=(600, 40))
    level = np.repeat(np.arange(300), 3)[:, None].astype(float)
    search = mx.MaxentDensityCV(
        features=["l", "lq", "lqp"], multipliers=[1.0, 4.0], cv=3, verbose=0
    )
    trees = mx.StructMaxent([mx.Trees(2)], lam=0.0, beta=0.12, rounds=3, verbose=0)
    monomials = mx.StructMaxent([mx.Monomials(2)], lam=0.0, beta=0.08, rounds=3, verbose=0)
    grown = mx.StructMaxent([mx.Trees(2)], lam=0.0, beta=0.1, rounds=2, categorical=[0], verbose=0)
    return [
        Design("200 binary columns, path", binary, 50, _first_of_path(features="l")),
        Design("150 balanced columns, path", balanced, 40, _first_of_path(features="l")),
        Design("150 balanced columns, default", balanced, 40, _fitted(mx.MaxentDensity(verbose=0))),
        Design("squares of 40 columns, path", real, 40, _first_of_path(features="q")),
        Design("products of 40 columns, path", real, 40, _first_of_path(features="lp")),
        Design("300 levels, path", level, 40, _first_of_path(features="c", categorical=[0])),
        Design("search over feature sets", real[:, :12], 30, _fitted(search)),
        Design("trees on 40 columns", real, 60, _fitted(trees)),
        Design("trees on 300 levels", level, 60, _fitted(grown)),
        Design("monomials of 40 columns", (real + 1) / 2, 60, _fitted(monomials)),
    ]


def measure(design: Design, repeats: int = REPEATS) -> dict[str, float | str | int]:
    """How often the printed bound held."""
    rng = np.random.default_rng(1)
    cells = len(design.X)
    bounds, losses = [], []
    for _ in range(repeats):
        y = np.bincount(rng.integers(cells, size=design.m), minlength=cells)
        density = design.fit(design.X, y)
        bounds.append(density.bound(DELTA).bound)
        losses.append(-float(np.mean(density.predict(design.X, "log"))))
    held = np.array(losses) <= np.array(bounds) + 1e-9
    return {
        "design": design.name,
        "m": design.m,
        "repeats": repeats,
        "promised": 1 - DELTA,
        "held": round(float(np.mean(held)), 4),
        "bound": round(float(np.mean(bounds)), 4),
        "loss": round(float(np.mean(losses)), 4),
    }


def run(out: Path) -> list[Path]:
    """Write the table."""
    table = out / "printed_bounds.csv"
    records = [measure(design) for design in designs()]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return [table]
