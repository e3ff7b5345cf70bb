"""Values that mean "not known" in files that do not say so: -9999, -3.4e38, -32768 ..."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.sources import FileSource

_USUAL = (-999.0, -9999.0, -99999.0, -32767.0, -32768.0, -(2.0**31))
_HUGE = 1e20  # nothing in an environment is larger; NetCDF fills with 1e20, 9.97e36 and others
_APART = 5  # times the widest gap between other values
_WHOLE = 1 << 24  # cells of a band that is read whole
_SIDE, _LOOKS = 512, 64  # of a larger one: the windows that are read
_KEPT = 1 << 14  # distinct values kept at most


@dataclass
class Histogram:
    """What a band holds: how often each usual value of "not known", and which other values."""

    odd: Counter[float] = field(default_factory=Counter)
    others: Array = field(default_factory=lambda: np.empty(0))
    whole: bool = True

    def add(self, values: Array) -> None:
        """Count the values of a window."""
        found, counts = np.unique(values, return_counts=True)
        is_odd = _usual(found)
        odd = zip(found[is_odd].tolist(), counts[is_odd].tolist(), strict=True)
        self.odd.update({float(value): n for value, n in odd})
        others = np.union1d(self.others, found[~is_odd].astype(np.float64))
        if others.size > _KEPT:
            others = others[np.linspace(0, others.size - 1, _KEPT).astype(int)]
        self.others = others

    def may_hold(self, value: float) -> bool:
        """Whether a cell may have this value, in single precision as it is compared."""
        if not self.whole or self.others.size == _KEPT:
            return True
        with np.errstate(over="ignore"):
            held = np.append(self.others, list(self.odd)).astype(np.float32)
            return bool((held == np.float32(value)).any())

    def apart(self) -> list[float]:
        """Usual values of "not known" that stand apart from all others.

        The gap to the nearest other value is wider than the range of these, or 5 times as wide as
        any gap between them. The largest value of an integer type, 255 say, needs three others
        as well: 0 and 255 are a mask.
        """
        return sorted(value for value in self.odd if self._stands_apart(value))

    def _stands_apart(self, value: float) -> bool:
        others = self.others
        if not others.size:
            return value < 0
        low, high = float(others[0]), float(others[-1])
        gap = low - value if value < low else value - high
        if gap <= 0 or (value > 0 and others.size < 3 and value < _HUGE):
            return False
        widest = float(np.diff(others).max(initial=0.0))
        return gap > min(high - low, _APART * widest)


def _usual(values: Array) -> Array:
    """Which of these values are used for "not known"."""
    if values.dtype.kind == "f":
        return np.isin(values, _USUAL) | (np.abs(values) >= _HUGE)
    limits = np.iinfo(values.dtype)
    ends = [end for end in (int(limits.min), int(limits.max)) if end]
    return np.isin(values.astype(np.float64), [*_USUAL, *map(float, ends)])


def with_missing(
    sources: Sequence[FileSource], nodata: Sequence[float] | None, notes: list[str]
) -> list[FileSource]:
    """The sources with the values that mean "not known"; what was recognised goes to ``notes``.

    ``nodata`` are such values of every source, None for no search. Without any, a source that
    states none and has no mask is searched for usual ones.
    """
    if nodata is None:
        return list(sources)
    if nodata:
        _note_absent(sources, nodata, notes)
        return [_missing(source, nodata) for source in sources]
    return [_recognised(source, notes) for source in sources]


def _recognised(source: FileSource, notes: list[str]) -> FileSource:
    if source.masked or source.coding.nodata is not None:
        return source
    found = histogram(source)
    values = found.apart()
    if not values:
        return source
    counts = " and ".join(f"{value:g} ({found.odd[value]} cells)" for value in values)
    seen = "" if found.whole else " of those looked at"
    apart = "there are no other values"
    if found.others.size:
        apart = f"far from the other values, {found.others[0]:g} to {found.others[-1]:g}"
    notes.append(
        f"{source.label}: the file has no nodata value; {counts}{seen} is taken for one, {apart}. "
        "Say --nodata VALUE (nodata=) to name it, or --nodata none to use it as data"
    )
    return _missing(source, values)


def _missing(source: FileSource, values: Sequence[float]) -> FileSource:
    return replace(source, coding=replace(source.coding, missing=tuple(values)))


def _note_absent(sources: Sequence[FileSource], nodata: Sequence[float], notes: list[str]) -> None:
    """Tell of a value that was named and that no cell has."""
    for value in nodata:
        if not any(s.coding.nodata == value or histogram(s).may_hold(value) for s in sources):
            notes.append(f"nodata {value:g} (--nodata): no cell of the layers has this value")


_histograms: dict[tuple[str, int, int, int], Histogram] = {}  # a run opens its layers several times


def histogram(source: FileSource) -> Histogram:
    """The values of a band, all of them or those of windows spread over a large grid."""
    key = _stamp(source)
    if key is not None and key in _histograms:
        return _histograms[key]
    found = Histogram(whole=source.grid.size <= _WHOLE)
    try:
        for window in _windows(source.grid):
            stored, known = source.stored(window)
            found.add(stored[known])
    except OSError:  # a damaged file is for the reader of the layers to complain of
        return found
    if key is not None:
        _histograms[key] = found
    return found


def _stamp(source: FileSource) -> tuple[str, int, int, int] | None:
    """The band of a file as it is now; None for what is not a plain file."""
    try:
        state = os.stat(source.file.path)
    except OSError:
        return None
    return source.file.path, source.band, state.st_mtime_ns, state.st_size


def _windows(grid: Grid) -> list[Window]:
    if grid.size <= _WHOLE:
        rows = max(1, (1 << 20) // grid.width)
        starts = range(0, grid.height, rows)
        return [Window(row, 0, min(rows, grid.height - row), grid.width) for row in starts]
    height, width = min(_SIDE, grid.height), min(_SIDE, grid.width)
    down = _LOOKS if grid.width <= _SIDE else int(np.sqrt(_LOOKS))
    across = _LOOKS // down if grid.height > _SIDE else _LOOKS
    return [
        Window(row, column, height, width)
        for row in np.linspace(0, grid.height - height, down).astype(int).tolist()
        for column in np.linspace(0, grid.width - width, across).astype(int).tolist()
    ]
