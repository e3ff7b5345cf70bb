"""How far a file of data may reach: formats that hold their data themselves, no network, and only
the folders that were opened.

A raster, a layer of polygons or a CRS may name other files or addresses, and GDAL and PROJ follow
them. A command reads what a user was sent, so it does not let them unless it is told to
(``--allow-vrt``, ``--network``); the app never does. In Python nothing is limited: the caller's own
session decides.

The limits are kept in the environment, so that worker processes have them too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent.species.libraries import geo

VARIABLE, FOLDERS = "MAXENT_REACH", "MAXENT_FOLDERS"

# formats of rasters whose files hold the values themselves
RASTERS = (
    *("GTiff", "COG", "AAIGrid", "GRASSASCIIGrid", "netCDF", "RRASTER", "EHdr", "ENVI", "HFA"),
    *("SAGA", "GSAG", "GSBG", "GS7BG", "NWT_GRD", "RST", "PCRaster", "DTED", "SRTMHGT"),
)
VECTORS = ("GPKG", "GeoJSON", "GeoJSONSeq", "ESRI Shapefile", "FlatGeobuf", "CSV")
# formats that lead to other files, or ask servers: GDAL would try them on the files beside a raster
# too (masks, overviews), whatever format the raster itself is opened as
_LEADING = (
    *("VRT", "OGR_VRT", "GTI", "DERIVED", "GDALG", "MRF", "KMLSUPEROVERLAY", "LIBKML", "KML"),
    *(
        "Rasterlite",
        "MBTiles",
        "PMTiles",
        "PDF",
        "HDF5",
        "HDF5Image",
        "BAG",
        "S102",
        "S104",
    ),
    *("S111", "SNAP_TIFF", "NITF", "PCIDSK", "ISIS2", "ISIS3", "PDS", "PDS4", "VICAR", "ERS"),
    *("ECRGTOC", "RPFTOC", "DIMAP", "TIL", "SENTINEL2", "SAFE", "RS2", "TSX", "COSAR", "ILWIS"),
    *("MAP", "OZI", "GenBin", "ISCE", "ROI_PAC", "SRP", "ADRG", "MFF", "MFF2", "FAST", "CEOS"),
    *(
        "SAR_CEOS",
        "DIPEx",
        "SQLite",
        "GNMFile",
        "JP2OpenJPEG",
        "GML",
        "GMLAS",
        "GeoRSS",
        "GPSBabel",
    ),
    *("OSM", "PGDUMP"),
)
_SERVERS = (
    *("HTTP", "WMS", "WMTS", "WCS", "WFS", "OAPIF", "OGCAPI", "CSW", "STACIT", "STACTA", "EEDA"),
    *("EEDAI", "DAAS", "PLMOSAIC", "PLSCENES", "NGW", "AmigoCloud", "Carto", "Elasticsearch"),
    *("ESRIJSON", "ESRIC", "ADBC", "PostgreSQL", "MySQL", "MSSQLSpatial", "ODBC", "OCI"),
)
_CLOSED = "http://127.0.0.1:9"  # nobody answers there: a request ends before it leaves the machine
_OFFLINE = {
    "PROJ_NETWORK": "OFF",
    "GDAL_HTTP_PROXY": _CLOSED,
    "GDAL_HTTPS_PROXY": _CLOSED,
    "no_proxy": "",
    "NO_PROXY": "",
    "GDAL_HTTP_MAX_RETRY": "0",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "none-is-allowed",
}
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BESIDE = {".ovr", ".msk"}  # masks and overviews, which may be rasters of any format
_OF_STORES = (".zmetadata", ".zgroup", ".zarray", "zarr.json")
_VSICURL = "/vsicurl/"
_FAR = {  # GDAL asks for the header, then for windows: nothing is looked for beside the file
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_HTTP_CONNECTTIMEOUT": "20",
    "GDAL_HTTP_TIMEOUT": "120",
}
_ADDRESS = re.compile(r"://")
# files that PROJ would read: initialisation files, grids of shifts
_FILES_OF_CRS = re.compile(
    r"\b(?:init|nadgrids|geoidgrids|grids|xy_grids|z_grids|velocity_grids)\s*=\s*\S*[/\\]"
    r"|\bPARAMETERFILE\b|\bGEOIDMODEL\b",
    re.IGNORECASE,
)


class ReachError(ValueError):
    """A file leads to others, or elsewhere, which was not allowed."""


@dataclass(frozen=True)
class Reach:
    """What is allowed: mosaics and other formats that lead to files; the network; folders.

    ``folders`` are real paths, all of them if empty.
    """

    vrt: bool = False
    network: bool = False
    folders: tuple[str, ...] = ()

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path lies in the folders, links resolved."""
        real = os.path.realpath(path)
        return not self.folders or any(
            real == folder or real.startswith(folder.rstrip(os.sep) + os.sep)
            for folder in self.folders
        )


