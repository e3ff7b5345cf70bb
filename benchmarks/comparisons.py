"""What results/*.csv say: times beside those of peers, and targets that were met or missed."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.report import RESULTS

Record = dict[str, str]
PARTS = {  # part of the library -> its suites
    "sparse maps, layers, losses, attention": ("maps", "layers", "attention"),
    "regression and classifiers": ("glm", "training", "sources"),
    "densities and raster maps": ("density", "projection"),
    "relaxation path": ("relaxation",),
    "chains, trees, ranking, transport": (
        *(
            "structured_chains",
            "structured_trees",
            "structured_spans",
            "structured_ranking",
            "structured_segments",
            "structured_transport",
            "structured_points",
        ),
    ),
    "tagging and max-margin networks": ("tagging", "max_margin"),
    "more rows than memory": ("scale", "dask_learning", "species_cluster"),
    "GPU: maps, losses, structures": ("gpu", "gpu_host", "gpu_chains", "gpu_structures"),
    "GPU: language-model head": ("gpu_head", "gpu_head_shapes"),
    "GPU: attention": ("gpu_attention", "gpu_decoding"),
    "start-up, tuning and app": ("startup", "tuning", "app"),
}
_FAMILIES = (  # the package that a peer belongs to; the first that fits
    *("scikit-learn", "entmax", "torch-struct", "torchsort", "pytorch-crf", "torch", "POT"),
    *("maxnet", "elapid", "maxent.jar", "Liger", "QuACK", "AdaSplash"),
)
_HEADS = ("tokens", "hidden", "classes", "type", "scores", "spread")  # what a case is known by
_FLOORS = ("one product", "three products")


@dataclass(frozen=True)
class Comparison:
    """One of our times (seconds, or MB) beside that of a peer on the same problem."""

    suite: str
    problem: str
    peer: str
    ours: float
    theirs: float
    recorded: bool = False  # the peer was measured in another run

    @property
    def ratio(self) -> float:
        """The peer's time over ours: above 1 we are faster."""
        return self.theirs / self.ours

    @property
    def family(self) -> str:
        """The package of the peer."""
        return next((name for name in _FAMILIES if name in self.peer), self.peer)


@dataclass(frozen=True)
class Target:
    """What a benchmark was to reach, and what it did reach."""

    suite: str
    problem: str
    method: str
    target: str
    reached: str
    met: bool


