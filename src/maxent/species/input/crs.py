"""Coordinate reference systems: in degrees or not, the same or not, and from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input import file_access
from maxent.species.libraries import geo

WGS84 = "EPSG:4326"


def is_geographic(crs: str | None, bounds: Sequence[float]) -> bool:
    """Whether coordinates are degrees: by the CRS, or without one by the bounds (w, s, e, n).

    >>> is_geographic(None, (-120.0, 10.0, -60.0, 50.0)), is_geographic(None, (0.0, 0.0, 9e5, 9e5))
    (True, False)
    """
    if crs is not None:
        return bool(parsed_crs(crs).is_geographic)
    west, south, east, north = bounds
    edge = 1.0  # global grids may extend beyond by part of a cell
    return bool(
        west >= -180 - edge and east <= 360 + edge and south >= -90 - edge and north <= 90 + edge
    )


def check_crs(crs: str) -> None:
    """Refuse a text that names no CRS."""
    file_access.check_crs(crs)
    pyproj = geo("pyproj")
    try:
        pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise ValueError(
            f"crs={crs!r} (--crs) is not a known coordinate reference system; give a code such "
            "as EPSG:4326, or WKT"
        ) from error


def transformed(x: Array, y: Array, source: str, target: str) -> tuple[Array, Array]:
    """Coordinates in another system: NaN where they are missing, infinite beyond its reach."""
    transformer = geo("pyproj").Transformer.from_crs(source, target, always_xy=True)
    known = complete(x, y)
    moved = np.full((2, len(x)), np.nan)
    moved[:, known] = transformer.transform(x[known], y[known])
    return moved[0], moved[1]


def complete(x: Array, y: Array) -> Array:
    """Which records have both coordinates."""
    return ~(np.isnan(x) | np.isnan(y))


def mostly_degrees(x: Array, y: Array) -> bool:
    """Whether most records could be degrees; a few typing errors do not turn them into metres."""
    known = complete(x, y)
    inside = (x >= -180) & (x <= 360) & (y >= -90) & (y <= 90)
    return bool(known.any() and inside[known].mean() > 0.5)


def parsed_crs(crs: str) -> Any:
    """The CRS that a text names."""
    file_access.check_crs(crs)
    rasterio = geo("rasterio")
    try:
        return rasterio.crs.CRS.from_user_input(crs)
    except ValueError as error:  # such as CRSError
        raise ValueError(
            f"{crs!r} is not a coordinate reference system ({error}); give a code such as "
            "EPSG:4326, or WKT"
        ) from error


@lru_cache(maxsize=64)
def same_crs(one: str | None, other: str | None) -> bool:
    """Whether coordinates in two systems mean the same places, to about a metre.

    An unknown CRS counts as equal to any other. The same system is written in many ways (codes,
    WKT of several dialects, PROJ strings), so places all over the earth are compared.
    """
    if one is None or other is None or one == other:
        return True
    longitude, latitude = np.meshgrid(np.linspace(-177, 177, 60), np.linspace(-87, 87, 30))
    here, there = (projected(longitude, latitude, "EPSG:4326", crs) for crs in (one, other))
    close = np.isclose(here, there, rtol=1e-7, atol=1e-5)
    both = np.isfinite(here) & np.isfinite(there)
    return bool(both.any() and close[both].all())


def projected(x: Array, y: Array, source: str, target: str) -> Array:
    """Coordinates in another system, (2, ...); infinite for places beyond its reach."""
    transformer = geo("pyproj").Transformer.from_crs(
        parsed_crs(source).to_string(), parsed_crs(target).to_string(), always_xy=True
    )
    return np.array(transformer.transform(x, y))


def short_crs(crs: str | None) -> str:
    """A CRS in a word or two."""
    if crs is None:
        return "unknown"
    system = parsed_crs(crs)
    code = system.to_epsg()
    return f"EPSG:{code}" if code else system.to_wkt().split('"')[1]
