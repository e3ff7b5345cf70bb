"""The CRF loss on a CUDA device, beside pytorch-crf: python -m benchmarks.gpu.chains.

Needs torch and Triton; pytorch-crf where it is installed. Prints a table and writes
results/gpu_chains.csv.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # run as a file, nothing is installed there

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from benchmarks.gpu.sweep import ms as milliseconds  # noqa: E402
from benchmarks.peers import pytorch_crf  # noqa: E402

BATCH, LENGTH, STATES = 256, 50, 20
GOAL = 5.0  # times as fast as pytorch-crf


def main() -> None:
    """Time forward and backward, check the gradient, print, write."""
    torch.manual_seed(0)
    rows = []
    for dtype in (torch.float32, torch.float64):
        nodes = torch.randn(BATCH, LENGTH, STATES, dtype=dtype)
        transitions = torch.randn(STATES, STATES, dtype=dtype)
        tags = torch.randint(STATES, (BATCH, LENGTH))
        leaves = [x.cuda().requires_grad_() for x in (nodes, transitions)]
        there = tags.cuda()
        here = [x.double().requires_grad_() for x in (nodes, transitions)]
        exact = torch.autograd.grad(ms.crf_loss(*here, tags, reduction="sum"), here)[0]

        def ours(leaves=leaves, there=there) -> tuple[torch.Tensor, ...]:
            loss = ms.crf_loss(*leaves, there, reduction="sum")
            return torch.autograd.grad(loss, leaves)

        def plain(ours=ours) -> tuple[torch.Tensor, ...]:
            with mt.backend("plain"):
                return ours()

        competitors = {"maxent": ours, "maxent, plain torch": plain}
        try:
            details = [x.detach() for x in leaves]
            competitors[pytorch_crf.NAME] = pytorch_crf.losses(*details, there)
        except ImportError:
            print("pytorch-crf is not installed")
        times = {name: milliseconds(run) for name, run in competitors.items()}
        for name, time in times.items():
            error = float((competitors[name]()[0].cpu().double() - exact).abs().max())
            ratio = time / times["maxent"]
            met = ("yes" if ratio >= GOAL else "no") if name == pytorch_crf.NAME else ""
            row = {"what": f"CRF loss {BATCH} x {LENGTH} x {STATES} {str(dtype)[6:]}"}
            row |= {"method": name, "ms": round(time, 4), "time / ours": round(ratio, 2)}
            rows.append(row | {"error": f"{error:.1e}", "met": met})
            print(*rows[-1].values(), sep="  ", flush=True)
    folder = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    with open(folder / "gpu_chains.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
