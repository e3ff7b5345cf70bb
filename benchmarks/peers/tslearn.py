"""tslearn: soft-DTW as a torch loss, its recursion compiled by numba."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from torch import Tensor

NAME = "tslearn"


def soft_dtw(x: Tensor, y: Tensor, gamma: float) -> Callable[[], Tensor]:
    """Value and gradient in x."""
    from tslearn.metrics import SoftDTWLossPyTorch

    loss, leaf = SoftDTWLossPyTorch(gamma=gamma), x.clone().requires_grad_()

    def run() -> Tensor:
        leaf.grad = None
        loss(leaf, y).sum().backward()
        return leaf.grad

    return run


def describe() -> str:
    return f"{NAME} {version(NAME)}"
