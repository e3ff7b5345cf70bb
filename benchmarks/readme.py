"""The comparison tables of README and guides, from results/*.csv: python -m benchmarks.readme."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from benchmarks.report import RESULTS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDES = {  # page -> its suites
    "docs/structured/chains.md": ("structured_chains", "gpu_chains"),
    "docs/structured/ranking.md": ("structured_ranking",),
    "docs/structured/transport.md": ("structured_transport",),
    "docs/structured/arborescence.md": ("structured_trees", "dependency_parsing"),
    "docs/tagging.md": ("tagging", "chunking"),
    "docs/discrimination.md": ("max_margin", "ocr_folds", "ocr_features"),
    "docs/scale.md": ("scale", "dask_learning", "species_cluster"),
    "docs/app.md": ("app",),
    "docs/torch.md": ("gpu_head", "gpu_host"),
}
_LARGE = ("density", "projection", "relaxation")  # suites with runs that no peer can follow
_MEASURED = ("tagging", "max_margin", "scale", "dask_learning", "species_cluster", "app")
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


def _heads() -> list[str]:
    """Heads of language models on a GPU: a line a shape, ms forward and backward, peak memory."""
    rows = [row for row in _rows("gpu_head") if row["spread"] == "2.2"]
    shown = [
        *("torch linear + cross-entropy", "Liger cross-entropy", "cut cross-entropy"),
        *("maxent head, entmax 1.5", "maxent head, sparsemax"),
    ]
    lines = [
        "Linear layer and loss of a language model, one H200, bfloat16, ms forward and backward, "
        "and GB beside inputs and gradients, with scores of a trained model:",
        "",
        "| tokens x hidden x classes | one product | " + " | ".join(shown) + " |",
        "|---" * (len(shown) + 2) + "|",
    ]
    for shape in dict.fromkeys((row["tokens"], row["hidden"], row["classes"]) for row in rows):
        here = {
            row["what"]: row
            for row in rows
            if (row["tokens"], row["hidden"], row["classes"]) == shape
        }
        cells = [f"{float(here['one product']['ms']):.3g}"]
        cells += [
            f"{float(here[what]['ms']):.3g}, {float(here[what]['peak GB']):.2g} GB"
            if here[what]["ms"]
            else here[what]["met"]
            for what in shown
        ]
        lines.append(f"| {' x '.join(shape)} | " + " | ".join(cells) + " |")
    return lines if rows else []


def _compared(suites: tuple[str, ...]) -> list[str]:
    """One line a peer and problem: both times, their ratio, both accuracies, the target.

    The float64 maps stay in the csv, the same picture once more, unless one misses its target.
    The error of a density is our certified gap, and the gain that the peer's answer lacks.
    """
    lines = [
        "| problem | maxent | peer | peer's time | ratio | error: maxent / peer | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for suite in suites:
        rows = _rows(suite)
        ours = {row["problem"]: row for row in rows if row["method"] == "maxent"}
        for row in rows:
            mine = ours.get(row["problem"])
            shown = suite != "maps" or "float64" not in row["problem"] or row["met"] == "no"
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
    return lines


def _as_it_is(rows: list[dict[str, str]]) -> list[str]:
    """All columns of a csv."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    return lines + ["| " + " | ".join(row.values()) + " |" for row in rows]


def _measured(rows: list[dict[str, str]]) -> list[str]:
    """Each method's own line, with its note."""
    lines = ["| problem | method | median | ratio | target | accuracy | |", "|---" * 7 + "|"]
    for row in rows:
        unit = " MB" if " MB " in row["problem"] else " s"
        median = f"{_number(row['seconds']):.4g}{unit}" if row["seconds"] else ""
        if row["status"] != "OK":
            median += f", {row['status']}"
        ratio = f"{_number(row['ratio']):.3g}" if row["ratio"] else ""
        target = f"{row['target']}: {row['met']}" if row["target"] else ""
        cells = [row["problem"], row["method"], median, ratio, target, row["accuracy"], row["note"]]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def table() -> str:
    """The table of the README."""
    lines = _compared(("maps", "glm", "training", "density", "projection", "relaxation"))
    startup = [
        f"`{row['problem']}`: {_seconds(row['seconds'])} ({row['target']}: {row['met']})"
        for row in _rows("startup")
    ]
    lines += ["", "Start-up: " + "; ".join(startup) + "."]
    lines += ["", *_on_a_device(), "", *_heads()]
    if alone := _alone([row for suite in _LARGE for row in _rows(suite)]):
        lines += ["", "Size: " + "; ".join(alone) + "."]
    return "\n".join(lines)


def _guide_table(suite: str) -> str:
    """One csv of benchmarks/results or experiments/results as a table."""
    if suite.startswith("structured"):
        return "\n".join(_compared((suite,)))
    if suite in _MEASURED:
        return "\n".join(_measured(_rows(suite)))
    folder = RESULTS if suite.startswith("gpu") else ROOT / "experiments" / "results"
    with (folder / f"{suite}.csv").open() as file:
        return "\n".join(_as_it_is(list(csv.DictReader(file))))


def _between(text: str, start: str, end: str, content: str) -> str:
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"a page lacks {start} or {end}")
    return f"{before}{start}\n{content}\n{end}{after}"


def updated(text: str) -> str:
    """The README with the table between its markers."""
    return _between(text, START, END, table())


def updated_guide(page: str, text: str) -> str:
    """A guide with a table for each of its suites."""
    for suite in GUIDES[page]:
        start, end = f"<!-- {suite}: start -->", f"<!-- {suite}: end -->"
        text = _between(text, start, end, f"\n{_guide_table(suite)}\n")
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    for name in GUIDES:
        guide = ROOT / name
        guide.write_text(updated_guide(name, guide.read_text()))
    print("comparison tables updated: README.md,", *GUIDES)
