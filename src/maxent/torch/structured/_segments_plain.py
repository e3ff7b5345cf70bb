"""Segmentations in batched torch operations, one position after another: room T C + K C.

Functions of contiguous float64 tensors free of autograd, labels first: begins and ends (B, C, T),
reverse (B, C, K), transitions (B, C, C), lengths (B,).
"""

from __future__ import annotations

import torch
from torch import Tensor


def softmax(
    begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
) -> tuple[Tensor, ...]:
    """Log-partitions and marginals, in the order of the scores."""
    entry, exit, last = _messages(begins, ends, reverse, transitions, lengths)
    value = last.logsumexp(1)
    longest = reverse.shape[2]
    d_begins, d_ends = torch.zeros_like(entry), torch.zeros_like(exit)
    d_reverse, d_transitions = torch.zeros_like(reverse), torch.zeros_like(transitions)
    final = shares(last, 1)
    here = torch.zeros_like(final)
    for e in range(begins.shape[2], 0, -1):
        here = torch.where((lengths == e)[:, None], final, here)
        d_ends[:, :, e - 1] = here
        # starts e - K, ..., e - 1 lie at e, ... in what has K columns ahead
        share = shares(entry[:, :, e : e + longest] + reverse, 2).mul_(here[:, :, None])
        d_reverse += share
        d_begins[:, :, e : e + longest] += share
        if e > 1:
            share = shares(exit[:, :, e - 2, None] + transitions, 1)
            share *= d_begins[:, None, :, longest + e - 1]
            d_transitions += share
            here = share.sum(2)
    return value, d_begins[:, :, longest:].contiguous(), d_ends, d_reverse, d_transitions


def _messages(
    begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What kernels call entry, with K columns of -inf ahead, exit, and exit at the last ends."""
    batch, labels, length = begins.shape
    longest = reverse.shape[2]
    entry = begins.new_full((batch, labels, longest + length), -torch.inf)
    exit = torch.empty_like(ends)
    entry[:, :, longest] = begins[:, :, 0]
    for e in range(1, length + 1):
        before = (entry[:, :, e : e + longest] + reverse).logsumexp(2)
        exit[:, :, e - 1] = ends[:, :, e - 1] + before
        if e < length:
            change = (exit[:, :, e - 1, None] + transitions).logsumexp(1)
            entry[:, :, longest + e] = begins[:, :, e] + change
    return entry, exit, exit.gather(2, (lengths - 1)[:, None, None].expand(-1, labels, 1))[:, :, 0]


def shares(scores: Tensor, dim: int) -> Tensor:
    """Softmax over a dimension, 0 where all scores are -inf."""
    top = scores.amax(dim, keepdim=True)
    weight = (scores - torch.where(top > -torch.inf, top, 0.0)).exp_()
    return weight.div_(weight.sum(dim, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny))
