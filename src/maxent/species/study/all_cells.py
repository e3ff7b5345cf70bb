"""A density over every known cell of the layers, read in windows wherever one is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maxent.density import FittedDensity, Recipe
from maxent.features.summary import TableSummary
from maxent.rows.arrays import Array
from maxent.rows.blocks.engine import Blocks, SourceBlocks
from maxent.rows.blocks.sources import block_bytes, in_bytes
from maxent.rows.blocks.table import BlockTable, Part
from maxent.species.batch.cluster import ClusterSettings
from maxent.species.fitting.results import Sample
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.grid import Window
from maxent.species.input.layers.layers import Layers
from maxent.species.libraries import geo
from maxent.species.study.background import asked_in, checked_effort
from maxent.species.study.samples import Region, open_effort
from maxent.species.study.study_region import StudyRegion

_UNLIMITED = 2 * 10**9  # bytes to use of a worker that has no limit
_LEAST = 5 * 10**8  # bytes that a worker has to have
_NUMBER = 8  # bytes of a value
_BESIDE = 2  # values of a cell beside those of the layers: count and effort
_PER_THREAD = 4  # windows of each thread of a cluster, so that all end together
_CACHE = 1 << 25  # bytes of blocks that GDAL keeps, which is a share of all memory else


@dataclass(frozen=True)
class WholeLayers:
    """Layers whose every cell is a point of the density.

    Attributes
    ----------
    layers : LayerFiles
        The files.
    bias : str or None
        Raster of sampling effort, None without one.
    memory : int
        Bytes that the process which fits may take, or each worker of a cluster.
    """

    layers: LayerFiles
    bias: str | None
    memory: int

    def density(
        self, recipe: Recipe, sample: Sample, region: Region, client: Any = None
    ) -> tuple[FittedDensity, list[str]]:
        """The density of the records of a sample over all known cells of the region, and notes.

        A block is a window of the layers. They are read one after the other, or stay on the workers
        of a cluster.
        """
        with ExitStack() as files:
            opened = files.enter_context(self.layers.open())
            effort = self._effort(files, opened, region)
            cells = WindowCells(opened, tuple(sample.X.columns), effort, region.study)
            places = self._places(opened, sample, client)
            table = BlockTable(_blocks(cells, places, client), cells.columns)
            task = recipe.task_in_blocks(table)
            points: Any = task.points
            return task.fit().density, _approximate(points.summary)

    def _effort(self, files: ExitStack, opened: Layers, region: Region) -> Layers | None:
        """What is taken out of the density."""
        if region.bias is None:
            return None
        if region.kernel is not None:
            return Layers([region.kernel])
        return open_effort(files, self.bias, self.layers, opened)

    def _places(self, layers: Layers, sample: Sample, client: Any) -> list[Place]:
        """Windows that fit into the memory, with their records."""
        size = block_bytes(self.memory) // (_NUMBER * (len(layers.names) + _BESIDE))
        if client is not None:
            threads = sum(client.nthreads().values())
            size = min(size, layers.grid.size // (_PER_THREAD * threads))
        assert sample.coordinates is not None
        records = np.flatnonzero(sample.counts > 0)
        cells = layers.grid.cells_at(*sample.coordinates[records].T)
        order = np.argsort(cells)
        cells, counts = cells[order], sample.counts[records[order]]
        places = []
        for number, window in enumerate(layers.windows(max(size, 1))):
            which, at = asked_in(window, cells, layers.grid.width)
            places.append(Place(number, window, at, counts[which]))
        return places


def _blocks(cells: WindowCells, places: list[Place], client: Any) -> Blocks:
    if client is None:
        return SourceBlocks([partial(cells.part, place) for place in places])
    from maxent.rows.dask.windows import read_by_workers

    return read_by_workers(client, cells.part, places)


def _approximate(summary: TableSummary) -> list[str]:
    """What to say of knots."""
    if not summary.rank_error:
        return []
    return [
        "layers with more distinct values than are kept: their knots lie next to those of a fit in "
        f"memory, at most {summary.rank_error:.1g} of the cells between"
    ]


@dataclass(frozen=True, eq=False)
class Place:
    """A window, the positions in it that have records, and how many each has."""

    number: int
    window: Window
    at: Array
    counts: Array


@dataclass(frozen=True, eq=False)
class WindowCells:
    """Reads the cells of a window as the rows of a table; it can be sent to another process.

    Attributes
    ----------
    layers : Layers
        Layers, all of which must be known in a cell.
    names : tuple of str
        Those that are used.
    effort : Layers or None
        Taken out of the density, None for none.
    study : StudyRegion or None
        Where cells are taken from, besides those with records.
    """

    layers: Layers
    names: tuple[str, ...]
    effort: Layers | None = None
    study: StudyRegion | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What comes with the rows."""
        return ("y",) if self.effort is None else ("y", "prior")

    def part(self, place: Place) -> Part:
        """The known cells of a window."""
        window = place.window
        with small_cache():
            block = self.layers.read(window)
            known, columns = block.valid, {}
            if self.effort is not None:
                read = self.effort.read(window)
                known = known & read.valid
                columns["prior"] = checked_effort(read, known, self.effort)
                known = known & (columns["prior"] > 0)
        columns["y"] = np.zeros(known.shape)
        columns["y"].ravel()[place.at] = place.counts
        if self.study is not None:
            inside = self.study.cells(self.layers.grid, window)
            known = known & (inside | (columns["y"] > 0))
        X = geo("pandas").DataFrame({name: block.values[name][known] for name in self.names})
        return Part(place.number, X, {name: values[known] for name, values in columns.items()})


