"""Figures 3 and 4 of the discrimination paper: seven models of synthetic chains, error by size.

Sequences of 8 binary labels with 100 features per position, drawn from random linear-chain CRFs.
"independent": standard normal features, of which 10, 30 or 50 have weights (§7.1.1). "correlated":
30 have weights, ten groups of 3 that share a normal value up to noise of sd 0.05 (§7.1.2). Ten data
sets of 1000 sequences each; training sets of 30 to 150 or, correlated, one of K parts.

Chosen here, because the paper does not say or because it costs less:
- weights of relevant features and of transitions are standard normal;
- labels are exact draws (forward sums, backward sampling) instead of the end of a Gibbs sampler;
- constants are chosen for each setting and size by 5 folds of training data, the k-th of them held
  out of the k-th data set, and shared by all ten: a choice on one data set alone, as small as these
  are, is mostly noise;
- the grid of L2-CRF is the paper's, that of L1-CRF its larger four, lam has every sixth of its 20
  values between 1 and 268 (correlated: {9, 25, 64}) with C = 1 or 10, C of M3N is one of {0.01,
  0.03, 0.1, 0.3} and that of L1-M3N one of {0.01, 0.03, 0.1} (correlated: the smaller two);
- "Laplace, large lam" is no model of the figures: the exact one at C = 10 and lam beyond the
  paper's grid, where its penalty sqrt(lam) ||w||_KL / C is as strong as that of the best l1 models
  and as sharp;
- of the K runs of a correlated data set, one training part each, the first is done;
- solvers stop at a duality gap of 0.05 per sequence, where the hinge of w = 0 is 8; the CRF without
  a penalty has no gap and stops at a gradient of 0.01.

README.md says what of the paper's ordering shows.

python -m experiments.synthetic_chains [--quick]
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import maxent as mx

LENGTH, FEATURES, SEQUENCES, DATA_SETS = 8, 100, 1000, 10
SIZES = (30, 50, 80, 100, 150)
PARTS = (20, 10, 7, 5, 4)
FOLDS = 5
TOL = 0.05
GROUPS, GROUP, NOISE = 10, 3, 0.05

Constants = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """A kind of data: features, and how many of them matter."""

    features: str
    relevant: int

    @property
    def sizes(self) -> list[int]:
        """Of training sets."""
        if self.features == "independent":
            return list(SIZES)
        return [round(SEQUENCES / parts) for parts in PARTS]


SETTINGS = (*(Setting("independent", relevant) for relevant in (10, 30, 50)),
            Setting("correlated", GROUPS * GROUP))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sequences:
    """A data set in random order, and the weights it was drawn from."""

    X: list[np.ndarray]
    y: list[np.ndarray]
    coef: np.ndarray  # (features, labels)
    transitions: np.ndarray

    def split(self, size: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The first ``size`` sequences, and the rest."""
        return (self.X[:size], self.y[:size]), (self.X[size:], self.y[size:])

    def best_error(self, size: int) -> float:
        """Of the most likely labels under the true weights, beyond the first ``size``."""
        _, (X, y) = self.split(size)
        chain = mx.Chain(2)
        paths = chain.decode(
            chain.argmax(chain.scores([x @ self.coef for x in X], self.transitions))
        )
        return float(np.mean(np.concatenate(paths) != np.concatenate(y)))


def draw_sequences(setting: Setting, number: int, sequences: int = SEQUENCES) -> Sequences:
    """Data set ``number`` of a setting."""
    rng = np.random.default_rng([number, setting.relevant, setting.features == "correlated"])
    coef = np.zeros((FEATURES, 2))
    coef[: setting.relevant] = rng.standard_normal((setting.relevant, 2))
    transitions = rng.standard_normal((2, 2))
    X = rng.standard_normal((sequences, LENGTH, FEATURES))
    if setting.features == "correlated":
        shared = np.repeat(rng.standard_normal((sequences, LENGTH, GROUPS)), GROUP, axis=2)
        X[..., : setting.relevant] = shared + NOISE * X[..., : setting.relevant]
    chain = mx.Chain(2)
    paths = chain.sample(chain.scores(list(X @ coef), transitions), 1, rng)[0]
    return Sequences(list(X), chain.decode(paths), coef, transitions)


