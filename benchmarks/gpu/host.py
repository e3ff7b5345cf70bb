"""What a call costs the host: python -m benchmarks.gpu.host.

On a CUDA device with its launches. Without one they are left out: CPU tensors take the way of CUDA
ones, and the kernels are replaced by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import torch

import maxent.torch as mt
from benchmarks.timing import median, once
from maxent.torch import _dispatch, _triton


def microseconds(call: Callable[[], object], repeats: int = 3000) -> float:
    """Median time of a call."""
    for _ in range(200):
        call()
    return 1e6 * median([once(call) for _ in range(repeats)])


@contextmanager
def without_launches(x: torch.Tensor) -> Iterator[None]:
    """The way of CUDA tensors for those of the CPU, up to the kernels."""
    out, loss = torch.empty_like(x), torch.empty(len(x))
    with (
        patch.object(_triton, "_launch", lambda *_: (out.clone(), loss)),
        patch.object(_triton, "rescale", lambda *_: None),
        patch.object(_dispatch, "_module", lambda name, _: _triton if name == "triton" else None),
    ):
        yield


def main() -> None:
    """A line a call, beside torch's own on the same small tensors."""
    torch.set_num_threads(1)
    there = torch.cuda.is_available()
    device = "cuda" if there else "cpu"
    x, y = torch.randn(64, 32, device=device), torch.randint(0, 32, (64,), device=device)
    theta = x.clone().requires_grad_()
    criterion = mt.FenchelYoungLoss(1.5, check=False)

    def both_ways(function: Callable[..., torch.Tensor]) -> None:
        theta.grad = None
        function(theta, y).backward()

    calls = {
        "map": lambda: mt.entmax(x, 1.5),
        "torch.softmax": lambda: torch.softmax(x, -1),
        "loss, forward and backward": lambda: both_ways(criterion),
        "torch cross-entropy": lambda: both_ways(torch.nn.functional.cross_entropy),
    }
    with nullcontext() if there else without_launches(x):
        for name, call in calls.items():
            print(f"{name:28} {microseconds(call):8.1f} microseconds")


if __name__ == "__main__":
    main()
