"""Intervals of range change: maps that are as likely as one another, now and then, compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
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
from maxent.species.judging.bands import DrawnAreas, DrawnMaps
from maxent.species.projecting.plan import Compiled

_UNREAD = "this result does not say how the layers of its projections were read; fit again"
_IN_TIME = (
    "of a fit in time `maxent fit` alone writes them, at its own threshold; those of the area at "
    "each time are in times/times.csv"
)
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
) -> tuple[dict[str, dict[str, tuple[float, float]]] | None, list[str]]:
    """``drawn_changes`` of a result in a folder, whose layers are read once more; and notes.

    None where the model knows no intervals, or its layers are no longer there.
    """
    if density.uncertainty is None:
        return None, []
    if result.timing is not None:
        return None, [f"no intervals of the change: {_IN_TIME}"]
    lacking = [name for name in futures if name not in result.projected]
    if result.reading is None or lacking:
        return None, [f"intervals of the change are not known: {_UNREAD}"]

    def drawn(path: Path, fields: Mapping[str, Any]) -> Drawn:
        files = replace(LayerFiles.stored(fields), categorical=result.categorical)
        return Drawn(path, partial(files.open, only=density.schema.names))

    try:
        found = drawn_changes(
            density,
            drawn(present, result.reading),
            {name: drawn(path, result.projected[name]) for name, path in futures.items()},
            threshold,
            bool(result.settings.get("clamp", True)),
        )
    except FileNotFoundError as error:
        return None, [
            f"intervals of the change are not known, as the layers of the fit are read for them: "
            f"{error}; call this where `maxent fit` was called"
        ]
    return found, []


def _intervals(found: DrawnAreas) -> dict[str, tuple[float, float]]:
    sums = found.sums
    sums |= {"present": sums["lost"] + sums["kept"], "future": sums["kept"] + sums["gained"]}
    sums["change"] = _change(sums["present"], sums["future"])
    return {name: found.interval(name) for name in sums}


def _change(present: Array, future: Array) -> Array:
    """Future over present range, minus 1; where there was none before, as if it doubled."""
    return np.divide(future, present, out=np.full_like(future, 2.0), where=present > 0) - 1
