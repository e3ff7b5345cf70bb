"""Segmentations on CUDA as Triton kernels: what lies far is summed by all, what is near by one.

The function of ``_segments_plain``. Positions are worked off in blocks. The sums over starts before
a block are taken for all of its ends at once, by one program for each end and label; then one
program for each sequence walks through the block. Sums are kept as a largest term and a sum
relative to it, the same on the way back, so that shares add up to 1 however large the scores are.
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.structured import _segments_plain
from maxent.torch.structured._triton_logs import finite, over, parts
from torch import Tensor

_MOST_LABELS = 64  # a block of transitions stays in the registers of a program
_BLOCK = 16  # positions that one program walks through
_CHUNK = 1024  # starts or ends that a program sums at once
_STRETCH = 4096  # positions over which a program counts lengths


@triton.jit
def _starts_before(
    entry, reverse, top, mass, block, n_positions, n_labels, longest, CHUNK: tl.constexpr
):
    """Over starts before the block, the sum for one end in it and one label."""
    row = tl.program_id(0).to(tl.int64) * n_labels + tl.program_id(2)
    end = block + tl.program_id(1)
    entry += row * n_positions
    reverse += row * longest + longest - 1 - end
    peak = tl.full((), -float("inf"), tl.float64)
    total = tl.full((), 0.0, tl.float64)
    for first in range(tl.maximum(end - longest + 1, 0), block, CHUNK):
        start = first + tl.arange(0, CHUNK)
        inner = start < block
        own = tl.load(entry + start, mask=inner, other=-float("inf"))
        x = own + tl.load(reverse + start, mask=inner, other=-float("inf"))
        higher = tl.maximum(peak, tl.max(x, 0))
        base = finite(higher)
        total = total * tl.exp(peak - base) + tl.sum(tl.exp(x - base), 0)
        peak = higher
    tl.store(top + row * n_positions + end, peak)
    tl.store(mass + row * n_positions + end, total)


@triton.jit
def _forward(
    begins, ends, reverse, transitions, entry, exit, top, mass, change_top, change_mass, block,
    n_positions, n_labels, longest, LABELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Messages of one sequence within a block; entry at its first position is there."""
    row = tl.program_id(0).to(tl.int64)
    at = row * n_labels * n_positions
    begins += at
    ends += at
    entry += at
    exit += at
    top += at
    mass += at
    change_top += at
    change_mass += at
    labels = tl.arange(0, LABELS)
    inner = labels < n_labels
    place = labels * n_positions
    pairs = row * n_labels * n_labels + labels[:, None] * n_labels + labels[None, :]
    moves = tl.load(transitions + pairs, mask=inner[:, None] & inner[None, :], other=-float("inf"))
    start = block + tl.arange(0, BLOCK)
    entries = entry + place[:, None] + start[None, :]
    reverse += (row * n_labels + labels[:, None]) * longest + longest - 1 + start[None, :]
    for end in range(block, tl.minimum(block + BLOCK, n_positions)):
        far_top = tl.load(top + place + end, mask=inner, other=-float("inf"))
        far = tl.load(mass + place + end, mask=inner, other=0.0)
        last = tl.load(ends + place + end, mask=inner, other=-float("inf"))
        later = inner & (end + 1 < n_positions)
        first = tl.load(begins + place + end + 1, mask=later, other=-float("inf"))
        seen = inner[:, None] & ((start <= end) & (end - start < longest))[None, :]
        x = tl.load(entries, mask=seen, other=-float("inf"))
        x += tl.load(reverse - end, mask=seen, other=-float("inf"))
        peak = tl.maximum(tl.max(x, 1), far_top)
        base = finite(peak)
        total = tl.sum(tl.exp(x - base[:, None]), 1) + far * tl.exp(far_top - base)
        tl.debug_barrier()  # the far sums were read by several threads
        tl.store(top + place + end, peak, mask=inner)
        tl.store(mass + place + end, total, mask=inner)
        left = last + (peak + tl.log(total))
        tl.store(exit + place + end, left, mask=inner)
        y = left[:, None] + moves
        peak = tl.max(y, 0)
        total = tl.sum(tl.exp(y - finite(peak)[None, :]), 0)
        tl.store(change_top + place + end + 1, peak, mask=later)
        tl.store(change_mass + place + end + 1, total, mask=later)
        tl.store(entry + place + end + 1, first + (peak + tl.log(total)), mask=later)
        tl.debug_barrier()  # entries are read by other threads than wrote them


