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
from time import process_time

import maxent.torch.structured as ms
import torch
from benchmarks.density import forget_peak, peak
from benchmarks.peers import geomloss, pot
from benchmarks.report import Row, compared, missing
from benchmarks.timing import once
from maxent.torch.structured import _points_solver as solver
from torch import Tensor

SUITE, OURS = "structured_points", "maxent"
Potentials = Callable[[], tuple[Tensor, Tensor]]
PROBLEMS = (  # points, dimensions, strength, kind of cloud
    (1000, 3, 0.05, "cube"),
    (1000, 2, 0.001, "cube"),
    (1000, 10, 0.1, "cube"),
    (1000, 64, 1.0, "normal"),
    (5000, 3, 0.05, "cube"),
)
FAR, ONLINE = 2000, "online, scaling 0.5"  # beyond so many points only who keeps no costs
SMALL, REPEATS, LONG = 100, 3, 2.0  # seconds of all repeats after which there are no more
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
    rows: list[Row] = []
    times: dict[str, list[float]] = {}
    off: dict[str, float] = {}
    notes: dict[str, str] = {}
    small, reasons = competitors(x[:SMALL], y[:SMALL], strength)
    rows += [missing(SUITE, problem, peer, reason) for peer, reason in reasons.items()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in competitors(x, y, strength)[0].items():
            if len(x) > FAR and not (name.startswith(OURS) or name.endswith(ONLINE)):
                continue
            small[name]()  # compiled
            forget_peak()
            before, begin = peak(), process_time()
            found = run()
            times[name] = [process_time() - begin]
            notes[name] = f"{max(peak() - before, 0):.0f} MB more"
            off[name] = violation(x, y, *found, strength)
            while len(times[name]) < REPEATS and sum(times[name]) < LONG:
                times[name].append(once(run, process_time))
    targets = {name: TARGET for name in times if not name.startswith(OURS)}
    rows = compared(SUITE, problem, times, OURS, off, targets) + rows
    return [replace(row, note=notes.get(row.method, row.note)) for row in rows]


def competitors(
    x: Tensor, y: Tensor, strength: float
) -> tuple[dict[str, Potentials], dict[str, str]]:
    """Everyone's potentials, and why a peer is not there."""

    def ours(tolerance: float) -> Potentials:
        def run() -> tuple[Tensor, Tensor]:
            plan = ms.sinkhorn_points(x, y, strength=strength, tolerance=tolerance, verbose=0)
            return plan.f, plan.g

        return run

    found: dict[str, Potentials] = {OURS: ours(1e-9), f"{OURS} (to 1e-3)": ours(1e-3)}
    reasons: dict[str, str] = {}
    for peer, more in (
        (geomloss.NAME, lambda: geomloss.potentials(x, y, strength)),
        (pot.NAME, lambda: pot.point_potentials(x.numpy(), y.numpy(), strength)),
    ):
        try:
            found |= more()
        except ImportError as error:
            reasons[peer] = str(error)
    return found, reasons


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
