"""Drawing: windows are read and scored in threads, and handed over in order."""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from maxent._support.jobs import current_runner
from maxent._support.progress import Progress
from maxent._support.threads import executor, num_threads
from maxent.density import FittedDensity
from maxent.density.intervals import LEVEL
from maxent.rows.arrays import Array
from maxent.species.batch import earlier_maps
from maxent.species.fitting.record_kinds import KindsOfRecords
from maxent.species.fitting.results import TRAINING, MapFiles
from maxent.species.input.layers.extrapolation import Extrapolation
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.similarity import Reference
from maxent.species.input.layers.units import UnlikeUnits
from maxent.species.libraries import geo
from maxent.species.projecting import geotiff
from maxent.species.projecting.plan import EXTRAS, Plan, Tally
from maxent.species.study.background import why_no_cell
from maxent.species.study.effort import RecordEffort
from maxent.species.study.study_region import StudyRegion

_CELLS = 1 << 20  # of all windows that are read at one time
_CACHE = 1 << 27  # bytes of blocks that GDAL keeps


def project(
    model: FittedDensity,
    layers: Layers,
    out: str | os.PathLike[str],
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    reference: Reference | None = None,
    threshold: float | None = None,
    rule: str = "value given",
    replicates: Sequence[FittedDensity] = (),
    extras: Sequence[str] = EXTRAS,
    extrapolation: Extrapolation | None = None,
    mask: str | None = None,
    effort: RecordEffort | None = None,
    kinds: KindsOfRecords | None = None,
    apart: bool = False,
    intervals: bool = True,
    extent: StudyRegion | None = None,
    region: StudyRegion | None = None,
    compare_units: bool = True,
    units: Reference | None = None,
    name: str = TRAINING,
    tags: Mapping[str, str] | None = None,
    cog: bool = True,
    overwrite: bool = True,
    threads: int | None = None,
    verbose: int = 1,
) -> MapFiles:
    """Write the maps of a fitted model as GeoTIFFs.

    All files appear at the end, or none of them where something goes wrong, Ctrl-C included.

    Parameters
    ----------
    model : FittedDensity
        The fitted density.
    layers : Layers
        Layers with one for every variable of the model, known by its name; others are not read.
    out : path
        A folder, for ``<map>.tif``; or a .tif file for the first output, with the other maps beside
        it as ``<stem>_<map>.tif``.
    outputs : sequence of str, default ("cloglog",)
        Outputs of ``MaxentDensity.predict``: "raw", "log", "logistic", "cloglog", "cumulative".
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.
    reference : Reference, default None
        The environment of the fit, for "mess" and "mod"; without it these are left out.
    threshold : float, default None
        A cloglog value: also the map "presence", 1 at and above it and 0 below.
    rule : str, default "value given"
        What the threshold is called; the file of presence has tags THRESHOLD, RULE, CELLS and,
        where the CRS is known, AREA_KM2 and KNOWN_AREA_KM2.
    replicates : sequence of FittedDensity, default ()
        Other fits of the same variables: also mean, sd (n - 1), min, max and median of their
        cloglog outputs.
    extras : sequence of str, default all of them
        Of a model that looks at places, "environment" and "space" are the parts of its exponent
        that are of the variables and of the coordinates, each less that of the mean place, so that
        they add up to the shares of an explanation. "clamping" is how much clamping changes the
        cloglog output, "mess" the similarity to the reference and "mod" the number of the most
        dissimilar variable (``classes`` of the result, and tags CLASS_1, CLASS_2 ... of the file);
        "exdet" is negative where a variable is outside its range, and above 1 where the combination
        of variables is new.
    extrapolation : Extrapolation, default None
        The combinations of the fit, for "exdet"; without it this is left out.
    mask : "mess" or "exdet", default None
        Leave cells that extrapolate (a variable outside its range, or a new category; for "exdet"
        also a new combination) out of the maps of suitability.
    effort : RecordEffort, default None
        Sampling effort from records: also the map "effort".
    kinds : KindsOfRecords, default None
        The kinds of records that the model is of, ``SpeciesModel.kinds``: outputs may be
        "intensity", "probability" and "count" too.
    apart : bool, default False
        Whether to map how many times more each of them alone says than all together, as log2.
    intervals : bool, default True
        Whether to map the ends of intervals too, where the model was fitted with them.
    extent : StudyRegion, default None
        Draw only the cells whose centre lies inside; None for all of the layers.
    region : StudyRegion, default None
        The region of the fit, in which cells and areas are counted once more.
    compare_units : bool, default True
        Whether to warn of variables that seem to be in other units than at the fit.
    units : Reference, default None
        What the layers of the fit hold, for this, where the study region was a part of them;
        values are compared with ``reference`` too.
    name : str, default "training layers"
        What the result calls these layers.
    tags : dict, default None
        Metadata for every file.
    cog : bool, default True
        Whether to write tiles, overviews and the layout of a cloud-optimized GeoTIFF; else tiles
        alone.
    overwrite : bool, default True
        Whether to replace maps that are there already, which a file that is read never is.
    threads : int, default None
        How many read and score; None is ``num_threads()``.
    verbose : int, default 1
        0 silences the progress line of long maps.
    """
    start = perf_counter()
    plan = Plan.from_options(
        model, layers, outputs, clamp, reference, threshold, replicates, extras, extrapolation,
        mask, effort, extent, region, (units, reference), intervals, kinds, apart,
    )  # fmt: skip
    threads = num_threads() if threads is None else max(1, int(threads))
    targets = geotiff.targets(Path(out), plan.maps)
    geotiff.check_targets(targets.values(), plan.layers, overwrite)
    folder = next(iter(targets.values())).parent
    with (
        closing(Progress("map", verbose)) as progress,
        geotiff.workspace(folder, plan.layers.grid, plan.maps) as work,
        geo("rasterio").Env(GDAL_CACHEMAX=_CACHE),
    ):
        windows = _windows(plan.layers, threads)
        stage = geotiff.Stage(plan.layers.grid, plan.maps, targets, work, windows[0])
        with stage.open({"LAYERS": name, **(tags or {})}):
            tally = _run(plan, windows, threads, stage.write, progress)
            presence = _presence(plan, tally, rule)
            if presence:
                stage.files["presence"].update_tags(**_presence_tags(presence))
        for what, target in targets.items():
            progress.update(f"writing {target.name}")
            masked = tally.counts["masked"] if plan.maps[what].masked else 0
            stage.finish(what, tally.counts["cells"] - masked, cog, threads)
        stage.publish()
        earlier_maps.unmark(folder, [target.name for target in targets.values()])
    tally.warn()
    unlike = _told_of_units(plan, tally, name) if compare_units else []
    return MapFiles(
        name=name,
        files={what: target.name for what, target in targets.items()},
        n_cells=tally.counts["cells"],
        classes=plan.classes(),
        n_extrapolated=None if plan.reference is None else tally.counts["extrapolated"],
        n_outside=tally.counts["outside"],
        n_clamped=tally.counts["clamped"],
        n_unseen=tally.counts["unseen"],
        seconds=perf_counter() - start,
        n_novel=None if plan.extrapolation is None else tally.counts["novel"],
        mask=mask,
        n_masked=tally.counts["masked"],
        presence=presence,
        km2=tally.km2.get("cells"),
        extent="" if extent is None else extent.description,
        region=_region(plan, tally),
        unlike=tuple(unlike),
        quantiles=tally.quantiles(),
        expected=tally.expected if "intensity" in plan.maps and tally.expected else None,
        expected_ends=plan.expected_ends(tally),
    )


