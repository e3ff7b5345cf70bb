"""xarray Datasets of rasters as tables in blocks: one row per cell, one column per variable."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
import numpy as np
import pandas as pd
import xarray as xr

from maxent.rows.arrays import Array
from maxent.rows.blocks.lazy import Prepare
from maxent.rows.blocks.lazy import register as register_answer
from maxent.rows.blocks.table import BlockTable, register
from maxent.rows.dask.collections import table_of_parts


@register(xr.DataArray)
def _(X: Any, columns: dict[str, Any]) -> BlockTable:
    raise _no_dataset(X)


def _no_dataset(X: Any) -> TypeError:
    return TypeError(
        f"X is a DataArray with the dimensions {', '.join(map(str, X.dims))}: give a Dataset with "
        "one variable per layer, such as X.to_dataset(dim='band')"
    )


@register(xr.Dataset)
def _(X: Any, columns: dict[str, Any]) -> BlockTable:
    layers, chunks = _layers(X)
    like = next(iter(X.data_vars.values()))
    given = {name: _on_grid(name, values, like, chunks) for name, values in columns.items()}
    pieces = [
        dask.delayed(_frame)(list(layers), list(blocks))
        for blocks in zip(*(_pieces(array) for array in layers.values()), strict=True)
    ]
    cut: list[dict[str, Any]] = [{} for _ in pieces]
    for name, array in given.items():
        for part, piece in zip(cut, _pieces(array), strict=True):
            part[name] = dask.delayed(np.ravel)(piece)
    return table_of_parts(pieces, cut, tuple(columns))


@register_answer(xr.Dataset)
def _(X: Any, prepare: Prepare) -> Any:
    layers, _ = _layers(X)
    names = list(layers)
    answer, none = prepare(pd.DataFrame(columns=names, dtype=np.float64))
    if none.ndim != 1:
        raise ValueError(
            "a raster has one number per cell, and this answer has several: ask for each by itself"
        )

    def answered(*blocks: Array) -> Array:
        return np.asarray(answer(_frame(names, blocks))).reshape(blocks[0].shape)

    ndim = next(iter(layers.values())).ndim
    meta = np.empty((0,) * ndim, none.dtype)
    like = next(iter(X.data_vars.values()))
    found = dask.array.map_blocks(answered, *layers.values(), meta=meta)
    return xr.DataArray(found, dims=like.dims, coords=like.coords)


def _layers(X: Any) -> tuple[dict[str, Any], tuple[tuple[int, ...], ...]]:
    """The variables as dask arrays of the same chunks."""
    if not X.data_vars:
        raise ValueError("X is a Dataset without variables: give one per layer")
    first, *others = X.data_vars.values()
    for other in others:
        if other.dims != first.dims:
            raise ValueError(
                f"the variables of X must have the same dimensions: {first.name!r} has "
                f"{first.dims}, {other.name!r} has {other.dims}"
            )
    arrays = [dask.array.asarray(values.data) for values in X.data_vars.values()]
    chunks = arrays[0].chunks
    names = [str(name) for name in X.data_vars]
    return dict(zip(names, (a.rechunk(chunks) for a in arrays), strict=True)), chunks


def _on_grid(name: str, values: Any, like: Any, chunks: tuple[tuple[int, ...], ...]) -> Any:
    """What belongs to the cells, in the chunks of the layers."""
    if isinstance(values, xr.DataArray):
        if set(values.dims) != set(like.dims):
            raise ValueError(f"{name} has the dimensions {values.dims}, the layers {like.dims}")
        values = values.transpose(*like.dims).data
    if np.shape(values) != like.shape:
        raise ValueError(
            f"{name} must have one entry per cell, shape {like.shape}, got {np.shape(values)}"
        )
    return dask.array.asarray(values).rechunk(chunks)


def _pieces(array: Any) -> list[Any]:
    return array.to_delayed().ravel().tolist()


def _frame(names: list[str], blocks: Any) -> Any:
    """The cells of a block, one row each."""
    return pd.DataFrame({name: np.ravel(b) for name, b in zip(names, blocks, strict=True)})
