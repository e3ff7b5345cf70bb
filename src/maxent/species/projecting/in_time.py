"""Maps of every time of layers that have times, the area at each, and a map of the trend."""

from __future__ import annotations

import csv
import io as text
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent._support.progress import Progress
from maxent._support.threads import num_threads
from maxent.density import FittedDensity
from maxent.density.intervals import LEVEL
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import check_unread
from maxent.species.batch.slugs import slugs
from maxent.species.comparing.map_files import MapStack
from maxent.species.fitting.record_kinds import ENDS
from maxent.species.fitting.results import MapFiles, MapsInTime
from maxent.species.input.layers.grid import Window
from maxent.species.input.times.dated_layers import DatedLayers, Step
from maxent.species.projecting import geotiff
from maxent.species.projecting.drawing import project
from maxent.species.projecting.drawn_trends import DrawnTrends, strips
from maxent.species.projecting.plan import Map

TABLE, TREND = "times.csv", "trend"
TREND_ENDS = (f"{TREND}_{ENDS[0]}", f"{TREND}_{ENDS[1]}")
_OPEN = 64  # maps that are open at one time
_FLAT = 1e-12  # slopes a year that rounding alone can make


def project_in_time(
    model: FittedDensity,
    layers: DatedLayers,
    out: str | Path,
    *,
    threshold: float,
    rule: str = "value given",
    outputs: Sequence[str] = ("cloglog",),
    overwrite: bool = True,
    verbose: int = 1,
    **how: Any,
) -> tuple[MapsInTime, dict[str, MapFiles]]:
    """Draw a model at every time of layers, and the trend of suitability; one time is open at once.

    A model that knows its intervals has ``trend_lower.tif`` and ``trend_upper.tif`` too, unless
    ``intervals`` is False.

    Parameters
    ----------
    model : FittedDensity
        The fitted density.
    layers : DatedLayers
        Layers with one for every variable of the model.
    out : path
        Folder, for a folder of maps for each time, ``trend.tif`` (change of cloglog a year) and
        ``times.csv``.
    threshold : float
        The least suitability (cloglog) that counts as suitable.
    rule : str, default "value given"
        What the threshold is called.
    outputs : sequence of str, default ("cloglog",)
        Outputs to map at each time, cloglog among them.
    overwrite : bool, default True
        Whether maps that are there already are replaced.
    verbose : int, default 1
        0 silences progress.
    **how : object
        Further arguments of ``project``.

    Returns
    -------
    found : MapsInTime
        Areas, trend and files.
    maps : dict of MapFiles
        Those of each time.
    """
    out = Path(out)
    steps = layers.steps()
    folders = slugs([step.label for step in steps])
    every = tuple(dict.fromkeys(["cloglog", *outputs]))
    banded = model.uncertainty is not None and bool(how.get("intervals", True)) and len(steps) > 1
    trends = (TREND, *TREND_ENDS) if banded else (TREND,)
    for name in (TABLE, *(f"{one}.tif" for one in trends)):
        if (out / name).exists() and not overwrite:
            raise FileExistsError(f"{out / name} is there already; replace it with --overwrite")
    maps: dict[str, MapFiles] = {}
    for step in steps:
        with layers.at(step) as opened:
            maps[step.label] = project(
                model,
                opened,
                out / folders[step.label],
                outputs=every,
                threshold=threshold,
                rule=rule,
                name=step.label,
                tags={"TIME": step.label},
                overwrite=overwrite,
                verbose=verbose,
                **how,
            )
    paths = {
        label: out / folders[label] / Path(written.files["cloglog"]).name
        for label, written in maps.items()
    }
    trend = _Trend([step.span.year for step in steps])
    drawn = None
    if banded:
        clamp = bool(how.get("clamp", True))
        drawn = DrawnTrends(model, layers, steps, threshold, clamp)
    if len(steps) > 1:
        _write_trend(trend, paths, out, verbose, drawn)
    rows = [_row(step, maps[step.label], trend) for step in steps]
    files = {f"map:{label}": path.relative_to(out).as_posix() for label, path in paths.items()}
    files |= {name: f"{name}.tif" for name in trends} if len(steps) > 1 else {}
    check_unread(out / TABLE, [])
    io.write_atomically(out / TABLE, _csv(rows))
    slopes = _slopes(rows, trend)
    ends = {} if drawn is None else drawn.slopes(slopes)
    if drawn is not None and trend.known:
        slopes |= {"surely_rising": drawn.rising / trend.known}
        slopes |= {"surely_falling": drawn.falling / trend.known}
    found = MapsInTime(
        rows, rule, float(threshold), {**files, "table": TABLE}, slopes, trend.known, ends
    )
    return found, maps


