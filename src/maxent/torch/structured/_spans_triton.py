"""Charts of projective and of constituency trees on CUDA: one program per tree, in float64.

The log-partitions of ``_spans_plain`` with their gradients, in room for a few (n, n) tables. Spans
of one width advance together. A sum over splits is kept as its largest term and a sum relative to
it, the same on the way back, so that the shares of splits add up to 1 however large scores are.
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.structured._triton_logs import finite, over, parts
from torch import Tensor

_SPANS, _MANY_SPANS, _SPLITS = 16, 32, 32  # of a tile, in short and in long sentences
_LONG = 64  # nodes


@triton.jit
def _sum_splits(
    left, right, top, mass, first, width, spans, n, alone,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Over t < width, the sum of left[i, i + LEFT + t] and right[i + RIGHT + t, i + width].

    Of spans that begin at ``first``; where ``alone``, those of the root know t = 0 alone.
    """
    peak = tl.full(first.shape, -float("inf"), tl.float64)
    total = tl.zeros(first.shape, tl.float64)
    for begin in range(0, width, SPLITS):
        t = begin + tl.arange(0, SPLITS)
        seen = (first < spans)[:, None] & (t < width)[None, :]
        seen &= (first > 0)[:, None] | (t < 1)[None, :] | (alone == 0)
        a = left + (first * n + first + LEFT)[:, None] + t[None, :]
        b = right + (first * n + RIGHT * n + first + width)[:, None] + (t * n)[None, :]
        x = tl.load(a, mask=seen, other=-float("inf")) + tl.load(b, mask=seen, other=-float("inf"))
        higher = tl.maximum(peak, tl.max(x, 1))
        base = finite(higher)
        total = total * tl.exp(peak - base) + tl.sum(tl.exp(x - base[:, None]), 1)
        peak = higher
    at = first * n + first + width
    tl.store(top + at, peak, mask=first < spans)
    tl.store(mass + at, total, mask=first < spans)
    return peak + tl.log(total)


@triton.jit
def _part_of(own, sibling, parents, top, part, seen):
    """The shares of parents' masses that go to spans with these sums, by their siblings."""
    share = tl.load(part + parents, mask=seen, other=0.0)
    x = own[:, None] + tl.load(sibling, mask=seen, other=-float("inf"))
    return tl.sum(parts(x, tl.load(top + parents, mask=seen, other=0.0), share), 1)


