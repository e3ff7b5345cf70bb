"""A value of another kind than its model says goes neither to the page nor comes from it.

A folder of results may come from anyone. Its files are read as data, and what reaches the page is
checked here once more, so that a text is a text and a number a number wherever the page shows it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from maxent.app.models import Said
from maxent.species.fitting.options import options_of

M = TypeVar("M", bound=Said)


class DamagedError(ValueError):
    """A file of the folder does not hold what maxent writes there."""


def encode(kind: Any, value: Any) -> bytes:
    """A value as it is sent: JSON that fits the model, or an error that says what does not.

    >>> from maxent.app.models import Error
    >>> encode(Error, {"error": "no"})
    b'{"error": "no"}'
    >>> encode(Error, {"error": {"type": "script"}})
    Traceback (most recent call last):
    maxent.app.schema.DamagedError: error: expected a text, found an object
    """
    try:
        content = json.dumps(value, allow_nan=False).encode()
        _adapter(kind).validate_json(content)
    except ValidationError as error:
        raise DamagedError(in_words(error)) from error
    return content


def read(kind: Any, content: str | bytes) -> Any:
    """A file of the folder as a model, or an error that says what does not fit."""
    try:
        return _adapter(kind).validate_json(content)
    except ValidationError as error:
        raise DamagedError(in_words(error)) from error


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    model: Any = kind
    return TypeAdapter(model)


_KINDS = {
    **{"string_type": "a text", "bool_type": "yes or no", "list_type": "a list"},
    **{"int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number"},
    **{"finite_number": "a finite number", "dict_type": "an object", "tuple_type": "a list"},
    **{"model_type": "an object", "none_required": "nothing", "literal_error": "another word"},
}
_FOUND = {dict: "an object", list: "a list", tuple: "a list", str: "a text", bool: "yes or no"}


def in_words(error: ValidationError) -> str:
    """The first thing that does not fit: where it stands, what was expected and what is there."""
    every = error.errors(include_url=False)
    first = next((one for one in every if one["type"] != "missing"), every[0])
    place = [str(part) for part in first["loc"] if not str(part).startswith(("list[", "dict["))]
    where = ".".join(part for part in place if part not in ("str", "float", "int", "bool"))
    kind = first["type"]
    if kind == "missing":
        return f"{where}: it is missing"
    if kind == "extra_forbidden":
        return f"{where}: nothing of this name is known"
    if kind == "json_invalid":
        return "not JSON, or cut short"
    found = first.get("input")
    shown = _FOUND.get(type(found), f"{found!r:.40}")
    alternatives = {
        _KINDS.get(one["type"], "another value")
        for one in every
        if one["loc"][: len(first["loc"]) - 1] == first["loc"][:-1] and one["type"] != "missing"
    }
    expected = " or ".join(sorted(alternatives)) if len(alternatives) < 4 else "another value"
    return f"{where or 'it'}: expected {expected}, found {shown}"


# -- what the page may send ------------------------------------------------------------------------


@cache
def _fields(cls: type) -> dict[str, TypeAdapter[Any]]:
    """What may be chosen of a dataclass: fields that have an option, or need none."""
    hints, asked = get_type_hints(cls), options_of(cls)
    return {
        f.name: TypeAdapter(hints[f.name], config=ConfigDict(strict=True, allow_inf_nan=False))
        for f in fields(cls)
        if f.name in asked or not f.metadata
    }


def chosen(part: str, cls: type, given: Any) -> dict[str, Any]:
    """Fields of a dataclass as the page sent them, each of its kind; lists become tuples."""
    if not isinstance(given, dict):
        raise ValueError(f"{part} must be fields by name, got {type(given).__name__}")
    known = _fields(cls)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{part} has no {unknown[0]!r:.40}; it has {', '.join(sorted(known))}")
    made = {}
    for name, value in given.items():
        value = tuple(value) if isinstance(value, list) else value
        try:
            made[name] = known[name].validate_python(value)
        except ValidationError as error:
            said = in_words(error).partition(": ")[2]
            raise ValueError(f"{part}: {name.replace('_', ' ')}: {said}") from None
    return made


def asked(cls: type[M], content: bytes) -> M:
    """The body of a request."""
    try:
        return cls.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise ValueError(in_words(error)) from None
