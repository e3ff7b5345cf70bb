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
        """The numbers of a tile, row by row; all NaN where it lies beyond the raster."""
        from rio_tiler.errors import TileOutsideBounds

        with self._reading():
            reader = self._reader(path, band)
            if not 0 <= z <= reader.maxzoom:
                raise ValueError(f"zooms go from 0 to {reader.maxzoom}, got {z}")
            try:
                made = reader.tile(
                    x, y, z, tilesize=SIZE, indexes=band, unscale=True, resampling_method="nearest"
                )
            except TileOutsideBounds:
                return np.full((SIZE, SIZE), np.nan, dtype="<f4").tobytes()
        return _filled(made).astype("<f4").tobytes()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, geo("rasterio").Env(GDAL_CACHEMAX=_CACHE):
            yield

    def _reader(self, path: Path, band: int) -> Any:
        from rio_tiler.errors import NoOverviewWarning
        from rio_tiler.io import ImageReader

        key = (str(path), path.stat().st_mtime)
        if key not in self._open:
            # opened by the reader itself, a file would end GDAL's settings of whoever closes it
            data = open_raster(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoOverviewWarning)
                self._open[key] = ImageReader(str(path), dataset=data)
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


def _filled(made: Any) -> Array:
    values = np.ma.filled(made.array[0].astype(np.float32), np.nan)
    return np.where(np.abs(values) < 3e38, values, np.float32(np.nan))