# -- models ----------------------------------------------------------------------------------------

CRF_GRID = (0.01, 0.1, 1.0, 4.0, 9.0, 16.0)
EVEN_LAM = tuple(np.linspace(1, 268, 20).round(1)[6::6].tolist())


def _l1_grid(setting: Setting) -> list[Constants]:
    return [{"C": C} for C in (0.01, 0.03, 0.1)[: 3 if setting.features == "independent" else 2]]


def _laplace_grid(setting: Setting) -> list[Constants]:
    lams = EVEN_LAM if setting.features == "independent" else (9.0, 25.0, 64.0)
    return [{"C": C, "lam": lam} for C, lam in product((1.0, 10.0), lams)]


def _grid(name: str, values: tuple[float, ...]) -> Callable[[Setting], list[Constants]]:
    return lambda setting: [{name: value} for value in values]


# name -> (estimator of some constants, candidates for them)
MODELS: dict[str, tuple[Callable[..., Any], Callable[[Setting], list[Constants]]]] = {
    "CRF": (lambda: mx.CRF(tol=0.01), lambda setting: [{}]),
    "L2-CRF": (lambda c2: mx.L2CRF(c2, tol=TOL), _grid("c2", CRF_GRID)),
    "L1-CRF": (lambda c1: mx.L1CRF(c1, tol=TOL), _grid("c1", CRF_GRID[2:])),
    "M3N": (lambda C: mx.M3N(C, tol=TOL), _grid("C", (0.01, 0.03, 0.1, 0.3))),
    "L1-M3N": (
        lambda C: mx.L1M3N(C, tol=TOL, solver=mx.Smoothing(first=0.07)),
        _l1_grid,
    ),
    "Laplace, exact": (lambda C, lam: mx.LaplaceMEDN(C, lam, tol=TOL), _laplace_grid),
    "Laplace, 3 rounds": (
        lambda C, lam: mx.LaplaceMEDN(C, lam, "variational", 3, tol=TOL),
        _laplace_grid,
    ),
    "Laplace, large lam": (
        lambda lam: mx.LaplaceMEDN(10.0, lam, tol=TOL),
        _grid("lam", (1e3, 1e4, 3e4)),
    ),
}


def fitted(model: str, constants: Constants, X: Any, y: Any) -> Any:
    """The model with these constants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.SeparableWarning)  # CRF of small training sets
        return MODELS[model][0](**constants).fit(X, y)


def choose(model: str, setting: Setting, training: list[tuple[Any, Any]]) -> Constants:
    """The candidate with the lowest error over 5 folds, fold k of training set k."""
    candidates = MODELS[model][1](setting)
    if len(candidates) == 1:
        return candidates[0]
    errors = np.zeros(len(candidates))
    for fold, (X, y) in enumerate(training[:FOLDS]):
        held = np.arange(len(X)) % FOLDS == fold
        inside, outside = (
            [[a[i] for i in np.flatnonzero(part)] for a in (X, y)] for part in (~held, held)
        )
        for k, constants in enumerate(candidates):
            errors[k] += 1 - fitted(model, constants, *inside).score(*outside)
    return candidates[int(errors.argmin())]


# -- Figures 3 and 4 -------------------------------------------------------------------------------

COLUMNS = ("features", "relevant", "size", "data_set", "model", "c1", "c2", "C", "lam", "error",
           "zeros", "gap", "seconds")  # fmt: skip


def measure(setting: Setting, size: int, data_sets: int) -> Iterator[dict[str, Any]]:
    """One row for each data set and model, and the error of the true weights."""
    sets = [draw_sequences(setting, number) for number in range(data_sets)]
    about = {"features": setting.features, "relevant": setting.relevant, "size": size}
    for number, data in enumerate(sets):
        row = {"data_set": number, "model": "true weights", "error": data.best_error(size)}
        yield about | row
    for model in MODELS:
        constants = choose(model, setting, [data.split(size)[0] for data in sets])
        for number, data in enumerate(sets):
            training, test = data.split(size)
            start = time.perf_counter()
            found = fitted(model, constants, *training)
            seconds = time.perf_counter() - start
            zeros = float(np.mean(np.abs(found.weights_) < 1e-3))
            row = {"data_set": number, "model": model, "error": 1 - found.score(*test)}
            row |= {"zeros": zeros, "gap": found.gap_, "seconds": seconds}
            yield about | row | constants


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows that were measured already."""
    return pd.read_csv(path).to_dict("records") if path.exists() else []


