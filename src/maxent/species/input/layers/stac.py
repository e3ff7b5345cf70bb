"""STAC: layers from a JSON file of an item, of several, or of a collection.

An asset that is a raster is a layer, by its key; of several items it is one at the time of each.
SpatioTemporal Asset Catalogs, https://stacspec.org.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.request import urlopen

from maxent.species.input.file_access import check_inside
from maxent.species.input.layers.naming import Named
from maxent.species.input.layers.remote import Address, as_file, check_address, is_address
from maxent.species.input.times.spans import Span, read_date

_RASTERS = ("tif", "zarr", "netcdf", "geotiff")  # in a media type or the ending of an address
_NOT_DATA = {"thumbnail", "overview", "metadata"}  # roles of assets that are no layers
_LARGEST = 32 << 20  # bytes of a file of JSON
_SECONDS = 60


def is_stac(path: object) -> bool:
    """Whether layers are named by a JSON file."""
    return as_file(path).suffix.lower() in (".json", ".geojson")


def stac_layers(path: object) -> list[Named]:
    """The layers of a file of STAC, each with its file, its band and its time in its name."""
    found: list[tuple[str, Span | None, Named]] = []
    for where, item in _items(as_file(path)):
        span = _time(item, where)
        found += [(name, span, named) for name, named in _assets(item, where)]
    if not found:
        raise ValueError(
            f"{path}: no asset that is a raster in this STAC file; expected items with assets of "
            "GeoTIFF, netCDF or Zarr"
        )
    names = [name for name, _, _ in found]
    layers = []
    for name, span, named in found:
        if names.count(name) > 1 and span is None:
            raise ValueError(
                f"{path}: the asset {name!r} is there several times, and {named.path} has no "
                "datetime to tell them apart"
            )
        full = f"{name}_{_as_name(span)}" if names.count(name) > 1 and span is not None else name
        layers.append(Named(full, named.path, named.band))
    seen: dict[str, str] = {}
    for one in layers:
        if one.name in seen:
            raise ValueError(
                f"{path}: {one.name} is there twice, {seen[one.name]} and {one.path}: tiles of one "
                "time are not put together; build a mosaic of them, or name one tile"
            )
        seen[one.name] = one.path
    return layers


def _as_name(span: Span) -> str:
    """As the time at the end of a name is read again."""
    first, last = span.ends
    if len(first) == 4 or first == last:
        return span.label
    return Span(round(span.middle), round(span.middle) + 1).label


def _read(file: Path | Address) -> dict[str, Any]:
    if isinstance(file, Address):
        check_address(file)
        try:
            with urlopen(str(file), timeout=_SECONDS) as answer:  # an address of the web, checked
                text = answer.read(_LARGEST + 1)
        except OSError as error:
            raise OSError(f"{file}: cannot be fetched ({error})") from error
    else:
        check_inside(file)
        with open(file, "rb") as opened:
            text = opened.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"{file}: more than {_LARGEST >> 20} MB of JSON; give fewer items")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file}: not JSON that can be read ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{file}: expected a STAC item or collection, got {type(value).__name__}")
    return value


def _items(file: Path | Address) -> Iterator[tuple[Path | Address, dict[str, Any]]]:
    """The items of a file, and where each is, from which its paths go on."""
    value = _read(file)
    kind = value.get("type")
    if kind == "Feature":
        yield file, value
    elif kind == "FeatureCollection":
        for item in value.get("features", ()):
            own = [link["href"] for link in item.get("links", ()) if link.get("rel") == "self"]
            href = own[0] if own else ""
            yield (as_file(href) if is_address(href) else file), item
    elif kind in ("Collection", "Catalog"):
        links = [link for link in value.get("links", ()) if link.get("rel") == "item"]
        if not links:
            if value.get("assets"):
                yield file, value
                return
            raise ValueError(
                f"{file}: a STAC {kind.lower()} without items of its own; save the items you need "
                "as an ItemCollection (of a search) and give that file"
            )
        for link in links:
            where = as_file(_joined(file, link["href"]))
            yield where, _read(where)
    else:
        raise ValueError(
            f"{file}: expected a STAC item, ItemCollection or Collection, got type {kind!r}"
        )


def _joined(file: Path | Address, href: str) -> str:
    """A link as it is meant from a file."""
    if is_address(href):
        return href
    if isinstance(file, Address):
        return urljoin(str(file), href)
    return str(file.parent / href)


def _time(item: dict[str, Any], where: object) -> Span | None:
    about = item.get("properties") or {}
    texts = [about.get(name) for name in ("start_datetime", "end_datetime")]
    if not all(texts):
        texts = [about.get("datetime")] * 2
    if not all(texts):
        return None
    first, last = (read_date(str(text)) for text in texts)
    if first is None or last is None:
        raise ValueError(f"{where}: {texts[0]!r} is no datetime that can be read")
    return first.to(last)


def _assets(item: dict[str, Any], where: Path | Address) -> Iterator[tuple[str, Named]]:
    """Names and files of the assets that are rasters; those of several bands, band by band."""
    for key, asset in (item.get("assets") or {}).items():
        href, roles = asset.get("href", ""), set(asset.get("roles") or ())
        kind = str(asset.get("type") or as_file(href).suffix).lower()
        if roles & _NOT_DATA or not any(word in kind for word in _RASTERS):
            continue
        file = _joined(where, href)
        bands = asset.get("bands") or asset.get("eo:bands") or asset.get("raster:bands") or ()
        if len(bands) < 2:
            yield key, Named(key, file)
            continue
        for number, band in enumerate(bands, 1):
            name = f"{key}_{band.get('name') or number}"
            yield name, Named(name, file, str(number))
