"""Tables of README, benchmark page and guides, from results: python -m benchmarks.readme."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.comparisons import PARTS, Comparison, Record, Target, amount, number, times
from benchmarks.comparisons import comparisons as compared
from benchmarks.comparisons import read as _rows
from benchmarks.comparisons import targets as aimed
from benchmarks.report import RESULTS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGE = "docs/benchmarks.md"
GUIDES = {  # page -> its tables: suites, csv files of experiments, and those of _SUMMARIES
    "docs/structured.md": ("gpu_structures",),
    "docs/structured/chains.md": ("structured_chains", "gpu_chains"),
    "docs/structured/ranking.md": ("structured_ranking",),
    "docs/structured/segments.md": ("structured_segments",),
    "docs/structured/transport.md": ("structured_transport", "structured_points"),
    "docs/structured/arborescence.md": ("structured_trees", "dependency_parsing"),
    "docs/structured/projective.md": ("structured_spans", "dependency_parsing_projective"),
    "docs/tagging.md": ("tagging", "chunking"),
    "docs/discrimination.md": ("max_margin", "ocr_folds", "ocr_features"),
    "docs/scale.md": ("scale", "dask_learning", "species_cluster"),
    "docs/app.md": ("app",),
    "docs/torch.md": (
        *("gpu_head", "head_shapes", "head_cpu", "head_shards"),
        *("gpu_host", "gpu_attention", "gpu_decoding"),
    ),
    PAGE: (
        *("summary", "counts", "slower", "missed", "limits", "maps", "layers", "attention", "glm"),
        "training",
        *(
            "few_samples",
            "wide_labels",
            "density",
            "many_species",
            "sources",
            "projection",
            "tuning",
            "relaxation",
            "structured_chains",
        ),
        *(
            "structured_trees",
            "structured_segments",
            "structured_spans",
            "structured_ranking",
            "structured_transport",
            "structured_points",
            "tagging",
        ),
        *("max_margin", "scale", "dask_learning", "species_cluster", "startup", "app", "nceas"),
    ),
}
_MEASURED = ("tagging", "max_margin", "scale", "dask_learning", "species_cluster", "app")
# the three lines of the README: every part is in one of them
LINES = {
    "densities, raster maps, paths and the app": (
        *("densities and raster maps", "relaxation path", "start-up, tuning and app"),
    ),
    "sparse losses, classifiers and layers, on CPU and GPU": (
        *("sparse maps, layers, losses, attention", "regression and classifiers"),
        *("more rows than memory", "GPU: maps, losses, structures", "GPU: language-model head"),
        "GPU: attention",
    ),
    "chains, trees, ranking, transport and tagging": (
        *("chains, trees, ranking, transport", "tagging and max-margin networks"),
    ),
}
START, END = "<!-- benchmarks: start -->", "<!-- benchmarks: end -->"


def _time(row: Record) -> str:
    if row["status"] == "OK":
        return amount(number(row["seconds"]))
    return f"{amount(number(row['seconds']))}, recorded" if row["seconds"] else row["status"]


def _table(header: str, rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {header} |", "|---" * (header.count("|") + 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _of_part(part: str) -> tuple[list[Comparison], list[Target]]:
    """Comparisons in the same run (recorded ones where there are no others), and targets."""
    every = [one for suite in PARTS[part] for one in compared(suite)]
    here = [one for one in every if not one.recorded] or every
    return here, [one for suite in PARTS[part] for one in aimed(suite)]


def _ratios(here: list[Comparison]) -> tuple[str, str]:
    """Their median with their number, and the worst with its peer."""
    worst = min(here, key=lambda one: one.ratio)
    median = f"{times(statistics.median(one.ratio for one in here))} ({len(here)})"
    return median, f"{times(worst.ratio)} beside {worst.peer}: {worst.problem}"


def _met(goals: list[Target]) -> str:
    return f"{sum(goal.met for goal in goals)} of {len(goals)}" if goals else ""


def _summary() -> str:
    """A row for each part: the median over its comparisons, and the worst of them."""
    rows = []
    for part in PARTS:
        here, goals = _of_part(part)
        if not here:
            rows.append((part, "no peer", "", "", _met(goals)))
            continue
        recorded = " (recorded)" if here[0].recorded else ""
        peers = ", ".join(dict.fromkeys(one.family + recorded for one in here))
        rows.append((part, peers, *_ratios(here), _met(goals)))
    return _table("part | beside | median | worst | targets met", rows)


def _everything() -> tuple[list[Comparison], list[Target]]:
    suites = [suite for suites in PARTS.values() for suite in suites]
    every = [one for suite in suites for one in compared(suite)]
    return every, [one for suite in suites for one in aimed(suite)]


def _counts() -> str:
    """How often we are faster, and how many targets are met."""
    every, goals = _everything()
    here = [one for one in every if not one.recorded]
    slower = sum(one.ratio < 1 for one in here)
    missed = sum(not goal.met for goal in goals)
    return (
        f"Of {len(here)} comparisons in the same run we are faster in {len(here) - slower} "
        f"and slower in {slower}; {len(every) - len(here)} more are with recorded times. "
        f"Of {len(goals)} targets {missed} are missed."
    )


def _slower() -> str:
    """Every comparison that a peer wins."""
    lost = [one for one in _everything()[0] if one.ratio < 1]
    rows = [
        (
            *(one.problem, amount(one.ours, one.problem), one.peer),
            *(amount(one.theirs, one.problem), times(one.ratio)),
        )
        for one in lost
    ]
    return _table("problem | maxent | peer | peer's | ratio", rows)


def _missed() -> str:
    """Every target that is missed."""
    rows = [
        (goal.problem, "" if goal.method == "maxent" else goal.method, goal.target, goal.reached)
        for goal in _everything()[1]
        if not goal.met
    ]
    return _table("problem | beside | target | reached", rows)


def _limits() -> str:
    """Every problem with a physical limit: our time, the limit, and what it is made of."""
    rows = []
    for suite in (suite for suites in PARTS.values() for suite in suites):
        for row in _rows(suite):
            if row.get("status") != "limit":
                continue
            problem, least, share = row["problem"], number(row["seconds"]), number(row["ratio"])
            kind = row["method"].removeprefix("limit: ")
            both = amount(least / share, problem), amount(least, problem)
            rows.append((problem, *both, times(1 / share), kind, row["note"]))
    return _table("problem | maxent | limit | maxent / limit | limit of | made of", rows)


def _nceas() -> str:
    """Mean AUC of every variant over all species."""
    with (ROOT / "experiments" / "results" / "nceas_summary.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["region"] == "all"]
    shown = []
    for row in rows:
        signed = (row[f"maxnet_{name}"] for name in ("difference", "low", "high"))
        difference, low, high = (f"{float(value):+.4f}" for value in signed)
        interval = f"{low} to {high}"
        auc = f"{float(row['auc']):.4f}"
        shown.append((row["background"], row["variant"], row["scored"], auc, difference, interval))
    columns = "background | variant | species | AUC | less published maxnet | 95 % interval"
    return _table(columns, shown)


def _head_shapes() -> str:
    """The head beside torch, a row for each case of its shapes."""
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in _rows("gpu_head_shapes"):
        case = tuple(row[name] for name in ("tokens", "hidden", "classes", "type", "scores"))
        found.setdefault(case, {})[row["what"]] = row
    rows = []
    for case, each in found.items():
        own = each["maxent head, entmax 1.5"]
        shape = " x ".join(case[:3])
        ms = (
            each[what]["ms"]
            for what in (
                *("three products", "torch linear + cross-entropy"),
                *(
                    "maxent head, cross-entropy",
                    "maxent head, entmax 1.5",
                    "maxent head, sparsemax",
                ),
            )
        )
        rows.append((shape, *case[3:], *ms, own["times torch"], own["peak GB"], own["met"]))
    head = "tokens x hidden x classes | type | scores | three products | torch | cross-entropy"
    head += " | entmax 1.5 | sparsemax | entmax / torch | GB | at most 1.1, 0.5 GB"
    return _table(head, rows)


_SUMMARIES: dict[str, Callable[[], str]] = {
    "head_shapes": _head_shapes,
    "summary": _summary,
    "counts": _counts,
    "slower": _slower,
    "missed": _missed,
    "limits": _limits,
    "nceas": _nceas,
}


def _compared(suite: str) -> str:
    """A row for each peer and problem: both times, their ratio, both accuracies, the target."""
    rows = _rows(suite)
    ours = {row["problem"]: row for row in rows if row["method"] == "maxent"}
    shown = []
    for row in rows:
        mine = ours.get(row["problem"])
        own = row["method"] == "maxent" or row["method"].startswith("maxent (")
        if own or mine is None or row["status"] == "limit":
            continue
        ratio = f"{number(row['ratio']):.2g} x" if row["ratio"] else ""
        errors = f"{mine['accuracy'] or '-'} / {row['accuracy'] or '-'}"
        target = f"{row['target']}: {row['met']}" if row["target"] else ""
        times_of_both = _time(mine), row["method"], _time(row)
        shown.append((row["problem"], *times_of_both, ratio, errors, target))
    columns = "problem | maxent | peer | peer's time | ratio | error: maxent / peer | target"
    return _table(columns, shown)


def _in_seconds(value: float, problem: str) -> str:
    return f"{value:.4g} {'MB' if ' MB ' in problem else 's'}"


def _measured(rows: list[Record], shown: Callable[[float, str], str] = _in_seconds) -> str:
    """Each method's own line, with its note."""
    lines = []
    for row in rows:
        median = shown(number(row["seconds"]), row["problem"]) if row["seconds"] else ""
        if row["status"] != "OK":
            median += f", {row['status']}" if median else row["status"]
        ratio = f"{number(row['ratio']):.3g}" if row["ratio"] else ""
        target = f"{row['target']}: {row['met']}" if row["target"] else ""
        cells = (row["problem"], row["method"], median, ratio, target, row["accuracy"], row["note"])
        lines.append(cells)
    return _table("problem | method | median | ratio | target | accuracy |", lines)


