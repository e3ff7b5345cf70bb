"""Sources of layers: bands of files that GDAL opens, read one window at a time, warped or not."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.file_access import is_store, open_raster
from maxent.species.input.layers.dates import dated_note, dates_of, decoded
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.placement import same_grid, shift
from maxent.species.input.layers.remote import Address, as_file, check_address, gdal_name
from maxent.species.libraries import geo

_SUFFIXES = {".tif", ".tiff", ".asc", ".grd", ".bil", ".img", ".vrt", ".nc", ".flt", ".sdat"}
_RAW = {"RRASTER", "EHdr"}  # formats without a check of their own: zeros where bytes are missing
_IDENTITY = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0)  # in the order of GDAL


@dataclass(frozen=True)
class Coding:
    """How numbers are stored: values for "not known", and value = stored * scale + offset.

    ``nodata`` is what the file states, ``missing`` are further values, see ``missing.py``.
    """

    nodata: float | None
    scale: float = 1.0
    offset: float = 0.0
    missing: tuple[float, ...] = ()

    @property
    def unknown(self) -> tuple[float, ...]:
        """All values for "not known"."""
        stated = () if self.nodata is None else (self.nodata,)
        return tuple(dict.fromkeys([*stated, *self.missing]))

    def known(self, stored: Array) -> Array:
        """Where a value is known."""
        if stored.dtype.kind == "f":
            known = np.isfinite(stored)
            for value in (v for v in self.unknown if not np.isnan(v)):
                # in single precision: text headers and other programs round the value
                with np.errstate(over="ignore"):
                    known &= stored.astype(np.float32, copy=False) != np.float32(value)
            return known
        known = np.ones(stored.shape, dtype=bool)
        for value in (v for v in self.unknown if _fits(v, stored.dtype)):
            known &= stored != stored.dtype.type(value)
        return known

    def values(self, stored: Array) -> Array:
        """The values that are meant; integers stay integers where there is nothing to do."""
        if self.scale == 1 and self.offset == 0:
            return stored
        return stored * self.scale + self.offset


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    if not np.isfinite(value) or value != int(value):
        return False
    limits = np.iinfo(dtype)
    return int(limits.min) <= value <= int(limits.max)


class Source(ABC):
    """One layer: its grid, and its values where a window lies."""

    name: str
    label: str  # what messages call it: file and band
    grid: Grid
    remark: str = ""  # what is to be said of its file

    @abstractmethod
    def read(self, window: Window) -> tuple[Array, Array]:
        """Values and where they are known, (height, width) each."""

    def block_shape(self) -> tuple[int, int]:
        """Rows and columns that are stored together."""
        return 1, self.grid.width

    def close(self) -> None:
        """Close its files."""
        return


def raster_files(sources: Any) -> list[Path | Address]:
    """The raster files among files, folders and addresses, in order."""
    if isinstance(sources, str | Path | Address):
        sources = [sources]
    if not isinstance(sources, Iterable):
        raise TypeError(
            f"expected raster files or folders of them, got {type(sources).__name__}; xarray "
            "objects go to Layers.from_xarray"
        )
    files: list[Path | Address] = []
    for source in sources:
        path = as_file(source)
        if isinstance(path, Address):
            check_address(path)
            files.append(path)
        elif is_store(path):
            files.append(path)
        elif path.is_dir():
            files += _folder(path)
        elif path.exists():
            files.append(path)
        else:
            raise FileNotFoundError(f"{path}: no such file; give raster files or folders of them")
    if not files:
        raise ValueError("no layers given: name raster files or a folder of them")
    return list(dict.fromkeys(files))


def _folder(path: Path) -> list[Path]:
    inside = sorted(
        p
        for p in path.iterdir()
        if not p.name.startswith(".")
        and ((p.suffix.lower() in _SUFFIXES and p.is_file()) or is_store(p))
    )
    if not inside:
        raise ValueError(
            f"{path}: no raster in this folder; expected files ending in "
            f"{', '.join(sorted(_SUFFIXES))}, or Zarr stores"
        )
    return inside


@dataclass(frozen=True)
class _Warp:
    """The way to another grid: what :class:`rasterio.vrt.WarpedVRT` is told."""

    grid: Grid
    source_crs: str | None
    resampling: str
    source_nodata: float | None  # None: what the file states
    source_transform: tuple[float, ...] | None  # None: what the file states

    def warped(self, dataset: Any) -> Any:
        rasterio = geo("rasterio")
        # floats hold every integer of up to 16 bits in 4 bytes, and NaN marks what is beyond
        wide = any(np.dtype(t).itemsize > 2 and t != "float32" for t in dataset.dtypes)
        stated: dict[str, Any] = {}
        if self.source_nodata is not None:
            stated["src_nodata"] = self.source_nodata
        if self.source_transform is not None:
            stated["src_transform"] = rasterio.Affine(*self.source_transform)
        return geo("rasterio.vrt").WarpedVRT(
            dataset,
            **stated,
            src_crs=self.source_crs,
            crs=self.grid.crs,
            transform=rasterio.Affine(*self.grid.transform),
            width=self.grid.width,
            height=self.grid.height,
            resampling=rasterio.enums.Resampling[self.resampling],
            dtype="float64" if wide else "float32",
            nodata=float("nan"),
            UNIFIED_SRC_NODATA="NO",  # else nodata of one band alone is mixed into its values
        )


class _File:
    """A raster file, opened once in every thread that reads it: as it is, or warped."""

    def __init__(self, path: str, warp: _Warp | None = None) -> None:
        self.path, self.warp = path, warp
        self._local = threading.local()
        self._open: list[Any] = []
        self._lock = threading.Lock()
        self._warped: dict[_Warp, _File] = {}

    def __reduce__(self) -> Any:
        """Another process opens it anew."""
        return _File, (self.path, self.warp)

    def warped(self, warp: _Warp) -> _File:
        """The file on another grid, the same for all of its bands."""
        return self._warped.setdefault(warp, _File(self.path, warp))

    def dataset(self) -> Any:
        """The one of this thread: those of GDAL must not be shared."""
        if getattr(self._local, "dataset", None) is None:
            dataset = open_raster(self.path)
            with self._lock:
                self._open.append(dataset)
            if self.warp is not None:
                dataset = self.warp.warped(dataset)
                with self._lock:
                    self._open.append(dataset)
            self._local.dataset = dataset
        return self._local.dataset

    def close(self) -> None:
        with self._lock:
            for dataset in reversed(self._open):  # a warped one before its source
                dataset.close()
            self._open.clear()
            self._local = threading.local()


@dataclass(eq=False)
class FileSource(Source):
    """A band of a file."""

    name: str
    label: str
    grid: Grid
    file: _File
    band: int
    dtype: np.dtype[Any]  # of the values that are read
    coding: Coding
    masked: bool  # the file holds a mask beside its values
    shift: tuple[int, int] = (0, 0)  # of the grid in the file, rows and columns
    remark: str = ""
    around: int = 0  # columns of a file that begins again after its last one
    turned: bool = False  # the grid lies a turn around the earth from where the file says

    def read(self, window: Window) -> tuple[Array, Array]:
        """Values and where they are known."""
        stored, known = self.stored(window)
        if stored.dtype.kind == "f" and self.dtype.kind != "f":  # integers that were warped
            stored = np.where(known, stored, 0).astype(self.dtype)
        return self.coding.values(stored), known

    def stored(self, window: Window) -> tuple[Array, Array]:
        """Numbers as they are in the file (or warped), and where a value is known."""
        row, column = window.row + self.shift[0], window.column + self.shift[1]
        height, width = window.height, window.width
        left = self.around - column % self.around if self.around else width
        if left >= width:
            return self._stored(row, column % self.around if self.around else column, height, width)
        parts = [
            self._stored(row, self.around - left, height, left),
            self._stored(row, 0, height, width - left),
        ]
        stored, known = (np.concatenate(both, axis=1) for both in zip(*parts, strict=True))
        return stored, known

    def _stored(self, row: int, column: int, height: int, width: int) -> tuple[Array, Array]:
        """Of a window of the file."""
        rasterio = geo("rasterio")
        where = rasterio.windows.Window(column, row, width, height)
        try:
            dataset = self.file.dataset()
            stored = dataset.read(self.band, window=where)
            mask = dataset.read_masks(self.band, window=where) if self.masked else None
        except (rasterio.errors.RasterioError, rasterio._err.CPLE_BaseError) as error:
            raise OSError(
                f"{self.label}: rows {row} to {row + height - 1} cannot be read "
                f"({_reason(error)}); the file seems cut short or damaged: copy or download it "
                "again"
            ) from error
        known = self.coding.known(stored)
        if mask is not None:
            known &= mask > 0
        return stored, known

    def on(self, grid: Grid, resampling: str) -> FileSource:
        """The same layer on another grid; read as it is where the cells are the same ones."""
        if same_grid(self.grid, grid):
            return self
        moved = shift(self.grid, grid)
        if moved is not None:
            rows, columns = np.add(self.shift, moved).tolist()
            return replace(self, grid=grid, shift=(rows, columns))
        if self.around:
            raise ValueError(
                f"{self.label} reaches around the earth and begins elsewhere than the other layers,"
                f" and its cells are not theirs ({self.grid.describe()} in their order, expected "
                f"{grid.describe()}): write it on their grid first, with "
                f"gdalwarp --config CENTER_LONG {sum(grid.bounds[::2]) / 2:g}"
            )
        warp = _Warp(
            grid,
            self.grid.crs or grid.crs,
            resampling,
            self._only_unknown(),
            self.grid.transform if self.turned else None,
        )
        return replace(
            self,
            grid=grid,
            file=self.file.warped(warp),
            dtype=self.dtype if resampling == "nearest" else np.dtype(np.float64),
            coding=replace(self.coding, nodata=None, missing=()),
            masked=False,
        )

    def _only_unknown(self) -> float | None:
        """The value of "not known" that the file does not state; GDAL warps with one at most."""
        unknown = self.coding.unknown
        if unknown[1:]:
            values = " and ".join(f"{value:g}" for value in unknown)
            raise ValueError(
                f"{self.label}: {values} mean no data, and a layer on another grid can be "
                "resampled with one such value only; write the file again with one, or on the same "
                "grid"
            )
        return self.coding.missing[0] if self.coding.missing else None

    @property
    def is_resampled(self) -> bool:
        """Whether the values differ from those in the file."""
        return self.file.warp is not None

    def block_shape(self) -> tuple[int, int]:
        """Rows and columns that the file stores together."""
        rows, columns = self.file.dataset().block_shapes[self.band - 1]
        return int(rows), int(columns)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _reason(error: BaseException) -> str:
    """What GDAL said first."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def bands_of(path: Path | Address, crs: str | None) -> list[FileSource]:
    """The layers of a file."""
    place = gdal_name(path) if isinstance(path, Address) else str(path)
    label = str(path)
    with _opened(place, label) as dataset:
        store = dataset.driver == "Zarr"
        inside = list(dataset.subdatasets) if dataset.count == 0 or store else []
        if not inside:
            return _layers_of(dataset, place, path.stem, label, crs)
    layers = []
    for part in inside:  # variables of a NetCDF, arrays of a Zarr store
        name = part.rsplit(":", 1)[-1].strip("/")
        if store:  # GDAL itself does not quote the address of a store
            file = place.removeprefix("ZARR:").strip('"')
            part = f'ZARR:"{file}":/{name}'
        with _opened(part, f"{label}, {name}") as dataset:
            if store and (min(dataset.shape) < 2 or not dataset.count):  # an axis
                continue
            layers += _layers_of(dataset, part, name, f"{label}, {name}", crs)
    return layers


