"""entmax: sparsemax and 1.5-entmax by sorting (or the top k), other alpha by 50 bisections."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np

NAME = "entmax"


def maps(theta: np.ndarray, alpha: float) -> dict[str, Callable[[], np.ndarray]]:
    """The map on this batch, by the default and (where there is one) the k = 100 path."""
    import entmax
    import torch

    scores = torch.from_numpy(theta)

    def no_grad(function: Callable[[], object]) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            with torch.no_grad():
                return function().numpy()

        return run

    found: dict[str, Callable[[], np.ndarray]] = {}
    if alpha in (1.5, 2.0):
        kind = entmax.sparsemax if alpha == 2.0 else entmax.entmax15
        found[f"{NAME} (default)"] = no_grad(lambda: kind(scores, dim=-1))
        found[f"{NAME} (k=100)"] = no_grad(lambda: kind(scores, dim=-1, k=100))
    else:
        found[f"{NAME} (default)"] = no_grad(lambda: entmax.entmax_bisect(scores, alpha, dim=-1))
    return found


def describe() -> str:
    return f"{NAME} {version('entmax')}"
