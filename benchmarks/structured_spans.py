"""Projective and constituency trees beside torch-struct, and their projections.

Times are those of the processor, all threads together, which busy neighbours do not lengthen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import maxent as mx
from benchmarks.peers import torch_struct
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

SUITE = "structured_spans"
BATCH, NODES, LABELS = 64, 40, 10
CHECKED = 2  # trees whose marginals are compared with a longer arithmetic
OURS = "maxent"
TARGET = ("at least 3 x faster", 3.0)


Item = tuple[str, int, int]
Ways = list[tuple[Item, list[tuple[Item, Item]]]]
Marginals = Callable[[np.ndarray], Callable[[], np.ndarray]]


def arcs_reference(scores: np.ndarray) -> np.ndarray:
    """Marginals of projective trees with any number of root arcs: Eisner's sums in long doubles.

    Inside sums by spans, and outside ones as their derivative, way by way.
    """
    weight = np.exp(scores.astype(np.longdouble))
    n = len(weight)
    names = ("right", "left", "right arc", "left arc")
    inside = {name: np.zeros((n, n), np.longdouble) for name in names}
    ways: Ways = []
    for i in range(n):
        inside["right"][i, i] = inside["left"][i, i] = 1
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            meet: list[tuple[Item, Item]] = [
                (("right", i, k), ("left", k + 1, j)) for k in range(i, j)
            ]
            ways += [(("right arc", i, j), meet), (("left arc", i, j), meet)]
            grown: list[tuple[Item, Item]] = [
                (("right arc", i, k), ("right", k, j)) for k in range(i + 1, j + 1)
            ]
            ways.append((("right", i, j), grown))
            grown = [(("left", i, k), ("left arc", k, j)) for k in range(i, j)]
            ways.append((("left", i, j), grown))
    return _marginals(inside, ways, ("right", 0, n - 1), weight)


def _marginals(
    inside: dict[str, np.ndarray], ways: Ways, goal: Item, weight: np.ndarray
) -> np.ndarray:
    """Marginals of the cells of ``weight`` from the ways of every item."""

    def own(item: Item) -> Any:
        name, i, j = item
        return {"right arc": weight[i, j], "left arc": weight[j, i]}.get(name, 1)

    for item, parts in ways:
        name, i, j = item
        total = sum(inside[a][b, c] * inside[d][e, f] for (a, b, c), (d, e, f) in parts)
        inside[name][i, j] = own(item) * total
    outside = {name: np.zeros_like(table) for name, table in inside.items()}
    outside[goal[0]][goal[1:]] = 1
    for item, parts in reversed(ways):
        name, i, j = item
        through = outside[name][i, j] * own(item)
        for (a, b, c), (d, e, f) in parts:
            outside[a][b, c] += through * inside[d][e, f]
            outside[d][e, f] += through * inside[a][b, c]
    z = inside[goal[0]][goal[1:]]
    mean = np.zeros_like(weight)
    mean += inside["right arc"] * outside["right arc"] / z
    mean += (inside["left arc"] * outside["left arc"] / z).T
    return mean


def spans_reference(scores: np.ndarray) -> np.ndarray:
    """Marginals of labelled binary trees from sums in long doubles."""
    exact = np.exp(scores.astype(np.longdouble))
    total = exact.sum(-1)
    n = len(total)
    inside, outside = np.zeros_like(total), np.zeros_like(total)
    for width in range(n):
        for i in range(n - width):
            j = i + width
            parts = sum(inside[i, k] * inside[k + 1, j] for k in range(i, j)) if width else 1
            inside[i, j] = total[i, j] * parts
    outside[0, n - 1] = 1
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            through = outside[i, j] * total[i, j]
            for k in range(i, j):
                outside[i, k] += through * inside[k + 1, j]
                outside[k + 1, j] += through * inside[i, k]
    mean = inside * outside / inside[0, n - 1]
    return mean[..., None] * exact / total[..., None]


def _sums(
    problem: str,
    theta: np.ndarray,
    domain: Any,
    peer: Marginals,
    reference: Callable[[np.ndarray], np.ndarray],
) -> list[Row]:
    """Marginals of a batch, and the largest error of a few rows."""
    table = theta.shape[1:]
    rows = []
    competitors: dict[str, Callable[[], Any]] = {
        OURS: lambda: np.asarray(domain.softmax(theta.reshape(BATCH, -1))[1]).reshape(theta.shape)
    }
    try:
        competitors[torch_struct.NAME] = peer(theta)
        competitors[torch_struct.NAME]()
    except ImportError as error:
        rows.append(missing(SUITE, problem, torch_struct.NAME, str(error)))
    times = in_turns(competitors, repeats=5, clock=process_time)
    exact = np.array([reference(x.reshape(table)) for x in theta[:CHECKED]])
    errors = {
        method: float(np.abs(competitors[method]()[:CHECKED] - exact).max()) for method in times
    }
    return rows + compared(SUITE, problem, times, OURS, errors, {torch_struct.NAME: TARGET})


def _best(problem: str, theta: np.ndarray, domain: Any, peer: Marginals) -> list[Row]:
    """Best trees of a batch, and by how much their scores differ."""
    flat = theta.reshape(BATCH, -1)
    rows = []
    competitors: dict[str, Callable[[], Any]] = {OURS: lambda: np.asarray(domain.argmax(flat))}
    try:
        competitors[torch_struct.NAME] = peer(theta)
        competitors[torch_struct.NAME]()
    except ImportError as error:
        rows.append(missing(SUITE, problem, torch_struct.NAME, str(error)))
    times = in_turns(competitors, repeats=5, clock=process_time)
    value = (competitors[OURS]() * flat).sum(1)
    apart = {
        method: float(
            np.abs((competitors[method]().reshape(BATCH, -1) * flat).sum(1) - value).max()
        )
        for method in times
    }
    return rows + compared(SUITE, problem, times, OURS, apart, {torch_struct.NAME: TARGET})


def _projection(scores: np.ndarray) -> list[Row]:
    """SparseMAP alone: no package has it on these trees; the error is the gap."""
    rows = []
    for name, domain in (
        ("projective trees", mx.ProjectiveTree()),
        ("constituency trees", mx.ConstituencyTree()),
    ):
        theta = scores[:8].reshape(8, -1)
        problem = f"SparseMAP, {name}, 8 x n={NODES}"
        times = in_turns({OURS: partial(domain.project, theta)}, repeats=3, clock=process_time)
        p = domain.project(theta)
        gap = ((theta - p) * (domain.argmax(theta - p) - p)).sum(1)
        rows += compared(SUITE, problem, times, OURS, {OURS: float(gap.max())}, {})
    return rows


def run(quick: bool = False) -> list[Row]:
    """One row for every problem and competitor."""
    rng = np.random.default_rng(0)
    arcs = rng.normal(size=(BATCH, NODES, NODES)).astype(np.float32)
    spans = rng.normal(size=(BATCH, NODES, NODES, LABELS)).astype(np.float32)
    multi, labelled = mx.ProjectiveTree(root="multi"), mx.ConstituencyTree(LABELS)
    size, more = f"{BATCH} x n={NODES}", f"{BATCH} x n={NODES}, {LABELS} labels"
    rows = _best(f"best projective tree, {size}", arcs, multi, torch_struct.projective("argmax"))
    rows += _best(f"best constituency tree, {more}", spans, labelled, torch_struct.spans("argmax"))
    for scale in (1.0,) if quick else (1.0, 10.0):
        rows += _sums(
            f"projective marginals, {size}, scale {scale:g}",
            (scale * arcs).astype(np.float32),
            multi,
            torch_struct.projective("marginals"),
            arcs_reference,
        )
        rows += _sums(
            f"constituency marginals, {more}, scale {scale:g}",
            (scale * spans).astype(np.float32),
            labelled,
            torch_struct.spans("marginals"),
            spans_reference,
        )
    assert all(math.isfinite(row.accuracy) for row in rows if row.status == "OK")
    return rows + _projection(arcs.astype(np.float64))
