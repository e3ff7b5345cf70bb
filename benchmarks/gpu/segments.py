"""One long sequence cut into segments on a GPU: time and memory of the log-partition's gradient.

``python -m benchmarks.gpu.segments`` prints one line: 100,000 positions, segments of up to 1,000,
and 24 labels unless told otherwise. A table of their scores would take 19 GB.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import maxent.torch as mt
import maxent.torch.structured as ms
import torch


def main() -> None:
    """Measure, and compare a short piece with the compiled programme where that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("positions", 100_000), ("longest", 1000), ("labels", 24)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.manual_seed(0)
    content = torch.randn(1, given.positions, given.labels, device="cuda")
    durations = torch.randn(given.longest, given.labels, device="cuda")
    transitions = torch.randn(given.labels, given.labels, device="cuda")
    leaves = [x.requires_grad_() for x in (content, durations, transitions)]
    piece = [content[:, :300].detach(), durations.detach()[:50], transitions.detach()]
    here = ms.segment_marginals(*piece).labels
    with mt.backend("plain"):
        there = ms.segment_marginals(*(x.cpu() for x in piece)).labels
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = perf_counter()
    value = ms.segment_log_partition(*leaves)
    slopes = torch.autograd.grad(value.sum(), leaves)
    torch.cuda.synchronize()
    print(
        f"{torch.cuda.get_device_name()}: {perf_counter() - begin:.1f} s, "
        f"{torch.cuda.max_memory_allocated() / 1e6:.0f} MB at most, log Z {value.item():.6g}, "
        f"rows of the gradient sum to 1 within {float((slopes[0].sum(2) - 1).abs().max()):.1e}, "
        f"a piece differs from the CPU's by {float((here.cpu() - there).abs().max()):.1e}"
    )


if __name__ == "__main__":
    main()
