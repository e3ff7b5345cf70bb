"""torch-struct: chains as distributions, marginals by autograd through a semiring recursion."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import torch
from torch import Tensor

NAME = "torch-struct"


def _chain(nodes: Tensor, transitions: Tensor):
    from torch_struct import LinearChainCRF

    # potentials [b, t, to, from]: the score of a state is that of its way in
    potentials = transitions.T + nodes[:, 1:, :, None]
    potentials[:, 0] += nodes[:, 0, None, :]
    return LinearChainCRF(potentials)


def marginals(nodes: Tensor, transitions: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """Log-partitions and the marginals of transitions [b, t, from, to]."""

    def run() -> tuple[Tensor, Tensor]:
        chain = _chain(nodes, transitions)
        return chain.partition.detach(), chain.marginals.detach().mT

    return run


def paths(nodes: Tensor, transitions: Tensor) -> Callable[[], Tensor]:
    """The best paths."""

    def run() -> Tensor:
        best = _chain(nodes, transitions).argmax.detach()
        first = best[:, 0].sum(1).argmax(1, keepdim=True)
        return torch.cat([first, best.sum(3).argmax(2)], 1)

    return run


def kbest(nodes: Tensor, transitions: Tensor, k: int) -> Callable[[], Tensor]:
    """The transitions of the k best paths [rank, b, t, to, from]."""
    return lambda: _chain(nodes, transitions).topk(k).detach()


def describe() -> str:
    return f"{NAME} {version(NAME)}"
