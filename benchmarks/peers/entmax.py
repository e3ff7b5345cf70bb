"""entmax: sparsemax and 1.5-entmax by sorting (or the top k), other alpha by 50 bisections."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from benchmarks.steps import loss_step, map_step

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


def map_steps(name: str, x: np.ndarray, g: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """A map of a layer, forward and backward: by sorting or by 50 bisections."""
    import entmax

    layer = {
        "entmax15": entmax.Entmax15(),
        "normmax": entmax.NormmaxBisect(2),
        "budget": entmax.BudgetBisect(2),
    }[name]
    return {NAME: map_step(layer, x, g)}


def loss_steps(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """A mean loss of labels, forward and backward."""
    import entmax

    kind = {"entmax15": entmax.Entmax15Loss, "sparsemax": entmax.SparsemaxLoss}[name]
    return {NAME: loss_step(kind(reduction="elementwise_mean"), x, y)}


def describe() -> str:
    return f"{NAME} {version('entmax')}"


def attention(causal: bool) -> Callable:
    """1.5-entmax of all scores, and a product with the values."""
    import entmax

    import torch

    def attend(q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return entmax.entmax15(scores, dim=-1) @ v

    return attend
