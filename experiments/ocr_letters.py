"""Handwritten words (OCR letters) under the seven models of the discrimination paper, Figs 7 and 9.

A word is a chain of letters, a letter 128 pixels and a constant. Everywhere one part of the words
is for training and all the others for testing, as in the paper (and Taskar et al., 2003).

- ``ocr_folds``: train on fold 1 and test on the rest; train on folds 1 to 9 and test on fold 0.
- ``ocr_sizes`` (Fig. 7): OCR100 to OCR250, N words of each fold; train on one fold's, test on the
  other nine folds', ten times.
- ``ocr_constants`` (Fig. 9): OCR100 over the constants of each model, the paper's grids; L1-M3N
  over prices of its norm, whose fits have a gap, and not over radii (the norm is a column).
- ``ocr_traces`` (Fig. 8): OCR100, test error of the three CRFs during training: the constants
  are those that ``ocr_sizes`` chose, and the steps are counted, not the relative changes
  of the likelihood by which the paper's left plot is drawn.
- ``ocr_chosen``: beyond the paper, fold 1 with the constants that a user gets without a thought and
  those that ``M3NCV`` and ``L2CRFCV`` choose, and what the choice costs: CPU time, and iterations
  (passes over the words), those of a fold counted by its share of the words. Both are of the whole
  fit; "fits" are relative to the model with the chosen constant alone.
- ``ocr_features``: beyond the paper, pairs of nearby pixels as features, on both tasks of
  ``ocr_folds``.

Constants are chosen by five folds within training words: those of fold 1 in ``ocr_folds`` (also
for the nine folds: c1, c2 and C stand beside sums of losses and so stay what they are), those of
the first run in ``ocr_sizes``. The paper fixes its own (beta = 4 or 2, lambda = 36), in units of
its subgradient method.

``--models L1-M3N`` fits some models again in ``ocr_sizes`` and ``ocr_constants``, and keeps the
rows of the others.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold

import maxent as mx
from experiments.run import RESULTS, write_rows
from experiments.south_america import DATA

FILE = DATA / "ocr_letters" / "letters.npz"
SIZES = (100, 150, 200, 250)
FOLDS = 10
TOL = 1e-2  # of a mean loss of a few units: errors do not change any more
LOOSE = 0.1  # for l1, whose last digits are dear


def l1_network(C: float) -> Any:
    """To a few per cent of an objective that falls like 1 / C where labels are separable."""
    return mx.L1M3N(C, solver=mx.Reweighted(), tol=LOOSE * min(1.0, 1 / C))


def field(c1: float = 0.0, c2: float = 0.0) -> Any:
    """To a few per cent of an objective that falls with c1 or c2: else all of it would be gap."""
    if c1:
        return mx.L1CRF(c1, tol=LOOSE * min(1.0, 3 * c1))
    return mx.L2CRF(c2, tol=TOL * min(1.0, 3 * c2))


MODELS: dict[str, list[Any]] = {
    "CRF": [mx.CRF(tol=TOL)],
    "L1-CRF": [field(c1=c) for c in (0.03, 0.1, 0.3, 1.0, 3.0)],
    "L2-CRF": [mx.L2CRF(c, tol=TOL) for c in (0.3, 1.0, 4.0)],
    "M3N": [mx.M3N(C, tol=TOL) for C in (0.03, 0.1, 0.3)],
    "L1-M3N": [l1_network(C) for C in (0.15, 0.3, 0.6, 1.2)],
    "Laplace MEDN": [mx.LaplaceMEDN(1.0, lam, tol=TOL) for lam in (16.0, 36.0, 64.0)],
    "Laplace MEDN, 3 rounds": [
        mx.LaplaceMEDN(0.5, lam / 4, "variational", tol=TOL) for lam in (16.0, 36.0, 64.0)
    ],
}
# the constants of Fig. 9, but for L1-M3N
SENSITIVITY: dict[str, list[Any]] = {
    "L1-CRF": [field(c1=c) for c in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 4.0, 9.0, 16.0, 25.0)],
    "L2-CRF": [field(c2=c) for c in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 4.0, 9.0, 16.0, 25.0)],
    "M3N": [mx.M3N(float(k * k), tol=TOL) for k in range(1, 10)],
    "Laplace MEDN": [mx.LaplaceMEDN(1.0, float(k * k), tol=TOL) for k in range(1, 10)],
    "L1-M3N": [l1_network(C) for C in (0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0)],
}


def words(constant: bool = True) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Letters of each word, their labels, and the fold of each word."""
    file = np.load(FILE)
    pixels = np.unpackbits(file["pixels_packed"], axis=1).astype(float)
    if constant:
        pixels = np.hstack([pixels, np.ones((len(pixels), 1))])
    ends = np.cumsum(file["word_length"])[:-1]
    labels = file["labels"].astype(int)
    return np.split(pixels, ends), np.split(labels, ends), file["word_fold"]


