"""torch-struct: semi-Markov models with a table of scores for every segment and pair of labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from benchmarks.peers.torch_struct_chains import NAME as NAME
from torch import Tensor

_NEVER = -1e5


def sums(content: Tensor, durations: Tensor, transitions: Tensor) -> Callable[[], Tensor]:
    """Log-partitions and, by autograd, probabilities of labels at positions."""
    from torch_struct import SemiMarkovCRF

    batch, length, labels = content.shape
    longest = len(durations)

    def run() -> tuple[Tensor, Tensor]:
        scores = content.clone().requires_grad_()
        whole = torch.cat([content.new_zeros(batch, 1, labels), scores.cumsum(1)], 1)
        # [b, start, positions, to, from]; the first segment has no label before it but 0
        table = content.new_full((batch, length, longest + 1, labels, labels), _NEVER)
        for d in range(1, longest + 1):
            own = whole[:, d:] - whole[:, : length + 1 - d] + durations[d - 1]
            table[:, : length + 1 - d, d] = own[..., None] + transitions.T
            table[:, 0, d, :, 1:] = _NEVER
            table[:, 0, d, :, 0] = own[:, 0]
        value = SemiMarkovCRF(table).partition
        return value.detach(), torch.autograd.grad(value.sum(), scores)[0]

    return run
