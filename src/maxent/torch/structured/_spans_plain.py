"""Inside sums of projective and of constituency trees in plain batched torch operations.

What derivatives on CUDA take, and third ones everywhere: sums that autograd follows, in float64.
All spans of one width advance together, so that n nodes take n steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

_NEVER = -1e300  # in place of -inf, whose differences are NaN


def dependency_log_partition(scores: Tensor, lengths: Tensor, single: bool) -> Tensor:
    """log Z (B,) of scores (B, n, n) [head, dependent]; NaN where there is no tree."""
    batch, n, _ = scores.shape
    exact = scores.double().clamp_min(_NEVER)
    zero = exact.new_zeros(batch, n)
    # complete spans by width: headed on the left, by their starts; on the right, by their ends
    right, left = [zero], [zero]
    # the same of those that end (start) with an arc
    right_arc: list[Tensor] = []
    left_arc: list[Tensor] = []
    for width in range(1, n):
        spans = n - width
        join = _stack(right, spans) + _stack(left[::-1], spans, width)
        if single:  # the root has an arc alone, to the head of all words
            alone = torch.zeros(spans, width, dtype=torch.bool, device=scores.device)
            alone[0, 1:] = True
            join = join.masked_fill(alone, _NEVER)
        both = torch.logsumexp(join, -1)
        above = torch.diagonal(exact, width, 1, 2) + both
        below = torch.diagonal(exact, -width, 1, 2) + both
        right_arc.append(_by_start(above, n))
        left_arc.append(_by_end(below, n))
        # an arc of width t and the rest of its dependent, which begins (ends) where the arc does
        grown = [
            right_arc[t][:, :spans] + right[width - 1 - t][:, t + 1 : t + 1 + spans]
            for t in range(width)
        ]
        right.append(_by_start(torch.logsumexp(torch.stack(grown, -1), -1), n))
        grown = [
            left_arc[t][:, width:] + left[width - 1 - t][:, width - 1 - t : n - 1 - t]
            for t in range(width)
        ]
        left.append(_by_end(torch.logsumexp(torch.stack(grown, -1), -1), n))
    return _whole(torch.stack([x[:, 0] for x in right], -1), lengths)


def constituency_log_partition(scores: Tensor, lengths: Tensor) -> Tensor:
    """log Z (B,) of scores (B, n, n, labels) [first, last, label]; NaN where there is no tree."""
    n = scores.shape[1]
    table = torch.logsumexp(scores.double().clamp_min(_NEVER), -1)
    words = torch.diagonal(table, 0, 1, 2)
    by_start, by_end = [words], [words]
    for width in range(1, n):
        spans = n - width
        parts = _stack(by_start, spans) + _stack(by_end[::-1], spans, width)
        here = torch.logsumexp(parts, -1) + torch.diagonal(table, width, 1, 2)
        by_start.append(_by_start(here, n))
        by_end.append(_by_end(here, n))
    return _whole(torch.stack([x[:, 0] for x in by_start], -1), lengths)


def _stack(widths: list[Tensor], spans: int, first: int = 0) -> Tensor:
    """(B, spans, widths) of sums (B, n) by width, from a start or an end on."""
    return torch.stack(widths, -1)[:, first : first + spans]


def _by_start(x: Tensor, n: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, n - x.shape[1]), value=_NEVER)


def _by_end(x: Tensor, n: int) -> Tensor:
    return torch.nn.functional.pad(x, (n - x.shape[1], 0), value=_NEVER)


def _whole(totals: Tensor, lengths: Tensor) -> Tensor:
    """The sums of the spans from the first node to the last."""
    value = totals.gather(1, lengths[:, None] - 1)[:, 0]
    return value.masked_fill(value < _NEVER / 2, torch.nan)
