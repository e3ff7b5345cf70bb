"""Layers: environmental rasters on one grid, read one window at a time.

Files are opened by GDAL (GeoTIFF, .asc, .grd, .bil, .img, NetCDF ...); layers on other grids are
resampled on the fly where a rule says so, and refused by name otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from maxent._support.limits import ON_DISK, check_cells
from maxent.rows.arrays import Array
from maxent.species.input.crs import parsed_crs
from maxent.species.input.layers.alignment import (
    ALIGN,
    resamplings,
    share_crs,
    target_grid,
    with_crs,
)
from maxent.species.input.layers.array_sources import array_sources
from maxent.species.input.layers.grid import OUTSIDE, Grid, Window
from maxent.species.input.layers.missing import with_missing
from maxent.species.input.layers.naming import Named, files_of, renamed
from maxent.species.input.layers.places import PLACE, PlaceSource
from maxent.species.input.layers.sources import (
    FileSource,
    Source,
    bands_of,
    check_names,
    left,
    picked,
    raster_files,
)
from maxent.species.input.layers.stac import is_stac, stac_layers
from maxent.species.input.layers.turning import turned
from maxent.species.libraries import geo

_WINDOW_CELLS = 1 << 19
_LOOKUP_CELLS = 1 << 16  # for scattered cells, as larger windows decode more that nobody asked for


@dataclass(frozen=True, eq=False)
class Block:
    """The values of all layers in a window, (height, width) each, and where all are known.

    Attributes
    ----------
    window : Window
        The window.
    values : dict of array (height, width)
        Values of each layer, by its name.
    valid : array (height, width)
        Where all are known.
    """

    window: Window
    values: dict[str, Array]
    valid: Array

    def frame(self, where: Array | None = None) -> Any:
        """The cells of ``where`` (default: all valid ones) as a table, one column per layer."""
        pandas = geo("pandas")
        where = self.valid if where is None else where
        return pandas.DataFrame({name: layer[where] for name, layer in self.values.items()})


def bands_given(
    sources: Any,
    *,
    crs: str | None = None,
    named: Sequence[Named] = (),
    without: Sequence[str] = (),
) -> list[FileSource]:
    """The bands of files and folders as they are, on whatever grids; see :meth:`Layers.open`."""
    crs = None if crs is None else parsed_crs(crs).to_string()
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        named = [*named, *(one for path in sources if is_stac(path) for one in stac_layers(path))]
        sources = [path for path in sources if not is_stac(path)]
    given = [] if named and not sources else raster_files(sources)
    bands = [
        band
        for path in files_of(given, named)
        for band in renamed(bands_of(path, crs), path, named)
    ]
    return left(bands, without) if without else bands


class Layers:
    """Environmental layers on one grid.

    Open files with :meth:`open`, xarray objects with :meth:`from_xarray`; ``with`` closes them.

    Parameters
    ----------
    sources : sequence of Source
        One per layer.
    categorical : iterable of str, default ()
        Names of the layers that hold categories.
    notes : sequence of str, default ()
        What was assumed or resampled, for the user to read.

    Attributes
    ----------
    grid : Grid
        Grid of all layers.
    names : tuple of str
        Names of the layers.
    """

    def __init__(
        self, sources: Sequence[Source], categorical: Iterable[str] = (), notes: Sequence[str] = ()
    ) -> None:
        self.sources = list(sources)
        self.grid = self.sources[0].grid
        self.names = tuple(s.name for s in self.sources)
        wanted = tuple(categorical)
        unknown = [c for c in wanted if c not in self.names]
        if unknown:
            raise ValueError(
                f"categorical layer {unknown[0]!r} is not among the layers: {', '.join(self.names)}"
            )
        self.categorical = tuple(n for n in self.names if n in wanted)
        self.notes = tuple(notes)

    @classmethod
    def open(
        cls,
        sources: Any,
        *,
        categorical: Iterable[str] = (),
        align: str = "refuse",
        like: Grid | None = None,
        resampling: str = "bilinear",
        crs: str | None = None,
        only: Sequence[str] | None = None,
        nodata: Sequence[float] | None = (),
        named: Sequence[Named] = (),
        without: Sequence[str] = (),
    ) -> Layers:
        """Open raster files.

        Parameters
        ----------
        sources : path or sequence of paths
            Files and folders of files. The only band of a file is named after the file, one of
            several by its description, or else file_1, file_2 ...
        categorical : iterable of str, default ()
            Names of the layers of categories.
        align : "refuse", "first", "finest" or "coarsest", default "refuse"
            What to do with layers on other grids: "refuse" (an error that names the file), or
            resample all to the grid of that layer, cut to what all of them cover.
        like : Grid, default None
            A grid to resample to instead.
        resampling : str, default "bilinear"
            Method of GDAL ("bilinear", "nearest", "average" ...); categories are always "nearest".
        crs : str, default None
            CRS of files that do not state theirs.
        only : sequence of str, default None
            Names of the layers to take, in this order; the others are left out.
        nodata : sequence of float or None, default ()
            Values that mean "not known" as they are stored, besides what a file states. By default
            usual ones (-9999, -3.4e38, -32768 ...) are recognised in files that state none, where
            they stand apart from all other values, and ``notes`` say so; with None every value of
            such a file is data.
        named : sequence of Named, default ()
            Layers by name, file and band; of these files no other band is taken.
        without : sequence of str, default ()
            Names of layers to leave out.
        """
        bands = bands_given(sources, crs=crs, named=named, without=without)
        if only is not None:
            bands = picked(bands, only)
        return cls.of_bands(
            bands,
            categorical=categorical,
            align=align,
            like=like,
            resampling=resampling,
            nodata=nodata,
        )

    @classmethod
    def of_bands(
        cls,
        bands: list[FileSource],
        *,
        categorical: Iterable[str] = (),
        align: str = "refuse",
        like: Grid | None = None,
        resampling: str = "bilinear",
        nodata: Sequence[float] | None = (),
    ) -> Layers:
        """Layers of bands of files, which are brought to one grid; see :meth:`open`."""
        if align not in ALIGN:
            raise ValueError(f"align must be one of {', '.join(ALIGN)}, got {align!r}")
        if resampling not in resamplings():
            raise ValueError(
                f"resampling must be one of {', '.join(resamplings())}, got {resampling!r}"
            )
        if not bands:
            raise ValueError("no layers given: the files hold none, or only= is empty")
        check_names(bands)
        notes = list(dict.fromkeys(band.remark for band in bands if band.remark))
        bands = turned(share_crs(bands, like, notes), like, notes)
        grid = target_grid(bands, align, notes) if like is None else with_crs(like, bands)
        check_cells(grid.size, f"the grid of {bands[0].label}, {grid.describe()},", ON_DISK)
        bands = with_missing(bands, nodata, notes)
        categorical = tuple(categorical)
        aligned = []
        for source in bands:
            how = "nearest" if source.name in categorical else resampling
            moved = source.on(grid, how)
            if moved.is_resampled:
                notes.append(f"{source.label} resampled ({how}) to {grid.describe()}")
            aligned.append(moved)
        return cls(aligned, categorical, notes)

    def with_places(self, names: Sequence[str]) -> Layers:
        """These layers and the coordinates of the cells, in the order of the names."""
        known: dict[str, Source] = {source.name: source for source in self.sources}
        known |= {name: PlaceSource(name, self.grid) for name in PLACE}
        return Layers([known[name] for name in names], self.categorical, self.notes)

    @classmethod
    def from_xarray(cls, data: Any, categorical: Iterable[str] = ()) -> Layers:
        """Layers of an xarray Dataset (one variable per layer) or DataArray (one band per layer).

        Coordinates x and y (or longitude and latitude) are the centres of cells; the CRS is
        rioxarray's.
        """
        sources = array_sources(data)
        return cls(sources, categorical, list(dict.fromkeys(s.remark for s in sources if s.remark)))

    def __enter__(self) -> Layers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for source in self.sources:
            source.close()

    def __repr__(self) -> str:
        return f"Layers({', '.join(self.names)}; {self.grid.describe()})"

    def select(self, names: Sequence[str]) -> Layers:
        """Some of the layers, in this order; they share the files."""
        sources = {source.name: source for source in self.sources}
        categorical = [name for name in names if name in self.categorical]
        return Layers([sources[name] for name in names], categorical, self.notes)

    def labels(self) -> dict[str, str]:
        """File and band of each layer."""
        return {s.name: s.label for s in self.sources}

    def read(self, window: Window) -> Block:
        """The values of a window."""
        values: dict[str, Array] = {}
        valid = np.ones((window.height, window.width), dtype=bool)
        for source in self.sources:
            values[source.name], known = source.read(window)
            valid &= known
        return Block(window, values, valid)

    def windows(self, cells: int = _WINDOW_CELLS) -> list[Window]:
        """Windows of at most that many cells that cover the grid, along the blocks of the files."""
        rows, columns = self._window_shape(cells)
        height, width = self.grid.height, self.grid.width
        return [
            Window(r, c, min(rows, height - r), min(columns, width - c))
            for r in range(0, height, rows)
            for c in range(0, width, columns)
        ]

    def _window_shape(self, cells: int) -> tuple[int, int]:
        """As many blocks as fit, of the file whose blocks are largest, or a part of one."""
        height, width = self.grid.height, self.grid.width
        blocks = [s.block_shape() for s in self.sources]
        columns = min(width, cells, max(c for _, c in blocks))
        rows = max(1, min(height, max(r for r, _ in blocks), cells // columns))
        columns = min(width, columns * max(1, cells // (rows * columns)))
        rows = min(height, rows * max(1, cells // (rows * columns)))
        return rows, columns

    def blocks(self, cells: int = _WINDOW_CELLS) -> Iterator[Block]:
        """The whole grid, one window at a time."""
        for window in self.windows(cells):
            yield self.read(window)

    def read_cells(self, index: Array) -> tuple[Any, Array]:
        """The values of some cells as a table, and which of them are known in every layer."""
        index = np.asarray(index, dtype=np.int64)
        outside = (index < 0) | (index >= self.grid.size)
        if outside.any():
            raise IndexError(
                f"cell {index[outside][0]} is outside the grid, {self.grid.describe()}; leave "
                "points beyond the grid out"
            )
        rows, columns = np.divmod(index, self.grid.width)
        height, width = self._window_shape(_LOOKUP_CELLS)
        window_of = rows // height * self.grid.width + columns // width
        order = np.argsort(window_of, kind="stable")
        cuts = np.flatnonzero(np.diff(window_of[order])) + 1
        parts = [part for part in np.split(order, cuts) if part.size]
        values: dict[str, list[Array]] = {name: [] for name in self.names}
        known = np.zeros(index.size, dtype=bool)
        for part in parts:
            low, west = int(rows[part].min()), int(columns[part].min())
            window = Window(
                low, west, int(rows[part].max()) - low + 1, int(columns[part].max()) - west + 1
            )
            block = self.read(window)
            where = rows[part] - low, columns[part] - west
            known[part] = block.valid[where]
            for name, layer in block.values.items():
                values[name].append(layer[where])
        back = np.argsort(order)
        table = {n: np.concatenate(v)[back] if v else np.empty(0) for n, v in values.items()}
        return geo("pandas").DataFrame(table), known

    def known_at(self, x: Array, y: Array) -> Array:
        """Which points lie on a cell that is known in every layer."""
        cell = self.grid.cells_at(x, y)
        known = cell != OUTSIDE
        known[known] = self.read_cells(cell[known])[1]
        return known

    def empty_layers(self) -> list[str]:
        """File and band of the layers without a single known value."""
        empty = []
        for source in self.sources:
            if not any(source.read(w)[1].any() for w in self.windows()):
                empty.append(source.label)
        return empty
