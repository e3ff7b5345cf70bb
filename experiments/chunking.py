"""Chunking, CoNLL-2000: phrase F1 of CRFs with squared and absolute penalties, max-margin too.

Constants of the squared penalty and of the max-margin network are chosen by three folds within the
training sentences. With the absolute penalty every constant tried is shown: what matters there is
how many weights are left. ``features`` are the pairs of an attribute and a label that occur in
training, and the transitions, as CRFsuite counts them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

import maxent as mx
from experiments.run import RESULTS, write_rows
from experiments.south_america import DATA
from maxent.tagging import TEMPLATES, phrase_scores, read_conll

FOLDER = DATA / "conll2000"
TOL = 1e-3  # of a mean loss of about 1.5
STEPS = 300  # of OWL-QN, whose last digits are dear
CHOSEN = {
    "L2-CRF": [mx.L2CRF(c, tol=TOL) for c in (0.25, 0.5, 1.0)],
    "M3N": [mx.M3N(C, tol=0.02) for C in (0.03, 0.1, 0.3)],
}
SHOWN = [mx.L1CRF(c, tol=TOL, solver=mx.OWLQN(), max_iter=STEPS) for c in (0.3, 0.6, 1.0, 1.5)]


class Sentences:
    """Names of the attributes of every token, and the chunks."""

    def __init__(self, part: str) -> None:
        sequences = read_conll(FOLDER / f"{part}.txt.gz")
        self.X = [list(map(list, tokens)) for tokens in TEMPLATES["chunking"].tokens(sequences)]
        self.y = [[token[2] for token in tokens] for tokens in sequences]

    def some(self, rows: np.ndarray) -> tuple[list, list]:
        return [self.X[i] for i in rows], [self.y[i] for i in rows]


def f1(model: Any, X: list, y: list) -> float:
    return phrase_scores(y, [path.tolist() for path in model.predict(X)]).f1


def fitted(model: Any, X: list, y: list) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.ConvergenceWarning)  # the gap is in the table
        return clone(model).fit(X, y)


def row(name: str, model: Any, train: Sentences, test: Sentences, inside: float | None) -> dict:
    begin = time.process_time()
    model = fitted(model, train.X, train.y)
    seconds = time.process_time() - begin
    constant = {key: value for key, value in model.get_params().items() if key in ("c1", "c2", "C")}
    return {
        "model": name,
        "constant": " ".join(f"{key}={value:g}" for key, value in constant.items()),
        "f1_folds": inside,
        "f1": f1(model, test.X, test.y),
        "features": model.weights_.size,
        "not_zero": int(np.count_nonzero(model.weights_)),
        "objective": model.objective_,
        "gap": model.gap_,
        "iterations": model.n_iter_,
        "cpu_seconds": seconds,
    }


def rows(train: Sentences, test: Sentences) -> Iterator[dict]:
    for name, candidates in CHOSEN.items():
        folds = list(KFold(3, shuffle=True, random_state=0).split(train.X))
        scores = [
            float(np.mean([f1(fitted(m, *train.some(a)), *train.some(b)) for a, b in folds]))
            for m in candidates
        ]
        best = int(np.argmax(scores))
        yield row(name, candidates[best], train, test, scores[best])
    for model in SHOWN:
        yield row("L1-CRF", model, train, test, None)


def run(results: Path) -> list[Path]:
    if not FOLDER.is_dir():
        print("chunking needs CoNLL-2000; nothing written")
        return []
    return [write_rows(results / "chunking.csv", rows(Sentences("train"), Sentences("test")))]


if __name__ == "__main__":
    for path in run(RESULTS):
        print(f"written: {path.relative_to(RESULTS.parent.parent)}")
