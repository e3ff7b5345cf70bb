"""geomloss: Sinkhorn's loop at falling strengths, with all costs in memory or by KeOps."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import torch
from torch import Tensor

NAME = "geomloss"
Potentials = Callable[[], tuple[Tensor, Tensor]]


def potentials(x: Tensor, y: Tensor, strength: float) -> dict[str, Potentials]:
    """Potentials of clouds with equal masses; its ``scaling`` says how slowly strengths fall."""
    from geomloss import SamplesLoss

    def made(backend: str, scaling: float) -> Potentials:
        loss = SamplesLoss(
            "sinkhorn",
            p=2,
            blur=strength**0.5,
            scaling=scaling,
            debias=False,
            potentials=True,
            backend=backend,
        )

        def run() -> tuple[Tensor, Tensor]:
            f, g = loss(x, y)
            return f.reshape(-1), g.reshape(-1)

        return run

    found = {f"{NAME} tensorized, scaling {s}": made("tensorized", s) for s in (0.5, 0.9)}
    try:
        import pykeops  # noqa: F401
    except ImportError:
        return found
    return found | {f"{NAME} online, scaling {s}": made("online", s) for s in (0.5, 0.9)}


def describe() -> str:
    return f"{NAME} {version('geomloss')}, pykeops {version('pykeops')}, torch {torch.__version__}"
