"""torch's cross-entropy: the floor of a loss at small sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.steps import loss_step

NAME = "torch cross_entropy"


def loss_steps(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    import torch

    return {f"{NAME} (floor)": loss_step(torch.nn.CrossEntropyLoss(), x, y)}