def _attention_line() -> str:
    """How much faster than softmax's attention with exact zeros is, and from which length on."""
    ratios = {
        one.problem: one.ratio
        for one in compared("gpu_attention")
        if one.peer == "torch softmax" and one.problem.endswith("causal, spread 1.0")
    }
    long = ratios["4 x 32768 x 128 causal, spread 1.0"]
    tokens = {name: int(name.split(" x ")[1]) for name in ratios if ":" not in name}
    slow = max(tokens[name] for name in tokens if ratios[name] <= 1)
    enough = min(n for n in tokens.values() if n > slow)
    return (
        f"Exact sparse attention, **{times(long)} as fast as softmax's at 32,768 tokens** (causal, "
        f"forward and backward, one H200). Below {enough:,} tokens it is slower than softmax's."
    )


def table() -> str:
    """A line on attention and three lines over all parts; those are on the page."""
    rows = []
    for line, parts in LINES.items():
        several = [_of_part(part) for part in parts]
        here = [one for found, _ in several for one in found]
        goals = [goal for _, found in several for goal in found]
        rows.append((line, *_ratios(here), _met(goals)))
    return f"{_attention_line()}\n\n{_table('what | median | worst | targets met', rows)}"


def _guide_table(page: str, suite: str) -> str:
    """One csv of benchmarks/results or experiments/results as a table, or one made from several."""
    if suite in _SUMMARIES:
        return _SUMMARIES[suite]()
    if page == PAGE:
        return _measured(_rows(suite), amount)
    if suite.startswith("structured"):
        return _compared(suite)
    if suite in _MEASURED:
        return _measured(_rows(suite))
    folder = RESULTS if suite.startswith(("gpu", "head")) else ROOT / "experiments" / "results"
    with (folder / f"{suite}.csv").open() as file:
        rows = list(csv.DictReader(file))
    return _table(" | ".join(rows[0]), [tuple(row.values()) for row in rows])


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
        text = _between(text, start, end, f"\n{_guide_table(page, suite)}\n")
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    for name in GUIDES:
        guide = ROOT / name
        guide.write_text(updated_guide(name, guide.read_text()))
    print("comparison tables updated: README.md,", *GUIDES)
