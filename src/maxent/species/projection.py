"""Projection: a fitted density drawn on layers, every map in one pass at constant memory.

Threads read and score windows; the calling thread writes them in order to plain files, which are
then turned into cloud-optimized GeoTIFFs, checked and moved into place together. Missing values of
float maps are NaN: unlike -9999 it is no value of any output, and no tool averages it by mistake.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxent._progress import Progress
from maxent._rows import Array
from maxent._threads import _executor, num_threads
from maxent.estimators import MaxentDensity
from maxent.estimators.density import OUTPUTS
from maxent.features import Schema
from maxent.features.cells import UNKNOWN, Cells
from maxent.features.scoring import Scorer
from maxent.maps import sum_of_parts
from maxent.species._extras import geo
from maxent.species.background import why_no_cell
from maxent.species.grid import Grid, Window
from maxent.species.layers import Block, Layers
from maxent.species.results import MapFiles
from maxent.species.similarity import Reference, codes_of

EXTRAS = ("clamping", "mess", "mod")
STATISTICS: dict[str, Callable[[Array], Array]] = {
    "replicates_mean": lambda y: y.mean(axis=0),
    "replicates_sd": lambda y: y.std(axis=0, ddof=min(1, len(y) - 1)),
    "replicates_min": lambda y: y.min(axis=0),
    "replicates_max": lambda y: y.max(axis=0),
    "replicates_median": lambda y: np.median(y, axis=0),
}
_CELLS = 1 << 20  # of all windows that are read at one time
_CHUNK = 1 << 16  # cells scored at once
_CACHE = 1 << 27  # bytes of blocks that GDAL keeps
_TILE = 512
_COUNTS = ("cells", "extrapolated", "clamped", "unseen")
_SHOWN = 10  # unseen levels that a message names


def project(
    model: MaxentDensity,
    layers: Layers,
    out: str | os.PathLike[str],
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    reference: Reference | None = None,
    threshold: float | None = None,
    replicates: Sequence[MaxentDensity] = (),
    extras: Sequence[str] = EXTRAS,
    name: str = "training layers",
    tags: Mapping[str, str] | None = None,
    cog: bool = True,
    threads: int | None = None,
    verbose: int = 1,
) -> MapFiles:
    """Write the maps of a fitted model as GeoTIFFs.

    All files appear at the end, or none of them where something goes wrong, Ctrl-C too.

    Parameters
    ----------
    layers : with a layer for every variable of the model, known by its name; others are not read.
    out : a folder, for ``<map>.tif``; or a .tif file for the first output, with the other maps
        beside it as ``<stem>_<map>.tif``.
    outputs : of ``MaxentDensity.predict``: "raw", "log", "logistic", "cloglog", "cumulative".
    clamp : hold variables and features within their ranges at the fit.
    reference : the environment of the fit, for "mess" and "mod"; without it these are left out.
    threshold : a cloglog value: also the map "presence", 1 at and above it and 0 below.
    replicates : other fits of the same variables: also mean, sd (n - 1), min, max and median of
        their cloglog outputs.
    extras : "clamping" is how much clamping changes the cloglog output, "mess" the similarity to
        the reference and "mod" the number of the most dissimilar variable (``classes`` of the
        result, and tags CLASS_1, CLASS_2 ... of the file).
    name : what the result calls these layers.
    tags : metadata for every file.
    cog : tiles, overviews and the layout of a cloud-optimized GeoTIFF; else tiles alone.
    threads : that read and score, ``num_threads()`` by default.
    verbose : 0 silences the progress line of long maps.
    """
    start = perf_counter()
    plan = _Plan.of(model, layers, outputs, clamp, reference, threshold, replicates, extras)
    threads = num_threads() if threads is None else max(1, int(threads))
    targets = _targets(Path(out), plan.maps)
    folder = next(iter(targets.values())).parent
    rasterio = geo("rasterio")
    with (
        closing(Progress("map", verbose)) as progress,
        _workspace(folder) as work,
        rasterio.Env(GDAL_CACHEMAX=_CACHE),
    ):
        windows = _windows(plan.layers, threads)
        stage = _Stage(plan, targets, work, windows[0])
        with stage.open({"LAYERS": name, **(tags or {})}):
            tally = _run(plan, windows, threads, stage.write, progress)
        for what, target in targets.items():
            progress.update(f"writing {target.name}")
            with _writing(target):
                _finish(stage.path(what), work / target.name, plan.maps[what], cog, threads)
                _check(work / target.name, plan.maps[what], plan.layers.grid, tally.counts["cells"])
        for target in targets.values():
            with _writing(target):
                os.replace(work / target.name, target)
                Path(f"{target}.aux.xml").unlink(missing_ok=True)  # statistics of an older map
    tally.warn()
    return MapFiles(
        name=name,
        files={what: target.name for what, target in targets.items()},
        n_cells=tally.counts["cells"],
        classes=plan.classes(),
        n_extrapolated=tally.counts["extrapolated"],
        n_clamped=tally.counts["clamped"],
        n_unseen=tally.counts["unseen"],
        seconds=perf_counter() - start,
    )


def project_xarray(
    model: MaxentDensity,
    layers: Layers,
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    reference: Reference | None = None,
    threshold: float | None = None,
    replicates: Sequence[MaxentDensity] = (),
    extras: Sequence[str] = EXTRAS,
    threads: int | None = None,
    verbose: int = 1,
) -> Any:
    """The maps of :func:`project` in memory: an xarray Dataset with rioxarray's CRS and transform.

    Attributes of the Dataset are n_cells, n_extrapolated, n_clamped and n_unseen; ``mod`` has its
    variables as the attribute ``classes``.
    """
    plan = _Plan.of(model, layers, outputs, clamp, reference, threshold, replicates, extras)
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
    return _dataset(arrays, plan, tally)


# -- what to draw --------------------------------------------------------------------------------


class _Map(NamedTuple):
    """How one map is stored."""

    what: str
    dtype: str = "float32"
    nodata: float = float("nan")
    tags: Mapping[str, str] = {}


class _Fitted(NamedTuple):
    """A model that is ready to score."""

    density: MaxentDensity
    scorer: Scorer

    @classmethod
    def of(cls, density: MaxentDensity) -> _Fitted:
        check_is_fitted(density)
        schema = density.schema_
        for name, levels in zip(schema.categorical, schema.levels, strict=True):
            words = [level for level in levels if not isinstance(level, int | float)]
            if words:
                raise ValueError(
                    f"the model has {name!r} with levels such as {words[0]!r}, and rasters hold "
                    "numbers: fit the model to the numbers of the layer"
                )
        return cls(density, density._compiled())

    def cells(self, columns: Mapping[str, Array]) -> Cells:
        """Columns read from layers, as ``Schema.read`` would."""
        schema = self.density.schema_
        kept = [columns[name] for name in schema.continuous]
        count = next(iter(columns.values())).size
        values = np.empty((len(kept), count), np.result_type(np.float32, *(c.dtype for c in kept)))
        for row, column in enumerate(kept):
            values[row] = column
        codes = np.empty((len(schema.categorical), count), dtype=np.int32)
        for row, (name, levels) in enumerate(zip(schema.categorical, schema.levels, strict=True)):
            codes[row] = codes_of(columns[name], levels)[0]
        return Cells(values, codes)

    def cloglog(self, cells: Cells, clamp: bool) -> Array:
        return self.density._scaled(self.scorer.scores(cells, clamp), "cloglog")


@dataclass
class _Tally:
    """What was met on the way."""

    counts: Counter[str] = field(default_factory=Counter)
    unseen: dict[str, set[float]] = field(default_factory=dict)

    def add(self, other: _Tally) -> None:
        self.counts.update(other.counts)
        for name, levels in other.unseen.items():
            self.unseen.setdefault(name, set()).update(levels)

    def warn(self) -> None:
        """One warning for all categories that the model does not know."""
        if not self.unseen:
            return
        parts = [
            f"{name} {', '.join(f'{level:g}' for level in sorted(levels)[:_SHOWN])}"
            for name, levels in self.unseen.items()
        ]
        warnings.warn(
            f"{self.counts['unseen']} of {self.counts['cells']} cells have a category that was not "
            f"there at the fit and gets no effect: {'; '.join(parts)}",
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class _Plan:
    """All that is to be done with a window."""

    layers: Layers
    model: _Fitted
    replicates: tuple[_Fitted, ...]
    reference: Reference | None
    clamp: bool
    threshold: float | None
    maps: dict[str, _Map]

    @classmethod
    def of(
        cls,
        model: MaxentDensity,
        layers: Layers,
        outputs: Sequence[str],
        clamp: bool,
        reference: Reference | None,
        threshold: float | None,
        replicates: Sequence[MaxentDensity],
        extras: Sequence[str],
    ) -> _Plan:
        """Checked options."""
        _check_listed("outputs", outputs, OUTPUTS)
        _check_listed("extras", extras, EXTRAS)
        if not outputs:
            raise ValueError(f"outputs is empty; name one or more of {', '.join(OUTPUTS)}")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a cloglog value between 0 and 1, got {threshold!r}")
        fitted = _Fitted.of(model)
        for output in outputs:
            model._scaled(np.zeros(1), output)  # refuses what the model cannot give
        names = model.schema_.names
        others = tuple(_Fitted.of(m) for m in replicates)
        _check_variables(others, names)
        wanted = set(extras) if reference is not None else set(extras) - {"mess", "mod"}
        maps = [_Map(output) for output in outputs]
        maps += [_Map(extra) for extra in ("clamping", "mess") if extra in wanted]
        if "mod" in wanted:
            classes = {f"CLASS_{i + 1}": variable for i, variable in enumerate(names)}
            maps.append(_Map("mod", "uint8" if len(names) < 256 else "uint16", 0, classes))
        if threshold is not None:
            maps.append(_Map("presence", "uint8", 255, {"THRESHOLD": repr(float(threshold))}))
        maps += [_Map(statistic) for statistic in STATISTICS if others]
        return cls(
            _needed(layers, model.schema_),
            fitted,
            others,
            reference.only(names) if reference is not None and wanted & {"mess", "mod"} else None,
            clamp,
            threshold,
            {m.what: m for m in maps},
        )

    def classes(self) -> dict[int, str]:
        """Number of each variable in the map of the most dissimilar one."""
        variables = self.model.density.schema_.names if "mod" in self.maps else ()
        return {i + 1: variable for i, variable in enumerate(variables)}

    def draw(self, window: Window) -> tuple[Window, dict[str, Array], _Tally]:
        """The maps of a window; none where no cell is known."""
        block = self.layers.read(window)
        tally = _Tally()
        known = np.flatnonzero(block.valid)
        tally.counts["cells"] = known.size
        if not known.size:
            return window, {}, tally
        found = {what: np.empty(known.size, m.dtype) for what, m in self.maps.items()}
        for start in range(0, known.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            rows = part if known.size == block.valid.size else known[part]
            columns = {name: layer.ravel()[rows] for name, layer in block.values.items()}
            with np.errstate(over="ignore"):  # without clamping raw may leave single precision
                for what, values in self._columns(columns, tally):
                    found[what][part] = values
        maps = {what: self._spread(block, known, what, values) for what, values in found.items()}
        return window, maps, tally

    def _spread(self, block: Block, known: Array, what: str, values: Array) -> Array:
        if known.size == block.valid.size:
            return values.reshape(block.valid.shape)
        whole = np.full(block.valid.shape, self.maps[what].nodata, values.dtype)
        whole.ravel()[known] = values
        return whole

    def _columns(self, columns: Mapping[str, Array], tally: _Tally) -> Iterator[tuple[str, Array]]:
        """Every map at some cells."""
        model, scorer = self.model
        cells = self.model.cells(columns)
        self._count(columns, cells, tally)
        theta = scorer.scores(cells, self.clamp)
        for output in OUTPUTS:
            if output in self.maps:
                yield output, model._scaled(theta, output)
        if self.maps.keys() & {"clamping", "presence"}:
            cloglog = model._scaled(theta, "cloglog")
            if "clamping" in self.maps:
                yield "clamping", np.abs(cloglog - self.model.cloglog(cells, not self.clamp))
            if self.threshold is not None:
                yield "presence", cloglog >= self.threshold
        if self.reference is not None:
            mess, variable = self.reference.similarity(columns)
            tally.counts["extrapolated"] += int((mess < 0).sum())
            if "mess" in self.maps:
                yield "mess", mess
            if "mod" in self.maps:
                yield "mod", variable + 1
        if self.replicates:
            yield from self._statistics(columns, cells)

    def _statistics(
        self, columns: Mapping[str, Array], cells: Cells
    ) -> Iterator[tuple[str, Array]]:
        schema = self.model.density.schema_
        cloglog = np.array(
            [
                m.cloglog(cells if m.density.schema_ == schema else m.cells(columns), self.clamp)
                for m in self.replicates
            ]
        )
        for what, statistic in STATISTICS.items():
            yield what, statistic(cloglog)

    def _count(self, columns: Mapping[str, Array], cells: Cells, tally: _Tally) -> None:
        from maxent._kernels.score import count_outside

        limits = self.model.scorer.limits(cells.values.dtype)
        tally.counts["clamped"] += int(count_outside(cells.values, *limits))
        unknown = cells.codes == UNKNOWN
        if not unknown.any():
            return
        tally.counts["unseen"] += int(unknown.any(axis=0).sum())
        for name, where in zip(self.model.density.schema_.categorical, unknown, strict=True):
            if where.any():
                levels = np.unique(columns[name][where])
                tally.unseen.setdefault(name, set()).update(levels.tolist())


def _check_listed(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    wrong = [g for g in given if g not in known]
    if isinstance(given, str) or wrong:
        raise ValueError(f"{what} must be a list of {', '.join(known)}, got {given!r}")


def _check_variables(replicates: Iterable[_Fitted], names: Sequence[str]) -> None:
    for i, replicate in enumerate(replicates):
        odd = set(replicate.density.schema_.names) - set(names)
        if odd:
            raise ValueError(
                f"replicate {i + 1} has the variable {min(odd)!r}, which the model does not have: "
                "replicates are fits of the same variables"
            )


def _needed(layers: Any, schema: Schema) -> Layers:
    """The layers of the model, in its order; a cell is known where these are."""
    names = schema.names
    if not isinstance(layers, Layers):  # xarray objects, or an error that says what is expected
        layers = Layers.from_xarray(layers)
        found = [name for name in schema.categorical if name in layers.names]
        layers = Layers(layers._sources, found)
    labels = layers.labels()
    missing = [name for name in names if name not in labels]
    if missing:
        given = ", ".join(n if n == label else f"{n} ({label})" for n, label in labels.items())
        raise ValueError(
            f"the model needs {', '.join(map(repr, missing))}, and no layer is called so; given "
            f"are {given}. Layers are known by their file name or band description: rename them "
            "to match the model"
        )
    return layers.select(names)


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
    plan: _Plan,
    windows: Sequence[Window],
    threads: int,
    use: Callable[[Window, Mapping[str, Array]], None],
    progress: Progress,
) -> _Tally:
    """Draw every window and hand its maps over, in order."""
    total = _Tally()
    with closing(_in_order(plan.draw, windows, threads)) as parts:
        for done, (window, maps, tally) in enumerate(parts):
            total.add(tally)
            if maps:
                use(window, maps)
            progress.update(f"{done + 1} of {len(windows)} windows")
    if not total.counts["cells"]:
        raise ValueError(why_no_cell(plan.layers, None, 0))
    return total


def _in_order(
    work: Callable[[Any], Any], items: Iterable[Any], threads: int
) -> Generator[Any, None, None]:
    """``work(item)`` of every item, a few at a time in threads and no further ahead."""
    if threads == 1 or threading.current_thread() is not threading.main_thread():
        yield from map(work, items)
        return
    # threads that stay, as each holds files open; one item more where all of them are ours
    pool, ahead = _executor(), threads + (threads >= num_threads())
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


# -- writing -------------------------------------------------------------------------------------


def _targets(out: Path, maps: Iterable[str]) -> dict[str, Path]:
    """Where each map goes."""
    if out.suffix.lower() not in (".tif", ".tiff") or out.is_dir():
        return {what: out / f"{what}.tif" for what in maps}
    first, *rest = maps
    return {first: out} | {what: out.with_name(f"{out.stem}_{what}{out.suffix}") for what in rest}


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """A folder inside ``folder`` for unfinished files, which goes away whatever happens."""
    made = [f for f in (folder, *folder.parents) if not f.exists()]
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".maxent-", dir=folder))
    try:
        yield work
    except BaseException:  # also Ctrl-C
        shutil.rmtree(work, ignore_errors=True)
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
        raise
    shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class _Stage:
    """Uncompressed files of all maps, where a window is a block: it is written at once."""

    plan: _Plan
    targets: Mapping[str, Path]
    work: Path
    block: Window
    files: dict[str, Any] = field(default_factory=dict)

    def path(self, what: str) -> Path:
        """The file of a map."""
        return self.work / f"{what}.stage.tif"

    @contextmanager
    def open(self, tags: Mapping[str, str]) -> Iterator[None]:
        """Empty files, closed at the end."""
        rasterio = geo("rasterio")
        grid = self.plan.layers.grid
        tiled = self.block.width < grid.width
        layout = {"blockxsize": self.block.width} if tiled else {}
        with ExitStack() as stack:
            for what, stored in self.plan.maps.items():
                with _writing(self.targets[what]):
                    file = rasterio.open(
                        self.path(what),
                        "w",
                        driver="GTiff",
                        width=grid.width,
                        height=grid.height,
                        count=1,
                        dtype=stored.dtype,
                        nodata=stored.nodata,
                        crs=grid.crs,
                        transform=rasterio.Affine(*grid.transform),
                        tiled=tiled,
                        blockysize=self.block.height,
                        sparse_ok=True,
                        bigtiff="IF_SAFER",
                        **layout,
                    )
                self.files[what] = stack.enter_context(file)
                file.set_band_description(1, what)
                file.update_tags(**{**tags, **stored.tags})
            yield

    def write(self, window: Window, maps: Mapping[str, Array]) -> None:
        """One window of every map."""
        row, column, height, width = window
        where = geo("rasterio").windows.Window(column, row, width, height)
        for what, values in maps.items():
            with _writing(self.targets[what]):
                self.files[what].write(values, 1, window=where)


def _finish(stage: Path, final: Path, stored: _Map, cog: bool, threads: int) -> None:
    """The plain file as a compressed GeoTIFF with tiles, and overviews where it is to have them."""
    floats = stored.dtype.startswith("float")
    # higher levels take half as long again and save 1 %: most digits of a map are noise
    options = {"COMPRESS": "DEFLATE", "BIGTIFF": "IF_SAFER", "NUM_THREADS": threads}
    options |= {"SPARSE_OK": "TRUE"}
    if cog:
        options |= {"driver": "COG", "BLOCKSIZE": _TILE, "LEVEL": 1, "PREDICTOR": "YES"}
        options |= {"OVERVIEW_RESAMPLING": "AVERAGE" if floats else "MODE"}
    else:
        options |= {"driver": "GTiff", "TILED": "YES", "BLOCKXSIZE": _TILE, "BLOCKYSIZE": _TILE}
        options |= {"ZLEVEL": 1, "PREDICTOR": 3 if floats else 2}
    geo("rasterio.shutil").copy(stage, final, **options)
    stage.unlink()


def _check(final: Path, stored: _Map, grid: Grid, n_cells: int) -> None:
    """Read the map back: GDAL does not always say that the disk was full."""

    def known(first: int, last: int) -> Array:
        count = 0
        with geo("rasterio").open(final) as file:
            for (row, _), window in file.block_windows(1):
                if first <= row < last:
                    values = file.read(1, window=window)
                    count += int(np.count_nonzero((values == values) & (values != stored.nodata)))
        return np.asarray(count)

    found = sum_of_parts(known, -(-grid.height // _TILE), _TILE * grid.width)
    if found != n_cells:
        raise OSError(f"{found} of {n_cells} cells can be read back")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Any failure as one that names the file and says what to do."""
    try:
        yield
    except Exception as error:  # the errors of GDAL have no public class in common
        raise OSError(
            f"{path} cannot be written ({error.__cause__ or error}): free space on the disk, or "
            "choose another folder that you may write to"
        ) from error


# -- xarray --------------------------------------------------------------------------------------


def _dataset(arrays: Mapping[str, Array], plan: _Plan, tally: _Tally) -> Any:
    xarray, _, rasterio = geo("xarray"), geo("rioxarray"), geo("rasterio")
    grid = plan.layers.grid
    data = xarray.Dataset(
        {what: (("y", "x"), values) for what, values in arrays.items()},
        coords=_coordinates(grid),
        attrs={f"n_{what}": tally.counts[what] for what in _COUNTS},
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
    """Middles of columns and rows; a rotated grid has none of its own."""
    if grid.transform[1] or grid.transform[3]:
        return {}
    x, _ = grid.centres(np.arange(grid.width))
    _, y = grid.centres(np.arange(grid.height) * grid.width)
    return {"x": x, "y": y}
