"""Dependency parsers trained with three losses (Fenchel-Young paper, §9.2, Table 5).

Unlabeled attachment of docs/examples/parser.py on UD v2.0 treebanks, gold tokens and tags. As in
the paper the learning rate is chosen for each loss on the development part, from a grid that grows
by a factor of 2 where its best is at an end; so is the epoch. With and without dropout, of which
the paper does not speak: noise that a hinge takes badly. The chosen rates are run with three seeds.
Every run is a process of its own. Runs that ``dependency_parsing_runs.csv`` has are not run again.

``--collapse`` trains the hinge on Vietnamese for a few epochs and stores the training loss of a
word, which is 1 where all scores are 0 (dependency_parsing_collapse.csv).

``--projective`` trains the CRF on Hungarian for a few epochs and searches for the best tree among
all and among projective ones (dependency_parsing_projective.csv).

python -m experiments.dependency_parsing [--data DIR] [--device cuda] [--jobs 9] [--minutes 9]
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

# Table 5
PAPER = {
    "en": {"hinge": 87.02, "crf": 86.74, "sparsemap": 86.90},
    "vi": {"hinge": 69.42, "crf": 69.10, "sparsemap": 69.71},
}
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)  # §9.2
SEEDS = (0, 1, 2)
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


class Task(NamedTuple):
    """One run."""

    language: str
    loss: str
    rate: float
    dropout: float
    seed: int


Runs = dict[Task, dict[str, Any]]


def train(data: Path, task: Task, device: str, quick: bool) -> dict[str, Any]:
    """Attachment in percent on the development and the test part."""
    import torch

    torch.set_num_threads(1)
    parser = example()
    names = ("train", "dev", "test")
    parts = {name: parser.read_part(data, f"{task.language}-", name) for name in names}
    if quick:
        parts = {name: part[:200] for name, part in parts.items()}
    begin = perf_counter()
    epochs, nodes = 2 if quick else EPOCHS[task.language], NODES[task.language]
    scores = parser.train(
        task.loss, parts, epochs, nodes, task.rate, device, task.seed, dropout=task.dropout
    )
    return task._asdict() | {
        "dev": round(100 * scores["dev"], 2),
        "test": round(100 * scores["test"], 2),
        "seconds": round(perf_counter() - begin),
    }


def collapse(out: Path, data: Path, device: str, epochs: tuple[int, ...] = (1, 3)) -> Path:
    """The hinge on Vietnamese, with and without dropout: loss of a word, in training."""
    parser = example()
    parts = {name: parser.read_part(data, "vi-", name) for name in ("train", "dev")}
    rows = []
    for dropout, count in product(DROPOUTS, epochs):
        found = parser.train("hinge", parts, count, NODES["vi"], 2e-3, device, dropout=dropout)
        dev = round(100 * found["dev"], 2)
        loss = f"{found['loss']:.4f}"
        rows.append({"dropout": dropout, "epochs": count, "loss_per_word": loss, "dev": dev})
    path = out / "dependency_parsing_collapse.csv"
    _write_table(path, rows)
    return path


def projective(
    out: Path, data: Path, device: str, language: str = "hu", epochs: int = 3, quick: bool = False
) -> Path:
    """The CRF over all trees: the best of them, and the best projective ones; one run."""
    import torch

    torch.set_num_threads(1)
    parser = example()
    names = ("train", "dev", "test")
    parts = {name: parser.read_part(data, f"{language}-", name) for name in names}
    if quick:
        parts, epochs = {name: part[:50] for name, part in parts.items()}, 1
    words = {name: sum(len(sentence.heads) for sentence in part) for name, part in parts.items()}
    vocabulary = parser.Vocabulary(parts["train"])
    kept = dict.fromkeys(names, 0)  # heads of the nearest projective trees
    for name, part in parts.items():
        for batch in vocabulary.batches(part, NODES["vi"], "cpu"):
            inside = torch.arange(batch.heads.shape[1]) < batch.lengths[:, None]
            same = parser.without_crossings(batch).heads == batch.heads
            kept[name] += int((same & inside)[:, 1:].sum())
    found = parser.train("crf", parts, epochs, NODES["vi"], 4e-3, device, dropout=0.33)
    rows = [
        {
            "language": language,
            "searched": searched,
            "epochs": epochs,
            "dev": round(100 * found["dev" + suffix], 2),
            "test": round(100 * found["test" + suffix], 2),
            "reachable": round(100 * reachable, 2),
        }
        for searched, suffix, reachable in (
            ("all trees", "", 1.0),
            ("projective trees", ", other trees", kept["test"] / words["test"]),
        )
    ]
    path = out / "dependency_parsing_projective.csv"
    _write_table(path, rows)
    return path


def models() -> Iterator[tuple[str, str, float]]:
    """Language, loss and dropout: what a learning rate is chosen for."""
    for language, paper in PAPER.items():
        yield from ((language, loss, dropout) for loss, dropout in product(paper, DROPOUTS))


def chosen(runs: Runs, language: str, loss: str, dropout: float) -> tuple[float | None, list[Task]]:
    """The rate that is best on the development part, and what is still to be run to choose it.

    It is known as soon as its neighbours have been run.
    """
    rates = list(RATES)
    while True:
        grid = [Task(language, loss, rate, dropout, SEEDS[0]) for rate in rates]
        missing = [task for task in grid if task not in runs]
        done = [task for task in grid if task in runs]
        best = max(done, key=lambda task: float(runs[task]["dev"])).rate if done else rates[0]
        place = rates.index(best)
        if missing or 0 < place < len(rates) - 1:
            inside = 0 < place < len(rates) - 1
            known = inside and all(grid[place + step] in runs for step in (-1, 0, 1))
            return best if known else None, missing
        rates = [best / 2, *rates] if place == 0 else [*rates, 2 * best]


def needed(runs: Runs) -> list[Task]:
    """Runs to be made next."""
    tasks = []
    for model in models():
        rate, missing = chosen(runs, *model)
        tasks += missing
        if rate is not None:
            language, loss, dropout = model
            tasks += [Task(language, loss, rate, dropout, seed) for seed in SEEDS]
    return [task for task in tasks if task not in runs]


def summary(runs: Runs) -> list[dict[str, Any]]:
    """Each model at its rate, over the seeds; "best" marks the dropout that development prefers."""
    rows: list[dict[str, Any]] = []
    for language, loss, dropout in models():
        rate, _ = chosen(runs, language, loss, dropout)
        if rate is None:
            continue
        tasks = [Task(language, loss, rate, dropout, seed) for seed in SEEDS]
        own = [runs[task] for task in tasks if task in runs]
        dev, test = ([run[part] for run in own] for part in ("dev", "test"))
        rows.append(
            {
                "language": language,
                "loss": loss,
                "dropout": dropout,
                "rate": rate,
                "seeds": len(own),
                "dev": round(float(np.mean(dev)), 2),
                "test": round(float(np.mean(test)), 2),
                "sd": round(float(np.std(test, ddof=1)), 2) if len(own) > 1 else "",
                "paper": PAPER[language][loss],
                "difference": round(float(np.mean(test)) - PAPER[language][loss], 2),
            }
        )
    for row in rows:
        same = [
            r["dev"] for r in rows if (r["language"], r["loss"]) == (row["language"], row["loss"])
        ]
        row["best"] = row["dev"] == max(same)
    return rows


def stored(path: Path) -> Runs:
    """The runs of an earlier time."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    runs: Runs = {}
    for row in rows:
        task = Task(
            row["language"],
            row["loss"],
            float(row["rate"]),
            float(row["dropout"]),
            int(row["seed"]),
        )
        scores = {name: float(row[name]) for name in ("dev", "test")}
        runs[task] = task._asdict() | scores | {"seconds": int(row["seconds"])}
    return runs


