"""Figure 10 of the Fenchel-Young paper: label proportions of synthetic documents.

After Martins and Astudillo (2016), as §9.1 tells it: the number of labels of a document is drawn
from a Poisson distribution, its label proportions y from a multinomial of that many draws; the
number of its words from another Poisson distribution, the words from the mixture, by y, of the
labels' multinomials over a vocabulary as large as the number of labels. x are word frequencies.
1200 documents train, 200 choose lambda in 1e-6 ... 1 (and alpha in 1, 1.1 ... 2), 1000 test. What
the paper does not give was chosen here: 5 labels a document in the mean (none is drawn again),
labels equally likely, their multinomials from a flat Dirichlet distribution, five corpora a point.

python -m experiments.synthetic_documents
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import maxent as mx
from experiments.label_proportions import ALPHAS, METHODS, divergence, squared_error

CLASSES = (10, 50)
LENGTHS = (200, 650, 1100, 1550, 2000)
LAMBDAS = tuple(10.0**-k for k in range(7))
SIZES = (1200, 200, 1000)
LABELS, CORPORA, TOL = 5, 5, 1e-6


def corpus(classes: int, length: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(word frequencies, label proportions) of the training, development and test documents."""
    rng = np.random.default_rng([classes, length, seed])
    words = rng.dirichlet(np.ones(classes), size=classes)  # a multinomial a label
    count = sum(SIZES)
    labels = rng.poisson(LABELS, size=count)
    while (none := labels == 0).any():
        labels[none] = rng.poisson(LABELS, size=int(none.sum()))
    Y = rng.multinomial(labels, np.full(classes, 1 / classes)) / labels[:, None]
    sizes = np.maximum(rng.poisson(length, size=count), 1)
    X = rng.multinomial(sizes, Y @ words) / sizes[:, None]
    cuts = np.cumsum(SIZES)[:-1]
    return list(zip(np.split(X, cuts), np.split(Y, cuts), strict=True))


def evaluate(classes: int, length: int, seed: int) -> list[dict[str, Any]]:
    """A row for each method."""
    train, dev, test = corpus(classes, length, seed)
    chosen: dict[float, tuple[float, float, float, float]] = {}
    for alpha in ALPHAS:
        model = mx.FenchelYoungRegressor(
            alpha=alpha, fit_intercept=False, solver="newton-cg", warm_start=True, tol=TOL,
            verbose=0,
        )  # fmt: skip
        for lam in LAMBDAS:
            model.set_params(potential=lam / SIZES[0]).fit(*train)
            score = divergence(model.predict(dev[0]), dev[1])
            if alpha not in chosen or score < chosen[alpha][0]:
                p = model.predict(test[0])
                measures = divergence(p, test[1]), squared_error(p, test[1])
                chosen[alpha] = (score, *measures, lam)
    rows = []
    for method, tried in METHODS.items():
        best = min(tried, key=lambda alpha: chosen[alpha][0])
        _, js, mse, lam = chosen[best]
        rows.append(
            {"classes": classes, "length": length, "corpus": seed, "method": method, "js": js,
             "mse": mse, "alpha": best, "lambda": lam}
        )  # fmt: skip
    return rows


def run(results: Path) -> list[Path]:
    """Every point of the figure; those in the csv already are kept."""
    table = results / "synthetic_documents.csv"
    rows: list[dict[str, Any]] = []
    if table.exists():
        rows = pd.read_csv(table).to_dict("records")
    done = {(r["classes"], r["length"], r["corpus"]) for r in rows}
    for seed in range(CORPORA):
        for classes in CLASSES:
            for length in LENGTHS:
                if (classes, length, seed) in done:
                    continue
                rows += evaluate(classes, length, seed)
                print({r["method"]: round(r["js"], 4) for r in rows[-4:]}, classes, length, seed)
                with table.open("w", newline="") as file:
                    writer = csv.DictWriter(file, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(rows)
    return [table, draw(results / "synthetic_documents.png", pd.DataFrame(rows))]


def draw(path: Path, table: pd.DataFrame) -> Path:
    """Mean divergence against document length, with standard errors over the corpora."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(CLASSES), figsize=(10, 4), constrained_layout=True)
    for axis, classes in zip(axes, CLASSES, strict=True):
        for method in METHODS:
            part = table[(table["classes"] == classes) & (table["method"] == method)]
            js = part.groupby("length")["js"]
            # the tuned curve often lies on that of sparsemax: rings around its points
            tuned = {"fillstyle": "none", "markersize": 11, "linestyle": ":"}
            style = tuned if method == "tuned alpha" else {}
            axis.errorbar(
                js.mean().index, js.mean(), js.sem(), label=method, marker="o", capsize=3, **style
            )
        axis.set_title(f"{classes} classes")
        axis.set_xlabel("mean document length (words)")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("Jensen-Shannon divergence, test")
    axes[0].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


if __name__ == "__main__":
    from experiments.run import RESULTS

    for written in run(RESULTS):
        print(f"written: {written}")
