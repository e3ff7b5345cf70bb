"""One training step through a layer or a loss of torch: what everyone is timed on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def map_step(layer: Callable, x: np.ndarray, g: np.ndarray) -> Callable[[], np.ndarray]:
    """One training step through a layer: the gradient."""
    import torch

    scores, cotangent = torch.from_numpy(x.copy()).requires_grad_(), torch.from_numpy(g)

    def run() -> np.ndarray:
        scores.grad = None
        layer(scores).backward(cotangent)
        return scores.grad.numpy()

    return run


def loss_step(criterion: Callable, x: np.ndarray, y: np.ndarray) -> Callable[[], np.ndarray]:
    """One training step through a loss: the gradient."""
    import torch

    scores, labels = torch.from_numpy(x.copy()).requires_grad_(), torch.from_numpy(y)

    def run() -> np.ndarray:
        scores.grad = None
        criterion(scores, labels).backward()
        return scores.grad.numpy()

    return run
