"""Conditional structural maxent (structural paper, §3) beside scikit-learn's classifiers.

Log loss, error and size on six sets: scikit-learn's iris, wine, breast cancer and digits, and the
most balanced label of emotions and of yeast, yes or no. Five stratified splits, 70% to train;
penalties are chosen on the training rows alone, by three-fold cross-validation of the log loss:
beta with lam = 0.1, the paper's best in all of its experiments, or lam with beta = 0.0003. Size
counts pairs of feature and class with a weight, trees for boosting. The splits overlap: standard
errors are over splits of these rows, not over new rows.

python -m experiments.structural_classifier [--data DIR] [--quick]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.south_america import DATA, main
from maxent.estimators.structural_classifier import StructMaxentClassifier
from maxent.families import Family, Monomials, Trees

SPLITS, FOLDS, JOBS = 5, 3, 2
LAM, BETA = 0.1, 0.0003
GRID = {"beta": (0.0003, 0.001, 0.003, 0.01), "lam": (0.001, 0.005, 0.03)}
MULTILABEL = ("emotions", "yeast")
Rows = tuple[np.ndarray, np.ndarray]


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


def structural(families: list[Family], by: str) -> Callable[[int], ClassifierMixin]:
    """Structural maxent with one of its penalties chosen."""

    def made(classes: int) -> ClassifierMixin:
        model = StructMaxentClassifier(families, LAM, BETA, per_round=classes, verbose=0)
        return chosen(model, {by: GRID[by]})

    return made


def chosen(model: Any, grid: dict[str, Any]) -> ClassifierMixin:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds)


def logistic(classes: int) -> ClassifierMixin:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return chosen(model, {"logisticregression__C": np.logspace(-3, 3, 7)})


def boosting(classes: int) -> ClassifierMixin:
    return HistGradientBoostingClassifier(random_state=0)


FAMILIES = {
    "monomials and trees": [Monomials(2), Trees(4)],
    "monomials of degree 1": [Monomials(1)],
    "trees": [Trees(4)],
}
METHODS: dict[str, Callable[[int], ClassifierMixin]] = {
    f"{name}, {by} by CV": structural(families, by)
    for by in GRID
    for name, families in FAMILIES.items()
} | {
    "LogisticRegression": logistic,
    "HistGradientBoosting": boosting,
}


def size(model: Any) -> int:
    """Features with a weight; trees of boosting."""
    if isinstance(model, HistGradientBoostingClassifier):
        return int(model.n_iter_ * model.n_trees_per_iteration_)
    best = model.best_estimator_
    if isinstance(best, StructMaxentClassifier):
        return best.n_features_
    return int(np.count_nonzero(best[-1].coef_))


# -- measuring ---------------------------------------------------------------------------------


def measure(sets: dict[str, Rows], splits: int) -> pd.DataFrame:
    """One row a set, split and method."""
    os.environ["MAXENT_NUM_THREADS"] = "1"  # each job has a core
    jobs = [(name, *rows, split) for split in range(splits) for name, rows in sets.items()]
    jobs.sort(key=lambda job: -job[1].size * np.unique(job[2]).size)  # longest first
    with parallel_config(backend="loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=JOBS)(delayed(measure_split)(*job) for job in jobs)
    table = pd.DataFrame([row for rows in found for row in rows])
    order = table["set"].map(list(sets).index)
    return table.iloc[np.lexsort((table["split"], order))].reset_index(drop=True)


def measure_split(name: str, X: np.ndarray, y: np.ndarray, split: int) -> list[dict[str, Any]]:
    """Every method on one split."""
    splitter = StratifiedShuffleSplit(SPLITS, test_size=0.3, random_state=0)
    train, test = list(splitter.split(X, y))[split]
    rows = []
    for method, make in METHODS.items():
        begin = perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="constant columns are not used")
            model = make(np.unique(y).size).fit(X[train], y[train])
        rows.append(
            {
                "set": name,
                "split": split,
                "method": method,
                "log_loss": log_loss(y[test], model.predict_proba(X[test])),
                "error": np.mean(model.predict(X[test]) != y[test]),
                "features": size(model),
                "seconds": perf_counter() - begin,
                "chosen": str(getattr(model, "best_params_", "")),
            }
        )
    return rows


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard error over the splits."""
    measures = ["log_loss", "error", "features"]
    groups = table.groupby(["set", "method"], sort=False)[measures]
    return groups.agg(["mean", "sem"])


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel a measure, a row a set, a mark a method with one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    means, sets = summary(table), list(dict.fromkeys(table["set"]))
    titles = {"log_loss": "test log loss (nats)", "error": "test error", "features": "features"}
    figure, axes = plt.subplots(1, 3, figsize=(14, 8), sharey=True, constrained_layout=True)
    for axis, (measure, title) in zip(axes, titles.items(), strict=True):
        for k, method in enumerate(METHODS):
            part = means.xs(method, level="method")[measure].loc[sets]
            axis.errorbar(
                part["mean"], np.arange(len(sets)) + (k - 3.5) * 0.1, xerr=part["sem"].fillna(0),
                marker="osDosDPv"[k], color=f"C{'01201234'[k]}", markersize=6, capsize=2,
                markerfacecolor="white" if "beta by CV" in method else None, linestyle="none",
                label=method,
            )  # fmt: skip
        axis.set(title=title, yticks=range(len(sets)), yticklabels=sets)
        axis.set_xscale({"log_loss": "log", "error": "linear", "features": "symlog"}[measure])
        for k in range(len(sets) - 1):
            axis.axhline(k + 0.5, color="lightgrey", linewidth=0.8)
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[2].set_xlim(-0.3, 2000)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the table and the figure."""
    table = measure(load(data), 2 if quick else SPLITS)
    print(summary(table).round(4).to_string())
    paths = [out / "structural_classifier.csv", out / "structural_classifier.png"]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    draw(table, paths[1])
    return paths


if __name__ == "__main__":
    main(run, __doc__)
