"""Dates of records: which columns hold them, how they are written, and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.records.archives import open_table
from maxent.species.input.records.columns import listed, named, recognised
from maxent.species.input.records.occurrences import Occurrences, is_vector, read_vector
from maxent.species.input.records.text_table import MISSING, texts
from maxent.species.input.times.spans import EXAMPLES, Span, read_date, read_reversed

AUTO = "auto"
OPTION = "dates= (--date-column)"
_WHOLE = ("eventdate", "date", "observationdate", "obsdate", "datecollected", "samplingdate")
_PARTS = ("year", "month", "day")
_EXAMPLES = 3
_DAY, _MONTH = "day first (25/07/2003)", "month first (07/25/2003)"


@dataclass(frozen=True, eq=False)
class RecordDates:
    """The span of days of each record, or None, and what was recognised.

    Attributes
    ----------
    spans : list of Span or None
        One for each record.
    columns : str
        Which columns hold them, in words.
    notes : tuple of str
        What was assumed, and which dates could not be read.
    """

    spans: list[Span | None]
    columns: str
    notes: tuple[str, ...]


def dates_of_file(path: str, asked: str, records: Occurrences) -> RecordDates:
    """The dates of records that were read from a file; see :func:`dates_in`."""
    if is_vector(Path(path)):
        frame, _ = read_vector(Path(path))
        return dates_of_frame(frame, asked, records)
    table, _ = open_table(Path(path))

    def column(place: int) -> dict[int, str]:
        return {
            row: value
            for rows, (values,) in table.batches([place])
            for row, value in zip(rows, values, strict=True)
        }

    return dates_in(table.header, column, asked, records)


def dates_of_frame(frame: Any, asked: str, records: Occurrences) -> RecordDates:
    """The dates of records that were taken from a frame, or a mapping of columns."""
    names = list(frame if isinstance(frame, Mapping) else frame.columns)

    def column(place: int) -> dict[int, str]:
        return dict(enumerate(_texts(frame[names[place]])))

    return dates_in([str(name) for name in names], column, asked, records)


def dates_given(values: Any, records: Occurrences) -> RecordDates:
    """Dates that were handed over, one for each record in their order."""
    written = _texts(values)
    if len(written) != len(records):
        raise ValueError(
            f"dates= has {len(written)} entries for {len(records)} records: give one for each, in "
            "their order"
        )
    return _read(written, "dates given", records)


def _texts(values: Any) -> list[str]:
    """Dates of numpy and pandas in the order of ISO 8601, all else as it is."""
    array = np.asarray(values)
    if array.dtype.kind == "M":
        days = np.datetime_as_string(array.astype("datetime64[D]")).tolist()
        return ["" if day == "NaT" else day for day in days]
    if array.dtype.kind == "f":  # years beside missing ones
        return ["" if np.isnan(v) else f"{v:.15g}" for v in array.tolist()]
    return texts(np.asarray(values, dtype=object))


def dates_in(
    header: Sequence[str], column: Callable[[int], dict[int, str]], asked: str, records: Occurrences
) -> RecordDates:
    """The dates of records in the columns of a table, by row of ``Occurrences.row``.

    ``asked`` names one column, or up to three of year, month and day with commas between; "auto"
    recognises eventDate and other common names, and else year, month and day.
    """
    places = _places(header, asked, records.source)
    found = [column(place) for place in places]
    parts = [[one.get(int(row), "").strip() for row in records.row] for one in found]
    written = (
        parts[0] if len(parts) == 1 else [_joined(words) for words in zip(*parts, strict=True)]
    )
    return _read(written, " and ".join(repr(header[place]) for place in places), records)


def _places(header: Sequence[str], asked: str, where: str) -> list[int]:
    if asked != AUTO:
        names = [name.strip() for name in asked.split(",")]
        if len(names) > len(_PARTS):
            raise ValueError(
                f"{OPTION} is one column, or those of year, month and day with commas between, got "
                f"{asked!r}"
            )
        return [named(header, name, OPTION, where) for name in names]
    whole = recognised(header, _WHOLE)
    if whole is not None:
        return [whole]
    parts = []
    for name in _PARTS:  # a day without its month says nothing
        place = recognised(header, (name,))
        if place is None:
            break
        parts.append(place)
    if not parts:
        raise ValueError(
            f"{where}: no column of dates recognised among {listed(header)}; name it with {OPTION}"
        )
    return parts


def _joined(words: Sequence[str]) -> str:
    """Year, month and day as one date, as far as they are known."""
    known: list[str] = []
    for word in words:
        number = word.removesuffix(".0")
        if number.casefold() in MISSING or not number.isdigit():
            if number.casefold() not in MISSING:
                return " ".join(words)  # which no date is, and is told as it stands
            break
        known.append(number.zfill(2))
    return "-".join(known)


def _read(written: Sequence[str], columns: str, records: Occurrences) -> RecordDates:
    where, row = records.source, records.row
    ways: Counter[str] = Counter()
    order, notes = _order(written, where, row)
    spans: list[Span | None] = []
    unread: list[int] = []
    unclear: list[int] = []
    for i, text in enumerate(written):
        text = text.strip().removesuffix(".0")
        if text.casefold() in MISSING:
            spans.append(None)
            continue
        span, reversed_date = read_date(text), read_reversed(text)
        if span is None and reversed_date is not None:
            span, clear = _ordered(reversed_date, order)
            if not clear:
                unclear.append(i)
        spans.append(span)
        if span is None:
            unread.append(i)
        else:
            ways[_way(text)] += 1
    if unclear:
        notes.append(
            f"{where}: {len(unclear)} dates such as {written[unclear[0]]!r} (row "
            f"{row[unclear[0]]}) may have the day or the month first, and none says which; only "
            "their year is used: write them as 2003-07-25 for more"
        )
    if len(ways) > 1:
        told = ", ".join(f"{n} such as {way}" for way, n in ways.most_common())
        notes.append(f"{where}: dates are written in {len(ways)} ways, all of them read: {told}")
    if unread:
        some = ", ".join(f"row {row[i]}: {written[i]!r}" for i in unread[:_EXAMPLES])
        notes.append(
            f"{where}: {len(unread)} dates cannot be read and count as none ({some}); write them "
            f"as {EXAMPLES}"
        )
    known = sum(span is not None for span in spans)
    if not known:
        raise ValueError(
            f"{where}: no date could be read in {columns}"
            + (f" ({some})" if unread else ", which is blank in every record")
            + f"; expected such as {EXAMPLES}. Name another column with {OPTION}"
        )
    said = f"{where}: dates of {known} of {len(records)} records from {columns}"
    said += f", {_precision(spans)}"
    if any("T" in text or ":" in text for text in written):
        said += "; the day as written counts, whatever the time and zone"
    return RecordDates(spans, columns, (said, *notes))


def _order(written: Sequence[str], where: str, row: Array) -> tuple[str | None, list[str]]:
    """Whether dates such as 07/25/2003 have the day first, None where none of them says."""
    says: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for i, text in enumerate(written):
        found = read_reversed(text)
        if found is None:
            continue
        first, second, _ = found
        way = _DAY if first > 12 >= second else _MONTH if second > 12 >= first else ""
        counts[way] += 1
        if way:
            says.setdefault(way, i)
    if len(says) == 2:
        told = " and ".join(f"{written[i]!r} in row {row[i]} {way}" for way, i in says.items())
        raise ValueError(
            f"{where}: mixed formats of dates: {told}; what {written[min(says.values())]!r} and "
            "others mean is not certain. Write all as 2003-07-25"
        )
    if not says:
        return None, []
    (way,) = says
    if not counts[""]:
        return way, []
    return way, [
        f"{where}: dates are taken to have the {way}, as {counts[way]} of them can only be "
        f"(such as {written[says[way]]!r}); {counts['']} could be either"
    ]


def _ordered(found: tuple[int, int, int], order: str | None) -> tuple[Span | None, bool]:
    """The span of numbers in this order, and whether that is all they say."""
    first, second, year = found
    try:
        if order is None and first != second:
            return Span.of(year), False
        day, month = (second, first) if order == _MONTH else (first, second)
        return Span.of(year, month, day), True
    except ValueError:
        return None, True


def _way(text: str) -> str:
    """How a date is written: its digits as 9, so that those of one way look alike."""
    shape = "".join("9" if c.isdigit() else c for c in text.split("T")[0].split(" ")[0])
    return {"9999": "2003", "9999-99": "2003-07", "9999-99-99": "2003-07-25"}.get(
        shape, shape if any(c in "/.-" for c in shape) else "words"
    )


def _precision(spans: Sequence[Span | None]) -> str:
    kinds: Counter[str] = Counter()
    for span in spans:
        if span is not None:
            days = span.days
            kinds[
                "to the day" if days == 1
                else "to the month" if 28 <= days <= 31
                else "to the year" if days in (365, 366)
                else "over a longer or other span"
            ] += 1  # fmt: skip
    return ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
