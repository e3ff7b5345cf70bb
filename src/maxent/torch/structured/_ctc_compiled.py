"""Alignments of CTC in CPU tensors by the core's compiled programmes. Imported where numba is.

Functions of tensors free of autograd: scores (B, T, V), targets (B, S), lengths and sizes (B,).
Scores of NaN or +inf are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from maxent._support.threads import over_rows
from maxent.structured.paths.kernels import ctc as kernels
from torch import Tensor


def sums(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """Log-partitions over alignments and probabilities of labels."""
    _refuse_infinity(scores, lengths)
    scores = scores.double()
    value, mean = scores.new_empty(scores.shape[0]), torch.zeros_like(scores)
    _run(kernels.ctc_rows, (scores, targets, lengths, sizes), blank, value, mean)
    return value, mean


def loss(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The log-partitions over all sequences less those over alignments, and their gradient."""
    value, slope = scores.new_empty(scores.shape[0], dtype=torch.float64), torch.empty_like(scores)
    _run(kernels.ctc_loss_rows, (scores, targets, lengths, sizes), blank, value, slope)
    if bool(value.isnan().any()):
        _refuse_infinity(scores, lengths)
    return value, slope


def best(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The best scores and alignments (B, T)."""
    _refuse_infinity(scores, lengths)
    value = scores.new_empty(scores.shape[0])
    label = torch.zeros(scores.shape[:2], dtype=torch.int64)
    _run(kernels.ctc_best_rows, (scores, targets, lengths, sizes), blank, value, label)
    return value, label


def _refuse_infinity(scores: Tensor, lengths: Tensor) -> None:
    inside = torch.arange(scores.shape[1]) < lengths[:, None]
    if bool((inside & ~(scores.amax(2) < torch.inf)).any()):
        raise ValueError(
            "scores contain NaN or +inf; use -inf to forbid a label, finite scores otherwise"
        )


def _run(kernel: Callable[..., Any], given: tuple[Tensor, ...], blank: int, *more: Tensor) -> None:
    """A kernel over all rows."""
    _, most, _ = given[0].shape
    arrays, results = [x.numpy() for x in given], [x.numpy() for x in more]

    def work(start: int, stop: int) -> None:
        kernel(*arrays, blank, *results, start, stop)

    over_rows(work, len(given[0]), 3 * most * (2 * given[1].shape[1] + 1))
