"""Checks of the parameters of estimators."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from maxent.core.entropies.slack import SLACKS
from maxent.rows.arrays import Array


def positive(name: str, value: Any) -> float:
    """A finite number above 0, or an error that says what was given."""
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return float(value)


def slack_of(kind: Any, rate: Any) -> tuple[str, float]:
    """The function of the slacks and its rate, which the KL slack alone has."""
    if kind != "linear" and kind not in SLACKS:
        names = ", ".join(repr(name) for name in ("linear", *SLACKS))
        raise ValueError(f"slack must be one of {names}, got {kind!r}")
    if rate is not None and kind != "kl":
        raise ValueError(f"slack_rate={rate!r} has no effect with slack={kind!r}: leave it out")
    return kind, 1.0 if rate is None else positive("slack_rate", rate)


def as_cost(given: Any, classes: Array) -> Array:
    """What wrong labels cost in training, [right, other]: not negative, 0 on the diagonal."""
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