def small_cache() -> AbstractContextManager[Any]:
    """GDAL keeps little of what it reads: a window is read once in a pass."""
    env: AbstractContextManager[Any] = geo("rasterio").Env(GDAL_CACHEMAX=_CACHE)
    return env


# -- when it is done so ----------------------------------------------------------------------------


def whole_layers(
    settings: Settings,
    layers: LayerFiles,
    *,
    bias: str | None,
    grouped: bool,
    cluster: ClusterSettings,
    client: Any,
    tell: Callable[[str], None],
) -> WholeLayers | None:
    """How all cells are read in windows; None where a fit has its cells in memory.

    They are read in windows with ``cluster.memory``, and on a cluster, where the background is all
    cells; where that cannot be done, the first is an error and of the second it is told.
    """
    why = why_in_memory(settings, bias is not None, grouped)
    if cluster.memory is not None:
        if why is not None:
            raise ValueError(f"memory (--memory) does not go with these settings: {why}")
    elif client is None or settings.background is not None or grouped:
        return None
    elif why is not None:
        tell(f"each process that fits has all cells in memory: {why}")
        return None
    if client is None:
        assert cluster.memory is not None
        return WholeLayers(layers, bias, in_bytes(cluster.memory))
    from maxent.rows.dask.cluster import least_memory

    return WholeLayers(layers, bias, max(least_memory(client) or _UNLIMITED, _LEAST))


def why_in_memory(settings: Settings, biased: bool, grouped: bool) -> str | None:
    """Why a density cannot be fitted to cells in windows; None where it can.

    >>> why_in_memory(Settings(background=500), biased=False, grouped=False)
    'a background of 500 cells is drawn in one pass that takes little memory; give --background all'
    """
    if settings.joint:
        return "--joint fits all species over one table of places"
    if grouped:
        return (
            "the cells of records are the background (--target-group, --background-records), and "
            "they alone are read"
        )
    if settings.background is not None:
        return (
            f"a background of {settings.background} cells is drawn in one pass that takes little "
            "memory; give --background all"
        )
    if settings.preset is not None:
        return (
            f"--preset {settings.preset} makes one point of equal cells, which lie in several "
            "windows"
        )
    if settings.bias == "background" and (biased or settings.bias_kernel is not None):
        return (
            "a background of all cells cannot be drawn in proportion to effort; take it out of the "
            "density with --bias-as prior"
        )
    return None
