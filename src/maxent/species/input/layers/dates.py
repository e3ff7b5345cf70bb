"""Dates: names for the layers of a file or array with a dimension of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.libraries import geo

_SHOWN = 6  # dated layers that a note lists


def dates_of(times: Array) -> list[str]:
    """Dates (of numpy or cftime) as short as tells them apart: of years, months, days or seconds.

    >>> dates_of(np.array(["2050-01-16", "2050-02-15"], "datetime64[D]"))
    ['2050-01', '2050-02']
    >>> dates_of(np.array(["2050-07-01", "2070-07-01"], "datetime64[D]"))
    ['2050', '2070']
    """
    if np.issubdtype(np.asarray(times).dtype, np.datetime64):
        written = np.datetime_as_string(np.asarray(times), unit="s").tolist()
    else:
        written = [time.isoformat() for time in times]
    for digits in (2, 5, 8, 11, 14, 17):  # after the year, however long that is
        short = [text[: text.index("-", 1) + digits - 2] for text in written]
        if len(set(short)) == len(set(written)):
            break
    return [text.replace(":", "") for text in short]


def decoded(numbers: Sequence[float], units: str, calendar: str) -> Array | None:
    """Times in "days since ..." as dates, None where that takes a package that is not there."""
    time = ("time", np.asarray(numbers), {"units": units, "calendar": calendar})
    xarray = geo("xarray")
    try:
        return np.asarray(xarray.decode_cf(xarray.Dataset(coords={"time": time}))["time"])
    except (ValueError, ImportError, OverflowError):
        return None


def dated_note(label: Any, names: Sequence[str]) -> str:
    """What is said of a file whose times became layers."""
    shown = ", ".join(names[:_SHOWN])
    shown += f" ... {names[-1]}" if len(names) > _SHOWN else ""
    return f"{label}: its times became {len(names)} layers: {shown}"