def _told_of_units(plan: Plan, tally: Tally, name: str) -> list[UnlikeUnits]:
    """A warning for each variable in other units."""
    unlike = plan.unlike(tally)
    for one in unlike:
        warnings.warn(one.describe(name), stacklevel=3)
    return unlike


def _region(plan: Plan, tally: Tally) -> dict[str, Any]:
    """What lies in the study region of the fit, empty where none of it is drawn."""
    counts, km2 = tally.counts, tally.km2
    if not counts["region_cells"]:
        return {}
    said: dict[str, Any] = {"cells": counts["region_cells"]}
    said |= {"km2": km2["region_cells"]} if plan.areas is not None else {}
    if "mess" in plan.maps:
        said["extrapolated"] = counts["region_extrapolated"]
    if plan.threshold is not None:
        said |= {"present": counts["region_present"], "judged": counts["region_judged"]}
        if plan.areas is not None:
            said |= {f"{what}_km2": km2[f"region_{what}"] for what in ("present", "judged")}
    return said


def _presence(plan: Plan, tally: Tally, rule: str) -> dict[str, Any]:
    """What the map of presence shows, empty without one."""
    if plan.threshold is None:
        return {}
    said = {"rule": rule, "threshold": float(plan.threshold), "cells": tally.counts["present"]}
    if tally.drawn.sums:
        low, high = tally.drawn.interval("present")
        unit = "cells" if plan.areas is None else "km2"
        # drawn maps may all lie to one side, as of a species that is almost everywhere
        own = tally.counts["present"] if plan.areas is None else tally.km2["present"]
        low, high = min(low, own), max(high, own)
        said |= {f"low_{unit}": low, f"high_{unit}": high, "level": LEVEL}
    if plan.areas is None:
        return said
    return said | {"km2": tally.km2["present"], "known_km2": tally.km2["judged"]}


