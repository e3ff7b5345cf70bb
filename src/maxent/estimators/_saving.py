"""Saved estimators with labels."""

from __future__ import annotations

from typing import Any

import numpy as np

_LABELS = ("classes_", "feature_names_in_")  # may be arrays of Python strings


class SavesLabels:
    """The hooks of ``maxent.io``: all attributes, labels as lists with their types."""

    def __getmodel__(self) -> dict[str, Any]:
        state = dict(vars(self))
        for name in _LABELS:
            if name in state:
                state[name] = [state[name].tolist(), state[name].dtype.str]
        return state

    def __setmodel__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _LABELS:
            if name in state:
                values, dtype = state[name]
                setattr(self, name, np.array(values, dtype=dtype))