@triton.jit
def _as_left(
    own, right, top, part, first, width, spans, length, n, alone,
    PARENT: tl.constexpr, NEXT: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Mass from longer spans with one beginning: siblings are right[last + NEXT, their last]."""
    total = tl.zeros(first.shape, tl.float64)
    last = first + width
    real = (first < spans) & ((first > 0) | (width < 1) | (alone == 0))
    for begin in range(width + PARENT, length, SPLITS):
        end = begin + tl.arange(0, SPLITS)[None, :] + first[:, None]
        seen = real[:, None] & (end < length)
        sibling = right + ((last + NEXT) * n)[:, None] + end
        total += _part_of(own, sibling, (first * n)[:, None] + end, top, part, seen)
    return total


@triton.jit
def _as_right(
    own, left, top, part, first, width, spans, length, n, alone,
    PARENT: tl.constexpr, NEXT: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Mass from longer spans with one end: siblings are left[their first, first - NEXT]."""
    total = tl.zeros(first.shape, tl.float64)
    last = first + width
    for begin in range(0, length - width + 1 - PARENT, SPLITS):
        start = begin + tl.arange(0, SPLITS)[None, :]
        seen = (first < spans)[:, None] & (start <= first[:, None] - PARENT)
        seen &= (start > 0) | (first == NEXT)[:, None] | (alone == 0)
        sibling = left + start * n + (first - NEXT)[:, None]
        total += _part_of(own, sibling, start * n + last[:, None], top, part, seen)
    return total


@triton.jit
def _constituency(
    scores, lengths, value, inside, top, mass, mean, n, SPANS: tl.constexpr, SPLITS: tl.constexpr
):
    """Log-partition and the probabilities of spans of one tree; ``mass`` becomes mass over sum."""
    row = tl.program_id(0).to(tl.int64)
    scores += row * n * n
    inside += row * n * n
    top += row * n * n
    mass += row * n * n
    mean += row * n * n
    length = tl.load(lengths + row).to(tl.int32)
    tile = tl.arange(0, SPANS)
    for at in range(0, length, SPANS):
        first = at + tile
        place = first * n + first
        tl.store(inside + place, tl.load(scores + place, mask=first < length), mask=first < length)
    for width in range(1, length):
        tl.debug_barrier()  # spans are read by other threads than wrote them
        spans = length - width
        for at in range(0, spans, SPANS):
            first = at + tile
            place = first * n + first + width
            found = _sum_splits(inside, inside, top, mass, first, width, spans, n, 0, 0, 1, SPLITS)
            own = tl.load(scores + place, mask=first < spans, other=-float("inf"))
            tl.store(inside + place, own + found, mask=first < spans)
    tl.debug_barrier()
    tl.store(value + row, tl.load(inside + length - 1))
    for back in range(0, length):
        width = length - 1 - back
        spans = length - width
        tl.debug_barrier()
        for at in range(0, spans, SPANS):
            first = at + tile
            real = first < spans
            place = first * n + first + width
            own = tl.load(inside + place, mask=real, other=-float("inf"))
            given = tl.load(mass + place, mask=real & (width > 0), other=1.0)
            found = _as_left(
                own, inside, top, mass, first, width, spans, length, n, 0, 1, 1, SPLITS
            ) + _as_right(own, inside, top, mass, first, width, spans, length, n, 0, 1, 1, SPLITS)
            found = tl.where(back == 0, 1.0, tl.minimum(found, 1.0))
            tl.store(mean + place, found, mask=real)
            tl.debug_barrier()  # a sum is read by all that share it before its mass replaces it
            tl.store(mass + place, over(found, given), mask=real)


@triton.jit
def _projective(
    scores, lengths, value, right, left, right_arc, left_arc, top, mass, right_top, right_mass,
    left_top, left_mass, mean, n, SINGLE: tl.constexpr, SPANS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Log-partition and the probabilities of arcs of one tree; masses become masses over sums.

    Spans are complete, with their head on the left (``right``) or on the right, or end with an arc;
    those of both kinds of arc are made of the same two parts.
    """
    row = tl.program_id(0).to(tl.int64) * n * n
    scores += row
    right += row
    left += row
    right_arc += row
    left_arc += row
    top += row
    mass += row
    right_top += row
    right_mass += row
    left_top += row
    left_mass += row
    mean += row
    length = tl.load(lengths + tl.program_id(0)).to(tl.int32)
    tile = tl.arange(0, SPANS)
    for at in range(0, length, SPANS):
        first = at + tile
        place = first * n + first
        nothing = tl.zeros((SPANS,), tl.float64)
        tl.store(right + place, nothing, mask=first < length)
        tl.store(left + place, nothing, mask=first < length)
    for width in range(1, length):
        tl.debug_barrier()  # spans are read by other threads than wrote them
        spans = length - width
        for at in range(0, spans, SPANS):
            first = at + tile
            real = first < spans
            place = first * n + first + width
            found = _sum_splits(
                right, left, top, mass, first, width, spans, n, SINGLE, 0, 1, SPLITS
            )
            above = tl.load(scores + place, mask=real, other=-float("inf"))
            below = tl.load(scores + (first + width) * n + first, mask=real, other=-float("inf"))
            tl.store(right_arc + place, found + above, mask=real)
            tl.store(left_arc + place, found + below, mask=real)
        tl.debug_barrier()
        for at in range(0, spans, SPANS):
            first = at + tile
            real = first < spans
            place = first * n + first + width
            found = _sum_splits(
                right_arc, right, right_top, right_mass, first, width, spans, n, 0, 1, 1, SPLITS
            )
            tl.store(right + place, found, mask=real)
            found = _sum_splits(
                left, left_arc, left_top, left_mass, first, width, spans, n, 0, 0, 0, SPLITS
            )
            tl.store(left + place, found, mask=real)
    tl.debug_barrier()
    tl.store(value + tl.program_id(0), tl.load(right + length - 1))
    for back in range(0, length - 1):
        width = length - 1 - back
        spans = length - width
        for at in range(0, spans, SPANS):
            first = at + tile
            real = first < spans
            place = first * n + first + width
            own = tl.load(right + place, mask=real, other=-float("inf"))
            given = tl.load(right_mass + place, mask=real, other=1.0)
            found = _as_left(
                own, left, top, mass, first, width, spans, length, n, SINGLE, 1, 1, SPLITS
            ) + _as_right(
                own, right_arc, right_top, right_mass, first, width, spans, length, n, 0, 1, 0,
                SPLITS,
            )  # fmt: skip
            found = tl.where(back == 0, 1.0, tl.minimum(found, 1.0))
            own = tl.load(left + place, mask=real, other=-float("inf"))
            other = tl.load(left_mass + place, mask=real, other=1.0)
            more = _as_right(
                own, right, top, mass, first, width, spans, length, n, SINGLE, 1, 1, SPLITS
            ) + _as_left(
                own, left_arc, left_top, left_mass, first, width, spans, length, n, 0, 1, 0, SPLITS
            )
            tl.debug_barrier()  # sums are read by all that share them before masses replace them
            tl.store(right_mass + place, over(found, given), mask=real)
            tl.store(left_mass + place, over(tl.minimum(more, 1.0), other), mask=real)
        tl.debug_barrier()
        for at in range(0, spans, SPANS):
            first = at + tile
            real = first < spans
            place = first * n + first + width
            own = tl.load(right_arc + place, mask=real, other=-float("inf"))
            found = _as_left(
                own, right, right_top, right_mass, first, width, spans, length, n, 0, 0, 0, SPLITS
            )
            own = tl.load(left_arc + place, mask=real, other=-float("inf"))
            more = _as_right(
                own, left, left_top, left_mass, first, width, spans, length, n, 0, 0, 0, SPLITS
            )
            given = tl.load(mass + place, mask=real, other=1.0)
            tl.store(mean + place, tl.minimum(found, 1.0), mask=real)
            tl.store(mean + (first + width) * n + first, tl.minimum(more, 1.0), mask=real)
            tl.debug_barrier()
            tl.store(mass + place, over(found + more, given), mask=real)
        tl.debug_barrier()


def constituency(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and the probabilities of spans, of scores (B, n, n); NaN where there is no tree."""
    mean = torch.zeros_like(scores)
    inside, top, mass = torch.empty((3, *scores.shape), dtype=scores.dtype, device=scores.device)
    return _run(_constituency, scores, lengths, inside, top, mass, mean)


def dependency(scores: Tensor, lengths: Tensor, single: bool) -> tuple[Tensor, Tensor]:
    """log Z and the probabilities of arcs [head, dependent]; NaN where there is no tree."""
    mean = torch.zeros_like(scores)
    tables = torch.empty((10, *scores.shape), dtype=scores.dtype, device=scores.device)
    return _run(_projective, scores, lengths, *tables, mean, SINGLE=int(single))


def _run(
    kernel: triton.JITFunction, scores: Tensor, lengths: Tensor, *tables: Tensor, **fixed: int
) -> tuple[Tensor, Tensor]:
    batch, n, _ = scores.shape
    value, mean = scores.new_empty(batch), tables[-1]
    if batch:
        tile = {"SPANS": _SPANS if n <= _LONG else _MANY_SPANS, "SPLITS": _SPLITS}
        kernel[(batch,)](scores, lengths, value, *tables, n, **tile, **fixed, num_warps=8)
    missing = value == -torch.inf
    mean.masked_fill_(missing[:, None, None], torch.nan)
    return value.masked_fill(missing, torch.nan), mean