def pixel_pairs(word: np.ndarray, reach: int) -> np.ndarray:
    """Products of each pixel with those up to ``reach`` rows and columns away."""
    image = word[:, :128].reshape(-1, 16, 8)
    found = []
    for down, right in itertools.product(range(reach + 1), range(-reach, reach + 1)):
        if (down, right) <= (0, 0):
            continue
        left, end = max(0, -right), 8 - max(0, right)
        upper = image[:, : 16 - down, left:end]
        lower = image[:, down:, left + right : end + right]
        found.append((upper * lower).reshape(len(word), -1))
    return np.hstack(found)


FEATURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "pixels": lambda word: word,
    "pixel pairs up to 2 apart": lambda word: np.hstack([word, pixel_pairs(word, 2)]),
    "pixel pairs up to 3 apart": lambda word: np.hstack([word, pixel_pairs(word, 3)]),
}


class Words:
    """Words by number."""

    def __init__(self, X: list[np.ndarray], y: list[np.ndarray]) -> None:
        self.X, self.y = X, y

    def fit(self, model: Any, rows: np.ndarray) -> Any:
        return clone(model).fit([self.X[i] for i in rows], [self.y[i] for i in rows])

    def error(self, model: Any, rows: np.ndarray) -> float:
        return 1 - float(model.score([self.X[i] for i in rows], [self.y[i] for i in rows]))

    def choose(self, candidates: list[Any], rows: np.ndarray) -> Any:
        """The candidate of least error over five folds of the rows."""
        if len(candidates) == 1:
            return candidates[0]
        folds = list(KFold(5, shuffle=True, random_state=0).split(rows))
        errors = [
            np.mean([self.error(self.fit(m, rows[a]), rows[b]) for a, b in folds])
            for m in candidates
        ]
        return candidates[int(np.argmin(errors))]


def folds(data: Words, fold: np.ndarray) -> Iterator[dict[str, Any]]:
    for name, candidates in MODELS.items():
        chosen = data.choose(candidates, np.flatnonzero(fold == 1))
        for task, train in (("fold 1", fold == 1), ("folds 1-9", fold > 0)):
            begin, cpu = time.perf_counter(), time.process_time()
            model = data.fit(chosen, np.flatnonzero(train))
            seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
            yield {
                "train": task,
                "model": name,
                "constants": _constants(chosen),
                "accuracy": 1 - data.error(model, np.flatnonzero(~train)),
                "objective": model.objective_,
                "gap": model.gap_,
                "weights": int(np.sum(np.abs(model.weights_) > 1e-3)),
                "seconds": seconds,
                "cpu_seconds": spent,
            }


def chosen(data: Words, fold: np.ndarray) -> Iterator[dict[str, Any]]:
    train, test = (np.flatnonzero(rows) for rows in (fold == 1, fold != 1))
    for model in (mx.M3NCV(), mx.L2CRFCV(), mx.CRF(), mx.M3N(), mx.L2CRF()):  # compiled before
        data.fit(model, train[:30])

    def row(name: str, model: Any, alone: dict[str, Any] | None = None) -> dict[str, Any]:
        cpu = time.process_time()
        fitted = data.fit(model, train)
        cpu = time.process_time() - cpu
        # three folds, each with two thirds of the words
        tried = getattr(fitted, "cv_results_", {"n_iter": []})
        passes = fitted.n_iter_ + 2 / 3 * sum(tried["n_iter"])
        return {
            "model": name,
            "constants": _constants(model) or _listed(getattr(fitted, "best_params_", {})),
            "accuracy": 1 - data.error(fitted, test),
            "gap": fitted.gap_,
            "tried": len(tried["n_iter"]),
            "iterations": passes,
            "cpu_seconds": cpu,
            "iterations_in_fits": passes / alone["iterations"] if alone else 1.0,
            "cpu_in_fits": cpu / alone["cpu_seconds"] if alone else 1.0,
        }

    yield row("CRF", mx.CRF())
    for name, search, plain in (("M3N", mx.M3NCV(), mx.M3N), ("L2-CRF", mx.L2CRFCV(), mx.L2CRF)):
        yield row(name, plain())
        best = data.fit(search, train).best_params_
        alone = row(f"{name}, constant given", plain(**best))
        yield alone
        yield row(type(search).__name__, search, alone)


