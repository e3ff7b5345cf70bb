"""Products of sparse rows with matrices: gradients of a head.

Each program adds up in float32 and in a fixed order, so that results do not depend on threads.
"""

from __future__ import annotations

import triton
import triton.language as tl

import torch
from maxent.torch.head._sparse import SparseRows, Turned
from maxent.torch.maps._launching import launch
from torch import Tensor

# entries and features at a time, warps
_TIMES, _TRANSPOSED = (4, 256, 1), (1, 1024, 2)
_PART = 256  # entries of a class that one program adds up


@triton.jit
def _combine(
    offset_ptr, index_ptr, value_ptr, share_ptr, back_ptr, rows_ptr, out_ptr, n_features,
    GROUP: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """back share sum value rows[index] over a row's entries."""
    row = tl.program_id(0).to(tl.int64)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = feature < n_features
    begin = tl.load(offset_ptr + row)
    end = tl.load(offset_ptr + row + 1)
    total = tl.zeros((GROUP, BLOCK), tl.float32)
    while begin < end:
        place = begin + tl.arange(0, GROUP)
        inside = place < end
        index = tl.load(index_ptr + place, mask=inside, other=0).to(tl.int64)
        value = tl.load(value_ptr + place, mask=inside, other=0.0)
        w = tl.load(
            rows_ptr + index[:, None] * n_features + feature[None, :],
            mask=inside[:, None] & known[None, :],
            other=0.0,
        )
        total += value[:, None] * w.to(tl.float32)
        begin += GROUP
    back = tl.load(back_ptr + (row if EACH else 0)).to(tl.float32)
    out = tl.sum(total, 0) * (tl.load(share_ptr + row) * back)
    tl.store(out_ptr + row * n_features + feature, out.to(out_ptr.dtype.element_ty), mask=known)


@triton.jit
def _segments(class_ptr, begin_ptr, end_ptr, n_entries, BLOCK: tl.constexpr):
    """Where the entries of each class begin and end, which are neighbours."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n_entries
    own = tl.load(class_ptr + place, mask=inside, other=-1)
    before = tl.load(class_ptr + place - 1, mask=inside & (place > 0), other=-1)
    after = tl.load(class_ptr + place + 1, mask=place + 1 < n_entries, other=-1)
    tl.store(begin_ptr + own, place.to(tl.int32), mask=inside & (own != before))
    tl.store(end_ptr + own, (place + 1).to(tl.int32), mask=inside & (own != after))


@triton.jit
def _scatter_part(
    class_ptr, begin_ptr, end_ptr, order_ptr, row_ptr, value_ptr, share_ptr, back_ptr, hidden_ptr,
    rank_ptr, out_ptr, bias_ptr, part_ptr, part_bias_ptr, n_features, n_classes,
    PART: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr,
    ADD: tl.constexpr, RANKED: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Up to PART entries of a class, whose entries are neighbours: its gradient, or a part of it.

    Programs are numbered by entries; those in the middle of a part have nothing to do, nor those
    of entries that belong to no class. Of any PART neighbours at most two begin a part of a class
    with several: its first, and another's last.
    """
    entry = tl.program_id(0).to(tl.int64)
    own = tl.load(class_ptr + entry).to(tl.int64)
    start = tl.load(begin_ptr + own).to(tl.int64)
    if ((entry - start) % PART == 0) & (own < n_classes):
        last = tl.load(end_ptr + own).to(tl.int64)
        end = tl.minimum(entry + PART, last)
        feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        known = feature < n_features
        total = tl.zeros((GROUP, BLOCK), tl.float32)
        mass = tl.zeros((GROUP,), tl.float32)
        begin = entry
        while begin < end:
            place = begin + tl.arange(0, GROUP)
            inside = place < end
            at = tl.load(order_ptr + place, mask=inside, other=0)
            row = tl.load(row_ptr + at, mask=inside, other=0).to(tl.int64)
            value = tl.load(value_ptr + at, mask=inside, other=0.0)
            value *= tl.load(share_ptr + row, mask=inside, other=0.0)
            value *= tl.load(back_ptr + (row if EACH else row * 0)).to(tl.float32)
            h = tl.load(
                hidden_ptr + row[:, None] * n_features + feature[None, :],
                mask=inside[:, None] & known[None, :],
                other=0.0,
            )
            total += value[:, None] * h.to(tl.float32)
            mass += value
            begin += GROUP
        gradient, gain = tl.sum(total, 0), tl.sum(mass, 0)
        if last - start <= PART:
            _store_class(
                gradient, gain, own, rank_ptr, out_ptr, bias_ptr, feature, known, n_features,
                BIAS, ADD, RANKED,
            )  # fmt: skip
        else:
            slot = 2 * (entry // PART) + (entry != start).to(tl.int64)
            tl.store(part_ptr + slot * n_features + feature, gradient, mask=known)
            if BIAS:
                tl.store(part_bias_ptr + slot, gain)


@triton.jit
def _store_class(
    gradient, gain, own, rank_ptr, out_ptr, bias_ptr, feature, known, n_features,
    BIAS: tl.constexpr, ADD: tl.constexpr, RANKED: tl.constexpr,
):  # fmt: skip
    """The gradient of a class, or what is added to it."""
    to = own
    if RANKED:
        to = tl.load(rank_ptr + own).to(tl.int64)
    at = out_ptr + to * n_features + feature
    if ADD:
        gradient += tl.load(at, mask=known, other=0.0).to(tl.float32)
    tl.store(at, gradient.to(out_ptr.dtype.element_ty), mask=known)
    if BIAS:  # noqa: SIM102, a constant of the kernel
        if tl.program_id(1) == 0:
            if ADD:
                gain += tl.load(bias_ptr + own).to(tl.float32)
            tl.store(bias_ptr + own, gain.to(bias_ptr.dtype.element_ty))


@triton.jit
def _scatter_sum(
    class_ptr, begin_ptr, end_ptr, rank_ptr, out_ptr, bias_ptr, part_ptr, part_bias_ptr,
    n_features, n_classes,
    PART: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr,
    RANKED: tl.constexpr,
):  # fmt: skip
    """The parts of a class with several, in their order."""
    # a class with several parts covers an entry whose number is a multiple of PART
    entry = tl.program_id(0).to(tl.int64) * PART
    own = tl.load(class_ptr + entry).to(tl.int64)
    start = tl.load(begin_ptr + own).to(tl.int64)
    last = tl.load(end_ptr + own).to(tl.int64)
    if (last - start > PART) & (entry - start < PART) & (own < n_classes):
        feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        known = feature < n_features
        gradient = tl.zeros((BLOCK,), tl.float32)
        gain = 0.0
        begin = start
        while begin < last:
            slot = 2 * (begin // PART) + (begin != start).to(tl.int64)
            gradient += tl.load(part_ptr + slot * n_features + feature, mask=known, other=0.0)
            if BIAS:
                gain += tl.load(part_bias_ptr + slot)
            begin += PART
        _store_class(
            gradient, gain, own, rank_ptr, out_ptr, bias_ptr, feature, known, n_features,
            BIAS, ADD, RANKED,
        )  # fmt: skip


def feature_block(features: int, most: int) -> int:
    """How many features a program takes at a time."""
    return min(max(triton.next_power_of_2(features), 16), most)


def times(sparse: SparseRows, share: Tensor, back: Tensor, rows: Tensor) -> Tensor:
    """The product of the sparse rows, each times its share and what comes back, with a matrix.

    back : one number, or one for each row.
    """
    count, features = len(sparse), rows.shape[1]
    out = torch.empty((count, features), dtype=rows.dtype, device=rows.device)
    group, block, warps = _TIMES
    block = feature_block(features, block)
    if out.numel():
        launch(
            _combine, (count, triton.cdiv(features, block), 1),
            (sparse.offsets, sparse.index, sparse.value, share, back, rows, out, features),
            {"GROUP": group, "BLOCK": block, "EACH": back.ndim > 0}, {"num_warps": warps},
        )  # fmt: skip
    return out


def turned(sparse: SparseRows, n_classes: int) -> Turned:
    """The entries in the order of their classes."""
    entries, device = len(sparse.index), sparse.index.device
    order = torch.sort(sparse.index, stable=True)
    begin, end = torch.empty((2, n_classes + 1), dtype=torch.int32, device=device)
    if entries:
        launch(
            _segments, (triton.cdiv(entries, 1024), 1, 1), (order.values, begin, end, entries),
            {"BLOCK": 1024}, {"num_warps": 4},
        )  # fmt: skip
    return Turned(order.values, order.indices, begin, end)


def transposed_times(
    sparse: SparseRows,
    turned: Turned,
    share: Tensor,
    back: Tensor,
    hidden: Tensor,
    out: Tensor,
    bias: Tensor | None,
    add: bool,
    rank: Tensor | None = None,
) -> None:
    """The product of the transposed sparse rows with ``hidden``, and their sums, into out and bias.

    Only rows of classes that occur are written, added to what is there or instead of it.
    rank : the row of out for each class that occurs, if it is not the class itself.
    """
    entries, features = len(sparse.index), hidden.shape[1]
    if entries == 0 or features == 0:
        return
    slots = 2 * triton.cdiv(entries, _PART)
    parts = torch.empty((slots, features + 1), dtype=torch.float32, device=hidden.device)
    group, block, warps = _TRANSPOSED
    block = feature_block(features, block)
    segments = (turned.classes, turned.begin, turned.end)
    bias_parts = parts.view(-1)[slots * features :]
    n_classes = len(turned.begin) - 1
    given = (out, out if bias is None else bias, parts, bias_parts, features, n_classes)
    ranks = turned.begin if rank is None else rank
    constants = {"PART": _PART, "BLOCK": block, "BIAS": bias is not None, "ADD": add}
    constants |= {"RANKED": rank is not None}
    slices = triton.cdiv(features, block)
    entry = (*segments, turned.order, sparse.rows(), sparse.value, share, back, hidden)
    launch(
        _scatter_part, (entries, slices, 1), (*entry, ranks, *given),
        constants | {"GROUP": group, "EACH": back.ndim > 0}, {"num_warps": warps},
    )  # fmt: skip
    launch(
        _scatter_sum, (triton.cdiv(entries, _PART), slices, 1), (*segments, ranks, *given),
        constants, {"num_warps": warps},
    )  # fmt: skip
