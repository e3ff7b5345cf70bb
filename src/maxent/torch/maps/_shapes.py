"""Scores of any shape as contiguous rows, checked."""

from __future__ import annotations

import math

import torch
from maxent.torch.maps._plain import recording
from torch import Tensor


def checked_scores(x: Tensor, dim: int, mask: Tensor | None, name: str) -> Tensor:
    """Checked scores, with -inf where masked."""
    check_floating(x, name)
    if x.ndim == 0:
        raise ValueError(f"{name} needs at least one dimension, got a scalar; use x.reshape(1)")
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"{name}: dim {dim} of scores of shape {tuple(x.shape)}; it must lie from {-x.ndim} "
            f"to {x.ndim - 1}"
        )
    if not recording() and x.shape[dim] == 0:  # a comparison of shapes cannot be recorded
        raise ValueError(f"{name} needs something to choose from: dim {dim} has size 0")
    if mask is None:
        return x
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean (True = keep), got {mask.dtype}; use mask.bool()")
    return x.masked_fill(~mask, -math.inf)


def check_floating(x: Tensor, name: str) -> None:
    """Refuse what is no tensor of floats."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} needs a tensor, got {type(x).__name__}; use torch.as_tensor")
    if not x.is_floating_point():
        raise TypeError(f"{name} needs floating scores, got {x.dtype}; convert with x.float()")


def moved_last(x: Tensor, dim: int) -> Tensor:
    """x with a dimension moved to the end: x itself where it is there."""
    # ONNX counts dimensions from the front
    return x if dim in (-1, x.ndim - 1) else x.movedim(dim % x.ndim, x.ndim - 1)


def as_rows(moved: Tensor) -> Tensor:
    """All but the last dimension as one."""
    rows = moved if moved.ndim == 2 else moved.reshape(-1, moved.shape[-1])
    return rows.contiguous()
