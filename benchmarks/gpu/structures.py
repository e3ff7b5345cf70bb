"""Structures on a CUDA device, beside torch-struct, torch, geomloss and our own ways on the CPU.

``python -m benchmarks.gpu.structures`` prints a table and writes results/gpu_structures.csv: values
with their gradients, medians in ms, the memory that they take at most, and how far gradients are
from ours in float64 on the CPU (of clouds: what the sums of the plan are off by). A peer that is
not installed is left out and said to be missing.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from benchmarks.peers import torch_struct, torch_struct_segments  # noqa: E402
from benchmarks.peers.geomloss import potentials  # noqa: E402
from benchmarks.structured_points import violation  # noqa: E402

OURS, PLAIN, CPU = "maxent", "maxent, torch operations", "maxent on the CPU"
REPEATS = 7
LONG = 3.0  # seconds after which one time is enough
Slope = Callable[[], Tensor]
Error = Callable[[Tensor], float]


def main() -> None:
    """Every problem, printed as it comes and written at the end."""
    torch.manual_seed(0)
    rows = []
    for problem in (segments(8, 40, 6, 5), segments(32, 500, 50, 16), long_sequence()):
        rows += measured(*problem)
    for problem in (ctc(16, 150, 40, 30), ctc(32, 1000, 100, 100), ctc(64, 2000, 1000, 200)):
        rows += measured(*problem)
    for problem in (trees("projective"), trees("spans"), unbalanced("kl"), unbalanced("l2")):
        rows += measured(*problem)
    rows += measured(*clouds(10_000))
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(folder / "gpu_structures.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def measured(what: str, methods: dict[str, Slope], error: Error) -> list[dict[str, object]]:
    """A row for each method that is installed."""
    rows: list[dict[str, object]] = []
    for method, run in methods.items():
        try:
            found = run()  # compiles
        except (ImportError, torch.OutOfMemoryError) as lacking:
            print(what, method, str(lacking).split(".")[0], sep="  ", flush=True)
            continue
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        times: list[float] = []
        while len(times) < REPEATS and sum(times) < LONG:
            begin = perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(perf_counter() - begin)
        on_cpu = method == CPU
        more = (torch.cuda.max_memory_allocated() - before) / 1e6
        time = 1e3 * median(times)
        row = {"what": what, "method": method, "ms": f"{time:.4g}"}
        row["time / ours"] = f"{time / float(rows[0]['ms']) if rows else 1:.3g}"
        row["MB"] = "" if on_cpu else f"{more:.0f}"
        rows.append(row | {"error": f"{error(found):.1e}"})
        print(*rows[-1].values(), sep="  ", flush=True)
    return rows


def by_torch(run: Slope) -> Slope:
    """The same by batched torch operations."""

    def plain() -> Tensor:
        with mt.backend("plain"):
            return run()

    return plain


def slope(value: Callable[[Tensor], Tensor], scores: Tensor) -> Slope:
    """The gradient of a sum of values at scores."""

    def run() -> Tensor:
        leaf = scores.clone().requires_grad_()
        return torch.autograd.grad(value(leaf).sum(), leaf)[0]

    return run


def off(exact: Tensor) -> Error:
    """The largest difference from a gradient."""
    return lambda found: float((found.cpu().double() - exact).abs().max())


def segments(
    batch: int, length: int, longest: int, labels: int
) -> tuple[str, dict[str, Slope], Error]:
    """Log-partitions of a batch of semi-Markov models."""
    content = torch.randn(batch, length, labels)
    tables = torch.randn(longest, labels), torch.randn(labels, labels)
    there = [x.cuda() for x in tables]
    ours = slope(lambda x: ms.segment_log_partition(x, *there), content.cuda())
    here = slope(lambda x: ms.segment_log_partition(x, *tables), content)
    methods = {OURS: ours, PLAIN: by_torch(ours), CPU: here}
    if longest * labels <= 30:  # it multiplies matrices of that size for every position
        peer = torch_struct_segments.sums(content.cuda(), *there)
        methods[torch_struct.NAME] = lambda: peer()[1]
    exact = slope(lambda x: ms.segment_log_partition(x, *tables), content.double())()
    return f"segments {batch} x {length}, K = {longest}, C = {labels}", methods, off(exact)


def long_sequence() -> tuple[str, dict[str, Slope], Error]:
    """One sequence whose table of segments would take 19 GB in float64."""
    length, longest, labels = 100_000, 1000, 24
    content = torch.randn(1, length, labels)
    tables = torch.randn(longest, labels), torch.randn(labels, labels)
    there = [x.cuda() for x in tables]
    ours = slope(lambda x: ms.segment_log_partition(x, *there), content.cuda())
    here = slope(lambda x: ms.segment_log_partition(x, *tables), content)
    what = f"segments 1 x {length}, K = {longest}, C = {labels}"
    exact = slope(lambda x: ms.segment_log_partition(x, *tables), content.double())()
    return what, {OURS: ours, CPU: here}, off(exact)


def ctc(batch: int, length: int, labels: int, size: int) -> tuple[str, dict[str, Slope], Error]:
    """The loss of CTC, torch's by its own kernel."""
    scores = torch.randn(batch, length, labels)
    targets = torch.randint(1, labels, (batch, size))
    there = targets.cuda()
    lengths, sizes = torch.full((batch,), length), torch.full((batch,), size)

    def theirs(x: Tensor) -> Tensor:
        rows = x.log_softmax(2).transpose(0, 1)
        return torch.nn.functional.ctc_loss(rows, there, lengths, sizes, reduction="sum")

    ours = slope(lambda x: ms.ctc_loss(x, there, reduction="sum"), scores.cuda())
    here = slope(lambda x: ms.ctc_loss(x, targets, reduction="sum"), scores)
    methods = {OURS: ours, CPU: here, "torch": slope(theirs, scores.cuda())}
    if length < 500:
        methods[PLAIN] = by_torch(ours)
    exact = slope(lambda x: ms.ctc_loss(x, targets, reduction="sum"), scores.double())()
    return f"CTC {batch} x {length}, {labels} labels, targets of {size}", methods, off(exact)


