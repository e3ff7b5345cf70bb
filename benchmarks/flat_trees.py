"""SparseMAP on dependency trees of flat, peaked and other scores, beside an active set of trees."""

from __future__ import annotations

import math
from time import process_time

import numpy as np

import maxent as mx
from benchmarks.report import Row, compared
from benchmarks.timing import in_turns
from maxent.core.domains.active_set import project_by_argmax

SUITE = "flat_trees"
FLAT, PEAKED, LONG = (20, 40, 80, 103, 136, 160), (20, 40, 80, 160), (200, 400)
STEPS = 5000  # of the active set, after which it is stopped
OURS, ACTIVE = "maxent", "maxent (active set alone)"


def flat(n: int) -> np.ndarray:
    """As before training: some words are better heads for all others, and there is little noise."""
    rng = np.random.default_rng(n)
    return (0.23 * rng.normal(size=(n, 1)) + 0.08 * rng.normal(size=(n, n))).reshape(1, -1)


def peaked(n: int) -> np.ndarray:
    return 10 * np.random.default_rng(n).normal(size=(1, n * n))


def mixed(n: int) -> np.ndarray:
    """Preferences for heads and noise of one scale: many cuts, and few arcs of each node in use."""
    rng = np.random.default_rng(n)
    return (rng.normal(size=(n, 1)) + rng.normal(size=(n, n))).reshape(1, -1)


def near(n: int) -> np.ndarray:
    """Words that lie near each other are heads of each other: nested cuts, and few trees."""
    rng, places = np.random.default_rng(n), np.arange(n)
    return (-np.abs(places[:, None] - places) + rng.normal(size=(n, n))).reshape(1, -1)


class _Stopped(Exception):
    pass


class _ActiveSet:
    """The projection by best trees alone; the point and the steps that it took."""

    def __init__(self, trees: mx.Arborescence, theta: np.ndarray) -> None:
        self.trees, self.theta = trees, theta

    def __call__(self) -> None:
        self.steps = 0
        self.point = project_by_argmax(self._argmax, self.theta)

    def _argmax(self, slope: np.ndarray) -> np.ndarray:
        if self.steps == STEPS:
            raise _Stopped
        self.steps += 1
        return np.asarray(self.trees.argmax(slope))


def _gap(trees: mx.Arborescence, theta: np.ndarray, p: np.ndarray) -> float:
    """max_v <theta - p, v - p>, inf for a point outside the polytope."""
    if not trees.contains(p).all():
        return math.inf
    slope = theta - p
    return float(((np.asarray(trees.argmax(slope)) - p) * slope).sum())


def _rows(problem: str, theta: np.ndarray) -> list[Row]:
    trees = mx.Arborescence()
    active = _ActiveSet(trees, theta)
    begin = process_time()
    try:
        active()
    except _Stopped:
        seconds = process_time() - begin
        note = f"not settled after {STEPS} steps, which took these seconds"
        stopped = Row(SUITE, problem, ACTIVE, status="NC", seconds=seconds, repeats=1, note=note)
        return [*_alone(problem, theta), stopped]
    times = in_turns({OURS: lambda: trees.project(theta), ACTIVE: active}, 5, clock=process_time)
    gaps = {
        OURS: _gap(trees, theta, trees.project(theta)),
        ACTIVE: _gap(trees, theta, active.point),
    }
    return compared(SUITE, problem, times, OURS, gaps, {})


def _alone(problem: str, theta: np.ndarray) -> list[Row]:
    """Without the active set, which takes minutes."""
    trees = mx.Arborescence()
    times = in_turns({OURS: lambda: trees.project(theta)}, 5, clock=process_time)
    gap = {OURS: _gap(trees, theta, trees.project(theta))}
    return compared(SUITE, problem, times, OURS, gap, {})


def run(quick: bool = False) -> list[Row]:
    """CPU seconds of one projection; the accuracy is the gap to the best vertex."""
    _rows("compiling", flat(30))
    rows = []
    for n in FLAT[:2] if quick else FLAT:
        rows += _rows(f"flat scores, n={n}", flat(n))
    for n in PEAKED[:2] if quick else PEAKED:
        rows += _rows(f"peaked scores, n={n}", peaked(n))
    for n in LONG[:1] if quick else LONG:
        rows += _alone(f"heads and noise of one scale, n={n}", mixed(n))
    for n in LONG[:1] if quick else LONG:
        rows += _rows(f"heads nearby, n={n}", near(n))
    return rows
