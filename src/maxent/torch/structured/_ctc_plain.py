"""Sums over alignments of CTC in batched torch operations, in logarithms.

Functions of tensors free of autograd: scores (B, T, V), targets (B, S), lengths and sizes (B,).
"""

from __future__ import annotations

import torch
from torch import Tensor


def sums(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """Log-partitions over alignments and probabilities of labels."""
    scores = scores.double()
    batch, most, _ = scores.shape
    states = 2 * targets.shape[1] + 1
    line = targets.new_full((batch, states), blank)
    line[:, 1::2] = targets
    odd = torch.arange(states, device=scores.device) % 2 == 1
    skips = torch.zeros_like(line, dtype=torch.bool)
    skips[:, 2:] = odd[2:] & (line[:, 2:] != line[:, :-2])
    own = scores.gather(2, line[:, None].expand(-1, most, -1))
    forward = own.new_full(own.shape, -torch.inf)
    forward[:, 0, :2] = own[:, 0, :2]
    for t in range(1, most):
        forward[:, t] = own[:, t] + _ways(forward[:, t - 1], skips).logsumexp(0)
    rows = torch.arange(batch, device=scores.device)
    final = forward[rows, lengths - 1]
    places = torch.stack([2 * sizes, (2 * sizes - 1).clamp_min(0)], 1)
    ends = final.gather(1, places)
    ends[:, 1] = ends[:, 1].masked_fill(sizes == 0, -torch.inf)
    value = ends.logsumexp(1)
    share = (ends - torch.where(value > -torch.inf, value, 0.0)[:, None]).exp()
    start = torch.zeros_like(final).scatter_add_(1, places, share)
    mean, here = torch.zeros_like(scores), torch.zeros_like(start)
    for t in range(most - 1, -1, -1):
        here = torch.where((lengths == t + 1)[:, None], start, here)
        mean[:, t].scatter_add_(1, line, here)
        if t:
            ways = _ways(forward[:, t - 1], skips)
            top = ways.amax(0)
            weight = (ways - torch.where(top > -torch.inf, top, 0.0)).exp_()
            weight = weight / weight.sum(0).clamp_min(torch.finfo(weight.dtype).tiny) * here
            here = weight[0].clone()
            here[:, :-1] += weight[1, :, 1:]
            here[:, :-2] += weight[2, :, 2:]
    return value, mean.clamp_(max=1.0)


def loss(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The log-partitions over all sequences less those over alignments, and their gradient."""
    value, mean = sums(scores, targets, lengths, sizes, blank)
    exact = scores.double()
    norms = exact.logsumexp(2)
    inside = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
    total = torch.where(inside, norms, 0.0).sum(1)
    found = (inside & (norms > -torch.inf))[:, :, None]
    slope = exact.softmax(2).masked_fill_(~found, 0.0).sub_(mean)
    return torch.where(value == -torch.inf, torch.inf, total - value), slope


def _ways(before: Tensor, skips: Tensor) -> Tensor:
    """(3, B, states): the messages of staying, going on and passing over a blank."""
    step, skip = (torch.full_like(before, -torch.inf) for _ in range(2))
    step[:, 1:] = before[:, :-1]
    skip[:, 2:] = before[:, :-2]
    return torch.stack([before, step, skip.masked_fill(~skips, -torch.inf)])
