"""Soft ranks of 128 rows of 10,000 scores, forward and backward, beside torchsort.

The accuracy is that of the row sums, which are d (d + 1) / 2 exactly, relative to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers import torchsort
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

SUITE = "structured_ranking"
OURS = "maxent"
TARGET = ("at least 2 x faster", 2.0)

# another machine (2 cores of an Intel Xeon): not in the package index, so not installed here
RECORDED = {
    ("l2", "float32"): 0.92,
    ("l2", "float64"): 0.76,
    ("kl", "float32"): 8.1,
    ("kl", "float64"): 7.4,
}


def run(quick: bool = False) -> list[Row]:
    """One row for every regularization, type and competitor."""
    import torch
    from maxent.torch.structured import soft_rank

    rows, size = (8, 1000) if quick else (128, 10_000)
    total = size * (size + 1) / 2
    found = []
    for regularization in ("l2", "kl"):
        for dtype in (torch.float32, torch.float64):
            draw = torch.Generator().manual_seed(0)
            x = torch.randn(rows, size, generator=draw, dtype=dtype).requires_grad_()
            g = torch.randn(rows, size, generator=draw, dtype=dtype)
            name = str(dtype).removeprefix("torch.")
            problem = f"soft rank, {regularization}, {rows} x {size} {name}"
            ranks: dict[str, Callable[[Any], Any]] = {
                OURS: lambda x, r=regularization: soft_rank(x, 1.0, r),
                f"{OURS} (default strength)": lambda x, r=regularization: soft_rank(x, None, r),
            }
            try:
                ranks[torchsort.NAME] = torchsort.soft_rank(regularization)
            except ImportError as error:
                found.append(missing(SUITE, problem, torchsort.NAME, str(error)))
            both = {
                method: lambda rank=rank, x=x, g=g: torch.autograd.grad(rank(x), x, g)
                for method, rank in ranks.items()
            }
            times = in_turns(both, repeats=15)
            errors = {
                method: float(
                    (rank(x.detach()).sum(1, dtype=torch.float64) / total - 1).abs().max()
                )
                for method, rank in ranks.items()
            }
            found += compared(SUITE, problem, times, OURS, errors, {torchsort.NAME: TARGET})
            if not quick:
                seconds = RECORDED[regularization, name]
                found.append(
                    Row(SUITE, problem, "fast-soft-sort", status="recorded", seconds=seconds)
                )
    return found
