"""Tables as text: numbers have ten digits, and what is not known is empty; and JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from io import StringIO
from typing import Any

import numpy as np

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """A table in UTF-8."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([plain_cell(name) for name in header])
    writer.writerows([_text(value) for value in row] for row in rows)
    return buffer.getvalue().encode()


def _text(value: Any) -> str:
    if not is_known(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return f"{value:.10g}"
    return str(plain_cell(value))


def plain_cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula: text that begins like one gets a quote.

    >>> plain_cell("=1+1"), plain_cell("-1.5"), plain_cell("Acer"), plain_cell(-2)
    ("'=1+1", '-1.5', 'Acer', -2)
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def is_known(value: Any) -> bool:
    """Whether a value is neither None nor NaN."""
    return value is not None and not (isinstance(value, float | np.floating) and math.isnan(value))


def json_bytes(value: Any) -> bytes:
    """What :func:`plain_json` makes of a value, as the text of a file."""
    return (json.dumps(plain_json(value), allow_nan=False) + "\n").encode()


def plain_json(value: Any) -> Any:
    """As JSON holds it: numbers that are not finite are null, arrays lists.

    >>> plain_json({"d": np.array([0.5, np.nan]), "names": ("a", "b")})
    {'d': [0.5, None], 'names': ['a', 'b']}
    """
    if hasattr(value, "_asdict"):  # a NamedTuple
        return plain_json(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return plain_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain_json(value.tolist())
    if isinstance(value, np.generic):
        return plain_json(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def number_or_text(text: str) -> Any:
    """A cell of a table as JSON has it; a number that is not finite is None.

    >>> number_or_text("1.5"), number_or_text("nan"), number_or_text("Acer")
    (1.5, None, 'Acer')
    """
    try:
        return plain_json(float(text))
    except ValueError:
        return text
