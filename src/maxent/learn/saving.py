"""Saved estimators: their parameters and the fitted attributes that they declare."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

_LONGEST = 1 << 16  # bytes of a label
_LABELS = ("classes_", "feature_names_in_")  # may be arrays of Python strings


class SavesFields:
    """The hooks of ``maxent.io``, field by field; labels are lists with their types."""

    _fitted_fields: ClassVar[tuple[str, ...]]  # in the order in which ``fit`` sets them
    _optional_fields: ClassVar[tuple[str, ...]] = ("feature_names_in_",)  # of them: null if not set
    _unsaved_fields: ClassVar[tuple[str, ...]] = ()  # as long as the training data
    _retired_fields: ClassVar[tuple[str, ...]] = ()  # in older files, of no use today

    def __getmodel__(self) -> dict[str, Any]:
        own = vars(self)
        state = {name: own[name] for name in self._parameters()}
        if not self._lacking(own):  # what a fit that failed has left is no fit
            state |= {name: own.get(name) for name in self._fitted_fields}
        for name in _LABELS:
            if state.get(name) is not None:
                state[name] = [state[name].tolist(), state[name].dtype.str]
        return state

    def __setmodel__(self, state: dict[str, Any]) -> None:
        parameters = self._parameters()
        known = (*parameters, *self._fitted_fields)
        unknown = sorted(state.keys() - {*known, *self._retired_fields})
        if unknown:
            raise ValueError(
                f"it has fields {unknown} that {type(self).__name__} does not know, expected some "
                f"of {sorted(known)}; a file of a newer maxent needs that version"
            )
        for name, default in parameters.items():
            setattr(self, name, state.get(name, default))
        fitted = [name for name in self._fitted_fields if name in state]
        lacking = self._lacking(state)
        if fitted and lacking:
            raise ValueError(
                f"{lacking} missing, which belong to a fitted {type(self).__name__}; save it again"
            )
        for name in fitted:
            value = state[name]
            if value is not None or name not in self._optional_fields:
                setattr(self, name, _labels(value) if name in _LABELS else value)

    @classmethod
    def _lacking(cls, own: Mapping[str, Any]) -> list[str]:
        """What every fit sets and is not there."""
        return [n for n in cls._fitted_fields if n not in own and n not in cls._optional_fields]

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """The arguments of the constructor and their defaults, in the order it sets them in."""
        if is_dataclass(cls):
            return {given.name: given.default for given in fields(cls)}
        _, *arguments = inspect.signature(cls.__init__).parameters.values()
        return {argument.name: argument.default for argument in arguments}


def _labels(saved: list[Any]) -> Any:
    values, name = saved
    dtype = np.dtype(name)
    if dtype.kind not in "biufUO" or dtype.itemsize > _LONGEST or not isinstance(values, list):
        raise ValueError(f"labels must be a list of numbers or strings, got dtype {name!r}")
    return np.array(values, dtype=dtype)
