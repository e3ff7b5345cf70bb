"""Range change: what a species loses, keeps and gains between one map and others, in km2."""

from __future__ import annotations

import csv
import io as text
import os
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from maxent import io
from maxent._support.progress import Progress
from maxent._support.threads import num_threads
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import check_unread
from maxent.species.batch.slugs import slugs
from maxent.species.comparing.map_files import MapStack
from maxent.species.comparing.records import CLASSES, ENSEMBLE, Comparison, RangeChange
from maxent.species.input.layers.geodesy import CellAreas, cell_areas
from maxent.species.input.layers.grid import Window
from maxent.species.projecting import geotiff
from maxent.species.projecting.plan import Map

TABLE = "range_change.csv"
_NOW = " now"  # the name of the first map, which no scenario can have


def compare_maps(
    present: str | Path,
    futures: Mapping[str, str | Path],
    threshold: float,
    out: str | Path,
    *,
    rule: str = "",
    similarity: Mapping[str | None, str | Path] | None = None,
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    overwrite: bool = True,
    verbose: int = 1,
) -> Comparison:
    """Compare a map of suitability (or of presence: 0 and 1) with those of other layers.

    Parameters
    ----------
    present : path
        A GeoTIFF.
    futures : dict of paths
        GeoTIFFs on the same grid, by the name of the scenario.
    threshold : float
        The least suitability that counts as presence.
    out : path
        Folder for ``change_<scenario>.tif``, ``range_change.csv`` and, of two or more scenarios,
        ``scenarios_mean.tif``, ``scenarios_sd.tif``, ``scenarios_agreement.tif``.
    rule : str, default ""
        Where the threshold comes from.
    similarity : dict of paths, default None
        Maps of MESS on the same grid, by the name of the scenario, and by None that of ``present``:
        changes are also counted without the cells that extrapolate (MESS below 0) in either. A
        scenario without one is not; that of the present may be missing.
    intervals : dict, default None
        Of each scenario those of its ranges, see ``drawn_changes``: they are written beside them.
    overwrite : bool, default True
        Whether files that are there already are replaced.
    verbose : int, default 1
        0 silences progress.
    """
    if not futures:
        raise ValueError("no other map to compare with: give at least one")
    if not np.isfinite(threshold):
        raise ValueError(f"threshold must be a number, got {threshold!r}")
    out = Path(out)
    names = {name: f"change_{slug}" for name, slug in slugs(list(futures)).items()}
    maps = {
        file: Map(file, "uint8", 255, _tags(threshold) | {"FUTURE": _from(out, futures[name])})
        for name, file in names.items()
    }
    if len(futures) > 1:
        maps |= {what: Map(what) for what in ENSEMBLE[:2]}
        maps[ENSEMBLE[2]] = Map(ENSEMBLE[2], "uint8", 255, {"THRESHOLD": repr(float(threshold))})
    if len(futures) > 254:
        raise ValueError(f"{len(futures)} scenarios: at most 254 can be compared at once")
    targets = {what: out / f"{what}.tif" for what in maps}
    similar = {
        _similar(_NOW if name is None else name): Path(path)
        for name, path in (similarity or {}).items()
    }
    odd = [name for name in similarity or {} if name is not None and name not in futures]
    if odd:
        raise ValueError(f"similarity of {odd[0]!r}, which is no scenario: {', '.join(futures)}")
    read = [present, *futures.values(), *similar.values()]
    for target in (*targets.values(), out / TABLE):
        check_unread(target, read)
        if target.exists() and not overwrite:
            raise FileExistsError(f"{target} is there already; replace it with --overwrite")
    paths = {_NOW: Path(present), **{name: Path(path) for name, path in futures.items()}}
    with (
        MapStack.open(paths | similar) as stack,
        closing(Progress("comparison", verbose)) as progress,
        geotiff.workspace(out, stack.grid, maps) as work,
    ):
        windows = stack.windows()
        stage = geotiff.Stage(stack.grid, maps, targets, work, windows[0])
        tally = _Tally(names, threshold, cell_areas(stack.grid), similar)
        with stage.open({"PRESENT": _from(out, present)}):
            for done, window in enumerate(windows, start=1):
                values = {name: stack.read(name, window) for name in stack.files}
                stage.write(window, tally.add(values, window))
                progress.update(f"{done} of {len(windows)} windows")
        for what in maps:
            stage.finish(what, tally.known[what], True, num_threads())
        known = intervals or {}
        changes = tuple(tally.change(name).with_intervals(known.get(name, {})) for name in futures)
        stage.publish()
        io.write_atomically(out / TABLE, _csv(changes))
    files = {f"change:{name}": targets[file].name for name, file in names.items()}
    files |= {what: targets[what].name for what in ENSEMBLE if what in targets}
    return Comparison(changes, {**files, "table": TABLE}, rule)


