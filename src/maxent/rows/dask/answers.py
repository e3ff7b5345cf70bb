"""Answers for the rows of dask's arrays and dataframes: lazy arrays with the same chunks."""

from __future__ import annotations

from typing import Any

import dask.array
import dask.dataframe
import numpy as np
from dask.dataframe.dispatch import make_meta

from maxent.rows.blocks.lazy import Prepare, register


@register(dask.array.Array)
def _(X: Any, prepare: Prepare) -> Any:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix (rows, features), got shape {X.shape}")
    answer, none = prepare(np.empty((0, X.shape[1]), X.dtype))
    return X.rechunk({1: -1}).map_blocks(
        answer,
        chunks=(X.chunks[0], *((size,) for size in none.shape[1:])),
        drop_axis=[] if none.ndim == 2 else 1,
        meta=none,
    )


@register(dask.dataframe.DataFrame)
def _(X: Any, prepare: Prepare) -> Any:
    answer, none = prepare(make_meta(X))
    return X.map_partitions(answer, meta=none)