def sizes(
    data: Words, fold: np.ndarray, names: tuple[str, ...] = tuple(MODELS)
) -> Iterator[dict[str, Any]]:
    for size in SIZES:
        rng = np.random.default_rng(size)
        parts = [rng.choice(np.flatnonzero(fold == f), size, replace=False) for f in range(FOLDS)]
        for name in names:
            chosen = data.choose(MODELS[name], parts[0])
            for run, train in enumerate(parts):
                test = np.concatenate([p for f, p in enumerate(parts) if f != run])
                model = data.fit(chosen, train)
                yield {
                    "size": size,
                    "model": name,
                    "constants": _constants(chosen),
                    "run": run,
                    "error": data.error(model, test),
                    "objective": model.objective_,
                    "gap": model.gap_,
                }


def constants(
    data: Words, fold: np.ndarray, names: tuple[str, ...] = tuple(SENSITIVITY), runs: int = FOLDS
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(100)
    parts = [rng.choice(np.flatnonzero(fold == f), 100, replace=False) for f in range(FOLDS)]
    for name in names:
        for place, model in enumerate(SENSITIVITY[name]):
            for run in range(runs):
                test = np.concatenate([p for f, p in enumerate(parts) if f != run])
                fitted = data.fit(model, parts[run])
                yield {
                    "model": name,
                    "place": place,
                    "constants": _constants(model),
                    "run": run,
                    "error": data.error(fitted, test),
                    "objective": fitted.objective_,
                    "gap": fitted.gap_,
                    "norm": float(np.abs(fitted.weights_).sum()),
                }


TRACED: dict[str, tuple[Any, Any]] = {  # potential of a mean over 100 words, and solver
    "CRF": (mx.Equality(), mx.LBFGS),
    "L1-CRF": (mx.Box(0.1 / 100), mx.OWLQN),
    "L2-CRF": (mx.Quadratic(2 * 1.0 / 100), mx.LBFGS),
}
STEPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500)


class Traced:
    """Training and test error of a model of some words, step by step."""

    def __init__(self, data: Words, train: np.ndarray, test: np.ndarray) -> None:
        self.classes = np.unique(np.concatenate([data.y[i] for i in train]))
        self.chain = mx.Chain(len(self.classes))
        self.words = [data.X[i] for i in train]
        self.paths = [np.searchsorted(self.classes, data.y[i]) for i in train]
        self.others = mx.ChainMap([data.X[i] for i in test], len(self.classes))
        self.truth = np.concatenate([data.y[i] for i in test])

    def follow(self, potential: Any, solver: Any) -> Iterator[dict[str, Any]]:
        """A row at each of STEPS; where a solver ends before, its last again."""
        problem = mx.Problem(
            mx.Shannon(domain=self.chain),
            mx.ChainMap(self.words, len(self.classes)),
            potential,
            observed=self.chain.encode(self.paths, tied=True),
        )
        seen = {0: self.look(problem.origin())}

        def look(step: int, state: Any) -> None:
            if step in STEPS:
                seen[step] = self.look(state)

        solver(tol=0.0, max_iter=max(STEPS), verbose=0).run(problem, callback=look)
        for step in STEPS:
            yield {"steps": step} | seen[max(done for done in seen if done <= step)]

    def look(self, state: Any) -> dict[str, Any]:
        loss = len(self.words) * (state.smooth + state.problem.observed_value)
        best = np.concatenate(self.chain.decode(self.chain.argmax(self.others.scores(state.w))))
        error = float(np.mean(self.classes[best] != self.truth))
        return {"negative_log_likelihood": float(loss), "error": error}


def traces(data: Words, fold: np.ndarray) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(100)
    parts = [rng.choice(np.flatnonzero(fold == f), 100, replace=False) for f in range(FOLDS)]
    for run, train in enumerate(parts):
        traced = Traced(data, train, np.concatenate([p for f, p in enumerate(parts) if f != run]))
        for name, (potential, solver) in TRACED.items():
            for row in traced.follow(potential, solver):
                yield {"model": name, "run": run} | row


