"""pytorch-crf: a linear-chain CRF as a module, by autograd through its recursion."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import torch
from torch import Tensor

NAME = "pytorch-crf"


def _layer(nodes: Tensor, transitions: Tensor):
    from torchcrf import CRF

    layer = CRF(nodes.shape[2], batch_first=True).to(nodes)
    with torch.no_grad():
        layer.transitions.copy_(transitions)
        layer.start_transitions.zero_()
        layer.end_transitions.zero_()
    return layer


def losses(nodes: Tensor, transitions: Tensor, tags: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """The summed negative log-likelihood, forward and backward: its gradients."""
    layer = _layer(nodes, transitions)
    leaf = nodes.clone().requires_grad_()

    def run() -> tuple[Tensor, Tensor]:
        leaf.grad = layer.transitions.grad = None
        (-layer(leaf, tags, reduction="sum")).backward()
        return leaf.grad, layer.transitions.grad

    return run


def paths(nodes: Tensor, transitions: Tensor) -> Callable[[], Tensor]:
    """The best paths."""
    layer = _layer(nodes, transitions)

    def run() -> Tensor:
        with torch.no_grad():
            return torch.tensor(layer.decode(nodes))

    return run


def describe() -> str:
    return f"{NAME} {version(NAME)}"
