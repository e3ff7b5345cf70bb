"""Written maps on one grid, read window by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.crs import short_crs
from maxent.species.input.file_access import open_raster
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.placement import same_grid
from maxent.species.libraries import geo

_CELLS = 1 << 20  # of a window


@dataclass(frozen=True, eq=False)
class MapStack:
    """Maps of the same cells; ``files`` are open rasters by name."""

    grid: Grid
    files: Mapping[str, Any]

    @classmethod
    @contextmanager
    def open(cls, paths: Mapping[str, Path]) -> Iterator[MapStack]:
        """The maps, which must be on one grid."""
        rasterio = geo("rasterio")
        with ExitStack() as stack:
            files: dict[str, Any] = {}
            for name, path in paths.items():
                if not Path(path).is_file():
                    raise FileNotFoundError(f"{path}: no such map; give a GeoTIFF of `maxent fit`")
                try:
                    files[name] = stack.enter_context(open_raster(path))
                except rasterio.errors.RasterioIOError as error:
                    raise ValueError(f"{path} is no raster that can be read ({error})") from error
                if files[name].count != 1:
                    raise ValueError(
                        f"{path} has {files[name].count} bands; a map of suitability has one"
                    )
            grids = {name: _grid(file) for name, file in files.items()}
            first, *others = grids
            for name in others:
                if not same_grid(grids[first], grids[name]):
                    raise ValueError(
                        f"{paths[name]} is on another grid than {paths[first]}: "
                        f"{_said(grids[name])} against {_said(grids[first])}; "
                        "project the model to layers on one grid, see --align"
                    )
            yield cls(grids[first], files)

    def windows(self) -> list[Window]:
        """Full rows, a few at a time."""
        height = max(1, _CELLS // self.grid.width)
        return [
            Window(row, 0, min(height, self.grid.height - row), self.grid.width)
            for row in range(0, self.grid.height, height)
        ]

    def read(self, name: str, window: Window) -> Array:
        """Values of a map, NaN where nothing is known; floats in the precision of the file."""
        row, column, height, width = window
        where = geo("rasterio").windows.Window(column, row, width, height)
        values = self.files[name].read(1, window=where, masked=True)
        kept = values.dtype if values.dtype.kind == "f" else np.float64
        return np.ma.filled(values.astype(kept), np.nan)


def _grid(file: Any) -> Grid:
    crs = None if file.crs is None else file.crs.to_wkt()
    return Grid(crs, tuple(file.transform)[:6], file.width, file.height)


def _said(grid: Grid) -> str:
    return f"{grid.describe()} in {short_crs(grid.crs)}"


def on_one_grid(one: Path, other: Path) -> bool:
    """Whether two maps are of the same cells."""
    with open_raster(one) as first, open_raster(other) as second:
        return same_grid(_grid(first), _grid(second))
