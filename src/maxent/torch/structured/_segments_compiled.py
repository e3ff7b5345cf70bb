"""Segmentations of padded CPU tensors by the core's compiled programmes. Imported where numba is.

Functions of contiguous float64 tensors free of autograd, labels first: begins and ends (B, C, T),
reverse (B, C, K), transitions (B, C, C), lengths (B,).
"""

from __future__ import annotations

from typing import Any

import torch
from maxent._support.threads import over_rows
from maxent.structured.segments.kernels import segments as kernels
from torch import Tensor


def softmax(*scores: Tensor) -> tuple[Tensor, ...]:
    """Log-partitions and marginals, in the order of the scores."""
    value = scores[0].new_empty(len(scores[0]))
    means = tuple(torch.zeros_like(x) for x in scores[:4])
    _run(kernels.softmax_rows, scores, value, *means)
    return value, *means


def covariance(*scores_and_v: Tensor) -> tuple[Tensor, ...]:
    """The derivative of the marginals along v, which follows the scores and the lengths."""
    scores, along = scores_and_v[:5], scores_and_v[5:]
    slopes = tuple(torch.zeros_like(x) for x in along)
    _run(kernels.covariance_rows, scores, *along, *slopes)
    return slopes


def viterbi(*scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Best scores, labels of positions, 0 behind the end, and whether a segment begins there."""
    batch, _, length = scores[0].shape
    value = scores[0].new_empty(batch)
    labels = torch.zeros(batch, length, dtype=torch.int64)
    first = torch.zeros(batch, length, dtype=torch.bool)
    _run(kernels.viterbi_rows, scores, value, labels, first)
    return value, labels, first


def sample(*scores_and_uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions, and draws (n, B, T) of labels and of whether a segment begins."""
    *scores, uniform = scores_and_uniform
    value = scores[0].new_empty(len(scores[0]))
    labels = torch.zeros(uniform.shape[:3], dtype=torch.int64)
    first = torch.zeros(uniform.shape[:3], dtype=torch.bool)
    _run(kernels.sample_rows, tuple(scores), uniform, value, labels, first)
    return value, labels, first


def _run(kernel: Any, scores: tuple[Tensor, ...], *more: Tensor) -> None:
    """A kernel over all rows."""
    begins, longest = scores[0], scores[2].shape[2]
    arguments = [x.numpy() for x in (*scores, *more)]

    def work(start: int, stop: int) -> None:
        kernel(*arguments, start, stop)

    over_rows(work, len(begins), begins[0].numel() * longest if len(begins) else 0)
