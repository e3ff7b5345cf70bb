"""Alignments in batched torch operations, one anti-diagonal after the other, on any device.

In logarithms and float64 throughout, as a path's score is the sum of hundreds of cells. Diagonal d
holds the cells (i, d - i) at place i. Functions of scores (B, n, m), lengths (B,) of both
sequences, and the band.
"""

from __future__ import annotations

import math

from torch.nn.functional import pad

import torch
from torch import Tensor


def _skewed(x: Tensor, fill: float) -> Tensor:
    """x[b, i, j] at [b, i, i + j]."""
    batch, n, m = x.shape
    wide = pad(x, (0, n), value=fill).reshape(batch, -1)
    return wide[:, : n * (n + m - 1)].reshape(batch, n, n + m - 1)


def _straight(x: Tensor, m: int) -> Tensor:
    """The cells of a skewed (B, n, n + m - 1) tensor as (B, n, m)."""
    batch, n, d = x.shape
    return x.contiguous().as_strided((batch, n, m), (n * d, d + 1, 1))


def _down(x: Tensor, fill: float) -> Tensor:
    """Each entry moved to the next place."""
    return pad(x[:, :-1], (1, 0), value=fill)


def _up(x: Tensor) -> Tensor:
    return pad(x[:, 1:], (0, 1))


class _Pass:
    """The forward pass: where the path through each cell comes from, and the log-partitions."""

    def __init__(self, scores: Tensor, ns: Tensor, ms: Tensor, band: int) -> None:
        batch, n, m = scores.shape
        i = torch.arange(n, device=scores.device)
        j = torch.arange(m, device=scores.device)
        inside = (i[:, None] < ns[:, None, None]) & (j < ms[:, None, None])
        off, longer = j - i[:, None], (ms - ns)[:, None, None]
        inside &= (off >= longer.clamp(max=0) - band) & (off <= longer.clamp(min=0) + band)
        theta = _skewed(scores.double().masked_fill(~inside, -math.inf), -math.inf)
        self.size, self.ends = m, ns + ms - 2
        self.last = i == ns[:, None] - 1
        self.origins: list[Tensor] = []  # probabilities of diagonal, above, left: (3, B, n)
        before, here = [theta.new_full((batch, n), -math.inf) for _ in range(2)]
        self.value = theta.new_full((batch,), -math.inf)
        for d in range(n + m - 1):
            reach = torch.stack([_down(before, -math.inf), _down(here, -math.inf), here])
            if d == 0:
                reach[0, :, 0] = 0.0
            top = reach.amax(0)
            top = torch.where(top > -math.inf, top, 0)
            parts = torch.exp(reach - top)
            mass = parts.sum(0)
            self.origins.append(parts / mass.clamp(min=1e-30))
            before, here = here, top + mass.log() + theta[:, :, d]
            at_end = (self.ends == d)[:, None] & self.last
            self.value = torch.where(at_end.any(1), here[self._end_index(here)], self.value)

    def _end_index(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(x), device=x.device), self.last.int().argmax(1)

    def flow(self) -> list[Tensor]:
        """Marginals of the cells, diagonal by diagonal."""
        flow = [torch.zeros_like(self.origins[0][0]) for _ in self.origins]
        for d in range(len(flow) - 1, -1, -1):
            flow[d] = (flow[d] + ((self.ends == d)[:, None] & self.last)).clamp_(max=1.0)
            diagonal, above, left = self.origins[d] * flow[d]
            if d > 0:
                flow[d - 1] = flow[d - 1] + _up(above) + left
            if d > 1:
                flow[d - 2] = flow[d - 2] + _up(diagonal)
        flow[0][:, 0] = (self.value > -math.inf).double()  # all paths begin there
        return flow


def softmax(scores: Tensor, ns: Tensor, ms: Tensor, band: int) -> tuple[Tensor, Tensor]:
    """Log-partitions and marginals."""
    run = _Pass(scores, ns, ms, band)
    mean = _straight(torch.stack(run.flow(), 2), run.size)
    return run.value.to(scores.dtype), mean.to(scores.dtype)


def covariance(scores: Tensor, ns: Tensor, ms: Tensor, band: int, v: Tensor) -> Tensor:
    """The derivative of the marginals along v, step by step."""
    run = _Pass(scores, ns, ms, band)
    along = _skewed(v.double(), 0.0)
    before, here = torch.zeros_like(along[:, :, 0]), torch.zeros_like(along[:, :, 0])
    spread = []  # change of the logarithms of the origins' probabilities
    for d, origins in enumerate(run.origins):
        gains = torch.stack([_down(before, 0.0), _down(here, 0.0), here])
        average = (origins * gains).sum(0)
        spread.append(gains - average)
        before, here = here, average + along[:, :, d]
    flow = run.flow()
    slope = [torch.zeros_like(here) for _ in flow]
    for d in range(len(flow) - 1, -1, -1):
        change = run.origins[d] * (slope[d] + flow[d] * spread[d])
        if d > 0:
            slope[d - 1] = slope[d - 1] + _up(change[1]) + change[2]
        if d > 1:
            slope[d - 2] = slope[d - 2] + _up(change[0])
    return _straight(torch.stack(slope, 2), run.size).to(scores.dtype)