def current() -> Reach | None:
    """The limits of this process, None without any."""
    said = os.environ.get(VARIABLE)
    if said is None:
        return None
    words, folders = said.split(), os.environ.get(FOLDERS, "")
    return Reach(
        "vrt" in words, "network" in words, tuple(folders.split(os.pathsep)) if folders else ()
    )


_own = False  # whether this process is a command's, or the app's


def own_process() -> None:
    """Say that nothing else goes on in this process, so that formats can be taken from GDAL."""
    global _own
    _own = True


@contextmanager
def limited(
    *,
    vrt: bool | None = None,
    network: bool | None = None,
    folders: Sequence[str | os.PathLike[str]] | None = None,
) -> Iterator[None]:
    """Limits for what is read inside; None keeps what there is, which at first is not allowed."""
    before = current() or Reach()
    vrt = before.vrt if vrt is None else vrt
    network = before.network if network is None else network
    within = before.folders if folders is None else [os.path.realpath(f) for f in folders]
    words = [word for word, said in (("vrt", vrt), ("network", network)) if said]
    changes = {VARIABLE: " ".join(["files", *words]), FOLDERS: os.pathsep.join(within)}
    changes |= {} if network else _OFFLINE
    if _own:  # GDAL reads it once, when it is loaded
        changes["GDAL_SKIP"] = ",".join(
            [*(() if vrt else _LEADING), *(() if network else _SERVERS)]
        )
    held = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in held.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- files -----------------------------------------------------------------------------------------


def check_inside(path: str | os.PathLike[str]) -> None:
    """Refuse a file outside the folders, and one of whose companions is a link that leads out."""
    reach = current()
    if reach is None or not reach.folders:
        return
    path = Path(path)
    links = [path]
    if path.parent.is_dir():
        with os.scandir(path.parent) as entries:
            links += [
                Path(entry.path)
                for entry in entries
                if entry.name.startswith(path.stem) and entry.is_symlink()
            ]
    for one in links:
        if not reach.holds(one):
            raise ReachError(f"{one.name}: it leads out of the folders that were opened")


