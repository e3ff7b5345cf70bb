"""What wrong labels cost in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.rows.arrays import Array


def as_cost(given: Any, classes: Array) -> Array:
    """A matrix [right, other] of costs: not negative, 0 on the diagonal."""
    cost, count = np.asarray(given, dtype=np.float64), len(classes)
    if cost.shape != (count, count):
        raise ValueError(
            f"cost must have a row and a column for each of {count} classes {classes.tolist()}, "
            f"shape {(count, count)}, got {cost.shape}"
        )
    if not np.isfinite(cost).all() or (cost < 0).any() or np.diag(cost).any():
        raise ValueError(
            "cost must be finite and not negative, and 0 on the diagonal: the right answer costs "
            f"nothing; got {cost.tolist()}"
        )
    return cost