def write_table(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """All rows, six digits each."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in rows:
            short = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
            writer.writerow(short)


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Mean paired differences of errors of two models, with standard errors over data sets."""
    pairs = (
        *(("Laplace, exact", "M3N"), ("Laplace, 3 rounds", "M3N"), ("L1-M3N", "M3N")),
        *(("Laplace, exact", "L1-M3N"), ("Laplace, exact", "L1-CRF"), ("L1-M3N", "L1-CRF")),
        *(("Laplace, 3 rounds", "Laplace, exact"), ("Laplace, large lam", "Laplace, exact")),
        *(("Laplace, large lam", "L1-M3N"), ("M3N", "L2-CRF"), ("Laplace, exact", "L2-CRF")),
        *(("L1-CRF", "CRF"), ("L2-CRF", "CRF"), ("M3N", "CRF")),
    )
    keys = ["features", "relevant", "size"]
    wide = table.pivot_table("error", [*keys, "data_set"], "model")
    parts = []
    for one, other in pairs:
        found = (wide[one] - wide[other]).groupby(keys).agg(["mean", "sem"]).reset_index()
        parts.append(found.assign(model=one, against=other))
    every = pd.concat(parts, ignore_index=True)
    return every[[*keys, "model", "against", "mean", "sem"]]


def draw(table: pd.DataFrame, path: Path) -> None:
    """One panel per setting, one curve per model, bars of one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8.5), constrained_layout=True)
    styles = dict(zip(MODELS, ("s:", "^:", "v:", "^-", "v-", "o-", "o--", "*-"), strict=True))
    for axis, setting in zip(axes.flat, SETTINGS, strict=True):
        chosen = (table["features"] == setting.features) & (table["relevant"] == setting.relevant)
        mine = table[chosen]
        for j, model in enumerate(MODELS):
            errors = mine[mine["model"] == model].groupby("size")["error"].agg(["mean", "sem"])
            shifted = np.asarray(errors.index) + 0.5 * (j - 3.5)  # bars beside each other
            axis.errorbar(
                shifted, errors["mean"], errors["sem"].fillna(0), fmt=styles[model],
                label=model, markersize=5, linewidth=1.3, capsize=2,
            )  # fmt: skip
        truth = mine[mine["model"] == "true weights"].groupby("size")["error"].mean()
        axis.plot(truth.index, truth, color="black", linewidth=1, label="true weights")
        axis.set(title=f"{setting.relevant} relevant of 100 {setting.features} features")
        axis.set(xlabel="training sequences", ylabel="test error", xticks=setting.sizes)
        axis.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data_sets: int = DATA_SETS) -> list[Path]:
    """Every setting and size; those in the csv already are kept."""
    path = out / "synthetic_chains.csv"
    rows = read_table(path)
    done = {(row["features"], row["relevant"], row["size"]) for row in rows}
    for setting in SETTINGS:
        for size in setting.sizes:
            if (setting.features, setting.relevant, size) in done:
                continue
            start, new = time.perf_counter(), list(measure(setting, size, data_sets))
            rows += new
            write_table(path, rows, COLUMNS)
            means = pd.DataFrame(new).groupby("model", sort=False)["error"].mean()
            took = time.perf_counter() - start
            print(f"{setting} {size} ({took:.0f} s): {means.round(4).to_dict()}", flush=True)
    table = pd.read_csv(path)
    paths = [path, out / "synthetic_chains_differences.csv", out / "synthetic_chains.png"]
    differences(table).to_csv(paths[1], index=False, float_format="%.4g")
    draw(table, paths[2])
    return paths


if __name__ == "__main__":
    from experiments.run import RESULTS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three data sets")
    quick = parser.parse_args().quick
    for written in run(RESULTS, 3 if quick else DATA_SETS):
        print(f"written: {written}")
