"""Sinkhorn on clouds of points, beside geomloss (all costs in memory, and KeOps) and POT.

Seconds are CPU time, of all threads. Accuracy is what the sums of the plan are off by, in the
1-norm, as a share of the mass, measured by our passes from everyone's potentials. Notes say how
much memory came on top, in a second run.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import process_time

import maxent.torch.structured as ms
import torch
from benchmarks.density import forget_peak, peak
from benchmarks.peers import geomloss, pot
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns as turns
from maxent.torch.structured import _points_solver as solver
from torch import Tensor

SUITE, OURS = "structured_points", "maxent"
Potentials = Callable[[], tuple[Tensor, Tensor]]
in_turns = partial(turns, repeats=3, clock=process_time)
PROBLEMS = (  # points, dimensions, strength, kind of cloud
    (2000, 3, 0.05, "cube"),
    (2000, 2, 0.001, "cube"),
    (2000, 10, 0.1, "cube"),
    (1000, 64, 1.0, "normal"),
    (10_000, 3, 0.05, "cube"),
)
FAR = 5000  # points up to which peers that keep all costs take part
TARGET = ("at least as fast", 1.0)
# from the README of its version 0.3.0: 10 iterations of 64 dimensions on an A100 of 80 GB
RECORDED = {10_000: 0.0083, 50_000: 0.1026}


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Every problem; ``only`` is how the names of those begin that are measured."""
    torch.set_num_threads(2)
    rows: list[Row] = []
    for n, d, strength, kind in PROBLEMS:
        size = min(n, 300) if quick else n
        name = f"{size} x {size} points in {d} dimensions ({kind}), strength {strength:g}"
        if name.startswith(only):
            rows += measured(name, *clouds(size, d, kind), strength)
    for n, seconds in RECORDED.items():
        name = f"{n} x {n} points in 64 dimensions, 10 iterations"
        note = "its README, A100; not judged"
        if name.startswith(only):
            row = Row(SUITE, name, "flash-sinkhorn 0.3.0", "recorded", seconds, note=note)
            rows.append(row)
    return rows


def clouds(n: int, d: int, kind: str) -> tuple[Tensor, Tensor]:
    """Two clouds of one kind, the second moved and narrower."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand if kind == "cube" else torch.randn
    x, y = (draw(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    return x / (1 if kind == "cube" else d**0.5), (0.8 * y + 0.3) / (
        1 if kind == "cube" else d**0.5
    )


def measured(problem: str, x: Tensor, y: Tensor, strength: float) -> list[Row]:
    """Everyone's time, violation and memory."""

    def ours(tolerance: float) -> Potentials:
        def run() -> tuple[Tensor, Tensor]:
            plan = ms.sinkhorn_points(x, y, strength=strength, tolerance=tolerance, verbose=0)
            return plan.f, plan.g

        return run

    competitors: dict[str, Potentials] = {OURS: ours(1e-9), f"{OURS} (to 1e-3)": ours(1e-3)}
    rows: list[Row] = []
    for peer, more in (
        (geomloss.NAME, lambda: geomloss.potentials(x, y, strength)),
        (pot.NAME, lambda: pot.point_potentials(x.numpy(), y.numpy(), strength)),
    ):
        try:
            competitors |= more()
        except ImportError as error:
            rows.append(missing(SUITE, problem, peer, str(error)))
    if len(x) > FAR:
        competitors = {k: v for k, v in competitors.items() if k.startswith(OURS) or "online" in k}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = in_turns(competitors)
        off, notes = {}, {}
        for name, run in competitors.items():
            forget_peak()
            before = peak()
            found = run()
            notes[name] = f"{max(peak() - before, 0):.0f} MB more"
            off[name] = violation(x, y, *found, strength)
    targets = {name: TARGET for name in competitors if not name.startswith(OURS)}
    rows = compared(SUITE, problem, times, OURS, off, targets) + rows
    return [replace(row, note=notes.get(row.method, row.note)) for row in rows]


def violation(x: Tensor, y: Tensor, f: Tensor, g: Tensor, strength: float) -> float:
    """What the sums are off by for these potentials, both sides together."""
    first, second, make = solver.clouds(x, y)
    plan = make(first, second, strength)
    total = 0.0
    for each, (u, v), (n, m) in (
        (plan, (f, g), (len(x), len(y))),
        (plan.transposed(), (g, f), (len(y), len(x))),
    ):
        ones = torch.full((m, 1), 1 / m, dtype=torch.float64)
        sums = each.sums(u.double(), v.double(), ones)
        total += float((sums - 1).abs().sum()) / n
    return total if math.isfinite(total) else math.inf


def describe() -> str:
    return f"{geomloss.describe()}; {pot.describe()}; {os.cpu_count()} cores"
