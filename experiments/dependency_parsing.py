"""Dependency parsers trained with three losses (Fenchel-Young paper, §9.2, Table 5).

Unlabeled attachment of docs/examples/parser.py on UD v2.0 treebanks, gold tokens and tags. As in
the paper the learning rate is chosen for each loss on the development part; so are the share of
units dropped (noise that a hinge takes badly) and the epoch. Every run is a process of its own.

python -m experiments.dependency_parsing [--data DIR] [--device cuda] [--jobs 9] [--quick]
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from types import ModuleType

import numpy as np

# Table 5
PAPER = {
    "en": {"hinge": 87.02, "crf": 86.74, "sparsemap": 86.90},
    "vi": {"hinge": 69.42, "crf": 69.10, "sparsemap": 69.71},
}
RATES = (1e-3, 2e-3)
DROPOUTS = (0.0, 0.33)
EPOCHS = {"en": 15, "vi": 30}
NODES = {"en": 800, "vi": 400}  # in a batch
RESULTS = Path(__file__).parent / "results"


def home() -> Path:
    """$MAXENT_DATA/ud; by default ../shared/data/ud beside the checkout."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("MAXENT_DATA", shared)) / "ud"


def example() -> ModuleType:
    """The module docs/examples/parser.py."""
    path = Path(__file__).parents[1] / "docs" / "examples" / "parser.py"
    spec = importlib.util.spec_from_file_location("parser", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(
    data: Path, language: str, loss: str, rate: float, dropout: float, device: str, quick: bool
) -> dict[str, object]:
    """One run: attachment in percent on the development and the test part."""
    import torch

    torch.set_num_threads(1)
    parser = example()
    names = ("train", "dev", "test")
    parts = {name: parser.read_part(data, f"{language}-", name) for name in names}
    if quick:
        parts = {name: part[:200] for name, part in parts.items()}
    begin = perf_counter()
    epochs = 2 if quick else EPOCHS[language]
    scores = parser.train(loss, parts, epochs, NODES[language], rate, device, dropout=dropout)
    return {
        "language": language,
        "loss": loss,
        "rate": rate,
        "dropout": dropout,
        "dev": round(100 * scores["dev"], 2),
        "test": round(100 * scores["test"], 2),
        "seconds": round(perf_counter() - begin),
    }


def summary(runs: list[dict[str, object]]) -> list[dict[str, object]]:
    """For each language and loss the run that is best on the development part."""
    rows = []
    for language, paper in PAPER.items():
        for loss, theirs in paper.items():
            own = [r for r in runs if (r["language"], r["loss"]) == (language, loss)]
            if own:
                best = own[int(np.argmax([r["dev"] for r in own]))]
                difference = round(best["test"] - theirs, 2)  # type: ignore[operator]
                rows.append(best | {"paper": theirs, "difference": difference})
    return rows


def run(
    out: Path, data: Path | None = None, device: str = "cpu", jobs: int = 1, quick: bool = False
) -> list[Path]:
    """Write all runs, as they end, and the table."""
    data = home() if data is None else data
    if not list(data.glob("en-*-train.conllu*")):
        print(f"no treebanks in {data}: set MAXENT_DATA or give --data")
        return []
    tasks = [
        (language, loss, rate, dropout)
        for language, paper in PAPER.items()
        for loss, rate, dropout in product(paper, RATES, DROPOUTS)
    ]
    paths = [out / "dependency_parsing_runs.csv", out / "dependency_parsing.csv"]
    runs: list[dict[str, object]] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(train, data, *task, device, quick) for task in tasks]
        for future in as_completed(futures):
            runs.append(future.result())
            print(runs[-1], flush=True)
            if not quick:
                for path, rows in zip(paths, (runs, summary(runs)), strict=True):
                    with path.open("w", newline="") as file:
                        writer = csv.DictWriter(file, list(rows[0]))
                        writer.writeheader()
                        writer.writerows(rows)
    for row in summary(runs):
        print(row)
    return [] if quick else paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    for written in run(given.out, given.data, given.device, given.jobs, given.quick):
        print(f"written: {written}")