def _presence_tags(said: Mapping[str, Any]) -> dict[str, str]:
    names = {"rule": "RULE", "cells": "CELLS", "km2": "AREA_KM2", "known_km2": "KNOWN_AREA_KM2"}
    names |= {"low_km2": "LOW_AREA_KM2", "high_km2": "HIGH_AREA_KM2", "level": "LEVEL"}
    return {tag: str(said[name]) for name, tag in names.items() if name in said}


def project_xarray(
    model: FittedDensity,
    layers: Layers,
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    reference: Reference | None = None,
    threshold: float | None = None,
    replicates: Sequence[FittedDensity] = (),
    extras: Sequence[str] = EXTRAS,
    extrapolation: Extrapolation | None = None,
    mask: str | None = None,
    kinds: KindsOfRecords | None = None,
    intervals: bool = True,
    threads: int | None = None,
    verbose: int = 1,
) -> Any:
    """The maps of :func:`project` in memory: an xarray Dataset with rioxarray's CRS and transform.

    Attributes of the Dataset are n_cells, n_extrapolated (with a reference), n_outside, n_clamped,
    n_unseen, n_novel (with an extrapolation) and n_masked, as in :class:`MapFiles`; ``mod`` has its
    variables as the attribute ``classes``.

    Parameters
    ----------
    model : FittedDensity
        The fitted density.
    layers : Layers
        Layers with one for every variable of the model, known by its name; others are not read.
    outputs : sequence of str, default ("cloglog",)
        Outputs of ``MaxentDensity.predict``: "raw", "log", "logistic", "cloglog", "cumulative".
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.
    reference : Reference, default None
        The environment of the fit, for "mess" and "mod"; without it these are left out.
    threshold : float, default None
        A cloglog value: also the map "presence", 1 at and above it and 0 below.
    replicates : sequence of FittedDensity, default ()
        Other fits of the same variables: also mean, sd (n - 1), min, max and median of their
        cloglog outputs.
    extras : sequence of str, default all of them
        Of a model that looks at places, "environment" and "space" are the parts of its exponent
        that are of the variables and of the coordinates, each less that of the mean place, so that
        they add up to the shares of an explanation. "clamping" is how much clamping changes the
        cloglog output, "mess" the similarity to the reference and "mod" the number of the most
        dissimilar variable (``classes`` of the result, and tags CLASS_1, CLASS_2 ... of the file);
        "exdet" is negative where a variable is outside its range, and above 1 where the combination
        of variables is new.
    extrapolation : Extrapolation, default None
        The combinations of the fit, for "exdet"; without it this is left out.
    mask : "mess" or "exdet", default None
        Leave cells that extrapolate (a variable outside its range, or a new category; for "exdet"
        also a new combination) out of the maps of suitability.
    kinds : KindsOfRecords, default None
        As of :func:`project`.
    intervals : bool, default True
        As of :func:`project`.
    threads : int, default None
        How many read and score; None is ``num_threads()``.
    verbose : int, default 1
        0 silences the progress line of long maps.
    """
    plan = Plan.from_options(
        model, layers, outputs, clamp, reference, threshold, replicates, extras, extrapolation,
        mask, units=(reference,), intervals=intervals, kinds=kinds,
    )  # fmt: skip
    threads = num_threads() if threads is None else max(1, int(threads))
    grid = plan.layers.grid
    shape = (grid.height, grid.width)
    arrays = {what: np.full(shape, m.nodata, m.dtype) for what, m in plan.maps.items()}

    def keep(window: Window, maps: Mapping[str, Array]) -> None:
        row, column, height, width = window
        for what, values in maps.items():
            arrays[what][row : row + height, column : column + width] = values

    with closing(Progress("map", verbose)) as progress:
        tally = _run(plan, _windows(plan.layers, threads), threads, keep, progress)
    tally.warn()
    _told_of_units(plan, tally, "layers")
    return _dataset(arrays, plan, tally)