def trees(kind: str) -> tuple[str, dict[str, Slope], Error]:
    """Log-partitions of trees over spans; torch-struct has the root on the diagonal."""
    batch, nodes, labels = 64, 40, 10
    if kind == "projective":
        scores = torch.randn(batch, nodes, nodes)
        what = f"projective trees {batch} x {nodes}"
        own = ms.projective_log_partition
        value: Callable[[Tensor], Tensor] = lambda x: own(x, root="multi")  # noqa: E731
        diagonal = torch.arange(nodes - 1)

        def rooted(x: Tensor) -> Tensor:
            table = x[:, 1:, 1:].clone()
            table[:, diagonal, diagonal] = x[:, 0, 1:]
            return torch_struct.log_partition(kind, table)
    else:
        scores = torch.randn(batch, nodes, nodes, labels)
        what = f"constituency trees {batch} x {nodes}, {labels} labels"
        value = ms.constituency_log_partition

        def rooted(x: Tensor) -> Tensor:
            return torch_struct.log_partition(kind, x)

    there = scores.cuda()
    methods = {OURS: slope(value, there), CPU: slope(value, scores)}
    methods[torch_struct.NAME] = slope(rooted, there)
    return what, methods, off(slope(value, scores.double())())


def unbalanced(regularization: str) -> tuple[str, dict[str, Slope], Error]:
    """The value of unbalanced plans, whose gradient is the plan."""
    scores = torch.rand(16, 256, 256, dtype=torch.float64)
    mass = torch.ones(256, dtype=torch.float64)

    def value(x: Tensor) -> Tensor:
        own = mass.to(x.device)
        return ms.unbalanced_transport_value(x, own, own, 1.0, 0.1, regularization)

    methods = {OURS: slope(value, scores.cuda()), CPU: slope(value, scores)}
    what = f"unbalanced plans 16 x 256 x 256, {regularization}"
    return what, methods, off(slope(value, scores)())


def clouds(n: int) -> tuple[str, dict[str, Slope], Error]:
    """Plans of two clouds in three dimensions; the error is what the sums are off by."""
    x, y = torch.rand(n, 3, dtype=torch.float64), 0.8 * torch.rand(n, 3, dtype=torch.float64) + 0.3
    there = x.cuda(), y.cuda()

    def ours(tolerance: float) -> Slope:
        def run() -> Tensor:
            plan = ms.sinkhorn_points(*there, strength=0.01, tolerance=tolerance, verbose=0)
            return torch.stack([plan.f, plan.g])

        return run

    methods = {OURS: ours(1e-9), f"{OURS} (to 1e-3)": ours(1e-3)}
    try:
        for name, run in potentials(*there, 0.01).items():
            methods[name] = lambda run=run: torch.stack(run())
    except ImportError:
        print("geomloss is not installed")
    what = f"plans of clouds {n} x {n}, 3 dimensions, strength .01"
    return what, methods, lambda found: violation(*(z.cpu() for z in (x, y, *found)), 0.01)


if __name__ == "__main__":
    main()
