"""Maps as GeoTIFFs: plain files first, then compressed, checked and moved into place together.

Missing values of float maps are NaN: unlike -9999 it is not a value of any output, and no tool
averages it by mistake.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maxent._support.interrupts import held_back
from maxent._support.native_lines import native_lines_held_back
from maxent._support.threads import sum_of_parts
from maxent.rows.arrays import Array
from maxent.species.batch import locks
from maxent.species.batch.outputs import check_unread, sync
from maxent.species.input.files import raster_parts
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.sources import FileSource
from maxent.species.libraries import geo
from maxent.species.projecting.plan import Map

_TILE = 512
_WORK = ".maxent-"  # how the folders of unfinished files begin
_LOCK, _OLD = "lock", "old"  # what is in them besides


_forked = False  # a forked process waits forever for the threads that GDAL had before


def _mark_forked() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


def targets(out: Path, maps: Iterable[str]) -> dict[str, Path]:
    """Where each map goes."""
    if out.suffix.lower() not in (".tif", ".tiff") or out.is_dir():
        return {what: out / f"{what}.tif" for what in maps}
    first, *rest = maps
    return {first: out} | {what: out.with_name(f"{out.stem}_{what}{out.suffix}") for what in rest}


def check_targets(targets: Iterable[Path], layers: Layers, overwrite: bool) -> None:
    """Refuse to write over the layers, or over earlier maps where that was not asked for."""
    files = {source.file.path for source in layers.sources if isinstance(source, FileSource)}
    read = raster_parts(sorted(files)) if files else []
    for target in targets:
        check_unread(target, read)
        if target.exists() and not overwrite:
            raise FileExistsError(
                f"{target} is there already; replace it with --overwrite (overwrite=True), or give "
                "another place"
            )


@contextmanager
def workspace(folder: Path, grid: Grid, maps: Mapping[str, Map]) -> Iterator[Path]:
    """A folder inside ``folder`` for unfinished files, which is removed whatever happens.

    Its lock tells one that is in use from one that a killed run left, which is cleared away.
    """
    with ExitStack() as stack:
        work = stack.enter_context(_workspace(folder))
        if _tight(folder, grid.size * sum(np.dtype(one.dtype).itemsize for one in maps.values())):
            stack.enter_context(native_lines_held_back())  # our one error is enough
        yield work


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    made = [f for f in (folder, *folder.parents) if not f.exists()]
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _clear_dead(folder)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
    try:
        with _writing(folder):
            lock = locks.take(work / "new.lock", str(work))
            os.replace(work / "new.lock", work / _LOCK)  # held from the moment it has its name
        try:
            yield work
        finally:
            with held_back():
                lock.release(work / _LOCK)
                shutil.rmtree(work, ignore_errors=True)
    except BaseException:  # also Ctrl-C
        with held_back():
            shutil.rmtree(work, ignore_errors=True)
            for empty in made:
                with suppress(OSError):
                    empty.rmdir()
        raise


def _clear_dead(folder: Path) -> None:
    """Clear away what killed runs left; maps that were being moved arrive after all."""
    for work in folder.glob(f"{_WORK}*"):
        if (work / _LOCK).is_file() and locks.is_free(work / _LOCK):
            if (work / _OLD).is_dir():
                for ready in (path for path in work.iterdir() if path.is_file()):
                    os.replace(ready, folder / ready.name)
            shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class Stage:
    """The files of all maps: uncompressed in ``work``, then compressed there, then in place.

    A window is a block of the uncompressed files, so that it is written at once.
    """

    grid: Grid
    maps: Mapping[str, Map]
    targets: Mapping[str, Path]
    work: Path
    block: Window
    files: dict[str, Any] = field(default_factory=dict)

    def path(self, what: str) -> Path:
        """The uncompressed file of a map."""
        return self.work / f"{what}.stage.tif"

    @contextmanager
    def open(self, tags: Mapping[str, str]) -> Iterator[None]:
        """Empty files, closed at the end."""
        rasterio = geo("rasterio")
        grid = self.grid
        tiled = self.block.width < grid.width
        layout = {"blockxsize": self.block.width} if tiled else {}
        with ExitStack() as stack:
            for what, stored in self.maps.items():
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

    def finish(self, what: str, n_cells: int, cog: bool, threads: int) -> None:
        """Compress a map and read it back: ``n_cells`` of its cells are known."""
        target, stored = self.targets[what], self.maps[what]
        with _writing(target):
            _compress(self.path(what), self.work / target.name, stored, cog, threads)
            _check(self.work / target.name, stored, self.grid, n_cells)

    def publish(self) -> None:
        """Move all maps to where they belong: new and earlier ones never stand side by side."""
        targets = list(self.targets.values())
        for target in targets:
            sync(self.work / target.name)
        old = self.work / _OLD
        old.mkdir()
        try:
            for target in (t for t in targets if t.exists()):
                with _writing(target):
                    os.replace(target, old / target.name)
            for target in targets:
                with _writing(target):
                    os.replace(self.work / target.name, target)
                    Path(f"{target}.aux.xml").unlink(missing_ok=True)  # statistics of an older map
        except BaseException:  # also Ctrl-C
            self._restore(old)
            raise
        sync(targets[0].parent)

    def _restore(self, old: Path) -> None:
        """The earlier maps where they were, the new ones gone."""
        for target in self.targets.values():
            if (old / target.name).exists():
                os.replace(old / target.name, target)
            elif not (self.work / target.name).exists():
                target.unlink(missing_ok=True)


def _compress(stage: Path, final: Path, stored: Map, cog: bool, threads: int) -> None:
    """The plain file as a compressed GeoTIFF with tiles, and with overviews for a ``cog``."""
    floats = stored.dtype.startswith("float")
    # higher levels take half as long again and save 1 %: most digits of a map are noise
    options: dict[str, Any] = {"COMPRESS": "DEFLATE", "BIGTIFF": "IF_SAFER"}
    options |= {"NUM_THREADS": 1 if _forked else threads}
    options |= {"SPARSE_OK": "TRUE"}
    if cog:
        options |= {"driver": "COG", "BLOCKSIZE": _TILE, "LEVEL": 1, "PREDICTOR": "YES"}
        options |= {"OVERVIEW_RESAMPLING": "AVERAGE" if floats else "MODE"}
    else:
        options |= {"driver": "GTiff", "TILED": "YES", "BLOCKXSIZE": _TILE, "BLOCKYSIZE": _TILE}
        options |= {"ZLEVEL": 1, "PREDICTOR": 3 if floats else 2}
    geo("rasterio.shutil").copy(stage, final, **options)
    stage.unlink()


def _check(final: Path, stored: Map, grid: Grid, n_cells: int) -> None:
    """Read the map back: GDAL does not always say that the disk was full."""

    def known(first: int, last: int) -> Array:
        count = 0
        with geo("rasterio").open(final) as file:
            for (row, _), window in file.block_windows(1):
                if first <= row < last:
                    values = file.read(1, window=window)
                    count += int(np.count_nonzero((values == values) & (values != stored.nodata)))
        return np.asarray(count)

    written = sum_of_parts(known, -(-grid.height // _TILE), _TILE * grid.width)
    if written != n_cells:
        raise OSError(f"{written} of {n_cells} cells can be read back")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Any failure as one that names the file and says what to do."""
    try:
        yield
    except Exception as error:  # the errors of GDAL have no public class in common
        reason = "no space left on the disk" if _full(path.parent) else error.__cause__ or error
        raise OSError(
            f"{path} cannot be written ({reason}): free space on the disk, or choose another "
            "folder that you may write to"
        ) from error


def _tight(folder: Path, size: int) -> bool:
    """Whether the disk may have no room for maps of so many bytes, plain and compressed."""
    with suppress(OSError):
        return shutil.disk_usage(folder).free < 3 * size + (1 << 24)
    return False


def _full(folder: Path) -> bool:
    """Whether the disk has no room for another tile; GDAL's own words may be of anything."""
    with suppress(OSError):
        return shutil.disk_usage(folder).free < _TILE**2 * 8
    return False
