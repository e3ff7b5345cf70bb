"""Series: layers that are one variable at several times, by their names or by a table."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from maxent.species.input.file_access import check_inside
from maxent.species.input.layers.naming import Named, beside
from maxent.species.input.times.spans import EXAMPLES, Span, named_time, read_date

_SHOWN = 4


@dataclass(frozen=True)
class Slice:
    """A layer at one time: the name of its source, and the days that it is of."""

    source: str
    span: Span


@dataclass(frozen=True)
class TableRow:
    """A row of a table of times: the layer, its time, and where it is."""

    layer: str
    span: Span | None
    file: Named


def read_times(path: str) -> list[TableRow]:
    """The rows of a table of layer, file, start and end; a layer without both is of no time."""
    table = Path(path)
    if not table.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a .csv of layer, file, start, end")
    check_inside(table)
    with open(table, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    if not rows or not {"layer", "file", "start"} <= rows[0].keys():
        raise ValueError(
            f"{path}: the table of times must have rows under the headings layer, file, start and "
            "end (and band, for files of several)"
        )
    found = []
    for line, row in enumerate(rows, 2):
        layer, file_name = ((row.get(name) or "").strip() for name in ("layer", "file"))
        if not layer or not file_name:
            raise ValueError(f"{path}, line {line}: no layer or no file")
        span = _span(row, f"{path}, line {line}")
        name = layer if span is None else f"{layer}_{span.label}"
        band = (row.get("band") or "").strip()
        found.append(TableRow(layer, span, Named(name, beside(table, file_name), band)))
    return found


def _span(row: dict[str, str], where: str) -> Span | None:
    ends = [(row.get(name) or "").strip() for name in ("start", "end")]
    if not any(ends):
        return None
    first, last = (read_date(text) for text in (ends[0], ends[1] or ends[0]))
    if first is None or last is None:
        wrong = ends[0] if first is None else ends[1]
        raise ValueError(f"{where}: {wrong!r} is no date; expected such as {EXAMPLES}")
    if last.end <= first.start:
        raise ValueError(f"{where}: it ends ({ends[1]}) before it starts ({ends[0]})")
    return Span(first.start, max(first.end, last.end) if not ends[1] else last.end)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Layers by what they are: series by name, each in order of time, and those of no time."""

    series: dict[str, tuple[Slice, ...]]
    static: tuple[str, ...]
    notes: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        """Of all variables, series first."""
        return (*self.series, *self.static)


def grouped(
    names: Sequence[str], rows: Sequence[TableRow] = (), variables: Collection[str] = ()
) -> Grouped:
    """Sort layers into series and others.

    Names that end in a time are of one series where they agree up to it, and there are two or more
    (or one, of a name among ``variables``); rows of a table say so themselves.
    """
    told = {row.file.name: (row.layer, row.span) for row in rows}
    found: dict[str, list[Slice]] = {}
    static = []
    for name in names:
        base, span = told[name] if name in told else named_time(name) or (name, None)
        if name in variables:  # known by its whole name
            base, span = name, None
        if span is None:
            static.append(base)
        else:
            found.setdefault(base, []).append(Slice(name, span))
    lone = [base for base, one in found.items() if len(one) == 1 and base not in variables]
    by_table = {row.layer for row in rows}
    notes = []
    for base in lone:
        (one,) = found.pop(base)
        static.append(base if base in by_table else one.source)
        notes.append(f"{one.source}: one time only, so it is taken to be the same at all times")
    series = {base: _ordered(base, slices) for base, slices in found.items()}
    twice = next((name for name in static if name in series or static.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"layer {twice!r} is there twice, or once with times and once without; leave one out "
            "(--without), or say which file is what in a table (--layer-times)"
        )
    notes += [_told(base, slices) for base, slices in series.items()]
    return Grouped(series, tuple(static), tuple(notes))


def looks_dated(names: Sequence[str]) -> list[str]:
    """What to say of layers that are fitted side by side, though their names say times of one.

    >>> looks_dated(["rain", "heat_2000", "heat_2001"])[0][:49]
    'heat_2000, heat_2001 look like times of one layer'
    """
    found: dict[str, list[str]] = {}
    for name in names:
        told = named_time(name)
        if told is not None:
            found.setdefault(told[0], []).append(name)
    return [
        f"{', '.join(several[:_SHOWN])}{' ...' if several[_SHOWN:] else ''} look like times of one "
        "layer, and are fitted as variables of their own; --date-column gives each record that of "
        "its own time"
        for several in found.values()
        if len(several) > 1
    ]


def _ordered(base: str, slices: list[Slice]) -> tuple[Slice, ...]:
    ordered = sorted(slices, key=lambda one: one.span)
    for one, other in pairwise(ordered):
        if one.span == other.span:
            raise ValueError(
                f"{base} is there twice at {one.span.label}: {one.source} and {other.source}; "
                "leave one out (--without). Tiles of one layer are not put together: build a mosaic"
            )
    return tuple(ordered)


def _told(base: str, slices: Sequence[Slice]) -> str:
    labels = [one.span.label for one in slices]
    shown = ", ".join(labels[:_SHOWN])
    shown += f" ... {labels[-1]}" if len(labels) > _SHOWN else ""
    return f"{base}: a layer at {len(slices)} times, {shown}"
