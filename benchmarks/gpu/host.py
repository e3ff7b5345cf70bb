"""Small and very long maps and losses, where the host or the second kernel decides.

python -m benchmarks.gpu.host   (on a CUDA device; writes results/gpu_host.csv)

Times of calls one after the other, as a program makes them, launches and all.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from torch.nn.functional import cross_entropy

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402


def microseconds(call: Callable[[], object], repeats: int) -> float:
    """Time of a call among many, the median of five rounds."""
    times = []
    for _ in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / repeats * 1e6)
    return median(times[1:])


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Of each row, by torch."""
    return torch.softmax(x, -1)


def compared(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], repeats: int, target: float
) -> dict[str, object]:
    """Times of both, and whether ours is at most ``target`` times torch's."""
    one, other = microseconds(ours, repeats), microseconds(theirs, repeats)
    met = "" if not target else "yes" if one <= target * other else "no"
    row = {"what": what, "us": round(one, 1), "torch us": round(other, 1)}
    return row | {"ratio": round(one / other, 2), "target": target or "", "met": met}


def measure(x: torch.Tensor, repeats: int, target: float, both: float) -> list[dict[str, object]]:
    """Maps and a loss of these scores."""
    leaf, back = x.clone().requires_grad_(), torch.randn_like(x)
    label = torch.randint(x.shape[1], (len(x),), device="cuda")
    criterion = mt.FenchelYoungLoss("entmax15")
    rows = []
    for name, call in {"entmax15": mt.entmax15, "sparsemax": mt.sparsemax}.items():
        rows += [
            compared(f"{name}, softmax", partial(call, x), partial(softmax, x), repeats, target),
            compared(
                f"{name}, softmax, forward and backward",
                partial(_map_both_ways, call, leaf, back),
                partial(_map_both_ways, softmax, leaf, back),
                repeats,
                both,
            ),
        ]
    loss = compared(
        "entmax15 loss, cross-entropy, forward and backward",
        partial(_loss_both_ways, criterion, leaf, label),
        partial(_loss_both_ways, cross_entropy, leaf, label),
        repeats,
        0,
    )
    shape = f"{len(x)} x {x.shape[1]} {str(x.dtype).removeprefix('torch.')}"
    made = [{"shape": shape} | row for row in (*rows, loss)]
    for row in made:
        print(*row.values(), sep="  ", flush=True)
    return made


def main() -> None:
    """A line for each call beside torch's own."""
    torch.manual_seed(0)
    table = measure(torch.randn(128, 128, device="cuda"), 1000, 2.0, 1.5)
    table += measure(torch.randn(65536, 1024, device="cuda"), 50, 0, 0)
    table += measure(torch.randn(4096, 256000, device="cuda").bfloat16(), 10, 1.0, 0)
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(folder / "gpu_host.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def _map_both_ways(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, back: torch.Tensor
) -> None:
    x.grad = None
    function(x).backward(back)


def _loss_both_ways(
    function: Callable[..., torch.Tensor], x: torch.Tensor, label: torch.Tensor
) -> None:
    x.grad = None
    function(x, label).backward()


if __name__ == "__main__":
    main()
