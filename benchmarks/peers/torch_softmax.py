"""torch.softmax: the floor that a sparse map is held against."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np

NAME = "torch.softmax"


def maps(theta: np.ndarray, alpha: float) -> dict[str, Callable[[], np.ndarray]]:
    import torch

    scores = torch.from_numpy(theta)

    def run() -> np.ndarray:
        with torch.no_grad():
            return torch.softmax(scores, dim=-1).numpy()

    return {f"{NAME} (floor)": run}


def describe() -> str:
    return f"torch {version('torch')}"
