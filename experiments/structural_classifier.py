"""Conditional structural maxent (structural paper, §3) beside scikit-learn's classifiers.

Log loss, error and size on six sets: scikit-learn's iris, wine, breast cancer and digits, and the
most balanced label of emotions and of yeast, yes or no. Five stratified splits, 70% to train;
penalties are chosen on the training rows alone, by three-fold cross-validation of the log loss:
lam with beta = 0.0003, or beta with lam = 0.1, the paper's best in all of its experiments. The
default of lam has a table of its own: that of three values with the best mean rank in such a
cross-validation, over all sets and splits. Size counts pairs of feature and class with a weight,
trees for boosting. The splits overlap: standard errors are over splits of these rows, not over new
rows, and a row to test one split may have been one to choose the default by in another.

Rows that are in the csv are kept: delete it to measure anew.

python -m experiments.structural_classifier [--data DIR] [--quick]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config
from sklearn.base import ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.south_america import DATA, main
from maxent.families import Family, Monomials, Trees
from maxent.learn.structural.classifier import StructMaxentClassifier

SPLITS, FOLDS, JOBS = 5, 3, 2
PAPER_LAM, BETA = 0.1, 0.0003
BETAS, LAMS = (0.0003, 0.001, 0.003, 0.01), (0.001, 0.005, 0.03)
DEFAULT_LAMS = (0.003, 0.01, 0.03)  # candidates for the default
DEFAULT = StructMaxentClassifier(verbose=0)
MULTILABEL = ("emotions", "yeast")
Rows = tuple[np.ndarray, np.ndarray]
Measure = Callable[..., dict[str, Any]]


def load(data: Path) -> dict[str, Rows]:
    """Every set as samples and labels; the multi-label ones where they are there."""
    plain = {
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
        "digits": load_digits,
    }
    sets = {name: loader(return_X_y=True) for name, loader in plain.items()}
    for name in MULTILABEL:
        path = data / "multilabel" / f"{name}.npz"
        if not path.exists():
            print(f"no {path}: set MAXENT_DATA or give --data")
            continue
        file = np.load(path)
        X, Y = (np.concatenate([file[f"{a}_train"], file[f"{a}_test"]]) for a in "XY")
        label = int(np.argmin(np.abs(Y.mean(axis=0) - 0.5)))
        sets[f"{name}: {file['label_names'][label]}"] = X, Y[:, label]
    return sets


# -- the methods -------------------------------------------------------------------------------


def structural(families: list[Family], **grid: Any) -> Callable[[int], ClassifierMixin]:
    """Structural maxent with one of its penalties chosen."""

    def made(classes: int) -> ClassifierMixin:
        model = StructMaxentClassifier(families, PAPER_LAM, BETA, per_round=classes, verbose=0)
        return chosen(model, grid)

    return made


def folds() -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=0)


def chosen(model: Any, grid: dict[str, Any]) -> ClassifierMixin:
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds())


def logistic(classes: int) -> ClassifierMixin:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return chosen(model, {"logisticregression__C": np.logspace(-3, 3, 7)})


def boosting(classes: int) -> ClassifierMixin:
    return HistGradientBoostingClassifier(random_state=0)


BOTH = [Monomials(2), Trees(4)]  # the default
METHODS: dict[str, Callable[[int], ClassifierMixin]] = {
    f"monomials and trees, default: lam {DEFAULT.lam:g}": lambda classes: clone(DEFAULT),
    f"monomials and trees, lam {PAPER_LAM:g}, beta by CV": structural(BOTH, beta=BETAS),
    "monomials and trees, lam by CV": structural(BOTH, lam=LAMS),
    "monomials of degree 1, lam by CV": structural([Monomials(1)], lam=LAMS),
    "trees, lam by CV": structural([Trees(4)], lam=LAMS),
    "LogisticRegression": logistic,
    "HistGradientBoosting": boosting,
}


def size(model: Any) -> int:
    """Features with a weight; trees of boosting."""
    if isinstance(model, HistGradientBoostingClassifier):
        return int(model.n_iter_ * model.n_trees_per_iteration_)
    best = getattr(model, "best_estimator_", model)
    if isinstance(best, StructMaxentClassifier):
        return best.n_features_
    return int(np.count_nonzero(best[-1].coef_))


# -- measuring ---------------------------------------------------------------------------------


def completed(
    path: Path,
    key: str,
    values: Iterable[Any],
    measure: Measure,
    sets: dict[str, Rows],
    splits: int,
) -> pd.DataFrame:
    """The table of ``path``, with the rows it lacks: one a set, split and value of ``key``."""
    os.environ["MAXENT_NUM_THREADS"] = "1"  # each job has a core
    columns, values = ["set", "split", key], list(values)
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)
    table = table[table[key].isin(values)]
    known = set(table[columns].itertuples(index=False, name=None))
    missing = [job for job in product(sets, range(splits), values) if job not in known]
    missing.sort(key=lambda job: -sets[job[0]][0].size)  # longest first
    with parallel_config(backend="loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=JOBS)(
            delayed(measure)(value, *parts(*sets[name], split)) for name, split, value in missing
        )
    rows = [
        dict(zip(columns, job, strict=True)) | row for job, row in zip(missing, found, strict=True)
    ]
    table = pd.concat([table, pd.DataFrame(rows)]) if rows else table
    place = {name: k for k, name in enumerate(sets)}  # sets that are not at hand come last
    order = [table[key].map(values.index), table["split"], table["set"].map(place)]
    table = table.iloc[np.lexsort(order)]
    table.to_csv(path, index=False, float_format="%.6g")
    return table.reset_index(drop=True)


def parts(X: np.ndarray, y: np.ndarray, split: int) -> tuple[np.ndarray, ...]:
    """Samples and labels to train, and to test."""
    splitter = StratifiedShuffleSplit(SPLITS, test_size=0.3, random_state=0)
    train, test = list(splitter.split(X, y))[split]
    return X[train], y[train], X[test], y[test]


def validate(lam: float, X: np.ndarray, y: np.ndarray, *test: np.ndarray) -> dict[str, Any]:
    """Log loss of a candidate for the default, by cross-validation of the training part."""
    model = clone(DEFAULT).set_params(lam=lam)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constant columns are not used")
        scores = cross_val_score(model, X, y, scoring="neg_log_loss", cv=folds())
    return {"validation_log_loss": -scores.mean()}


def compare(
    method: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    """A method, trained and tested."""
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constant columns are not used")
        model = METHODS[method](np.unique(y).size).fit(X, y)
    return {
        "log_loss": log_loss(y_test, model.predict_proba(X_test)),
        "error": np.mean(model.predict(X_test) != y_test),
        "features": size(model),
        "seconds": perf_counter() - begin,
        "chosen": str(getattr(model, "best_params_", "")),
    }


def mean_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Of the candidates for the default, 1 for the lowest loss of a set and split."""
    losses = table.pivot(index=["set", "split"], columns="lam", values="validation_log_loss")
    by_set = losses.groupby(level="set", sort=False).mean()
    by_set.loc["mean rank"] = losses.rank(axis=1).mean()
    return by_set


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard error over the splits."""
    measures = ["log_loss", "error", "features"]
    groups = table.groupby(["set", "method"], sort=False)[measures]
    return groups.agg(["mean", "sem"])


AXES: dict[str, tuple[str, str, tuple[float, ...]]] = {  # title, scale and marks of a measure
    "log_loss": ("test log loss (nats)", "log", (0.05, 0.1, 0.2, 0.5)),
    "error": ("test error", "linear", (0, 0.1, 0.2, 0.3, 0.4)),
    "features": ("features", "symlog", (0, 1, 10, 100, 1000)),
}
STYLES = ("oC0", "*C5", "PC0", "sC1", "DC2", "XC3", "vC4")  # marker and colour of a method


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel a measure, a row a set, a mark a method with one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    means, sets = summary(table), list(dict.fromkeys(table["set"]))
    figure, axes = plt.subplots(1, 3, figsize=(14, 8), sharey=True, constrained_layout=True)
    middle = (len(METHODS) - 1) / 2
    for axis, (measure, (title, scale, marks)) in zip(axes, AXES.items(), strict=True):
        for k, (method, style) in enumerate(zip(METHODS, STYLES, strict=True)):
            part = means.xs(method, level="method")[measure].reindex(sets)
            axis.errorbar(
                part["mean"], np.arange(len(sets)) + (k - middle) * 0.11,
                xerr=part["sem"].fillna(0), marker=style[0], color=style[1:], markersize=7,
                capsize=2, linestyle="none", label=method,
            )  # fmt: skip
        axis.set(title=title, xscale=scale, yticks=range(len(sets)), yticklabels=sets)
        axis.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axis.minorticks_off()
        for k in range(len(sets) - 1):
            axis.axhline(k + 0.5, color="lightgrey", linewidth=0.8)
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[2].set_xlim(-0.3, 2000)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the tables and the figure."""
    sets, splits = load(data), 2 if quick else SPLITS
    endings = ("_default.csv", ".csv", ".png")
    paths = [out / f"structural_classifier{ending}" for ending in endings]
    choice = completed(paths[0], "lam", DEFAULT_LAMS, validate, sets, splits)
    print("validation log loss\n" + mean_ranks(choice).round(4).to_string())
    table = completed(paths[1], "method", METHODS, compare, sets, splits)
    print(summary(table).round(4).to_string())
    draw(table, paths[2])
    return paths


if __name__ == "__main__":
    main(run, __doc__)