def open_raster(path: str | os.PathLike[str], reader: Any = None) -> Any:
    """A raster for reading, within the limits; ``reader`` is rasterio's or one made from it."""
    name, reach = str(path), current()
    reader = reader or geo("rasterio.io").DatasetReader
    stored = name.startswith("ZARR:") or is_store(path)
    with geo("rasterio").Env(**(_FAR if _VSICURL in name else {})):
        if reach is None:
            return reader(name)
        if stored and reach.folders:
            raise ReachError(
                f"{path}: a Zarr store is a folder of files; the page opens none: write the layer "
                "as GeoTIFF, or run the command yourself"
            )
        _check_raster(Path(path), reach)
        formats = [*RASTERS, "Zarr"] if stored else list(RASTERS)
        try:
            dataset = reader(name) if reach.vrt else reader(name, driver=formats)
        except geo("rasterio").errors.RasterioIOError as error:
            if not reach.vrt and _leads(Path(path)):
                raise ReachError(f"{path}: {_refused(reach)}") from error
            raise
        try:
            _check_opened(dataset, reach)
        except ReachError:
            dataset.close()
            raise
        return dataset


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a Zarr store."""
    folder = Path(path)
    return folder.is_dir() and any((folder / name).is_file() for name in _OF_STORES)


def _refused(reach: Reach) -> str:
    said = "this file is a mosaic, or another file that leads to further files"
    if reach.folders:
        return (
            f"{said}; the page opens none: write the layer as GeoTIFF, or run the command yourself "
            "with --allow-vrt"
        )
    return f"{said}, which are opened only if you say so: --allow-vrt"


def _leads(path: Path) -> bool:
    """Whether a file is text that describes others, such as a VRT."""
    return path.suffix.lower() == ".vrt" or _start(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (
        b"<",
        b"{",
    )


def _start(path: Path, size: int = 512) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _check_raster(path: Path, reach: Reach) -> None:
    """Before it is opened: where it lies, what its companions are, what a netCDF names."""
    if not path.exists():  # a part of a file, such as netcdf:file:variable, which was checked
        return
    check_inside(path)
    if reach.vrt:
        return
    with os.scandir(path.parent) as entries:
        beside = [
            Path(entry.path)
            for entry in entries
            if entry.name.startswith(path.stem) and Path(entry.name).suffix.lower() in _BESIDE
        ]
    for one in beside:
        if _start(one, 4) not in _TIFF and not _start(one, 15).startswith(b"EHFA_HEADER_TAG"):
            raise ReachError(f"{one.name}: a mask or overview must be a GeoTIFF; take it away")
    from maxent.species.input.hdf5_links import names_others

    if names_others(path):
        raise ReachError(f"{path}: {_refused(reach)}")


def _check_opened(dataset: Any, reach: Reach) -> None:
    """Once its header is read, before its values are."""
    if not reach.vrt and dataset.tags(ns="OVERVIEWS").get("OVERVIEW_FILE"):
        raise ReachError(f"{dataset.name}: {_refused(reach)}")
    for file in dataset.files:
        if not reach.holds(file):
            raise ReachError(f"{Path(file).name}: it leads out of the folders that were opened")


_MAGIC = {".gpkg": (b"SQLite format 3\0",), ".shp": (b"\0\0\x27\x0a",)}


def check_vector(path: Path) -> None:
    """Refuse a vector file that is none of the formats that hold their shapes themselves."""
    reach = current()
    if reach is None:
        return
    check_inside(path)
    if reach.vrt:
        return
    start = _start(path)
    known = _MAGIC.get(path.suffix.lower())
    if known is None:  # GeoJSON
        fits = start.lstrip(b"\xef\xbb\xbf \t\r\n\x1e")[:1] in (b"{", b"")
    else:
        fits = start.startswith(known)
    if not fits and _leads(path):
        raise ReachError(f"{path}: {_refused(reach)}")
    driver = geo("pyogrio").read_info(path).get("driver")
    if driver not in (None, *VECTORS):
        raise ReachError(f"{path}: {_refused(reach)} (format {driver})")


def check_crs(text: str) -> None:
    """Refuse the address or the file of a CRS."""
    reach = current()
    if reach is None:
        return
    if not reach.network and _ADDRESS.search(text):
        raise ReachError(
            f"{text!r:.80} is an address, and nothing is fetched from the network unless you say "
            "so (--network); give a code such as EPSG:4326, or WKT"
        )
    if reach.folders and (_FILES_OF_CRS.search(text) or _is_file(text)):
        raise ReachError(f"{text!r:.80} names a file; give a code such as EPSG:4326, or WKT")


def _is_file(text: str) -> bool:
    try:
        return text.lstrip("@").startswith(("/", ".", "~")) or os.path.exists(text)
    except ValueError:
        return True