def run(
    out: Path,
    data: Path | None = None,
    device: str = "cpu",
    jobs: int = 1,
    quick: bool = False,
    minutes: float = np.inf,
) -> list[Path]:
    """Write all runs, as they end, and the table; after so many minutes no run is begun."""
    data = home() if data is None else data
    if not list(data.glob("en-*-train.conllu*")):
        print(f"no treebanks in {data}: set MAXENT_DATA or give --data")
        return []
    paths = [out / "dependency_parsing_runs.csv", out / "dependency_parsing.csv"]
    runs: Runs = {} if quick else stored(paths[0])
    begin = perf_counter()
    running: dict[Future[dict[str, Any]], Task] = {}
    failed: set[Task] = set()  # told, and left to a later time
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        while True:
            for task in needed(runs):
                late = perf_counter() - begin > 60 * minutes
                if late or len(running) == jobs:
                    break
                if task not in running.values() and task not in failed:
                    running[pool.submit(train, data, task, device, quick)] = task
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                if error := future.exception():
                    failed.add(task)
                    print(f"{task} failed: {error!r}", flush=True)
                    continue
                runs[task] = future.result()
                print(runs[task], flush=True)
                if not quick:
                    _write(paths, runs)
    for row in summary(runs):
        print(row)
    return [] if quick else paths


def _write(paths: list[Path], runs: Runs) -> None:
    for path, rows in zip(paths, (list(runs.values()), summary(runs)), strict=True):
        if rows:
            _write_table(path, rows)


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=np.inf, help="then no run is begun")
    parser.add_argument("--collapse", action="store_true", help="the hinge under dropout alone")
    parser.add_argument("--projective", action="store_true", help="trees without crossings alone")
    given = parser.parse_args()
    if given.projective:
        place = given.data or home()
        print(f"written: {projective(given.out, place, given.device, quick=given.quick)}")
        raise SystemExit
    if given.collapse:
        print(f"written: {collapse(given.out, given.data or home(), given.device)}")
        raise SystemExit
    settings = (given.device, given.jobs, given.quick, given.minutes)
    for written in run(given.out, given.data, *settings):
        print(f"written: {written}")
