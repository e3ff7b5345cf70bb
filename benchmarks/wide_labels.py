"""Several labels over wide sparse data: our kinds of losses beside a logistic regression per label.

Made-up words and labels in the shapes of two collections of texts that are often used, enron and
medical: rare words, rare labels. The logistic loss is judged by our Problem for both; kinds with
exact zeros and ones have no peer, and stand beside the same fit of scikit-learn. Seconds are the
processor's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.report import Row
from benchmarks.timing import in_turns, median
from maxent import FenchelYoungMultilabel

SUITE, OURS, PEER = "wide_labels", "maxent", "scikit-learn one-vs-rest lbfgs"
AS_FAST = "at least as fast"
REPEATS = 3
TOL = 1e-6  # gap of ours; scikit-learn stops by its own rule, above that


class Shape(NamedTuple):
    """Samples, words, labels, words and labels of a sample."""

    samples: int
    words: int
    labels: int
    length: float
    labelled: float


SHAPES = {"enron": Shape(1123, 1001, 53, 90, 3.4), "medical": Shape(978, 1449, 45, 14, 1.2)}


def made(shape: Shape) -> tuple[sparse.csr_array, np.ndarray]:
    """Words by a power law, labels from a few of them."""
    rng = np.random.default_rng(0)
    often = 1 / np.arange(1, shape.words + 1) ** 0.7
    often = np.minimum(often * shape.length / often.sum(), 0.9)
    X = (rng.random((shape.samples, shape.words)) < often).astype(float)
    size = shape.words, shape.labels
    scores = X @ (rng.normal(0, 1.5, size) * (rng.random(size) < 0.05))
    share = shape.labelled / (np.arange(1, shape.labels + 1) * np.log(shape.labels) + 1)
    scores += np.log(np.minimum(0.6, share) / (1 - np.minimum(0.6, share))) - scores.mean(axis=0)
    Y = scores + rng.logistic(size=scores.shape) > 0
    Y[:2], Y[2] = True, False  # every label has both
    return sparse.csr_array(X), Y.astype(int)


def one_vs_rest(X: sparse.csr_array, Y: np.ndarray, strength: float) -> tuple[np.ndarray, ...]:
    """scikit-learn's weights."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = LogisticRegression(C=1 / (len(Y) * strength), max_iter=1000)
        model = OneVsRestClassifier(each).fit(X, Y)
    coef = np.vstack([one.coef_ for one in model.estimators_])
    return coef, np.concatenate([one.intercept_ for one in model.estimators_])


def logistic(
    X: sparse.csr_array, Y: np.ndarray, s: float, coef: np.ndarray, b: np.ndarray
) -> float:
    """Mean loss and penalty of both."""
    theta = X @ coef.T + b
    return float((np.logaddexp(0, theta) - Y * theta).sum(axis=1).mean() + s / 2 * (coef**2).sum())


def run(quick: bool = False) -> list[Row]:
    """One row for each kind and for the peer, shape by shape."""
    rows = []
    for name, shape in SHAPES.items():
        X, Y = made(shape)
        strength = 1 / len(Y)
        models: dict[str, FenchelYoungMultilabel] = {}

        def ours(
            kind: str, X: sparse.csr_array = X, Y: np.ndarray = Y, s: float = strength,
            kept: dict = models,
        ) -> Callable[[], None]:  # fmt: skip
            def fit() -> None:
                kept[kind] = FenchelYoungMultilabel(kind, potential=s, tol=TOL).fit(X, Y)

            return fit

        kinds = ("one-vs-all", "sparse", "cube")
        fits: dict[str, Callable[[], object]] = {f"{OURS} {kind}": ours(kind) for kind in kinds}
        fits[PEER] = lambda X=X, Y=Y, s=strength: one_vs_rest(X, Y, s)
        times = in_turns(fits, repeats=1 if quick else REPEATS, clock=process_time)
        seconds = {method: median(taken) for method, taken in times.items()}
        excess = logistic(X, Y, strength, *one_vs_rest(X, Y, strength))
        excess -= models["one-vs-all"].objective_
        problem = f"shape of {name}, {shape.samples} x {shape.words}, {shape.labels} labels"
        for kind in kinds:
            ratio = seconds[PEER] / seconds[f"{OURS} {kind}"]
            model = models[kind]
            note = f"{model.n_iter_} steps; accuracy: duality gap; ratio: seconds of {PEER}"
            rows.append(
                Row(
                    SUITE, problem, f"{OURS} {kind}", seconds=seconds[f"{OURS} {kind}"],
                    ratio=ratio, accuracy=model.gap_, repeats=REPEATS, target=AS_FAST,
                    met="yes" if ratio >= 1 else "no", note=note,
                )
            )  # fmt: skip
        note = "accuracy: objective above that of one-vs-all"
        rows.append(
            Row(
                SUITE, problem, PEER, seconds=seconds[PEER], ratio=1.0,
                accuracy=excess, repeats=REPEATS, note=note,
            )
        )  # fmt: skip
    return rows
