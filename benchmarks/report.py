"""Rows of results: csv files that are tracked, and a table on the terminal."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.timing import median

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One competitor on one problem.

    status: OK, N/A (not installed), NC (did not converge), recorded (another run and machine),
    limit (no method: see benchmarks/limits.py).
    """

    suite: str
    problem: str
    method: str
    status: str = "OK"
    seconds: float = math.nan
    ratio: float = math.nan  # time over ours: above 1 we are faster
    # maps: max error; glm: suboptimality by our Problem; density: gap, the gain that a peer lacks
    accuracy: float = math.nan
    repeats: int = 0
    target: str = ""
    met: str = ""
    note: str = ""


def missing(suite: str, problem: str, method: str, reason: str) -> Row:
    return Row(suite, problem, method, status="N/A", note=reason)


def compared(
    suite: str,
    problem: str,
    times: dict[str, list[float]],
    ours: str,
    accuracy: dict[str, float],
    targets: dict[str, tuple[str, float]],
) -> list[Row]:
    """A row a competitor: the times beside ours, and whether its target, a ratio, is met."""
    rows = []
    for method, seconds in times.items():
        ratio = median(seconds) / median(times[ours])
        target, goal = targets.get(method, ("", None))
        rows.append(
            Row(
                suite,
                problem,
                method,
                seconds=median(seconds),
                ratio=ratio,
                accuracy=accuracy[method],
                repeats=len(seconds),
                target=target,
                met="" if goal is None else "yes" if ratio >= goal else "no",
            )
        )
    return rows


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def write(suite: str, rows: list[Row], keep: bool = False) -> Path:
    """results/<suite>.csv, and the machine and versions beside it.

    keep : the rows of problems that were not measured this time stay, in their order.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{suite}.csv"
    lines = [[_cell(v) for v in asdict(row).values()] for row in rows]
    if keep and path.exists():
        lines = _merged(path, lines)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f.name for f in fields(Row)])
        writer.writerows(lines)
    config = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    (RESULTS / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return path


def _merged(path: Path, lines: list[list[str]]) -> list[list[str]]:
    """The lines of a csv, those of the problems that were measured again replaced."""
    new: dict[str, list[list[str]]] = {}
    for line in lines:
        new.setdefault(line[1], []).append(line)
    merged: list[list[str]] = []
    with path.open(newline="") as file:
        for line in list(csv.reader(file))[1:]:
            if line[1] not in {other[1] for other in lines}:
                merged.append(line)
            elif line[1] in new:
                merged += new.pop(line[1])
    return merged + [line for several in new.values() for line in several]


PACKAGES = (
    "maxent",
    "numpy",
    "scipy",
    "rasterio",
    "numba",
    "torch",
    "entmax",
    "skglm",
    "celer",
    "scikit-learn",
    "elapid",
    "torchsort",
    "pytorch-crf",
    "torch-struct",
    "tslearn",
    "pysdtw",
    "python-crfsuite",
    "dask",
    "distributed",
)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("problem", "method", "median s", "time / ours", "accuracy", "target", "met")
    last = None
    for row in rows:
        problem = row.problem if row.problem != last else ""
        last = row.problem
        seconds = _cell(row.seconds) if row.status == "OK" else row.status
        if row.status in ("recorded", "limit"):
            seconds = f"{_cell(row.seconds)} ({row.status})"
        table.add_row(
            problem, row.method, seconds, _cell(row.ratio), _cell(row.accuracy), row.target, row.met
        )
    Console(width=150).print(table)
