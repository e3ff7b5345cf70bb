"""Scores of a few classes of each row, in operations of torch."""

from __future__ import annotations

import math

import torch
from maxent.torch.maps._dispatch import compute_type
from maxent.torch.maps.scaling import Scaling
from torch import Tensor


def scores_at(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor, scaling: Scaling
) -> Tensor:
    """Scores (rows, width) of the classes ``index``; NaN where there is none."""
    dtype = compute_type(hidden)
    right = (index >= 0) & (index < len(weight))
    at = index.clamp(0, len(weight) - 1)
    scores = torch.einsum("nd,ntd->nt", hidden.to(dtype), weight[at].to(dtype))
    if bias is not None:
        scores = scores + bias.to(dtype)[at]
    return scaling.apply(scores).masked_fill(~right, math.nan)
