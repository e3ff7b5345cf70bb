"""Presences, background and test rows of a species: made ones, and the stored tables."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("MAXENT_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
TEST_ROWS = 20_000
PREVALENCE = 0.2  # of the test rows


@dataclass(frozen=True)
class Species:
    """One row a point; test rows carry a label, 1 for a presence."""

    names: tuple[str, ...]
    presence: np.ndarray
    background: np.ndarray
    test: np.ndarray
    label: np.ndarray
    source: str
    categorical: tuple[str, ...] = ()


def covariates(n: int, n_variables: int, rng: np.random.Generator, dtype=np.float64) -> np.ndarray:
    """Correlated covariates of unlike units and shapes, made in blocks of rows."""
    # the mixing is part of the truth, so it has its own seed
    mix = 0.35 * np.random.default_rng(1).standard_normal((n_variables, n_variables))
    np.fill_diagonal(mix, 1.0)
    X = np.empty((n, n_variables), dtype)
    for start in range(0, n, 100_000):
        z = rng.standard_normal((min(100_000, n - start), n_variables)) @ mix
        z /= np.linalg.norm(mix, axis=0)
        z[:, 0] = 25 + 5.5 * z[:, 0]
        if n_variables > 1:
            z[:, 1] = 700 * np.exp(0.6 * z[:, 1])
        if n_variables > 2:
            z[:, 2] = 100 / (1 + np.exp(-1.2 * z[:, 2]))
        X[start : start + len(z)] = np.round(z, 4)
    return X


def log_intensity(X: np.ndarray) -> np.ndarray:
    """A quadratic, a tanh, a hinge, a product and a threshold of the first variables."""
    a = (X[:, 0] - 25) / 5.5
    b = np.log(X[:, 1] / 700) / 0.6
    c = X[:, 2] / 100
    d, e, f = X[:, 3], X[:, 4], X[:, 5]
    return (
        -1.0 * (a - 0.3) ** 2
        + 1.6 * np.tanh(1.5 * b)
        + 3.0 * np.maximum(c - 0.4, 0)
        + 0.9 * d * e
        + 1.3 * (f > 0.3)
    )


def synthetic(n_presence: int, n_background: int, n_variables: int = 10, seed: int = 0) -> Species:
    """Presences drawn in proportion to a known intensity, background at random."""
    if n_variables < 6:
        raise ValueError("n_variables: the intensity is of the first six variables")
    rng = np.random.default_rng(seed)
    background = covariates(n_background, n_variables, rng)
    pool = covariates(100 * n_presence, n_variables, rng)
    weight = np.exp(log_intensity(pool))
    drawn = rng.choice(len(pool), n_presence, replace=False, p=weight / weight.sum())
    test = covariates(TEST_ROWS, n_variables, rng)
    intensity = np.exp(log_intensity(test))
    low, high = 1e-6, 1e6
    for _ in range(100):  # the scale at which the expected prevalence is met
        scale = np.sqrt(low * high)
        above = np.mean(1 - np.exp(-scale * intensity)) > PREVALENCE
        low, high = (low, scale) if above else (scale, high)
    label = (rng.random(TEST_ROWS) < 1 - np.exp(-scale * intensity)).astype(int)
    names = tuple(f"v{i + 1}" for i in range(n_variables))
    return Species(names, pool[drawn], background, test, label, f"synthetic, seed {seed}")


def cells(n: int, n_variables: int, n_presence: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """A landscape of float32 cells, and how many presences lie in each."""
    rng = np.random.default_rng(seed)
    X = covariates(n, n_variables, rng, np.float32)
    weight = np.concatenate(
        [np.exp(log_intensity(X[i : i + 100_000].astype(float))) for i in range(0, n, 100_000)]
    )
    y = np.bincount(rng.choice(n, n_presence, p=weight / weight.sum()), minlength=n)
    return X, y.astype(float)


def swd(name: str) -> Species | None:
    """A stored table, such as p1000_b10000 or bradypus; None where it is not at hand."""
    return _bradypus() if name == "bradypus" else _parquet(name)


def _parquet(name: str) -> Species | None:
    folder = DATA / "synthetic_swd"
    if not (folder / f"{name}_bg.parquet").exists():
        return None
    try:
        import pyarrow.parquet as pq
    except ImportError:
        return None
    tables = {k: pq.read_table(folder / f"{name}_{k}.parquet") for k in ("pres", "bg", "test")}
    names = tuple(c for c in tables["bg"].column_names if c not in ("species", "x", "y"))

    def matrix(kind: str) -> np.ndarray:
        return np.column_stack([tables[kind][c].to_numpy() for c in names]).astype(float)

    label = tables["test"]["label"].to_numpy().astype(int)
    source = f"stored table {name}"
    return Species(names, matrix("pres"), matrix("bg"), matrix("test"), label, source)


def _bradypus() -> Species | None:
    path = DATA / "bradypus_maxnet" / "bradypus.csv"
    if not path.exists():
        return None
    with path.open() as file:
        names = tuple(next(csv.reader(file))[1:])
        rows = np.loadtxt(file, delimiter=",")
    present, X = rows[:, 0] == 1, rows[:, 1:]
    none = np.empty((0, X.shape[1]))
    return Species(
        names, X[present], X[~present], none, np.empty(0, int), "bradypus.csv", ("ecoreg",)
    )
