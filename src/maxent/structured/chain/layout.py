"""Where the scores and points of chains lie in memory, for the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxent.rows.arrays import Array, Ragged, Rows, Tied


class Layout(NamedTuple):
    """The first five arguments of every kernel of chains; see ``kernels.marginals``."""

    nodes: Array
    node_start: Array
    edges: Array
    edge_start: Array
    step: int


def layout(x: Rows, lengths: Array, n_states: int) -> Layout:
    """The layout of a batch of rows whose sequences have these lengths."""
    block = n_states * n_states
    if isinstance(x, Tied):
        edge_start = np.arange(len(x)) * block if len(x.tied) == len(x) else np.zeros(len(x), int)
        return Layout(x.own.values, x.own.offsets[:-1], x.tied.reshape(-1), edge_start, 0)
    if isinstance(x, Ragged):
        values, start = x.values, x.offsets[:-1]
    else:
        values, start = x.reshape(-1), np.arange(len(x)) * x.shape[1]
    return Layout(values, start, values, start + lengths * n_states, block)


def empty_like(x: Rows, dtype: type | np.dtype | None = None) -> Rows:
    """Room for points with the rows of a batch; a tied block per row, whatever the scores have."""
    dtype = x.dtype if dtype is None else dtype
    if isinstance(x, Tied):
        own = Ragged(np.empty(x.own.values.size, dtype), x.own.offsets)
        return Tied(own, np.empty((len(x), x.tied.shape[1]), dtype))
    if isinstance(x, Ragged):
        return Ragged(np.empty(x.values.size, dtype), x.offsets)
    return np.empty(x.shape, dtype)