@triton.jit
def _ends_behind(
    entry, reverse, top, part, begun, block, n_positions, n_labels, longest, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Over ends behind the block, the mass of one start in it with one label."""
    row = tl.program_id(0).to(tl.int64) * n_labels + tl.program_id(2)
    start = block + tl.program_id(1)
    top += row * n_positions
    part += row * n_positions
    reverse += row * longest + longest - 1 + start
    own = tl.load(entry + row * n_positions + start)
    stop = tl.minimum(start + longest, n_positions)
    total = tl.full((), 0.0, tl.float64)
    for first in range(block + BLOCK, stop, CHUNK):
        end = first + tl.arange(0, CHUNK)
        inner = end < stop
        x = own + tl.load(reverse - end, mask=inner, other=-float("inf"))
        share = tl.load(part + end, mask=inner, other=0.0)
        total += tl.sum(parts(x, tl.load(top + end, mask=inner, other=0.0), share), 0)
    tl.store(begun + row * n_positions + start, total)


@triton.jit
def _backward(
    reverse, transitions, lengths, final, entry, exit, top, mass, change_top, change_mass, part,
    begun, changes, block, n_positions, n_labels, longest, LABELS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Marginals of one sequence within a block, from its end to its front."""
    row = tl.program_id(0).to(tl.int64)
    at = row * n_labels * n_positions
    entry += at
    exit += at
    top += at
    mass += at
    change_top += at
    change_mass += at
    part += at
    begun += at
    length = tl.load(lengths + row)
    labels = tl.arange(0, LABELS)
    inner = labels < n_labels
    place = labels * n_positions
    both = inner[:, None] & inner[None, :]
    pairs = row * n_labels * n_labels + labels[:, None] * n_labels + labels[None, :]
    moves = tl.load(transitions + pairs, mask=both, other=-float("inf"))
    counts = tl.load(changes + pairs, mask=both, other=0.0)
    last = tl.load(final + row * n_labels + labels, mask=inner, other=0.0)
    end = block + tl.arange(0, BLOCK)
    ends = place[:, None] + end[None, :]
    reverse += (row * n_labels + labels[:, None]) * longest + longest - 1 - end[None, :]
    stop = tl.minimum(block + BLOCK, n_positions)
    after = tl.load(begun + place + stop, mask=inner & (stop < n_positions), other=0.0)
    for back in range(1, stop - block + 1):
        t = stop - back
        later = inner & (t + 1 < length)
        left = tl.load(exit + place + t, mask=inner, other=-float("inf"))
        peak = tl.load(change_top + place + t + 1, mask=later, other=-float("inf"))
        total = tl.load(change_mass + place + t + 1, mask=later, other=1.0)
        own = tl.load(entry + place + t, mask=inner, other=-float("inf"))
        far = tl.load(begun + place + t, mask=inner, other=0.0)
        given = tl.load(mass + place + t, mask=inner, other=1.0)
        ahead = tl.where(later, over(after, total), 0.0)
        joint = tl.minimum(parts(left[:, None] + moves, peak[None, :], ahead[None, :]), 1.0)
        counts += joint
        ended = tl.where(t == length - 1, last, tl.minimum(tl.sum(joint, 1), 1.0))
        tl.store(part + place + t, over(ended, given), mask=inner)
        tl.debug_barrier()  # parts are read by other threads than wrote them
        seen = inner[:, None] & ((end >= t) & (end - t < longest) & (end < stop))[None, :]
        x = own[:, None] + tl.load(reverse + t, mask=seen, other=-float("inf"))
        share = tl.load(part + ends, mask=seen, other=0.0)
        near = parts(x, tl.load(top + ends, mask=seen, other=0.0), share)
        after = tl.minimum(far + tl.sum(near, 1), 1.0)
        tl.store(begun + place + t, after, mask=inner)
    tl.store(changes + pairs, counts, mask=both)


@triton.jit
def _count_lengths(
    entry, reverse, top, part, counts, n_positions, longest, STRETCH: tl.constexpr,
    POSITIONS: tl.constexpr, LENGTHS: tl.constexpr,
):  # fmt: skip
    """Expected segments of some lengths with one label that end in one stretch of positions."""
    row = tl.program_id(0).to(tl.int64)
    entry += row * n_positions
    top += row * n_positions
    part += row * n_positions
    column = tl.program_id(1) * LENGTHS + tl.arange(0, LENGTHS)
    inner = column < longest
    spent = tl.load(reverse + row * longest + column, mask=inner, other=-float("inf"))
    found = tl.zeros((POSITIONS, LENGTHS), dtype=tl.float64)
    begin = tl.program_id(2) * STRETCH
    stop = tl.minimum(begin + STRETCH, n_positions)
    for first in range(begin, stop, POSITIONS):
        end = first + tl.arange(0, POSITIONS)
        there = end < stop
        share = tl.load(part + end, mask=there, other=0.0)
        peak = tl.load(top + end, mask=there, other=0.0)
        start = end[:, None] - longest + 1 + column[None, :]
        seen = there[:, None] & inner[None, :] & (start >= 0)
        x = tl.load(entry + start, mask=seen, other=-float("inf")) + spent[None, :]
        found += parts(x, peak[:, None], share[:, None])
    stretch = row * tl.num_programs(2) + tl.program_id(2)
    tl.store(counts + stretch * longest + column, tl.sum(found, 0), mask=inner)


def softmax(
    begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
) -> tuple[Tensor, ...]:
    """Log-partitions and marginals, in the order of the scores."""
    batch, labels, length = begins.shape
    if labels > _MOST_LABELS or not batch:
        return _segments_plain.softmax(begins, ends, reverse, transitions, lengths)
    longest = reverse.shape[2]
    sizes = length, labels, longest
    padded = max(8, triton.next_power_of_2(labels))
    shape = {"LABELS": padded, "BLOCK": _BLOCK, "num_warps": 4 if padded <= 16 else 8}
    chunk = min(_CHUNK, max(32, triton.next_power_of_2(longest)))
    entry, exit, top, mass, change_top, change_mass = (torch.empty_like(begins) for _ in range(6))
    entry[:, :, 0] = begins[:, :, 0]
    blocks = [(at, (batch, min(_BLOCK, length - at), labels)) for at in range(0, length, _BLOCK)]
    for block, each in blocks:
        _starts_before[each](entry, reverse, top, mass, block, *sizes, CHUNK=chunk)
        _forward[(batch,)](
            begins, ends, reverse, transitions, entry, exit, top, mass, change_top, change_mass,
            block, *sizes, **shape,
        )  # fmt: skip
    last = exit.gather(2, (lengths - 1)[:, None, None].expand(-1, labels, 1))[:, :, 0]
    value, final = last.logsumexp(1), _segments_plain.shares(last, 1)
    part, begun = torch.empty_like(begins), torch.empty_like(begins)
    changes = torch.zeros_like(transitions)
    for block, each in reversed(blocks):
        _ends_behind[each](
            entry, reverse, top, part, begun, block, *sizes, BLOCK=_BLOCK, CHUNK=chunk
        )
        _backward[(batch,)](
            reverse, transitions, lengths, final, entry, exit, top, mass, change_top, change_mass,
            part, begun, changes, block, *sizes, **shape,
        )  # fmt: skip
    stretches = triton.cdiv(length, _STRETCH)
    counts = begins.new_empty(batch, labels, stretches, longest)
    _count_lengths[(batch * labels, triton.cdiv(longest, 32), stretches)](
        entry, reverse, top, part, counts, length, longest, STRETCH=_STRETCH, POSITIONS=32,
        LENGTHS=32,
    )  # fmt: skip
    return value, begun, mass.mul_(part), counts.sum(2), changes