# -- running -------------------------------------------------------------------------------------


def _windows(layers: Layers, threads: int) -> list[Window]:
    """Windows along the blocks of the files, with the sides of a TIFF tile or full rows."""
    grid = layers.grid
    _, _, height, width = layers.windows(_CELLS // threads)[0]
    if width < grid.width:
        height, width = (-(-side // 16) * 16 for side in (height, width))
    return [
        Window(row, column, min(height, grid.height - row), min(width, grid.width - column))
        for row in range(0, grid.height, height)
        for column in range(0, grid.width, width)
    ]


def _run(
    plan: Plan,
    windows: Sequence[Window],
    threads: int,
    use: Callable[[Window, Mapping[str, Array]], None],
    progress: Progress,
) -> Tally:
    """Draw every window and hand its maps over, in order."""
    total = Tally()
    with closing(_in_order(plan.draw, windows, threads)) as parts:
        for done, (window, maps, tally) in enumerate(parts):
            total.add(tally)
            if maps:
                use(window, maps)
            progress.update(f"{done + 1} of {len(windows)} windows")
    if not total.counts["cells"]:
        if plan.extent is not None:
            raise ValueError(
                f"{plan.extent.description}: no cell with data of the layers has its centre inside "
                "(--extent); draw all of the layers, or give another extent"
            )
        raise ValueError(why_no_cell(plan.layers, None, 0))
    return total


def _in_order(
    work: Callable[[Any], Any], items: Iterable[Any], threads: int
) -> Generator[Any, None, None]:
    """``work(item)`` of every item, in threads that are never more than a few items ahead.

    Or where a block of ``maxent._support.jobs.elsewhere`` says.
    """
    runner = current_runner()
    if runner is not None:
        yield from runner.in_order(work, items)
        return
    if threads == 1 or threading.current_thread() is not threading.main_thread():
        yield from map(work, items)
        return
    # threads that stay, as each holds files open; one item more where all of them are ours
    pool, ahead = executor(), threads + (threads >= num_threads())
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)


# -- xarray --------------------------------------------------------------------------------------


def _dataset(arrays: Mapping[str, Array], plan: Plan, tally: Tally) -> Any:
    xarray, _, rasterio = geo("xarray"), geo("rioxarray"), geo("rasterio")
    grid = plan.layers.grid
    similar = () if plan.reference is None else ("extrapolated",)
    combined = () if plan.extrapolation is None else ("novel",)
    counted = ("cells", *similar, "outside", "clamped", "unseen", *combined, "masked")
    data = xarray.Dataset(
        {what: (("y", "x"), values) for what, values in arrays.items()},
        coords=_coordinates(grid),
        attrs={f"n_{what}": tally.counts[what] for what in counted},
    )
    if grid.crs is not None:
        data = data.rio.write_crs(grid.crs)
    data = data.rio.write_transform(rasterio.Affine(*grid.transform))
    for what, stored in plan.maps.items():
        data[what] = data[what].rio.write_nodata(stored.nodata)
    if "mod" in data:
        data["mod"].attrs["classes"] = list(plan.classes().values())
    return data


def _coordinates(grid: Grid) -> dict[str, Array]:
    """Centres of columns and rows; a rotated grid has none."""
    if grid.transform[1] or grid.transform[3]:
        return {}
    x, _ = grid.centres(np.arange(grid.width))
    _, y = grid.centres(np.arange(grid.height) * grid.width)
    return {"x": x, "y": y}
