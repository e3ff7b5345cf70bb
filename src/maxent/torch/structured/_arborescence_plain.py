"""Sums over spanning trees in plain batched torch operations: what CUDA tensors take.

The elimination of the kernels of ``maxent.structured.trees`` on logarithms in float64: all graphs,
and all blocks of one depth of the halving, advance together, so that n nodes take about 2 n steps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_INF = math.inf


def softmax(scores: Tensor, lengths: Tensor | None, single: bool) -> tuple[Tensor, Tensor]:
    """log Z (batch,) and marginals (batch, n, n) in float64; NaN where there is no tree."""
    batch, n, _ = scores.shape
    m = n - 1
    if m == 0:
        return scores.new_zeros(batch, dtype=torch.float64), torch.zeros_like(scores).double()
    size = 1 << (m - 1).bit_length()
    weight = _weights(scores.double(), lengths, single, size)
    value, chance = _escape(weight)
    # the arc from h to d: a(h, d) e_d(h); order 1 counts where order 0 has nothing
    law = torch.cat(
        [
            weight[:, :, :size] + chance.transpose(-1, -2),
            weight[:, :, size:].movedim(-1, 0)[..., None],
        ],
        dim=-1,
    )
    law = torch.where((law[0].amax(-1, keepdim=True) == -_INF), law[1], law[0])
    p = torch.softmax(law, dim=-1)
    mean = scores.new_zeros(batch, n, n, dtype=torch.float64)
    mean[:, 1:, 1:] = p[:, :m, :m].transpose(-1, -2)
    mean[:, 0, 1:] = p[:, :m, size]
    if lengths is not None:
        mean = mean * _inside(lengths, n)
    return value, mean.masked_fill_(value.isnan()[:, None, None], math.nan)


def _inside(lengths: Tensor, n: int) -> Tensor:
    """Which entries (batch, n, n) are between nodes of the graph."""
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


def _weights(scores: Tensor, lengths: Tensor | None, single: bool, size: int) -> Tensor:
    """Log weights [dependent, head] (batch, size, size + 2), the root's of order 0 and 1 last.

    Nodes that fill up to ``size`` hang on the root by an arc of weight 1 that changes nothing.
    """
    batch, n, _ = scores.shape
    m = n - 1
    weight = scores.new_full((batch, size, size + 2), -_INF)
    weight[:, :m, :m] = scores[:, 1:, 1:].transpose(-1, -2)
    weight[:, :m, size + int(single)] = scores[:, 0, 1:]
    weight.diagonal(dim1=1, dim2=2).fill_(-_INF)
    if lengths is None:
        lengths = torch.full((batch,), n, device=scores.device)
    spare = torch.arange(1, size + 1, device=scores.device) >= lengths[:, None]
    weight[:, :, :size].masked_fill_(spare[:, None, :], -_INF)
    weight.masked_fill_(spare[:, :, None], -_INF)
    weight[:, :, size].masked_fill_(spare, 0.0)
    return weight


def _escape(weight: Tensor) -> tuple[Tensor, Tensor]:
    """log Z (batch,), NaN without a tree, and log chances (2, batch, node, d) of orders 0, 1."""
    batch, size = weight.shape[:2]
    block = weight[:, None]
    gained = weight.new_zeros(batch, 1, 2)  # log of the totals, and their order
    records = []
    while block.shape[-2] > 1:
        s = block.shape[-2]
        half = s // 2
        order = torch.arange(s + 2, device=weight.device)
        first_last = torch.cat([order[half:s], order[:half], order[s:]])
        pair = torch.stack([block[:, :, first_last[:s]][..., first_last], block], dim=2)
        gained = (gained[:, :, None] + _eliminate(pair, half)).flatten(1, 2)
        pair = pair.flatten(1, 2)
        records.append(pair[:, :, :half])
        block = pair[:, :, half:, half:]
    early = block[:, 0, 0, 1]
    late = early == -_INF
    value = gained[:, 0, 0] + torch.where(late, block[:, 0, 0, 2], early)
    # no tree at all, or none with a single dependent of the root
    nothing = (value == -_INF) | (gained[:, 0, 1] + late > 1)
    value = value.masked_fill(nothing, math.nan)
    chance = weight.new_full((2, batch, size, 1, 1), -_INF)
    for heads in reversed(records):
        chance = _read(heads, chance)
    return value, chance[:, :, 0]


def _eliminate(pair: Tensor, count: int) -> Tensor:
    """Let the first nodes of every block leave, in place; return log totals and orders."""
    gained = torch.zeros_like(pair[..., 0, :2])
    for k in range(count):
        row = pair[..., k, k + 1 :]
        total = torch.logsumexp(row[..., :-1], dim=-1)
        late = total == -_INF
        gained[..., 0] += torch.where(late, row[..., -1], total)
        gained[..., 1] += late
        heads = row - total.masked_fill(late, 0.0)[..., None]
        heads[..., -1].masked_fill_(late, -_INF)
        heads[..., -2].masked_fill_(late, 0.0)
        pair[..., k, k + 1 :] = heads
        through = pair[..., k + 1 :, k, None] + heads[..., None, :]
        pair[..., k + 1 :, k + 1 :] = torch.logaddexp(pair[..., k + 1 :, k + 1 :], through)
    return gained


def _read(heads: Tensor, chance: Tensor) -> Tensor:
    """Chances of blocks from those of their halves and the heads of the nodes that left."""
    half = heads.shape[-2]
    root = heads[..., -2:].movedim(-1, 0)  # order, batch, block, node
    every = torch.cat([torch.full_like(chance, -_INF), chance], dim=-2)
    for k in range(half - 1, -1, -1):
        known = heads[..., k, k + 1 : 2 * half, None] + every[..., k + 1 :, :]
        onward = torch.logsumexp(known, dim=-2)
        every[..., k, :] = torch.logaddexp(onward, root[..., k, None])
    left, right = every.unflatten(2, (-1, 2)).unbind(3)
    swapped = torch.cat([left[..., half:, :], left[..., :half, :]], dim=-2)
    return torch.cat([swapped, right], dim=-1)
