"""Arrays, dataframes and xarray objects of dask as tables in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np

from maxent.rows.blocks.engine import Blocks, MemoryBlocks
from maxent.rows.blocks.table import BlockTable, Part, cut_columns, register
from maxent.rows.dask.blocks import DaskBlocks, LazyBlocks
from maxent.rows.dask.cluster import check_package


@register(dask.array.Array)
def _(X: Any, columns: dict[str, Any]) -> BlockTable:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix (rows, features), got shape {X.shape}")
    _known(X, "X")
    X = X.rechunk({1: -1})
    lengths = X.chunks[0]
    pieces = X.to_delayed()[:, 0].tolist()
    return table_of_parts(pieces, _cut(columns, lengths), tuple(columns))


@register(dask.dataframe.DataFrame)
def _(X: Any, columns: dict[str, Any]) -> BlockTable:
    pieces = X.to_delayed()
    lengths = None
    if any(not _is_dask(given) for given in columns.values()):
        lengths = dask.compute(*map(dask.delayed(len), pieces))
    return table_of_parts(pieces, _cut(columns, lengths, len(pieces)), tuple(columns))


def _is_dask(given: Any) -> bool:
    return isinstance(given, dask.array.Array | dask.dataframe.DataFrame | dask.dataframe.Series)


def _known(array: Any, name: str) -> None:
    if any(np.isnan(n) for axis in array.chunks for n in axis):
        raise ValueError(
            f"{name} has chunks of unknown size: call {name} = {name}.compute_chunk_sizes() first, "
            "or give a dask dataframe"
        )


def _cut(
    columns: dict[str, Any], lengths: Sequence[int] | None, n_blocks: int | None = None
) -> list[dict[str, Any]]:
    """What belongs to the rows of each block, lazy where it was lazy."""
    n_blocks = len(lengths) if lengths is not None else n_blocks
    assert n_blocks is not None
    cut: list[dict[str, Any]] = [{} for _ in range(n_blocks)]
    plain = {name: given for name, given in columns.items() if not _is_dask(given)}
    if plain:
        assert lengths is not None
        cut = [dict(part) for part in cut_columns(plain, [int(n) for n in lengths])]
    for name, given in columns.items():
        if name in plain:
            continue
        if isinstance(given, dask.array.Array):
            if lengths is not None:
                _known(given, name)
                if given.shape[0] != sum(lengths):
                    raise ValueError(
                        f"{name} must have one entry per row of X, {sum(lengths)}, got "
                        f"{given.shape[0]}"
                    )
                given = given.rechunk({0: tuple(lengths)} | dict.fromkeys(range(1, given.ndim), -1))
            pieces = given.to_delayed().ravel().tolist()
        else:
            pieces = given.to_delayed()
        if len(pieces) != n_blocks:
            raise ValueError(
                f"{name} has {len(pieces)} partitions and X has {n_blocks}: give both the same"
            )
        for part, piece in zip(cut, pieces, strict=True):
            part[name] = piece
    return cut


def table_of_parts(
    pieces: Sequence[Any], columns: Sequence[dict[str, Any]], names: tuple[str, ...]
) -> BlockTable:
    """Delayed tables and what belongs to their rows, lazy or not, as one table in blocks."""
    lazy = [
        dask.delayed(_part)(number, X, part)
        for number, (X, part) in enumerate(zip(pieces, columns, strict=True))
    ]
    return BlockTable(started(lazy), names)


def _part(number: int, X: Any, columns: dict[str, Any]) -> Part:
    return Part(number, X, {name: np.asarray(values) for name, values in columns.items()})


def started(lazy: Sequence[Any]) -> Blocks:
    """Delayed blocks, for the workers of the client in use, else computed in this process."""
    client = DaskBlocks.current_client()
    if client is None:
        return MemoryBlocks(dask.compute(*lazy))
    check_package(client)
    return LazyBlocks(lazy, client)
