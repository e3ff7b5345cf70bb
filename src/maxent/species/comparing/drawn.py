"""Intervals of range change: maps that are as likely as one another, now and then, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent.density import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.comparing.map_files import MapStack
from maxent.species.fitting.results import SpeciesResult
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.layers import Layers
from maxent.species.input.times.dated_layers import DatedLayers
from maxent.species.input.times.record_dates import AUTO
from maxent.species.input.times.settings import TimeSettings
from maxent.species.judging.bands import DrawnAreas, DrawnMaps
from maxent.species.projecting.plan import Compiled

_UNREAD = "this result does not say how the layers of its projections were read; fit again"
_CHUNK = 1 << 14  # cells whose drawn maps are there at once


class Drawn(NamedTuple):
    """A written map, and what opens the layers that it was drawn from."""

    map: Path
    layers: Callable[[], AbstractContextManager[Layers]]


def drawn_changes(
    density: FittedDensity,
    present: Drawn,
    futures: Mapping[str, Drawn],
    threshold: float,
    clamp: bool = True,
) -> dict[str, dict[str, tuple[float, float]]]:
    """Intervals of what is lost, kept and gained by scenario; of ranges and of the change.

    Each drawn map has the same weights now and then, so that what is wrong in both cancels out.
    Cells count as in ``compare_maps``: those that both written maps know.

    Parameters
    ----------
    density : FittedDensity
        The density, which knows its intervals.
    present : Drawn
        The map of the present.
    futures : dict of Drawn
        Those of other layers on the same grid, by the name of the scenario.
    threshold : float
        The least cloglog value of presence.
    clamp : bool, default True
        Whether variables are held in their ranges.
    """
    compiled, maps = Compiled.from_density(density), DrawnMaps(density, threshold, clamp)
    found = {name: DrawnAreas() for name in futures}
    with ExitStack() as stack:
        names = density.schema.names
        now, *others = (
            stack.enter_context(one.layers()).select(names) for one in (present, *futures.values())
        )
        then = dict(zip(futures, others, strict=True))
        paths = {"": present.map, **{name: one.map for name, one in futures.items()}}
        written = stack.enter_context(MapStack.open(paths))
        areas = cell_areas(written.grid)
        for window in written.windows():
            here = now.read(window).values
            known = ~np.isnan(written.read("", window))
            size = np.ones(known.shape) if areas is None else areas.read(window)
            for name, layers in then.items():
                there = layers.read(window).values
                both = np.flatnonzero(known & ~np.isnan(written.read(name, window)))
                for start in range(0, both.size, _CHUNK):
                    rows = both[start : start + _CHUNK]
                    before, after = (
                        maps.present(compiled.cells({n: v.ravel()[rows] for n, v in one.items()}))
                        for one in (here, there)
                    )
                    km2 = size.ravel()[rows]
                    found[name].add("lost", before & ~after, km2)
                    found[name].add("kept", before & after, km2)
                    found[name].add("gained", ~before & after, km2)
    return {name: _intervals(sums) for name, sums in found.items() if sums.sums}


def changes_of_result(
    result: SpeciesResult,
    density: FittedDensity,
    present: Path,
    futures: Mapping[str, Path],
    threshold: float,
    time: str | None = None,
) -> tuple[dict[str, dict[str, tuple[float, float]]] | None, list[str]]:
    """``drawn_changes`` of a result in a folder, whose layers are read once more; and notes.

    ``time`` says that ``present`` is the map of this time of a fit in time, and that ``futures``
    are those of its other times, by their names. None where the model knows no intervals, or its
    layers are no longer there.
    """
    if density.uncertainty is None:
        return None, []
    of_times = time is not None
    lacking = [] if of_times else [name for name in futures if name not in result.projected]
    if result.reading is None or lacking:
        return None, [f"intervals of the change are not known: {_UNREAD}"]

    def drawn(path: Path, fields: Mapping[str, Any], at: str | None, fitted: bool) -> Drawn:
        files = replace(LayerFiles.stored(fields), categorical=result.categorical)
        names = density.schema.names
        if result.timing is None:
            return Drawn(path, partial(files.open, only=names))
        table = result.timing.layer_times if fitted else None
        times = TimeSettings(AUTO, layer_times=table, window=result.timing.window)
        return Drawn(path, partial(_at_time, files, times, names, at))

    try:
        found = drawn_changes(
            density,
            drawn(present, result.reading, time, True),
            {
                name: drawn(path, result.reading, name, True)
                if of_times
                else drawn(path, result.projected[name], None, False)
                for name, path in futures.items()
            },
            threshold,
            bool(result.settings.get("clamp", True)),
        )
    except FileNotFoundError as error:
        return None, [
            f"intervals of the change are not known, as the layers of the fit are read for them: "
            f"{error}; call this where `maxent fit` was called"
        ]
    return found, []


@contextmanager
def _at_time(
    files: LayerFiles, times: TimeSettings, names: Sequence[str], label: str | None
) -> Iterator[Layers]:
    """Layers at a time, by default at the last one."""
    with DatedLayers.open(files, times, only=names) as dated:
        steps = {step.label: step for step in dated.steps()} if dated.series else {}
        if label is not None and label not in steps:
            raise FileNotFoundError(f"the layers have no time {label} any more: {', '.join(steps)}")
        with dated.at(dated.last() if label is None else steps[label]) as layers:
            yield layers


def _intervals(found: DrawnAreas) -> dict[str, tuple[float, float]]:
    sums = found.sums
    sums |= {"present": sums["lost"] + sums["kept"], "future": sums["kept"] + sums["gained"]}
    sums["change"] = _change(sums["present"], sums["future"])
    return {name: found.interval(name) for name in sums}


def _change(present: Array, future: Array) -> Array:
    """Future over present range, minus 1; where there was none before, as if it doubled."""
    return np.divide(future, present, out=np.full_like(future, 2.0), where=present > 0) - 1
