"""Label ranking on eight sets: losses of the permutahedron beside a squared and a pairwise one.

Linear models of standardized features, all with a quadratic penalty whose strength is chosen by
three folds within the training rows; Kendall's tau of the predicted rankings by ten folds.

- permutahedron l2, kl: ``LabelRanker``, certified by its duality gap;
- squared loss: ridge regression of the ranks, labels ordered by the predicted ranks;
- pairwise: a logistic regression for each pair of labels, labels ordered by the sum of their
  probabilities to win (Hüllermeier, Fürnkranz, Cheng and Brinker 2008).
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

import maxent as mx
from experiments.south_america import DATA

FOLDER = DATA / "label_ranking"
SETS = ("authorship", "bodyfat", "glass", "housing", "iris", "stock", "vehicle", "wine")
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
Predict = Callable[[np.ndarray], np.ndarray]


def permutahedron(entropy: str) -> Callable[..., tuple[Predict, float]]:
    def fit(X: np.ndarray, ranks: np.ndarray, strength: float) -> tuple[Predict, float]:
        model = mx.LabelRanker(entropy, potential=strength, tol=1e-5, solver="lbfgs").fit(X, ranks)
        return lambda Z: -model.decision_function(Z), model.gap_

    return fit


def squared(X: np.ndarray, ranks: np.ndarray, strength: float) -> tuple[Predict, float]:
    model = Ridge(alpha=strength * len(X)).fit(X, ranks)
    return model.predict, np.nan


def pairwise(X: np.ndarray, ranks: np.ndarray, strength: float) -> tuple[Predict, float]:
    models: dict[tuple[int, int], LogisticRegression | float] = {}
    for i, j in itertools.combinations(range(ranks.shape[1]), 2):
        first = ranks[:, i] < ranks[:, j]
        if first.all() or not first.any():
            models[i, j] = float(first[0])
        else:
            logistic = LogisticRegression(C=1 / (strength * len(X)), max_iter=1000)
            models[i, j] = logistic.fit(X, first)

    def predict(Z: np.ndarray) -> np.ndarray:
        votes = np.zeros((len(Z), ranks.shape[1]))
        for (i, j), model in models.items():
            wins = model if isinstance(model, float) else model.predict_proba(Z)[:, 1]
            votes[:, i] += wins
            votes[:, j] += 1 - wins
        return -votes

    return predict, np.nan


METHODS = {
    "permutahedron l2": permutahedron("l2"),
    "permutahedron kl": permutahedron("kl"),
    "squared loss": squared,
    "pairwise logistic": pairwise,
}


def fold_taus(fit: Callable[..., tuple[Predict, float]], X, ranks, strength, folds) -> list[float]:
    """Mean tau of each fold."""
    taus = []
    for train, test in folds.split(X):
        scale = StandardScaler().fit(X[train])
        predict, _ = fit(scale.transform(X[train]), ranks[train], strength)
        taus.append(mx.kendall_tau(predict(scale.transform(X[test])), ranks[test]).mean())
    return taus


def evaluate(name: str, method: str) -> dict[str, object]:
    """Tau by ten folds, each with a strength chosen within."""
    with np.load(FOLDER / f"{name}.npz") as stored:
        X, ranks = stored["X"].astype(float), stored["ranks"].astype(float)
    fit = METHODS[method]
    taus, gaps, chosen = [], [], []
    for train, test in KFold(10, shuffle=True, random_state=0).split(X):
        inner = KFold(3, shuffle=True, random_state=1)
        means = [np.mean(fold_taus(fit, X[train], ranks[train], s, inner)) for s in STRENGTHS]
        chosen.append(STRENGTHS[int(np.argmax(means))])
        scale = StandardScaler().fit(X[train])
        predict, gap = fit(scale.transform(X[train]), ranks[train], chosen[-1])
        taus.append(mx.kendall_tau(predict(scale.transform(X[test])), ranks[test]).mean())
        gaps.append(gap)
    return {
        "set": name,
        "rows": len(X),
        "features": X.shape[1],
        "labels": ranks.shape[1],
        "method": method,
        "tau": round(float(np.mean(taus)), 4),
        "sd_of_folds": round(float(np.std(taus, ddof=1)), 4),
        "median_strength": float(np.median(chosen)),
        "largest_gap": f"{max(gaps):.1e}" if np.isfinite(gaps).all() else "",
    }


def run(out: Path) -> list[Path]:
    """Write one row for every set and method, and the means over the sets."""
    if not FOLDER.exists():
        print(f"the label-ranking sets are not in {FOLDER}; set MAXENT_DATA")
        return []
    rows = []
    for name, method in itertools.product(SETS, METHODS):
        rows.append(evaluate(name, method))
        print(f"{name}, {method}: tau {rows[-1]['tau']}", flush=True)
    for method in METHODS:
        taus = [row["tau"] for row in rows if row["method"] == method]
        rows.append({"set": "mean", "method": method, "tau": round(float(np.mean(taus)), 4)})
    table = out / "label_ranking.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [table]