def _similar(name: str) -> str:
    """What the map of similarity of a scenario is called beside the maps."""
    return f" MESS of {name}"


def _from(folder: Path, file: str | Path) -> str:
    """The path of a file from a folder, which stays right where both are moved together."""
    try:
        return Path(os.path.relpath(Path(file).resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(Path(file).resolve())


def _tags(threshold: float) -> dict[str, str]:
    classes = {f"CLASS_{code}": name for code, name in CLASSES.items()}
    return {"THRESHOLD": repr(float(threshold)), **classes}


class _Tally:
    """Cells and areas by class of each scenario, and how many cells each map knows."""

    def __init__(
        self,
        names: Mapping[str, str],
        threshold: float,
        areas: CellAreas | None,
        similar: Collection[str] = (),
    ) -> None:
        self.names, self.threshold, self.areas = names, threshold, areas
        self.similar = {name for name in names if _similar(name) in similar}
        # by scenario, and whether cells that extrapolate count
        counted = [(name, every) for name in names for every in (True, False)]
        self.cells = {key: np.zeros(len(CLASSES), np.int64) for key in counted}
        nothing = np.nan if areas is None else 0.0
        self.km2 = {key: np.full(len(CLASSES), nothing) for key in counted}
        self.known: dict[str, int] = dict.fromkeys((*names.values(), *ENSEMBLE), 0)

    def add(self, values: Mapping[str, Array], window: Window) -> dict[str, Array]:
        """The maps of a window."""
        now, drawn = values[_NOW], {}
        here = self._present(now)
        km2 = None if self.areas is None else self.areas.read(window)
        for name, file in self.names.items():
            both = ~np.isnan(now) & ~np.isnan(values[name])
            there = self._present(values[name])
            code = np.where(here, np.where(there, 2, 1), np.where(there, 3, 0))
            self._count((name, True), code, both, km2)
            if name in self.similar:
                self._count((name, False), code, both & self._like(values, name), km2)
            self.known[file] += int(both.sum())
            drawn[file] = np.where(both, code, 255).astype(np.uint8)
        if len(self.names) > 1:
            drawn |= self._ensemble([values[name] for name in self.names])
        return drawn

    def _count(self, key: tuple[str, bool], code: Array, where: Array, km2: Array | None) -> None:
        self.cells[key] += np.bincount(code[where], minlength=len(CLASSES))
        if km2 is not None:
            self.km2[key] += np.bincount(code[where], km2[where], len(CLASSES))

    def _like(self, values: Mapping[str, Array], name: str) -> Array:
        """Where neither map extrapolates."""
        now = values.get(_similar(_NOW), values[_similar(name)])
        return (values[_similar(name)] >= 0) & (now >= 0)

    def _present(self, values: Array) -> Array:
        """In the precision of the map: a cell that sets the threshold is not below it."""
        return values >= values.dtype.type(self.threshold)

    def _ensemble(self, maps: list[Array]) -> dict[str, Array]:
        """Where all scenarios are known."""
        votes = np.sum([self._present(values) for values in maps], axis=0)
        futures = np.array(maps, np.float64)
        unknown = np.isnan(futures).any(axis=0)
        mean, spread, agreement = ENSEMBLE
        for what in ENSEMBLE:
            self.known[what] += int((~unknown).sum())
        return {
            mean: np.where(unknown, np.nan, futures.mean(axis=0)).astype(np.float32),
            spread: np.where(unknown, np.nan, futures.std(axis=0, ddof=1)).astype(np.float32),
            agreement: np.where(unknown, 255, votes).astype(np.uint8),
        }

    def change(self, name: str) -> RangeChange:
        """What was counted of a scenario."""
        every = self._counted((name, True))
        if name not in self.similar:
            return every
        within = self._counted((name, False))
        return replace(every, extrapolating=every.cells - within.cells, within=within)

    def _counted(self, key: tuple[str, bool]) -> RangeChange:
        _, lost, kept, gained = self.cells[key].tolist()
        scenario, cells = key[0], int(self.cells[key].sum())
        areas = self.km2[key][1:].tolist()
        return RangeChange(scenario, float(self.threshold), cells, lost, kept, gained, *areas)


def _csv(changes: tuple[RangeChange, ...]) -> bytes:
    file = text.StringIO()
    rows = [change.row() for change in changes]
    columns = dict.fromkeys(column for row in rows for column in row)
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()