def _opened(path: str | Path, label: str | Path) -> Any:
    rasterio = geo("rasterio")
    try:
        return open_raster(path, _reader())
    except rasterio.errors.RasterioError as error:
        raise OSError(
            f"{label}: not a raster that can be read ({_reason(error)}); give GeoTIFF, .asc, .grd "
            "or another format of GDAL, or download the file again if it is damaged"
        ) from error


@cache
def _reader() -> Any:
    """rasterio's reader, which does not warn that a file of other files has no transform.

    It does warn where a raster has none; such a file is then refused.
    """

    base = geo("rasterio.io").DatasetReader

    def read_transform(self: Any) -> Any:
        return base.read_transform(self) if self.count else _IDENTITY

    return type("Reader", (base,), {"read_transform": read_transform})


def _layers_of(
    dataset: Any, path: str, stem: str, label: str | Path, crs: str | None
) -> list[FileSource]:
    enums = geo("rasterio").enums
    if dataset.transform.is_identity:
        raise ValueError(
            f"{label}: the file does not say where its cells lie (no geotransform); write it "
            "again with its extent"
        )
    if dataset.driver in _RAW:
        _check_length(dataset, label)
    known = crs if dataset.crs is None else dataset.crs.to_string()
    transform = tuple(float(v) for v in dataset.transform[:6])
    grid = Grid(known, transform, dataset.width, dataset.height)
    file = _File(path)
    bands = [b for b in dataset.indexes if dataset.colorinterp[b - 1] != enums.ColorInterp.alpha]
    dates, remark = _dates(dataset, bands, stem, label)
    sources = []
    for band in bands:
        i = band - 1
        described = (dataset.descriptions[i] or "").strip()
        alone = len(bands) == 1
        sources.append(
            FileSource(
                stem if alone else described or dates.get(band) or f"{stem}_{band}",
                str(label) if alone else f"{label}, band {band}",
                grid,
                file,
                band,
                np.dtype(dataset.dtypes[i]),
                Coding(dataset.nodatavals[i], dataset.scales[i], dataset.offsets[i]),
                masked=enums.MaskFlags.per_dataset in dataset.mask_flag_enums[i],
                remark=remark,
            )
        )
    return sources