def read(suite: str) -> list[Record]:
    """The rows of a csv; none where it is not there."""
    path = RESULTS / f"{suite}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    """Of a cell; NaN where it is empty."""
    return float(text) if text else math.nan


def amount(value: float, problem: str = "") -> str:
    """Seconds with a unit that suits them, or megabytes where the problem says so."""
    if " MB " in problem:
        return f"{value:.4g} MB"
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def times(ratio: float) -> str:
    """A ratio in two digits, without an exponent."""
    return f"{ratio:.0f} x" if ratio >= 10 else f"{ratio:.2g} x"


def comparisons(suite: str) -> list[Comparison]:
    """All times of a suite that stand beside one of a peer."""
    special = {"gpu": _gpu, "gpu_host": _gpu_host, "gpu_head": _gpu_head}
    special |= {"gpu_attention": _gpu_attention, "gpu_decoding": _gpu_decoding}
    special |= {"gpu_head_shapes": _gpu_head}
    special |= {"gpu_chains": _gpu_methods, "gpu_structures": _gpu_methods}
    return list(special.get(suite, _usual)(suite))


def targets(suite: str) -> list[Target]:
    """All targets of a suite."""
    return [_target(suite, row) for row in read(suite) if row.get("met") in ("yes", "no")]


def _usual(suite: str) -> Iterator[Comparison]:
    rows = read(suite)
    ours = {row["problem"]: row for row in rows if row["method"] == "maxent"}
    for row in rows:
        mine, recorded = ours.get(row["problem"]), row["status"] == "recorded"
        if mine is None or (row["method"].startswith("maxent") and not recorded):
            continue
        if row["status"] == "OK" or (recorded and row["ratio"]):
            seconds = number(mine["seconds"]), number(row["seconds"])
            yield Comparison(suite, row["problem"], row["method"], *seconds, recorded)


def _gpu(suite: str) -> Iterator[Comparison]:
    rows = {(row["shape"], row["what"]): number(row["ms"]) / 1000 for row in read(suite)}
    for (shape, what), mine in rows.items():
        kind = re.match(r"maxent (alpha=|backward alpha=|loss )", what)
        if kind is None:
            continue
        peer = {"a": "torch.softmax", "b": "torch.softmax backward", "l": "torch cross-entropy"}
        name, problem = peer[kind[1][0]], f"{what.removeprefix('maxent ')} on {shape}"
        yield Comparison(suite, problem, name, mine, rows[shape, name])
        for (at, other), theirs in rows.items():
            if at == shape and other.endswith(f"(recorded) {what.removeprefix('maxent ')}"):
                yield Comparison(suite, problem, other.split(" alpha")[0], mine, theirs, True)


def _gpu_host(suite: str) -> Iterator[Comparison]:
    for row in read(suite):
        (mine, peer), (_, both, _) = row["what"].split(", ", 1), row["what"].partition(", forward")
        problem = f"{mine}{', forward and backward' if both else ''} on {row['shape']}"
        name = f"torch {peer.split(',')[0]}"
        yield Comparison(
            suite, problem, name, number(row["us"]) / 1e6, number(row["torch us"]) / 1e6
        )


def _gpu_methods(suite: str) -> Iterator[Comparison]:
    rows = read(suite)
    ours = {row["what"]: number(row["ms"]) / 1000 for row in rows if row["method"] == "maxent"}
    for row in rows:
        if not row["method"].startswith("maxent"):
            problem = row["what"]
            seconds = number(row["ms"]) / 1000
            yield Comparison(suite, problem, row["method"], ours[problem], seconds)


def _gpu_head(suite: str) -> Iterator[Comparison]:
    rows = [row for row in read(suite) if row["ms"] and row["what"] not in _FLOORS]
    for row in rows:
        if not row["what"].startswith("maxent head"):
            continue
        for other in rows:
            same = all(other.get(name) == row.get(name) for name in _HEADS)
            if same and not other["what"].startswith("maxent"):
                seconds = number(row["ms"]) / 1000, number(other["ms"]) / 1000
                recorded = other["run"] != row["run"]
                yield Comparison(suite, _head(row), other["what"], *seconds, recorded)


def _head(row: Record) -> str:
    """A loss and its case."""
    shape = " x ".join(row[name] for name in _HEADS[:3])
    scores = f"spread {row['spread']}" if "spread" in row else f"{row['scores']} scores"
    kind = "" if row.get("type", "bfloat16") == "bfloat16" else f" in {row['type']}"
    return f"{row['what'].removeprefix('maxent head, ')} of {shape}{kind}, {scores}"


def _gpu_attention(suite: str) -> Iterator[Comparison]:
    rows = [row for row in read(suite) if row["ms"]]
    ours = {_attention(row): number(row["ms"]) / 1000 for row in rows if row["what"] == "maxent"}
    for row in rows:
        if row["what"] != "maxent":
            problem = _attention(row)
            yield Comparison(suite, problem, row["what"], ours[problem], number(row["ms"]) / 1000)


def _attention(row: Record) -> str:
    heads = (
        row["heads"] if row["heads"] == row["key heads"] else f"{row['heads']}:{row['key heads']}"
    )
    causal = " causal" if row["causal"] == "True" else ""
    return f"{heads} x {row['tokens']} x {row['width']}{causal}, spread {row['spread']}"


def _gpu_decoding(suite: str) -> Iterator[Comparison]:
    rows = read(suite)
    for row in rows:
        if not row["what"].startswith("maxent"):
            continue
        problem = (
            f"{row['what'].removeprefix('maxent, ')}, {row['keys']} keys, spread {row['spread']}"
        )
        for other in rows:
            if other["keys"] == row["keys"] and "softmax" in other["what"]:
                seconds = number(row["graph ms"]) / 1000, number(other["graph ms"]) / 1000
                yield Comparison(suite, problem, other["what"], *seconds)


def _target(suite: str, row: Record) -> Target:
    met = row["met"] == "yes"
    if suite == "gpu_attention":
        target, reached = f"at most {row['target']} x torch's time", f"{row['times torch']} x"
        return Target(suite, _attention(row), "maxent", target, reached, met)
    if suite == "gpu_decoding":
        target, reached = f"{row['target']} x faster", f"{row['faster']} x"
        return Target(suite, f"{row['keys']} keys", row["what"], target, reached, met)
    if suite == "gpu":
        target, reached = f"at most {row['target']} ms", f"{number(row['ms']):.3g} ms"
        return Target(suite, f"{row['what']} on {row['shape']}", "maxent", target, reached, met)
    if suite == "gpu_host":
        target, reached = f"at most {row['target']} x torch's time", f"{row['ratio']} x"
        return Target(suite, f"{row['what']} on {row['shape']}", "maxent", target, reached, met)
    if suite == "gpu_head_shapes":
        reached = f"{row['times torch']} x, {row['peak GB']} GB"
        return Target(
            suite, _head(row), "maxent", "at most 1.1 x torch's time, 0.5 GB", reached, met
        )
    if suite in ("gpu_head", "gpu_chains"):
        problem = row["what"]
        if suite == "gpu_head":
            problem += f" of {row['tokens']} x {row['hidden']} x {row['classes']}"
        return Target(suite, problem, row.get("method", "maxent"), "", f"{row['ms']} ms", met)
    reached = times(number(row["ratio"])) if row["ratio"] else row["note"].split(";")[0]
    if suite == "startup":
        reached = f"{number(row['seconds']):.3g} s"
    return Target(suite, row["problem"], row["method"], row["target"], reached, met)
