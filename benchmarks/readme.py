"""The comparison table of the README, made from results/*.csv: python -m benchmarks.readme."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from benchmarks.report import RESULTS

README = Path(__file__).parent.parent / "README.md"
_LARGE = ("density", "projection", "relaxation")  # suites with runs that no peer can follow
START, END = "<!-- benchmarks: start -->", "<!-- benchmarks: end -->"


def _rows(suite: str) -> list[dict[str, str]]:
    path = RESULTS / f"{suite}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _seconds(text: str) -> str:
    value = _number(text)
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def _time(row: dict[str, str]) -> str:
    if row["status"] == "OK":
        return _seconds(row["seconds"])
    return f"{_seconds(row['seconds'])}, recorded" if row["seconds"] else row["status"]


def _alone(rows: list[dict[str, str]]) -> list[str]:
    """Ours where no peer can follow: time and memory against their limits."""
    peers = {row["problem"] for row in rows if row["method"] != "maxent"}
    return [
        f"{row['problem']}: {_seconds(row['seconds'])} ({row['target']}: {row['met']})"
        for row in rows
        if row["problem"] not in peers and row["target"]
    ]


def _on_a_device() -> list[str]:
    """Sparse maps and losses on a GPU: a line a shape, ms, the target in brackets."""
    rows = _rows("gpu")
    shown = [
        "copy",
        "torch.softmax",
        *(f"maxent alpha={a}" for a in ("2", "1.5", "1.33", "1.05", "3")),
    ]
    shown += ["torch cross-entropy", "maxent loss 2", "maxent loss 1.5"]
    lines = [
        "One H200, ms through the public functions (target); losses forward and backward:",
        "",
        "| scores | " + " | ".join(shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for shape in dict.fromkeys(row["shape"] for row in rows):
        here = {row["what"]: row for row in rows if row["shape"] == shape}
        cells = [
            f"{float(here[what]['ms']):.3g}"
            + (f" ({here[what]['target']}: {here[what]['met']})" if here[what]["target"] else "")
            for what in shown
        ]
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    return lines if rows else []


def table() -> str:
    """One line a peer and problem: both times, their ratio, both accuracies, the target.

    The float64 maps stay in the csv, the same picture once more, unless one misses its target.
    The error of a density is our certified gap, and the gain that the peer's answer lacks.
    """
    lines = [
        "| problem | maxent | peer | peer's time | ratio | error: maxent / peer | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for suite in ("maps", "glm", "training", "density", "projection", "relaxation"):
        rows = _rows(suite)
        ours = {row["problem"]: row for row in rows if row["method"] == "maxent"}
        for row in rows:
            mine = ours.get(row["problem"])
            shown = "float64" not in row["problem"] or row["met"] == "no"
            own = row["method"] == "maxent" or row["method"].startswith("maxent (")
            if own or mine is None or not shown:
                continue
            time = _time(row)
            ratio = f"{_number(row['ratio']):.2g} x" if row["ratio"] else ""
            errors = f"{mine['accuracy'] or '-'} / {row['accuracy'] or '-'}"
            target = f"{row['target']}: {row['met']}" if row["target"] else ""
            mine_time = _time(mine)
            cells = [row["problem"], mine_time, row["method"], time, ratio, errors, target]
            lines.append("| " + " | ".join(cells) + " |")
    startup = [
        f"`{row['problem']}`: {_seconds(row['seconds'])} ({row['target']}: {row['met']})"
        for row in _rows("startup")
    ]
    lines += ["", "Start-up: " + "; ".join(startup) + "."]
    lines += ["", *_on_a_device()]
    if alone := _alone([row for suite in _LARGE for row in _rows(suite)]):
        lines += ["", "Size: " + "; ".join(alone) + "."]
    return "\n".join(lines)


def updated(text: str) -> str:
    """The README with the table between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    print("README.md: comparison table updated")
