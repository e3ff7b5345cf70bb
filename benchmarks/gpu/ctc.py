"""CTC on a GPU: loss and gradient from float32 scores, beside torch.nn.functional.ctc_loss.

``python -m benchmarks.gpu.ctc`` prints a table of medians by CUDA events, of the most memory beside
the scores, and of the largest errors of the gradient: against torch in float64 on the CPU, for the
first few sequences. torch's own kernel is measured; cuDNN's would want targets on the CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import maxent.torch.structured as ms
import torch
from torch import Tensor

SIZES = ((16, 150, 40, 30), (32, 1000, 100, 100), (64, 2000, 1000, 200))
COMPARED = 4
REPEATS = 20


def ours(scores: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the sum of losses."""
    leaf = scores.detach().requires_grad_()
    return torch.autograd.grad(ms.ctc_loss(leaf, targets, reduction="sum"), leaf)[0]


def torchs(scores: Tensor, targets: Tensor) -> Tensor:
    """The same by torch."""
    leaf = scores.detach().requires_grad_()
    lengths, sizes = (torch.full((len(x),), x.shape[1]) for x in (scores, targets))
    rows = leaf.log_softmax(2).transpose(0, 1)
    loss = torch.nn.functional.ctc_loss(rows, targets, lengths, sizes, reduction="sum")
    return torch.autograd.grad(loss, leaf)[0]


def milliseconds(run: Callable[[], object]) -> float:
    """The median of repeats, after a few that compile and warm up."""
    times = []
    for _ in range(3 + REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


def measured(gradient: Callable[[Tensor, Tensor], Tensor], *given: Tensor) -> tuple[float, float]:
    """Milliseconds, and megabytes beside what is given."""
    time = milliseconds(lambda: gradient(*given))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    gradient(*given)
    return time, (torch.cuda.max_memory_allocated() - before) / 1e6


def main() -> None:
    """Measure every size."""
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print("B x T x V, S | ours ms | torch ms | times | ours MB | torch MB | error | torch's error")
    for batch, positions, labels, size in SIZES:
        torch.manual_seed(0)
        scores = torch.randn(batch, positions, labels, device="cuda")
        targets = torch.randint(1, labels, (batch, size), device="cuda")
        exact = torchs(scores[:COMPARED].cpu().double(), targets[:COMPARED].cpu())
        found = [measured(f, scores, targets) for f in (ours, torchs)]
        (time, memory), (their_time, their_memory) = found
        errors = [
            float((f(scores[:COMPARED], targets[:COMPARED]).cpu() - exact).abs().max())
            for f in (ours, torchs)
        ]
        print(
            f"{batch} x {positions} x {labels}, {size} | {time:.3f} | {their_time:.3f} | "
            f"{their_time / time:.2f} | {memory:.0f} | {their_memory:.0f} | "
            f"{errors[0]:.1e} | {errors[1]:.1e}"
        )


if __name__ == "__main__":
    main()
