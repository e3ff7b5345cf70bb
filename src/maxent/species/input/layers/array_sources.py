"""Layers in memory: planes of xarray objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.layers.alignment import difference
from maxent.species.input.layers.dates import dated_note, dates_of
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.placement import SAME, same_grid
from maxent.species.input.layers.sources import Coding, Source, check_names
from maxent.species.libraries import geo


class _ArraySource(Source):
    """A layer in memory (or one that xarray reads when asked)."""

    def __init__(self, name: str, grid: Grid, array: Any, coding: Coding) -> None:
        self.name = self.label = name
        self.grid, self._array, self._coding = grid, array, coding

    def read(self, window: Window) -> tuple[Array, Array]:
        row, column, height, width = window
        stored = np.asarray(self._array[row : row + height, column : column + width])
        if stored.dtype.kind == "b":
            stored = stored.astype(np.uint8)
        return self._coding.values(stored), self._coding.known(stored)


def array_sources(data: Any) -> list[Source]:
    """A source for each plane of a Dataset or DataArray, all on one grid."""
    geo("rioxarray")
    if hasattr(data, "data_vars"):
        arrays = [(str(name), data[name]) for name in data.data_vars if data[name].ndim >= 2]
    elif hasattr(data, "dims"):
        arrays = [(str(data.name or "layer"), data)]
    else:
        raise ValueError(f"expected an xarray Dataset or DataArray, got {type(data).__name__}")
    sources: list[Source] = []
    for name, array in arrays:
        x = _dimension(array, ("x", "longitude", "lon"))
        y = _dimension(array, ("y", "latitude", "lat"))
        planes = [_plane(label, p, x, y) for label, p in _planes(name, array, {x, y})]
        if len(planes) > 1 and any(_are_dates(array[d]) for d in array.dims if d in array.coords):
            for plane in planes:
                plane.remark = dated_note(name, [one.name for one in planes])
        sources += planes
    if not sources:
        raise ValueError("no layer with two dimensions in the xarray object")
    check_names(sources)
    for source in sources[1:]:
        if not same_grid(source.grid, sources[0].grid):
            raise ValueError(
                f"layer {source.label!r} is not on the grid of the other layers: "
                f"{difference(source, sources[0])}. Resample it with rioxarray's "
                "rio.reproject_match"
            )
    return sources


def _plane(name: str, layer: Any, x: str, y: str) -> _ArraySource:
    """One layer, rows from the north and columns from the west."""
    if layer.dtype.kind not in "biuf":
        raise ValueError(f"xarray layer {name!r} holds {layer.dtype}; expected numbers")
    layer = layer.transpose(y, x)
    for axis, sign in ((x, 1), (y, -1)):
        ends = np.asarray(layer[axis], dtype=np.float64)[[0, -1]]
        if sign * (ends[1] - ends[0]) < 0:
            layer = layer.isel({axis: slice(None, None, -1)})
    crs = layer.rio.crs
    grid = Grid(
        None if crs is None else crs.to_string(),
        _transform(np.asarray(layer[x]), np.asarray(layer[y]), name),
        layer.sizes[x],
        layer.sizes[y],
    )
    # xarray moves these away from the attributes once it has applied them
    scale, offset = layer.attrs.get("scale_factor", 1.0), layer.attrs.get("add_offset", 0.0)
    return _ArraySource(name, grid, layer, Coding(layer.rio.nodata, scale, offset))


def _dimension(array: Any, names: Sequence[str]) -> str:
    for name in names:
        if name in array.dims:
            return name
    raise ValueError(
        f"xarray layer {array.name!r} has dimensions {', '.join(map(str, array.dims))}; expected "
        f"one of {', '.join(names)}"
    )


def _planes(name: str, array: Any, plane: set[str]) -> Iterator[tuple[str, Any]]:
    """The layers of an array, named by its third dimension where it has one."""
    others = [d for d in array.dims if d not in plane]
    if not others:
        yield name, array
        return
    if len(others) > 1:
        raise ValueError(
            f"xarray layer {name!r} has the dimensions {', '.join(map(str, others))} besides x and "
            "y; select one slice of all but one of them"
        )
    (other,) = others
    size = array.sizes[other]
    bands: list[Any] = list(range(1, size + 1))
    if other in array.coords:
        bands = list(np.asarray(array[other]))
        if _are_dates(array[other]):
            bands = [f"{name}_{date}" for date in dates_of(np.asarray(array[other]))]
    long_names = array.attrs.get("long_name", ())
    for i, band in enumerate(bands):
        if size == 1:
            label = name
        elif isinstance(long_names, tuple | list) and len(long_names) == size:
            label = str(long_names[i])
        else:
            label = band if isinstance(band, str) else f"{name}_{band}"
        yield str(label), array.isel({other: i})


def _are_dates(coordinate: Any) -> bool:
    """Whether the values are dates, of numpy or cftime."""
    values = np.asarray(coordinate)
    return values.dtype.kind == "M" or (
        values.dtype.kind == "O" and values.size > 0 and hasattr(values.flat[0], "isoformat")
    )


def _transform(x: Array, y: Array, label: str) -> tuple[float, ...]:
    if x.size < 2 or y.size < 2:
        raise ValueError(f"xarray layer {label!r} needs at least two rows and two columns")
    origin, step = [], []
    for axis in (x.astype(np.float64), y.astype(np.float64)):
        even = float(axis[-1] - axis[0]) / (axis.size - 1)
        if np.abs(np.diff(axis) - even).max() > SAME * abs(even):
            raise ValueError(f"xarray layer {label!r}: its coordinates are not evenly spaced")
        origin.append(float(axis[0]) - even / 2)
        step.append(even)
    return step[0], 0.0, origin[0], 0.0, step[1], origin[1]
