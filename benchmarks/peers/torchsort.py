"""torchsort: soft ranks by torch.sort and pooling in C++."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

NAME = "torchsort"


def soft_rank(regularization: str) -> Callable[[Any], Any]:
    """Soft ranks of rows at strength 1."""
    import torchsort

    return lambda x: torchsort.soft_rank(x, regularization, 1.0)


def describe() -> str:
    return f"{NAME} {version('torchsort')}"
