"""Alignments of CPU tensors by the core's compiled programmes. Imported where numba is."""

from __future__ import annotations

from typing import Any

import numpy as np

import torch
from maxent._support.threads import over_rows
from maxent.rows.arrays import Array
from maxent.structured.alignment.kernels import alignments as kernels
from torch import Tensor


def softmax(scores: Tensor, ns: Tensor, ms: Tensor, band: int) -> tuple[Tensor, Tensor]:
    """Log-partitions and marginals; -inf where there is no alignment."""
    value = np.full(len(scores), -np.inf)
    packed = _Packed(scores, ns, ms)
    mean = np.empty_like(packed.values)
    packed.run(kernels.softmax_rows, band, mean, value)
    return torch.from_numpy(value).to(scores.dtype), packed.spread(mean)


def covariance(scores: Tensor, ns: Tensor, ms: Tensor, band: int, v: Tensor) -> Tensor:
    """The derivative of the marginals along v."""
    packed = _Packed(scores, ns, ms)
    along = _Packed(v.double().contiguous(), ns, ms).values
    out = np.empty(along.size)
    packed.run(kernels.covariance_rows, band, along, out)
    return packed.spread(out)


def soft_dtw(
    x: Tensor, y: Tensor, ns: Tensor, ms: Tensor, band: int, sharpness: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions of -sharpness |x_i - y_j|^2, and the gradients of minus it in x and y."""
    value = np.full(len(x), np.nan)
    slopes = [np.zeros(sequence.shape) for sequence in (x, y)]
    arguments = [sequence.contiguous().numpy() for sequence in (x, y, ns, ms)]
    kernel: Any = kernels.soft_dtw_rows

    def work(start: int, stop: int) -> None:
        kernel(*arguments, band, sharpness, value, *slopes, start, stop)

    over_rows(work, len(x), x.shape[1] * y.shape[1])
    d_x, d_y = (torch.from_numpy(slope).to(x.dtype) for slope in slopes)
    return torch.from_numpy(value).to(x.dtype), d_x, d_y


class _Packed:
    """Padded scores as one vector of rows of n m entries, in place where nothing is padded."""

    def __init__(self, scores: Tensor, ns: Tensor, ms: Tensor) -> None:
        self.template = scores
        array, self.ns, self.ms = scores.numpy(), ns.numpy(), ms.numpy()
        _, n, m = array.shape
        self.full = bool((self.ns == n).all() and (self.ms == m).all())
        if self.full:
            self.values = array.reshape(-1)
        else:
            corners = [x[:a, :b].ravel() for x, a, b in zip(array, self.ns, self.ms, strict=True)]
            self.values = np.concatenate([np.empty(0, array.dtype), *corners])
        ends = np.cumsum(self.ns * self.ms)
        self.starts = ends - self.ns * self.ms

    def run(self, kernel: Any, band: int, *more: Array) -> None:
        """A kernel over all rows."""
        rows = len(self.ns)

        def work(start: int, stop: int) -> None:
            kernel(self.values, self.starts, self.ns, self.ms, band, *more, start, stop)

        over_rows(work, rows, self.values.size // max(1, rows))

    def spread(self, values: Array) -> Tensor:
        """A vector of rows as a padded tensor, 0 outside."""
        if self.full:
            return torch.from_numpy(values).to(self.template.dtype).reshape(self.template.shape)
        out = torch.zeros_like(self.template)
        array = out.numpy()
        for x, a, n, m in zip(array, self.starts, self.ns, self.ms, strict=True):
            x[:n, :m] = values[a : a + n * m].reshape(n, m)
        return out
