"""How far models are above their optimum, and what certificates say: l1 and no penalty at all.

- ``certificates_l1``: L1-CRF over the rare attributes of CoNLL-2000, 500 sentences and all of them,
  along the steps of OWL-QN: the gap with one factor for all sentences, with a factor for each, and
  with predictions tilted to the moments that the penalty asks for.
- ``certificates_unpenalised``: CRF without a penalty on OCR letters. Separable words have their
  loss for a gap; where letters and pixels never meet the optimum is at infinity all the same.

python -m experiments.certificates [parts]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx
from experiments import chunking, ocr_letters
from experiments.run import run_parts, write_rows
from maxent._support.threads import one_blas_thread

C1 = 1.0
SIZES = {500: (64, 128, 256, 512, 1024), 8936: (64, 256)}  # sentences: steps
STEPS_A_PRODUCT = 8  # as solvers have it
TOLERANCES = (1e-2, 1e-4)


def l1() -> Iterator[dict[str, Any]]:
    """A row a look; ``above`` is the objective less the lowest that the run came to."""
    train = chunking.Sentences("train")
    for count, looks in SIZES.items():
        model = mx.L1CRF(C1)
        labels, parts = model._pose(train.X[:count], train.y[:count], None)
        problem = model._problem(labels, *parts)
        with one_blas_thread():
            rows = _looks(problem, looks)
        for row in rows:
            above = row["objective"] - rows[-1]["objective"]
            yield {"sentences": len(labels.lengths), **row, "above": above}


def _looks(problem: mx.Problem, looks: tuple[int, ...]) -> list[dict[str, Any]]:
    rows, spent = [], time.process_time()
    for step, state in enumerate(mx.OWLQN()._iterate(problem, problem.origin()), start=1):
        if step in looks:
            seconds = time.process_time() - spent
            rows.append(_look(problem.state(state.w), step) | {"cpu_steps": seconds})
            print(rows[-1], flush=True)
            spent = time.process_time() - seconds
        if step == looks[-1]:
            break
    return rows


def _look(state: Any, steps: int) -> dict[str, Any]:
    row: dict[str, Any] = {"weights": state.w.size, "steps": steps, "objective": state.dual}
    row["products"] = products = steps // STEPS_A_PRODUCT
    kinds = {"one": lambda: state.gap, "rows": lambda: state.row_gap}
    for name, gap in (kinds | {"tilted": lambda: state.tilted_gap(products)}).items():
        begin = time.process_time()
        row[f"gap_{name}"] = float(gap())
        row[f"cpu_{name}"] = time.process_time() - begin
    return row


def unpenalised() -> Iterator[dict[str, Any]]:
    """Fold 1 and folds 1 to 9, to two tolerances."""
    X, y, fold = ocr_letters.words()
    for name, rows in (("fold 1", fold == 1), ("folds 1-9", fold > 0)):
        mine = np.flatnonzero(rows)
        for tol in TOLERANCES if name == "fold 1" else TOLERANCES[:1]:
            begin = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = mx.CRF(tol=tol).fit([X[i] for i in mine], [y[i] for i in mine])
            told = [w for w in caught if issubclass(w.category, mx.SeparableWarning)]
            for other in caught:
                if other not in told:
                    warnings.warn_explicit(
                        other.message, other.category, other.filename, other.lineno
                    )
            yield {
                "train": name,
                "words": mine.size,
                "weights": model.weights_.size,
                "tol": tol,
                "loss": model.loss_,
                "gap": model.gap_,
                "at_infinity": str(told[0].message).split(" and nothing")[0] if told else "",
                "iterations": model.n_iter_,
                "cpu_seconds": time.process_time() - begin,
            }


PARTS = {
    "certificates_l1": (chunking.FOLDER, l1),
    "certificates_unpenalised": (ocr_letters.FILE, unpenalised),
}


def run(results: Path, parts: tuple[str, ...] = tuple(PARTS)) -> list[Path]:
    written = []
    for part in parts:
        source, rows = PARTS[part]
        if source.exists():
            written.append(write_rows(results / f"{part}.csv", rows()))
        else:
            print(f"{part} needs {source}; nothing written")
    return written


if __name__ == "__main__":
    run_parts(__doc__, PARTS, run)