def features(data: Words, fold: np.ndarray) -> Iterator[dict[str, Any]]:
    for name, make in FEATURES.items():
        rich = Words([sparse.csr_array(make(word)) for word in data.X], data.y)
        for model_name, candidates in (
            ("L2-CRF", [mx.L2CRF(c, tol=0.1, all_pairs=True) for c in (1.0, 4.0)]),
            ("M3N", [mx.M3N(C, tol=0.1, all_pairs=True) for C in (0.01, 0.03)]),
        ):
            chosen = rich.choose(candidates, np.flatnonzero(fold == 1))
            for task, train in (("fold 1", fold == 1), ("folds 1-9", fold > 0)):
                begin = time.perf_counter()
                model = rich.fit(chosen, np.flatnonzero(train))
                yield {
                    "train": task,
                    "features": name,
                    "model": model_name,
                    "constants": _constants(chosen),
                    "weights": model.weights_.size,
                    "accuracy": 1 - rich.error(model, np.flatnonzero(~train)),
                    "gap": model.gap_,
                    "seconds": time.perf_counter() - begin,
                }


def _constants(model: Any) -> str:
    names = ("c1", "c2", "C", "radius", "lam")
    return _listed({name: getattr(model, name, None) for name in names})


def _listed(constants: dict[str, float | None]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in constants.items() if value is not None)


def figure(results: Path) -> Path:
    import matplotlib.pyplot as plt

    def read(name: str) -> list[dict[str, str]]:
        with (results / f"{name}.csv").open() as file:
            return list(csv.DictReader(file))

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    rows = read("ocr_sizes")
    for name in MODELS:
        mine = {
            s: [float(r["error"]) for r in rows if r["model"] == name and r["size"] == str(s)]
            for s in SIZES
        }
        mean = [np.mean(mine[s]) for s in SIZES]
        spread = [np.std(mine[s], ddof=1) / np.sqrt(len(mine[s])) for s in SIZES]
        left.errorbar(SIZES, mean, spread, label=name, marker="o", capsize=3)
    left.set(xlabel="training words", ylabel="letter error on the other folds", title="Fig. 7")
    left.legend(fontsize=8)
    rows = read("ocr_constants")
    for name, models in SENSITIVITY.items():
        mean = [
            np.mean(
                [float(r["error"]) for r in rows if r["model"] == name and r["place"] == str(i)]
            )
            for i in range(len(models))
        ]
        span = f"{_constants(models[0])} to {_constants(models[-1])}"
        where = np.linspace(0, 1, len(models))
        right.plot(where, mean, marker="o", label=f"{name}: {span}")
    right.set(xlabel="place in the grid, from its first value to its last", title="Fig. 9, OCR100")
    right.legend(fontsize=8)
    path = results / "ocr_letters.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


PARTS = {
    "ocr_folds": folds,
    "ocr_chosen": chosen,
    "ocr_sizes": sizes,
    "ocr_constants": constants,
    "ocr_traces": traces,
    "ocr_features": features,
}


def again(
    path: Path, rows: Callable[..., Iterator[dict[str, Any]]], data: Words, fold: np.ndarray,
    names: tuple[str, ...],
) -> Path:  # fmt: skip
    """Write a csv with new rows of some models after the old ones of the others."""
    with path.open() as file:
        kept = [row for row in csv.DictReader(file) if row["model"] not in names]
    new = list(rows(data, fold, names))
    empty = dict.fromkeys(new[0], "")
    return write_rows(path, iter([*(empty | row for row in kept), *new]))


def run(
    results: Path, parts: tuple[str, ...] = tuple(PARTS), names: tuple[str, ...] = ()
) -> list[Path]:
    if not FILE.exists():
        print("ocr_letters needs the OCR letters; nothing written")
        return []
    X, y, fold = words()
    data = Words(X, y)
    if names:
        written = [again(results / f"{part}.csv", PARTS[part], data, fold, names) for part in parts]
    else:
        written = [write_rows(results / f"{part}.csv", PARTS[part](data, fold)) for part in parts]
    if (results / "ocr_sizes.csv").exists() and (results / "ocr_constants.csv").exists():
        written.append(figure(results))
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--models", nargs="*", default=[], help="those to fit again, by name")
    given = parser.parse_args()
    for path in run(RESULTS, tuple(given.parts) or tuple(PARTS), tuple(given.models)):
        print(f"written: {path.relative_to(RESULTS.parent.parent)}")