def _row(step: Step, written: MapFiles, trend: _Trend) -> dict[str, Any]:
    said = written.presence
    first, last = (date.fromordinal(day) for day in (step.span.start, step.span.end - 1))
    row = {
        "time": step.label,
        "year": round(step.span.year, 4),
        "start": first.isoformat(),
        "end": last.isoformat(),
        "cells": written.n_cells - written.n_masked,
        "suitable": said["cells"],
    }
    if "km2" in said:
        row |= {"km2": said["known_km2"], "suitable_km2": said["km2"]}
    for unit, area in (("km2", "suitable_km2"), ("cells", "suitable")):
        if f"low_{unit}" in said:
            row |= {f"{area}_low": said[f"low_{unit}"], f"{area}_high": said[f"high_{unit}"]}
    row["mean"] = trend.means.get(step.span.year)
    row["extrapolated"] = written.n_extrapolated
    return row


def _slopes(rows: Sequence[Mapping[str, Any]], trend: _Trend) -> dict[str, float]:
    if len(rows) < 2:
        return {}
    years = np.array([row["year"] for row in rows])
    area = "suitable_km2" if "suitable_km2" in rows[0] else "suitable"
    columns = [area] + (["mean"] if all(row["mean"] is not None for row in rows) else [])
    slopes = {
        name: float(np.polyfit(years - years.mean(), [row[name] for row in rows], 1)[0])
        for name in columns
    }
    if trend.known:
        slopes |= {"rising": trend.rising / trend.known, "falling": trend.falling / trend.known}
    return slopes


class _Trend:
    """Slopes of cells over years, window by window."""

    def __init__(self, years: Sequence[float]) -> None:
        self.years = np.asarray(years, dtype=np.float64)
        self.known = self.rising = self.falling = 0
        self._sums, self._cells = np.zeros(len(years)), np.zeros(len(years))

    @property
    def means(self) -> dict[float, float]:
        """Mean suitability by year, over the cells that are known then."""
        told = zip(self.years.tolist(), self._sums, self._cells, strict=True)
        return {year: float(total / cells) for year, total, cells in told if cells}

    def slopes(self, values: Any, shape: tuple[int, int]) -> Array:
        """Of the cells of a window, from an iterable of the values at each time; NaN where fewer
        than two are known."""
        n, t, tt, y, ty = (np.zeros(shape) for _ in range(5))
        middle = self.years.mean()
        for i, (year, at) in enumerate(zip(self.years - middle, values, strict=True)):
            there = ~np.isnan(at)
            filled = np.where(there, at, 0.0)
            n += there
            t += year * there
            tt += year * year * there
            y += filled
            ty += year * filled
            self._sums[i] += filled.sum()
            self._cells[i] += there.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (ty - t * y / n) / (tt - t * t / n)
        slope[n < 2] = np.nan
        slope[np.abs(slope) < _FLAT] = 0.0
        self.known += int((n >= 2).sum())
        self.rising += int((slope > 0).sum())
        self.falling += int((slope < 0).sum())
        return slope


def _write_trend(
    trend: _Trend,
    paths: Mapping[str, Path],
    out: Path,
    verbose: int,
    drawn: DrawnTrends | None = None,
) -> None:
    tags, ends = (
        {"UNIT": "change of cloglog a year"},
        {} if drawn is None else {"LEVEL": str(LEVEL)},
    )
    maps = {TREND: Map(TREND, tags=tags)}
    maps |= {end: Map(end, tags=tags | ends) for end in TREND_ENDS if drawn is not None}
    targets = {name: out / f"{name}.tif" for name in maps}
    names = list(paths)
    with (
        MapStack.open({names[0]: paths[names[0]]}) as first,
        closing(Progress("trend", verbose)) as progress,
        geotiff.workspace(out, first.grid, maps) as work,
    ):
        windows = first.windows() if drawn is None else strips(first.grid)
        stage = geotiff.Stage(first.grid, maps, targets, work, windows[0])
        with stage.open({"FIRST": names[0], "LAST": names[-1]}):
            for done, window in enumerate(windows, start=1):
                shape, found = (window.height, window.width), {}
                if drawn is None:
                    found[TREND] = trend.slopes(_values(paths, window), shape)
                else:
                    values = list(_values(paths, window))
                    found[TREND] = trend.slopes(values, shape)
                    here = drawn.ends(window, values, found[TREND])
                    found |= dict(zip(TREND_ENDS, here, strict=True))
                stage.write(window, {name: x.astype(np.float32) for name, x in found.items()})
                progress.update(f"{done} of {len(windows)} windows")
        for name in maps:
            stage.finish(name, trend.known, True, num_threads())
        stage.publish()


def _values(paths: Mapping[str, Path], window: Window) -> Any:
    """The values of a window of each map; a few maps are open at a time."""
    names = list(paths)
    for start in range(0, len(names), _OPEN):
        part = {name: paths[name] for name in names[start : start + _OPEN]}
        with MapStack.open(part) as stack:
            for name in part:
                yield stack.read(name, window)


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    file = text.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()
