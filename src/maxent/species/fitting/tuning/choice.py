"""Which candidate is chosen: by one statistic, several in turn, or a weighted mean of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.tuning_settings import TuningSettings

_DIGITS = 10  # to which equal statistics are equal


def ranked(rows: Sequence[dict[str, Any]], settings: TuningSettings) -> list[dict[str, Any]]:
    """Best first, with their rank.

    In turn: candidates that are equal in the first statistic are ordered by the second, and so on;
    of equal ones the simpler comes first (fewer weights, then the larger multiplier). Weighted:
    each statistic is scaled to 1 for its best and 0 for its worst candidate (and 0 where it is not
    known), and the mean is the column ``weighted_score``.
    """
    how, parts = settings.rule()
    directed = [sign * np.array([row[name] for row in rows], float) for name, sign, _ in parts]
    if not any(np.isfinite(values).any() for values in directed):
        raise ValueError(
            f"scoring by {settings.scoring}: no candidate has a value; AICc needs fewer weights "
            "than records: try larger multipliers or fewer feature classes; partial ROC needs "
            "more records in a fold: try fewer folds or a larger --partial-roc"
        )
    keys = directed
    rows = [dict(row) for row in rows]
    if how == "weighted":
        shares = np.array([weight for _, _, weight in parts])
        mean = np.array([_scaled(values) for values in directed]).T @ shares / shares.sum()
        keys = [mean]
        for row, value in zip(rows, mean, strict=True):
            row["weighted_score"] = float(value)

    def order(i: int) -> tuple[float, ...]:
        values = (
            round(-float(key[i]), _DIGITS) if np.isfinite(key[i]) else math.inf for key in keys
        )
        return (*values, rows[i]["n_weights"], -rows[i]["multiplier"])

    best_first = [rows[i] for i in sorted(range(len(rows)), key=order)]
    return [{"rank": i + 1} | row for i, row in enumerate(best_first)]


def _scaled(values: Array) -> Array:
    known = np.isfinite(values)
    scaled = np.zeros(values.size)
    if known.any():
        low, high = values[known].min(), values[known].max()
        scaled[known] = (values[known] - low) / (high - low) if high > low else 1.0
    return scaled