def _dates(
    dataset: Any, bands: Sequence[int], stem: str, label: str | Path
) -> tuple[dict[int, str], str]:
    """Names that carry the dates of a NetCDF with a dimension of time, and what is said of them."""
    if dataset.driver == "Zarr":
        return _dates_of_store(dataset, bands, stem, label)
    about = dataset.tags()
    others = [name for name in about.get("NETCDF_DIM_EXTRA", "").strip("{}").split(",") if name]
    times = [name for name in others if " since " in about.get(f"{name}#units", "")]
    if not times or len(bands) < 2:
        return {}, ""
    (time, *_), keys = times, [f"NETCDF_DIM_{name}" for name in others]
    at = {band: dataset.tags(band) for band in bands}
    if not all(key in tags for tags in at.values() for key in keys):
        return {}, ""
    units, calendar = about[f"{time}#units"], about.get(f"{time}#calendar", "standard")
    numbers = [float(tags[f"NETCDF_DIM_{time}"]) for tags in at.values()]
    dates = decoded(numbers, units, calendar)
    if dates is None:
        return {}, (
            f"{label}: its times ({units}, calendar {calendar}) could not be read as dates, so "
            f"layers are numbered, {stem}_{bands[0]} to {stem}_{bands[-1]}; calendars of climate "
            "models need `pip install cftime`"
        )
    rest = [key for key, name in zip(keys, others, strict=True) if name != time]
    names = {
        band: "_".join([stem, date, *(tags[key] for key in rest)])
        for (band, tags), date in zip(at.items(), dates_of(dates), strict=True)
    }
    return names, dated_note(label, list(names.values()))


