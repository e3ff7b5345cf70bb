"""Sparse maps and losses on a CUDA device, beside a copy and torch: python -m benchmarks.gpu.maps.

Needs torch, Triton and numpy alone; prints a table and writes results/gpu.csv. The figures of other
packages on the same kind of device are recorded ones.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from math import isnan, nan
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402
from benchmarks.gpu.sweep import SHAPES, ms, reference  # noqa: E402
from maxent.torch.maps import _triton  # noqa: E402

TARGETS = {  # ms of sparsemax and 1.5-entmax; any other alpha may take twice as long
    (8192, 32000): (0.60, 0.35),
    (65536, 1024): (0.145, 0.09),
    (1024, 131072): (0.45, 0.30),
}
LOSS_TARGET = 0.8  # ms on the first shape, float32
ALPHAS = (2.0, 1.5, 1.33, 1.1, 1.05, 1.01, 3.0)
RECORDED = {  # package: (alpha, ms on the first shape in float32)
    "entmax 1.3 (recorded)": {2.0: 24.9, 1.5: 32.8, 1.33: 138.0},
    "AdaSplash 0.2 (recorded)": {2.0: 1.75, 1.5: 1.72},
}


class Table:
    """Rows that are printed as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def add(
        self, shape: str, what: str, time: float, kernel: float = nan, error: float = nan,
        target: float = 0,
    ):  # fmt: skip
        """A measurement, that of the kernels alone, its error and the most it should take."""
        met = "" if not target else "yes" if time <= target else "no"
        alone = "" if isnan(kernel) else round(kernel, 4)
        row = {"shape": shape, "what": what, "ms": round(time, 4), "kernel ms": alone}
        self.rows.append(row | {"error": f"{error:.1e}", "target": target or "", "met": met})
        print(
            f"{shape:24} {what:32} {time:8.3f} ms {kernel:8.3f}  error {error:.1e}  "
            f"{target or ''} {met}",
            flush=True,
        )


def maps(table: Table, shape: str, x: torch.Tensor, target: float) -> None:
    """Copy, softmax and our maps."""
    table.add(shape, "copy", ms(torch.empty_like(x).copy_, x))
    table.add(shape, "torch.softmax", ms(torch.softmax, x, -1))
    for alpha in ALPHAS:
        exact = reference(x[:64], alpha)
        error = (mt.entmax(x, alpha)[:64].double() - exact).abs()
        if x.dtype is torch.bfloat16:  # in units of the last place of what should be written
            error = torch.where(exact > 1e-6, error / (exact.clamp(min=1e-30) * 2.0**-8), 0.0)
        limit = target * (1 if alpha in (2.0, 1.5) else 2)
        kernel = ms(_triton.tsallis_map, x, alpha)
        time = ms(mt.entmax, x, alpha)
        table.add(shape, f"maxent alpha={alpha:g}", time, kernel, float(error.max()), limit)


def backward(table: Table, shape: str, x: torch.Tensor) -> None:
    """The product with the Jacobian alone."""
    g = torch.randn_like(x)
    leaf = x.clone().requires_grad_()

    def back(p: torch.Tensor) -> float:
        return ms(lambda: torch.autograd.grad(p, leaf, g, retain_graph=True))

    table.add(shape, "torch.softmax backward", back(torch.softmax(leaf, -1)))
    for alpha in (2.0, 1.5, 1.33):
        table.add(shape, f"maxent backward alpha={alpha:g}", back(mt.entmax(leaf, alpha)))


def losses(table: Table, shape: str, x: torch.Tensor, target: float) -> None:
    """Forward and backward of cross-entropy and of our losses."""
    y = torch.randint(0, x.shape[1], (len(x),), device="cuda")
    theta = x.clone().requires_grad_()

    def both_ways(loss: Callable[..., torch.Tensor]) -> None:
        theta.grad = None
        loss(theta, y).backward()

    table.add(shape, "torch cross-entropy", ms(both_ways, torch.nn.functional.cross_entropy))
    for alpha in (2.0, 1.5):
        time = ms(both_ways, mt.FenchelYoungLoss(alpha))
        kernel = ms(_triton.tsallis_loss, x, y, alpha)
        table.add(shape, f"maxent loss {alpha:g}", time, kernel, target=target)


def main() -> None:
    """Time, check, print, write."""
    torch.manual_seed(0)
    table = Table()
    for n, d in SHAPES:
        for place, dtype in enumerate((torch.float32, torch.bfloat16)):
            shape = f"{n} x {d} {str(dtype).removeprefix('torch.')}"
            x = torch.randn(n, d, device="cuda").to(dtype)
            maps(table, shape, x, TARGETS[n, d][place])
            backward(table, shape, x)
            first = (n, d) == SHAPES[0] and dtype is torch.float32
            losses(table, shape, x, LOSS_TARGET if first else 0)
            for name, times in RECORDED.items() if first else ():
                for alpha, value in times.items():
                    table.add(shape, f"{name} alpha={alpha:g}", value)
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(folder / "gpu.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(table.rows[0]))
        writer.writeheader()
        writer.writerows(table.rows)


if __name__ == "__main__":
    main()
