"""Records left out by hand: rows of a file, as messages count them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxent.species.input.records.occurrences import Occurrences

_MOST = 10**7  # rows of one range


def rows_named(texts: Iterable[str]) -> list[int]:
    """Rows from words such as 12, 30-35 or 12,40.

    >>> rows_named(["30-32", "12,40"])
    [12, 30, 31, 32, 40]
    """
    rows: set[int] = set()
    for text in texts:
        for word in str(text).split(","):
            first, dash, last = (part.strip() for part in word.partition("-"))
            last = last if dash else first
            if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
                raise ValueError(
                    f"leave_out takes rows of the file as 12, 30-35 or 12,40, got {text!r}"
                )
            if int(last) - int(first) > _MOST:
                raise ValueError(f"leave_out: {word.strip()} are more than {_MOST} rows")
            rows.update(range(int(first), int(last) + 1))
    return sorted(rows)


def in_words(rows: Iterable[int]) -> str:
    """Rows as they are typed, the inverse of :func:`rows_named`.

    >>> in_words([40, 30, 31, 32, 12])
    '12,30-32,40'
    """
    ordered = sorted(set(rows))
    parts: list[list[int]] = []
    for row in ordered:
        if parts and row == parts[-1][-1] + 1:
            parts[-1].append(row)
        else:
            parts.append([row])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 2 else ",".join(map(str, p)) for p in parts)


def without_rows(records: Occurrences, rows: list[int]) -> Occurrences:
    """The records of other rows; a row that holds none is an error."""
    import numpy as np

    lost = np.isin(records.row, rows)
    unknown = sorted(set(rows) - set(records.row.tolist()))
    if unknown:
        raise ValueError(
            f"{records.source}: row {unknown[0]} holds no record that would be used, so it cannot "
            "be left out (--leave-out); rows are counted as in messages, the header being 1"
        )
    if lost.all():
        raise ValueError(f"{records.source}: every record is left out (--leave-out); keep some")
    note = f"{records.source}: {int(lost.sum())} records left out by hand, rows {in_words(rows)}"
    return replace(records.take(~lost), notes=(*records.notes, note))
