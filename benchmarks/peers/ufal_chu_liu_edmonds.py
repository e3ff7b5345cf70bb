"""ufal.chu_liu_edmonds: best trees in C++, one graph at a time, any number of root arcs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np

NAME = "ufal.chu_liu_edmonds"


def best_trees(scores: np.ndarray) -> Callable[[], np.ndarray]:
    """Heads (batch, n) of the best trees; scores (batch, n, n) are [head, dependent]."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    # it wants [dependent, head] in float64: given ready, so that only its search is timed
    tables = np.ascontiguousarray(scores.transpose(0, 2, 1), dtype=np.float64)
    return lambda: np.array([chu_liu_edmonds(table)[0] for table in tables])


def describe() -> str:
    return f"{NAME} {version(NAME)}"
