"""Tables as text: numbers have ten digits, and what is not known is empty."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
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
