"""Maps in tiles of numbers: float32 with NaN where nothing is known, coloured by the page.

Tiles are squares of cells of the raster's own grid, so that nothing is warped and a cell keeps its
value; zoom levels are rio-tiler's for images, the last one cell per pixel.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.file_access import open_raster
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.grid_facts import grid_facts
from maxent.species.libraries import geo

SIZE = 256
_OPEN = 8  # rasters kept open
_CACHE = 64 << 20  # bytes of GDAL's cache of blocks
_LOADING = threading.Lock()


def load_rio_tiler() -> Any:
    """The library, loaded by one thread: its modules need each other, two would meet halfway."""
    with _LOADING:
        import rio_tiler.errors
        import rio_tiler.io

        return rio_tiler


class Tiles:
    """Rasters that are read tile by tile; the latest few stay open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, float], Any] = OrderedDict()

    def facts(self, path: Path, band: int = 1) -> dict[str, Any]:
        """Grid, zoom levels and range of values of a raster."""
        with self._reading():
            reader = self._reader(path, band)
            data = reader.dataset
            crs = None if data.crs is None else data.crs.to_string()
            transform = tuple(float(v) for v in data.transform[:6])
            grid = Grid(crs, transform, data.width, data.height)
            few = _filled(reader.preview(max_size=SIZE, indexes=band, unscale=True))
        known = few[np.isfinite(few)]
        ends = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return {
            **grid_facts(grid),
            "zooms": int(reader.maxzoom),
            "size": SIZE,
            "low": ends[0],
            "high": ends[1],
        }

    def tile(self, path: Path, z: int, x: int, y: int, band: int = 1) -> bytes:
        """The numbers of a tile, row by row; NaN where it lies beyond the raster."""
        made = np.full((SIZE, SIZE), np.nan, dtype="<f4")
        with self._reading():
            reader = self._reader(path, band)
            if not 0 <= z <= reader.maxzoom:
                raise ValueError(f"zooms go from 0 to {reader.maxzoom}, got {z}")
            step = 1 << (reader.maxzoom - z)  # cells along a pixel
            # never beyond the raster: rasterio would read that through a VRT, which is not allowed
            for top, bottom, row, rows in _pieces(y, step, reader.height):
                for left, right, column, columns in _pieces(x, step, reader.width):
                    part = reader.part(
                        (left, bottom, right, top),
                        height=rows,
                        width=columns,
                        indexes=band,
                        unscale=True,
                        resampling_method="nearest",
                    )
                    made[row : row + rows, column : column + columns] = _filled(part)
        return made.tobytes()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, geo("rasterio").Env(GDAL_CACHEMAX=_CACHE):
            yield

    def _reader(self, path: Path, band: int) -> Any:
        rio_tiler = load_rio_tiler()
        key = (str(path), path.stat().st_mtime)
        if key not in self._open:
            # opened by the reader itself, a file would end GDAL's settings of whoever closes it
            data = open_raster(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rio_tiler.errors.NoOverviewWarning)
                self._open[key] = rio_tiler.io.ImageReader(str(path), dataset=data)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)[1].dataset.close()
        self._open.move_to_end(key)
        count = self._open[key].dataset.count
        if not 1 <= band <= count:
            raise ValueError(f"{path.name} has {count} bands, asked for number {band}")
        return self._open[key]

    def close(self) -> None:
        """Close the files."""
        with self._reading():
            while self._open:
                self._open.popitem()[1].dataset.close()


def _pieces(tile: int, step: int, cells: int) -> list[tuple[int, int, int, int]]:
    """Cells from and to, first pixel and number of pixels: whole pixels, then one cut short.

    >>> _pieces(0, 1, 90), _pieces(1, 4, 1500), _pieces(3, 1, 90)
    ([(0, 90, 0, 90)], [(1024, 1500, 0, 119)], [])
    >>> _pieces(1, 4, 1501)
    [(1024, 1500, 0, 119), (1500, 1501, 119, 1)]
    """
    start = tile * SIZE * step
    there = min(SIZE * step, cells - start)
    if tile < 0 or there <= 0:
        return []
    pixels, rest = divmod(there, step)
    end = start + pixels * step
    whole = [(start, end, 0, pixels)] if pixels else []
    return [*whole, (end, end + rest, pixels, 1)] if rest else whole


def _filled(made: Any) -> Array:
    values = np.ma.filled(made.array[0].astype(np.float32), np.nan)
    return np.where(np.abs(values) < 3e38, values, np.float32(np.nan))
