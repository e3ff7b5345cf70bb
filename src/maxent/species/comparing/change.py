"""Range change: what a species loses, keeps and gains between one map and others, in km2."""

from __future__ import annotations

import csv
import io as text
from collections.abc import Mapping
from contextlib import closing
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
    maps = {file: Map(file, "uint8", 255, _tags(threshold)) for file in names.values()}
    if len(futures) > 1:
        maps |= {what: Map(what) for what in ENSEMBLE[:2]}
        maps[ENSEMBLE[2]] = Map(ENSEMBLE[2], "uint8", 255, {"THRESHOLD": repr(float(threshold))})
    if len(futures) > 254:
        raise ValueError(f"{len(futures)} scenarios: at most 254 can be compared at once")
    targets = {what: out / f"{what}.tif" for what in maps}
    read = [present, *futures.values()]
    for target in (*targets.values(), out / TABLE):
        check_unread(target, read)
        if target.exists() and not overwrite:
            raise FileExistsError(f"{target} is there already; replace it with --overwrite")
    paths = {_NOW: Path(present), **{name: Path(path) for name, path in futures.items()}}
    with (
        MapStack.open(paths) as stack,
        closing(Progress("comparison", verbose)) as progress,
        geotiff.workspace(out, stack.grid, maps) as work,
    ):
        windows = stack.windows()
        stage = geotiff.Stage(stack.grid, maps, targets, work, windows[0])
        tally = _Tally(names, threshold, cell_areas(stack.grid))
        with stage.open({"PRESENT": str(present)}):
            for done, window in enumerate(windows, start=1):
                values = {name: stack.read(name, window) for name in paths}
                stage.write(window, tally.add(values, window))
                progress.update(f"{done} of {len(windows)} windows")
        for what in maps:
            stage.finish(what, tally.known[what], True, num_threads())
        changes = tuple(tally.change(name) for name in futures)
        stage.publish()
        io.write_atomically(out / TABLE, _csv(changes))
    files = {f"change:{name}": targets[file].name for name, file in names.items()}
    files |= {what: targets[what].name for what in ENSEMBLE if what in targets}
    return Comparison(changes, {**files, "table": TABLE}, rule)


def _tags(threshold: float) -> dict[str, str]:
    classes = {f"CLASS_{code}": name for code, name in CLASSES.items()}
    return {"THRESHOLD": repr(float(threshold)), **classes}


class _Tally:
    """Cells and areas by class of each scenario, and how many cells each map knows."""

    def __init__(self, names: Mapping[str, str], threshold: float, areas: CellAreas | None) -> None:
        self.names, self.threshold, self.areas = names, threshold, areas
        self.cells = {name: np.zeros(len(CLASSES), np.int64) for name in names}
        self.km2 = {name: np.full(len(CLASSES), np.nan if areas is None else 0.0) for name in names}
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
            self.cells[name] += np.bincount(code[both], minlength=len(CLASSES))
            if km2 is not None:
                self.km2[name] += np.bincount(code[both], km2[both], len(CLASSES))
            self.known[file] += int(both.sum())
            drawn[file] = np.where(both, code, 255).astype(np.uint8)
        if len(self.names) > 1:
            drawn |= self._ensemble([values[name] for name in self.names])
        return drawn

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
        cells = self.known[self.names[name]]
        counts, areas = self.cells[name][1:].tolist(), self.km2[name][1:].tolist()
        return RangeChange(name, float(self.threshold), cells, *counts, *areas)


def _csv(changes: tuple[RangeChange, ...]) -> bytes:
    file = text.StringIO()
    writer = csv.DictWriter(file, changes[0].row(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(change.row() for change in changes)
    return file.getvalue().encode()
