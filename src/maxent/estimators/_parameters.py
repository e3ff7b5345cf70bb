"""Checks of the parameters of estimators."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np


def positive(name: str, value: Any) -> float:
    """A finite number above 0, or an error that says what was given."""
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return float(value)