def _dates_of_store(
    dataset: Any, bands: Sequence[int], stem: str, label: str | Path
) -> tuple[dict[int, str], str]:
    """The same of an array of a Zarr store, whose bands say their time by themselves."""
    tags = [dataset.tags(band) for band in bands]
    told = [
        name.removeprefix("DIM_").removesuffix("_UNIT")
        for name, unit in tags[0].items()
        if name.startswith("DIM_") and name.endswith("_UNIT") and " since " in unit
    ]
    if not told or len(bands) < 2:
        return {}, ""
    (time, *_), units = told, tags[0][f"DIM_{told[0]}_UNIT"]
    numbers = [float(tag[f"DIM_{time}_VALUE"]) for tag in tags]
    dates = decoded(numbers, units, _calendar(dataset.name, time))
    if dates is None:
        return {}, (
            f"{label}: its times ({units}) could not be read as dates, so layers are numbered; "
            "calendars of climate models need `pip install cftime`"
        )
    names = [f"{stem}_{date}" for date in dates_of(dates)]
    return dict(zip(bands, names, strict=True)), dated_note(label, names)


def _calendar(array: str, axis: str) -> str:
    """What the axis of an array says of its calendar."""
    store = array.rpartition(":")[0]
    with open_raster(f"{store}:/{axis}", _reader()) as about:
        return str(about.tags().get("calendar", "standard"))


def _check_length(dataset: Any, label: str | Path) -> None:
    bits = [
        int(dataset.tags(band, ns="IMAGE_STRUCTURE").get("NBITS", 8 * np.dtype(dtype).itemsize))
        for band, dtype in zip(dataset.indexes, dataset.dtypes, strict=True)
    ]
    expected = dataset.width * dataset.height * sum(bits) // 8
    size = max(Path(file).stat().st_size for file in dataset.files)  # headers are small
    if size < expected:
        raise OSError(
            f"{label}: the file is cut short, {size} bytes of {expected}; copy or download it again"
        )


def check_names(sources: Sequence[Source]) -> None:
    """Refuse two layers with one name."""
    seen: dict[str, Source] = {}
    for source in sources:
        if source.name in seen:
            raise ValueError(
                f"two layers are called {source.name!r}: {seen[source.name].label} and "
                f"{source.label}; rename one"
            )
        seen[source.name] = source


def picked(sources: Sequence[FileSource], only: Sequence[str]) -> list[FileSource]:
    """The sources of these names, in this order."""
    names = {s.name for s in sources}
    lacking = [name for name in only if name not in names]
    if lacking:
        raise ValueError(
            f"no layer {', '.join(map(repr, lacking))} among {', '.join(sorted(names))}: layers "
            "are known by their file name (or band description); rename the files to match the "
            "model"
        )
    return [s for name in only for s in sources if s.name == name]


def left(sources: Sequence[FileSource], without: Sequence[str]) -> list[FileSource]:
    """The sources of other names."""
    names = [s.name for s in sources]
    lacking = [name for name in without if name not in names]
    if lacking:
        raise ValueError(
            f"no layer {lacking[0]!r} to leave out (without=, --without); there are "
            f"{', '.join(names)}"
        )
    rest = [s for s in sources if s.name not in without]
    if not rest:
        raise ValueError("every layer is left out (without=, --without); keep some")
    return rest
