"""DatedLayers: layers of several times on one grid, of which one time is open at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers, bands_given
from maxent.species.input.layers.naming import named_layers
from maxent.species.input.layers.sources import Source, picked
from maxent.species.input.records.occurrences import NO_DATE, NO_TIME, Occurrences
from maxent.species.input.times.record_dates import RecordDates
from maxent.species.input.times.series import Grouped, Slice, grouped, read_times
from maxent.species.input.times.settings import TimeSettings
from maxent.species.input.times.spans import Length, Span

_EXAMPLES = 3
_YEAR = 365.25


@dataclass(frozen=True)
class Step:
    """A time at which layers are read: which times of each series go into it.

    Attributes
    ----------
    label : str
        The time in words.
    span : Span
        Its days.
    slices : tuple of tuple of int
        Of each series, the positions of those that are averaged.
    """

    label: str
    span: Span
    slices: tuple[tuple[int, ...], ...]


class MeanSource(Source):
    """The mean of a layer over several times, of those that are known in a cell."""

    def __init__(self, name: str, label: str, parts: Sequence[Source]) -> None:
        self.name, self.label, self.parts = name, label, tuple(parts)
        self.grid = parts[0].grid

    def read(self, window: Window) -> tuple[Array, Array]:
        """The mean in a window, one time after the other, and where any is known."""
        total = np.zeros((window.height, window.width))
        count = np.zeros((window.height, window.width), dtype=np.int64)
        for part in self.parts:
            values, known = part.read(window)
            total += np.where(known, values, 0)
            count += known
            part.close()
        return total / np.maximum(count, 1), count > 0

    def block_shape(self) -> tuple[int, int]:
        """That of the first."""
        return self.parts[0].block_shape()

    def close(self) -> None:
        """Close all files."""
        for part in self.parts:
            part.close()


class _Renamed(Source):
    """One time of a layer, by the name of the layer."""

    def __init__(self, name: str, source: Source) -> None:
        self.name, self.source = name, source
        self.label, self.grid = source.label, source.grid

    def read(self, window: Window) -> tuple[Array, Array]:
        """Its values."""
        return self.source.read(window)

    def block_shape(self) -> tuple[int, int]:
        """Its blocks."""
        return self.source.block_shape()

    def close(self) -> None:
        """Close its file."""
        self.source.close()


class DatedLayers:
    """Layers of which some have values at several times; :meth:`at` gives those of one time.

    Parameters
    ----------
    layers : Layers
        All times of all layers, each a layer of its own, on one grid.
    groups : Grouped
        Which of them are one variable.
    categorical : collection of str, default ()
        The variables of categories, which are never averaged.
    window : Length, default None
        How long before a time its mean reaches; None is the nearest time alone.

    Attributes
    ----------
    grid : Grid
        Grid of all layers.
    names : tuple of str
        Names of the variables.
    categorical : tuple of str
        Those of categories.
    notes : tuple of str
        What was assumed or resampled.
    """

    def __init__(
        self,
        layers: Layers,
        groups: Grouped,
        categorical: Collection[str] = (),
        window: Length | None = None,
    ) -> None:
        self.grid, self.window, self.series = layers.grid, window, groups.series
        self._static, self._sources = groups.static, {s.name: s for s in layers.sources}
        self.names = groups.names()
        self.categorical = tuple(name for name in self.names if name in categorical)
        self.notes = (*layers.notes, *groups.notes)
        averaged = [name for name in self.categorical if name in groups.series]
        if window is not None and averaged:
            self.notes += (
                f"{', '.join(averaged)}: categories have no mean, so the nearest time is taken "
                "(--window is for numbers)",
            )

    @classmethod
    def open(
        cls,
        files: LayerFiles,
        times: TimeSettings,
        *,
        only: Sequence[str] | None = None,
        like: Grid | None = None,
    ) -> DatedLayers:
        """Open files, whose names, time axes or table say which is a layer at which time."""
        rows = [] if times.layer_times is None else read_times(times.layer_times)
        named = [*named_layers(files.layer), *(row.file for row in rows)]
        bands = bands_given(files.sources, crs=files.crs, named=named)
        groups = grouped([band.name for band in bands], rows, only or ())
        groups = _without(groups, files.without)
        if only is not None:
            lacking = [name for name in only if name not in groups.names()]
            if lacking:
                raise ValueError(
                    f"no layer {', '.join(map(repr, lacking))} among {', '.join(groups.names())}: "
                    "layers are known by their names without their times; rename them to match "
                    "the model"
                )
            groups = _only(groups, only)
        kept = {one.source: name for name, slices in groups.series.items() for one in slices}
        kept |= {name: name for name in groups.static}
        unknown = [name for name in files.categorical if name not in groups.names()]
        if unknown:
            raise ValueError(
                f"categorical layer {unknown[0]!r} is not among the layers: "
                f"{', '.join(groups.names())}"
            )
        layers = Layers.of_bands(
            picked(bands, list(kept)),
            categorical=[source for source, name in kept.items() if name in files.categorical],
            align=files.align,
            like=like,
            resampling=files.resampling,
            nodata=files.nodata,
        )
        return cls(layers, groups, files.categorical, times.length)

    @classmethod
    def from_layers(
        cls, layers: Layers, window: Length | None = None, categorical: Collection[str] = ()
    ) -> DatedLayers:
        """Of layers that are open: their names say which is a variable at which time."""
        groups = grouped(layers.names)
        bases = {one.source: name for name, slices in groups.series.items() for one in slices}
        unknown = [name for name in categorical if name not in groups.names()]
        if unknown:
            raise ValueError(
                f"categorical layer {unknown[0]!r} is not among the layers: "
                f"{', '.join(groups.names())}"
            )
        known = {bases.get(name, name) for name in layers.categorical}
        return cls(layers, groups, {*known, *categorical}, window)

    def check_dated(self) -> None:
        """Refuse layers of which none has a time."""
        if not self.series:
            raise ValueError(
                f"no layer has times, which the dates of records need: {', '.join(self.names)}. "
                "Name them after their times, such as tmax_2003.tif and tmax_2004.tif or "
                "ndvi_2003-07.tif, or say them in a table (--layer-times)"
            )

    def __enter__(self) -> DatedLayers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for source in self._sources.values():
            source.close()

    @property
    def clock(self) -> str:
        """The series with the most times, which says how finely time is told."""
        return max(self.series, key=lambda name: len(self.series[name]))

    @property
    def span(self) -> Span:
        """From the first to the last time that all series have."""
        ends = [(s[0].span.start, max(one.span.end for one in s)) for s in self.series.values()]
        start, end = max(first for first, _ in ends), min(last for _, last in ends)
        if start >= end:
            told = ", ".join(
                f"{name} {slices[0].span.to(slices[-1].span).label}"
                for name, slices in self.series.items()
            )
            raise ValueError(f"the layers have no time in common: {told}")
        return Span(start, end)

    def step(self, span: Span | None) -> Step:
        """The step of a span of time, that of all times for None.

        It is the times of the clock whose middle lies in the span, else the nearest one; the
        other series follow the clock.
        """
        clock = self.series[self.clock]
        whole = self.span
        if span is None:
            chosen = [i for i, one in enumerate(clock) if whole.distance(one.span.middle) == 0]
        else:
            chosen = _within(clock, span)
        anchor = clock[chosen[0]].span.to(clock[chosen[-1]].span)
        slices = []
        for name, all_times in self.series.items():
            mine = chosen if name == self.clock else _within(all_times, anchor)
            if name in self.categorical:
                mine = [_nearest(all_times, anchor)]
            elif self.window is not None and span is not None:
                mine = _back(all_times, mine, self.window)
            slices.append(tuple(mine))
        label = "all times" if span is None else anchor.label
        return Step(label, anchor, tuple(slices))

    def steps(self) -> list[Step]:
        """One for each time of the clock that all series have."""
        whole = self.span
        spans = [one.span for one in self.series[self.clock]]
        return [self.step(span) for span in spans if whole.distance(span.middle) == 0]

    def at(self, step: Step | None) -> Layers:
        """The layers at a step; closing them closes the files of this time alone.

        None is for layers of which none has a time.
        """
        sources: list[Source] = []
        chosen_by_series = () if step is None else step.slices
        for (name, slices), chosen in zip(self.series.items(), chosen_by_series, strict=True):
            parts = [self._sources[slices[i].source] for i in chosen]
            label = f"{parts[0].label} ... {parts[-1].label} (mean of {len(parts)})"
            one = len(parts) == 1
            sources.append(_Renamed(name, parts[0]) if one else MeanSource(name, label, parts))
        sources += [_Renamed(name, self._sources[name]) for name in self._static]
        return Layers(sources, self.categorical)

    def known_at(self, x: Array, y: Array) -> Array:
        """Which points lie on a cell that every layer knows at the last time."""
        with self.at(self.last()) as layers:
            return layers.known_at(x, y)

    def last(self) -> Step | None:
        """The last step, None where no layer has a time."""
        return self.steps()[-1] if self.series else None

    def labels(self) -> dict[str, str]:
        """Files of each variable."""
        told = {
            name: f"{self._sources[s[0].source].label} ... {self._sources[s[-1].source].label} "
            f"({len(s)} times, {s[0].span.label} to {s[-1].span.label})"
            for name, s in self.series.items()
        }
        return told | {name: self._sources[name].label for name in self._static}


def _without(groups: Grouped, names: Sequence[str]) -> Grouped:
    """Without some variables, or some times of them."""
    known = {*groups.names(), *(one.source for s in groups.series.values() for one in s)}
    lacking = [name for name in names if name not in known]
    if lacking:
        raise ValueError(
            f"no layer {lacking[0]!r} to leave out (without=, --without); there are "
            f"{', '.join(groups.names())}"
        )
    series = {
        name: tuple(one for one in slices if one.source not in names)
        for name, slices in groups.series.items()
        if name not in names
    }
    static = tuple(name for name in groups.static if name not in names)
    return replace(groups, series={n: s for n, s in series.items() if s}, static=static)


def _only(groups: Grouped, names: Sequence[str]) -> Grouped:
    series = {name: slices for name, slices in groups.series.items() if name in names}
    return replace(groups, series=series, static=tuple(n for n in groups.static if n in names))


def _within(slices: Sequence[Slice], span: Span) -> list[int]:
    """Those whose middle lies in a span, else the nearest one."""
    inside = [i for i, one in enumerate(slices) if span.start <= one.span.middle < span.end]
    return inside or [_nearest(slices, span)]


def _nearest(slices: Sequence[Slice], span: Span) -> int:
    """The one that holds the middle of a span, else the nearest; the first of equals."""
    middle = span.middle
    return min(
        range(len(slices)),
        key=lambda i: (slices[i].span.distance(middle), abs(slices[i].span.middle - middle), i),
    )


def _back(slices: Sequence[Slice], chosen: Sequence[int], window: Length) -> list[int]:
    """Those chosen, and the ones before that a window up to the end of the last reaches."""
    end = slices[chosen[-1]].span.end
    first = window.before(end)
    reached = [i for i, one in enumerate(slices) if first <= one.span.middle < end]
    return sorted({*chosen, *reached})


# -- records ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Matched:
    """Records with the step of each, the steps, and what was assumed."""

    records: Occurrences
    steps: list[Step]
    notes: list[str]


def matched(
    records: Occurrences,
    dates: RecordDates,
    layers: DatedLayers,
    times: TimeSettings,
    steps: Sequence[Step] = (),
) -> Matched:
    """Give every record the step of its date; ``steps`` are known already, and stay in place."""
    layers.check_dated()
    whole, notes = layers.span, list(dates.notes)
    known = {step.slices: i for i, step in enumerate(steps)}
    found = list(steps)
    of_span: dict[Span | None, int] = {}
    far: list[float] = []
    mine = np.full(len(records), NO_DATE, dtype=np.int64)
    for i, span in enumerate(dates.spans):
        if span is None and times.undated != "mean":
            continue
        outside = span is not None and (span.end <= whole.start or span.start >= whole.end)
        if outside and times.outside_times != "nearest":
            mine[i] = NO_TIME
            continue
        if span not in of_span:
            step = layers.step(span)
            if step.slices not in known:
                known[step.slices] = len(found)
                found.append(step)
            of_span[span] = known[step.slices]
        mine[i] = of_span[span]
        if span is not None:
            far.append(found[mine[i]].span.distance(span.middle))
    _refuse(records, dates, mine, whole, times)
    notes += _told(records, dates, mine, whole, times)
    between = sum(days > 0 for days in far)
    if between:
        notes.append(
            f"{records.source}: {between} records take the nearest time of {layers.clock}, up to "
            f"{_length(max(far))} from their own"
        )
    several = Counter(
        len(found[step].slices[list(layers.series).index(layers.clock)]) for step in mine[mine >= 0]
    )
    if layers.window is None and any(n > 1 for n in several):
        count = sum(c for n, c in several.items() if n > 1)
        notes.append(
            f"{records.source}: {count} records have dates less exact than the times of "
            f"{layers.clock}, and take the mean over all of its times in their span"
        )
    notes += _short(layers, found)
    if not (mine >= 0).any():
        raise ValueError(
            f"{records.source}: no record has a date within the times of the layers, {whole.label}"
            f": {int((mine == NO_DATE).sum())} without a date, {int((mine == NO_TIME).sum())} "
            "outside. Check the column (--date-column), or give layers of the times of the records "
            "(--outside-times nearest takes the first or last time)"
        )
    return Matched(replace(records, step=mine), found, notes)


def _refuse(
    records: Occurrences, dates: RecordDates, step: Array, whole: Span, times: TimeSettings
) -> None:
    for asked, code, flag in (
        (times.undated, NO_DATE, "--undated drop leaves them out, mean takes that of all times"),
        (
            times.outside_times,
            NO_TIME,
            "--outside-times drop leaves them out, nearest takes the first or last time",
        ),
    ):
        where = np.flatnonzero(step == code)
        if asked == "refuse" and where.size:
            lacking = f"outside {whole.label}, the times of all layers"
            what = "without a date" if code == NO_DATE else lacking
            raise ValueError(
                f"{records.source}: {where.size} records are {what}, the first "
                f"{_example(records, dates, int(where[0]))}: {flag}"
            )


def _told(
    records: Occurrences, dates: RecordDates, step: Array, whole: Span, times: TimeSettings
) -> list[str]:
    notes = []
    undated = np.array([span is None for span in dates.spans])
    outside = np.array(
        [s is not None and (s.end <= whole.start or s.start >= whole.end) for s in dates.spans]
    )
    for mask, what, done in (
        (undated, "no date that can be read", {"drop": "left out (--undated mean keeps them)",
                                               "mean": "given the mean of all times"}[times.undated]
         if times.undated != "refuse" else ""),
        (outside, f"a date outside {whole.label}, the times of all layers",
         {"drop": "left out (--outside-times nearest keeps them)",
          "nearest": "given the first or last time"}[times.outside_times]
         if times.outside_times != "refuse" else ""),
    ):  # fmt: skip
        where = np.flatnonzero(mask)
        if where.size:
            some = "; ".join(_example(records, dates, int(i)) for i in where[:_EXAMPLES])
            notes.append(f"{records.source}: {where.size} records have {what}, {done} ({some})")
    return notes


def _example(records: Occurrences, dates: RecordDates, record: int) -> str:
    span = dates.spans[record]
    return f"row {records.row[record]}{'' if span is None else f', {span.label}'}"


def _short(layers: DatedLayers, steps: Sequence[Step]) -> list[str]:
    """Steps whose window reaches before the first time of a layer."""
    if layers.window is None:
        return []
    first = {name: slices[0].span.start for name, slices in layers.series.items()}
    cut = [
        step.label
        for step in steps
        if any(start > layers.window.before(step.span.end) for start in first.values())
        and step.label != "all times"
    ]
    if not cut:
        return []
    some = ", ".join(cut[:_EXAMPLES]) + (" ..." if cut[_EXAMPLES:] else "")
    return [
        f"the mean over {layers.window} reaches before the first time of the layers at "
        f"{len(cut)} times ({some}): there it is over the times there are"
    ]


def _length(days: float) -> str:
    return f"{days / _YEAR:.1f} years" if days > 2 * _YEAR else f"{days:.0f} days"
