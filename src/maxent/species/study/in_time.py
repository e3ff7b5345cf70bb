"""Background in time: at which times cells are drawn, and their values at each of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.fitting.settings import Settings
from maxent.species.input.layers.grid import OUTSIDE
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.occurrences import NO_DATE, NO_TIME, Occurrences
from maxent.species.input.times.dated_layers import DatedLayers, Step, matched
from maxent.species.input.times.record_dates import RecordDates
from maxent.species.input.times.settings import TimeSettings
from maxent.species.input.times.timing import Timing
from maxent.species.libraries import geo
from maxent.species.study.background import draw_background
from maxent.species.study.study_region import StudyRegion

_SEEDS = 1_000_003  # between the seeds of two runs, more than there are times
_PER_CELL = 1 << 18  # cells of the grid per cell that is drawn, from which on each is looked up
_TRIES = 20  # times as many cells as are needed that are looked at


@dataclass(frozen=True, eq=False)
class InTime:
    """Layers with times, and at which of them records and background are looked up.

    Attributes
    ----------
    layers : DatedLayers
        The layers.
    steps : list of Step
        The times in use.
    shares : array (n_steps,)
        The share of the background that each gets.
    records : array (n_steps,)
        Records of all species at each.
    times : TimeSettings
        What was asked for.
    columns : str
        Where dates come from.
    left : dict of int
        Records without a date, or without layers of their time.
    """

    layers: DatedLayers
    steps: list[Step]
    shares: Array
    records: Array
    times: TimeSettings
    columns: str
    left: dict[str, int]

    @classmethod
    def of_records(
        cls,
        layers: DatedLayers,
        steps: Sequence[Step],
        records: Occurrences,
        times: TimeSettings,
        columns: str,
    ) -> InTime:
        """With background like the records in time, or uniform over all times of the layers."""
        assert records.step is not None
        every, asked = list(steps), []
        if times.background_times == "uniform":
            asked = [step.slices for step in layers.steps()]
            known = {step.slices for step in every}
            every += [step for step in layers.steps() if step.slices not in known]
        counts = np.bincount(records.step[records.step >= 0], minlength=len(every))
        alike = np.array([step.slices in asked for step in every], dtype=np.float64)
        shares = alike if asked else np.asarray(counts, dtype=np.float64)
        left = {
            what: int((records.step == code).sum())
            for what, code in (("undated", NO_DATE), ("outside", NO_TIME))
        }
        return cls(layers, every, shares / shares.sum(), counts, times, columns, left)

    def check(self, settings: Settings) -> None:
        """Refuse what cannot be done in time."""
        if settings.background is None:
            raise ValueError(
                "every cell at every time is no background (--background all with --date-column): "
                "give a number of cells, which are drawn over the times"
            )
        if settings.joint:
            raise ValueError(
                "--joint fits places of all species, which have no time: fit each species by "
                "itself, or without --date-column"
            )

    def allotted(self, n: int) -> Array:
        """How many of n cells are drawn at each step, in proportion and spread evenly."""
        ends = np.floor(np.cumsum(self.shares) * n + 0.5).astype(np.int64)
        return np.diff(ends, prepend=0)

    def timing(self, cell: Array, background: Array, grouped: bool) -> Timing:
        """What the report says, once the background is known."""
        whole = self.layers.span
        drawn = np.bincount(cell[background] // self.layers.grid.size, minlength=len(self.steps))
        order = sorted(range(len(self.steps)), key=lambda i: self.steps[i].span)
        return Timing(
            series={name: len(slices) for name, slices in self.layers.series.items()},
            static=tuple(n for n in self.layers.names if n not in self.layers.series),
            start=whole.ends[0],
            end=whole.ends[1],
            columns=self.columns,
            window=None if self.layers.window is None else str(self.layers.window),
            background="target group" if grouped else self.times.background_times,
            steps=[
                {
                    "step": i,
                    "label": self.steps[i].label,
                    "year": self.steps[i].span.year,
                    "records": int(self.records[i]),
                    "background": int(drawn[i]),
                }
                for i in order
                if self.records[i] or drawn[i]
            ],
            left=self.left,
            layer_times=self.times.layer_times,
        )


def with_steps(
    given: Sequence[tuple[Occurrences, RecordDates] | None],
    layers: DatedLayers,
    times: TimeSettings,
) -> tuple[list[Any], InTime, list[str]]:
    """Sets of records with the time of each, None staying None; the first say how time is shared.

    A set that is there twice is matched once, and notes come once.
    """
    found: list[Occurrences | None] = []
    made: dict[int, Occurrences] = {}
    steps: list[Step] = []
    notes: list[str] = []
    for one in given:
        if one is None:
            found.append(None)
            continue
        records, dates = one
        if id(records) not in made:
            matching = matched(records, dates, layers, times, steps)
            made[id(records)] = matching.records
            steps, notes = matching.steps, [*notes, *matching.notes]
        found.append(made[id(records)])
    assert found[0] is not None
    assert given[0] is not None
    return found, InTime.of_records(layers, steps, found[0], times, given[0][1].columns), notes


@dataclass(frozen=True, eq=False)
class TimedCells:
    """Cells of all steps one after the other, as ``Occurrences.cells`` counts them.

    ``X`` is their values, ``background`` which were drawn, and ``effort`` that of a bias raster.
    """

    X: Any
    cell: Array
    background: Array
    effort: Array | None


def cells_in_time(
    in_time: InTime,
    cells: Array,
    settings: Settings,
    *,
    bias: Layers | None = None,
    group: Occurrences | None = None,
    study: StudyRegion | None = None,
) -> TimedCells:
    """The cells of records and background, each with the layers of its time; one time is open.

    Parameters
    ----------
    in_time : InTime
        The times.
    cells : array
        Those of records, see ``Occurrences.cells``.
    settings : Settings
        What the fit is told.
    bias : Layers, default None
        Sampling effort, the same at all times.
    group : Occurrences, default None
        Records whose cells, at their own times, are the background.
    study : StudyRegion, default None
        The region that background is drawn from.
    """
    size = in_time.layers.grid.size
    chosen = np.empty(0, dtype=np.int64)
    if group is not None:
        inside = group if study is None else group.take(study.contains(group.x, group.y))
        chosen = inside.cells(in_time.layers.grid)
    allotted = in_time.allotted(settings.background or 0)
    parts = []
    for i, step in enumerate(in_time.steps):
        mine, places = (
            np.unique(c[(c != OUTSIDE) & (c // size == i)]) - i * size for c in (cells, chosen)
        )
        n = int(allotted[i]) if group is None else 0
        if not (mine.size or places.size or n):
            continue
        with closing(in_time.layers.at(step)) as layers:
            if n:
                part = _drawn(layers, n, mine, i, bias, study, settings)
            else:
                part = _looked_up(layers, mine, places, bias)
        parts.append(replace(part, cell=part.cell + i * size))
    effort = [part.effort for part in parts if part.effort is not None]
    return TimedCells(
        geo("pandas").concat([part.X for part in parts], ignore_index=True),
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.background for part in parts]),
        np.concatenate(effort) if effort else None,
    )


def _drawn(
    layers: Layers,
    n: int,
    at: Array,
    step: int,
    bias: Layers | None,
    study: StudyRegion | None,
    settings: Settings,
) -> TimedCells:
    seed = settings.seed * _SEEDS + step
    if bias is None and n * _PER_CELL < layers.grid.size:
        scattered = _scattered(layers, n, at, seed, study)
        if scattered is not None:
            return scattered
    drawn = draw_background(
        layers,
        n,
        at=at,
        bias=bias,
        weighted=bias is not None and settings.bias == "background",
        within=study,
        seed=seed,
        verbose=settings.verbose,
    )
    return TimedCells(drawn.X, drawn.cell, drawn.background, drawn.bias)


def _scattered(
    layers: Layers, n: int, at: Array, seed: int, study: StudyRegion | None
) -> TimedCells | None:
    """n cells at random among the known ones, looked up one by one; None where few are known.

    Of a large grid that reads much less than a pass over all of it, and the draw is as even: cells
    are tried in random order until enough are known.
    """
    rng = np.random.default_rng(seed)
    tried, chosen = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for _ in range(_TRIES):
        new = np.setdiff1d(rng.integers(0, layers.grid.size, 2 * n), tried)
        tried = np.concatenate([tried, new])
        new = rng.permutation(new)
        if study is not None:
            new = new[study.contains(*layers.grid.centres(new))]
        known = layers.read_cells(new)[1] if new.size else np.empty(0, dtype=bool)
        chosen = np.concatenate([chosen, new[known]])[:n]
        if chosen.size == n:
            return _looked_up(layers, at, chosen, None)
    return None


def _looked_up(layers: Layers, cells: Array, places: Array, bias: Layers | None) -> TimedCells:
    """Cells of records, and those of a target group as background."""
    every = np.unique(np.concatenate([cells, places]))
    X, known = layers.read_cells(every)
    effort = None
    if bias is not None:
        values, there = bias.read_cells(every)
        known &= there
        effort = np.asarray(values.iloc[:, 0], dtype=np.float64)[known]
    background = np.isin(every, places)[known]
    return TimedCells(X[known].reset_index(drop=True), every[known], background, effort)
