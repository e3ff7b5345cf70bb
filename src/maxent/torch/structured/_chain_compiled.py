"""Chains of padded CPU tensors by the core's compiled programmes, which read them in place.

Functions of tensors free of autograd: nodes (B, T, K), transitions (K, K), (B, K, K) or
(B, T-1, K, K), lengths (B,) from 1 to T, all contiguous, in float32 or float64. Imported where
numba is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import torch
from maxent._support.threads import over_rows
from maxent.rows.arrays import Array
from maxent.structured.chain.kernels import marginals as kernels
from torch import Tensor


def padded_layout(nodes: Array, edges: Array) -> tuple[Array, Array, Array, Array, int]:
    """Where the rows of padded arrays begin, for the kernels."""
    batch, length, k = nodes.shape
    block, first = k * k, np.arange(batch)
    step = block if edges.ndim == 4 else 0
    edge_start = first * (block if edges.ndim == 3 else step * (length - 1))
    return nodes.reshape(-1), first * (length * k), edges.reshape(-1), edge_start, step


def _run(
    kernel: Callable[..., Any], nodes: Tensor, edges: Tensor, lengths: Tensor, *more: Any
) -> int:
    """A kernel over all rows; the first row that it answers with, one without a path, or -1."""
    batch, _, k = nodes.shape
    counts = lengths.numpy()
    arguments = (*padded_layout(nodes.numpy(), edges.numpy()), counts, k, *more)
    impossible: list[int] = []

    def work(start: int, stop: int) -> None:
        row = kernel(*arguments, start, stop)
        if row is not None and row >= 0:
            impossible.append(row)

    over_rows(work, batch, int(counts.mean() * k * k) if batch else 0)
    return min(impossible, default=-1)


def _room(nodes: Tensor, edges: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Zeros in the shape of points: one block of transitions per row, or one per position."""
    _, _, k = nodes.shape
    shape = edges.shape if edges.ndim == 4 else (len(nodes), k, k)
    return torch.zeros(nodes.shape, dtype=dtype), torch.zeros(shape, dtype=dtype)


def softmax(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions, marginals of states and of transitions (summed where they are tied)."""
    mean, mean_edge = _room(nodes, edges, nodes.dtype)
    value = torch.full((len(nodes),), -torch.inf, dtype=torch.float64)
    places = padded_layout(mean.numpy(), mean_edge.numpy())[:4]
    _run(kernels.softmax_rows, nodes, edges, lengths, *places, value.numpy())
    return value.to(nodes.dtype), mean, mean_edge


def covariance(
    nodes: Tensor, edges: Tensor, lengths: Tensor, v: Tensor, v_edge: Tensor
) -> tuple[Tensor, Tensor]:
    """The derivative of the marginals along v."""
    out, out_edge = _room(nodes, edges, torch.float64)
    along = padded_layout(v.double().contiguous().numpy(), v_edge.double().contiguous().numpy())
    places = padded_layout(out.numpy(), out_edge.numpy())
    _run(kernels.covariance_rows, nodes, edges, lengths, *along[:4], *places[:4])
    return out.to(nodes.dtype), out_edge.to(nodes.dtype)


def viterbi(nodes: Tensor, edges: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and best paths (B, T), 0 behind the end; scores of -inf where there is no path."""
    value = torch.full((len(nodes),), -torch.inf, dtype=torch.float64)
    paths = torch.zeros(nodes.shape[:2], dtype=torch.int64)
    _run(kernels.viterbi_rows, nodes, edges, lengths, value.numpy(), paths.numpy())
    return value.to(nodes.dtype), paths


def kbest(nodes: Tensor, edges: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores (B, k) and paths (B, k, T) of the k best paths."""
    batch, length, _ = nodes.shape
    value = torch.full((batch, k), -torch.inf, dtype=torch.float64)
    paths = torch.zeros((batch, k, length), dtype=torch.int64)
    _run(kernels.kbest_rows, nodes, edges, lengths, k, value.numpy(), paths.numpy())
    return value.to(nodes.dtype), paths


def sample(nodes: Tensor, edges: Tensor, lengths: Tensor, uniform: Tensor) -> tuple[int, Tensor]:
    """A row without a path (or -1), and paths (n, B, T) drawn by uniform numbers (n, B, T)."""
    paths = torch.zeros(uniform.shape, dtype=torch.int64)
    row = _run(kernels.sample_rows, nodes, edges, lengths, uniform.numpy(), paths.numpy())
    return row, paths


def add_paths(
    mean: Tensor, mean_edge: Tensor, paths: Tensor, lengths: Tensor, amount: float
) -> None:
    """Add a number at the states and transitions of a path in each row of a point, in place."""
    at = padded_layout(mean.numpy(), mean_edge.numpy())
    kernels.add_paths(paths.numpy(), lengths.numpy(), mean.shape[2], amount, at[4], *at[:4])
