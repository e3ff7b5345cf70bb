"""The head on CUDA: candidates of each row from scores that come in chunks.

Scores are computed for some classes at a time. A row keeps the classes above a threshold that never
exceeds the one sought, as the threshold of some scores is below that of all; each chunk raises it
by one of Newton's steps. Scores of 16 bits are rounded, so that classes within their rounding of
the threshold are kept too, and the scores of the few that are left at the end are computed again
in float32 from their rows of the weight. From there on all is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import triton
import triton.language as tl

import torch
from maxent.torch.head._aligned import aligned, write_scores
from maxent.torch.head._sparse import UNUSED, Candidates, Look, SparseRows, Targets
from maxent.torch.head._triton_products import feature_block, times, transposed_times, turned
from maxent.torch.maps._dispatch import entropy_value
from maxent.torch.maps._launching import launch
from maxent.torch.maps._triton import (
    _STEPS,
    STEEP,
    _advance,
    _entries,
    _kind,
    _larger,
    _magnified,
    _mass_and_gain,
    _solve,
    _start,
    _sums,
    _widened,
)
from maxent.torch.maps.scaling import PLAIN, Scaling
from torch import Tensor

__all__ = [
    "candidates",
    "finish",
    "label_shares",
    "scores_at",
    "solve_rows",
    "supported",
    "supports",
    "times",
    "transposed_times",
    "turned",
]

KEPT = 512  # candidates of a row; one with more is solved as a whole
_ROOM = 1 << 28  # bytes of scores that are there at a time
_CLASSES = 512  # of which there are a multiple at a time
_SHORT = 2048  # classes of the first chunks
_LABELS = 1 << 17  # that one program counts
_ERROR = 1e-4  # of sums of products in float32
LEAST_ALPHA = 1.1  # below, supports are large
_TILE = (16, 128, 1)  # R and C of _collect, warps
_DOTS = (8, 512, 4)  # candidates and features at a time, warps
UNSCALED, SCALED, CAPPED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 1e-5}  # of two scores


@triton.jit
def _label_shares(
    label_ptr, portion_ptr, share_ptr, ignore, n_rows, MEAN: tl.constexpr, BLOCK: tl.constexpr
):
    """1, or 1 over the number of labels that count, for these, and 0 for others; one program."""
    share = 1.0
    if MEAN:
        count = tl.zeros((BLOCK,), tl.int32)
        for first in range(0, n_rows, BLOCK):
            row = first + tl.arange(0, BLOCK)
            label = tl.load(label_ptr + row, mask=row < n_rows, other=ignore)
            count += (label != ignore).to(tl.int32)
        share = 1.0 / tl.maximum(tl.sum(count, 0), 1).to(tl.float32)
    for first in range(0, n_rows, BLOCK):
        row = first + tl.arange(0, BLOCK)
        used = (tl.load(label_ptr + row, mask=row < n_rows, other=0) != ignore).to(tl.float32)
        tl.store(portion_ptr + row, used, mask=row < n_rows)
        tl.store(share_ptr + row, used * share, mask=row < n_rows)


@triton.jit
def _scaled(x, cap, factor, SCALING: tl.constexpr):
    """cap tanh(x / cap) times a factor, or x times the factor; -inf stays."""
    if SCALING == CAPPED:
        u = tl.abs(x / cap)
        e = tl.exp(-2.0 * u)
        square = u * u
        # where 1 - e would cancel
        series = square * (2.0 / 15.0 + square * (-17.0 / 315.0 + square * (62.0 / 2835.0)))
        tanh = tl.where(u < 0.25, u + u * square * (series - 1.0 / 3.0), (1.0 - e) / (1.0 + e))
        x = tl.where(x == float("-inf"), x, tl.where(x < 0.0, -tanh, tanh) * cap)
    return x * factor


@triton.jit
def _threshold(base, ref, off, alpha, KIND: tl.constexpr):
    """The score above which p is positive."""
    if KIND == STEEP:
        tau = ref + off * tl.exp2(-_magnified(alpha))
    else:
        tau = base + off - 1.0 / (alpha - 1.0)
    return tau


@triton.jit
def _slack(top, tau, rounding, error):
    """What rounded scores and their threshold may be off by together."""
    return 1.05 * rounding * tl.maximum(tl.abs(top), tl.abs(tau)) + error


@triton.jit
def _compress(index_ptr, score_ptr, count, low, KEPT: tl.constexpr):
    """Keep the candidates above ``low``, in their order; how many they are."""
    number = tl.arange(0, KEPT)
    inside = number < count
    score = tl.load(score_ptr + number, mask=inside, other=float("-inf"))
    index = tl.load(index_ptr + number, mask=inside, other=0)
    kept = (score > low).to(tl.int32)
    place = tl.cumsum(kept, 0) - kept
    tl.debug_barrier()  # all are read before any is written
    tl.store(score_ptr + place, score, mask=kept > 0)
    tl.store(index_ptr + place, index, mask=kept > 0)
    tl.debug_barrier()
    return tl.sum(kept, 0)


@triton.jit
def _raised(score_ptr, count, tau, top, alpha, KEPT: tl.constexpr, KIND: tl.constexpr):
    """The threshold after one of Newton's steps over the candidates."""
    if KIND == STEEP:
        raised = top - 1.0 / (alpha - 1.0)
    else:
        number = tl.arange(0, KEPT)
        score = tl.load(score_ptr + number, mask=number < count, other=float("-inf"))
        reach = 1.0 / (alpha - 1.0)
        off = tl.maximum(tau - top + reach, 0.0)
        a, b, third = _sums(score, None, top, off, alpha, KIND)
        _, off, _, _, _ = _advance(top, off, 0.0, 0.0, a, b, third, alpha, KIND, 0)
        raised = top + off - reach
    return tl.maximum(tau, raised)


@triton.jit
def _append(
    x_ptr, place_ptr, index_ptr, score_ptr, above, count, low, first, n_cols, cap, factor,
    R: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, KEPT: tl.constexpr,
    SCALING: tl.constexpr,
):  # fmt: skip
    """Add the entries above ``low`` at the places marked to the candidates; how many there are."""
    tl.store(place_ptr + tl.cumsum(above, 0) - above, tl.arange(0, C), mask=above > 0)
    tl.debug_barrier()
    places = tl.sum(above, 0)
    entry = tl.arange(0, R * GROUP)
    begin = 0
    while (begin < places) & (count <= KEPT):
        number = begin + entry // R
        place = tl.load(place_ptr + number, mask=number < places, other=0)
        col = place + entry % R * C
        inside = (number < places) & (col < n_cols)
        score = tl.load(x_ptr + col, mask=inside, other=float("-inf")).to(tl.float32)
        if SCALING != UNSCALED:
            score = _scaled(score, cap, factor, SCALING)
        new = (score > low).to(tl.int32)
        more = tl.sum(new, 0)
        if count + more > KEPT:
            count = _compress(index_ptr, score_ptr, count, low, KEPT)
        to = count + tl.cumsum(new, 0) - new
        tl.store(score_ptr + to, score, mask=(new > 0) & (to < KEPT))
        tl.store(index_ptr + to, first + col, mask=(new > 0) & (to < KEPT))
        tl.debug_barrier()
        count += more
        begin += GROUP
    return count


@triton.jit
def _collect(
    x_ptr, place_ptr, index_ptr, score_ptr, count_ptr, tau_ptr, top_ptr, error_ptr, share_ptr,
    counter_ptr, alpha, rounding, error, first, n_cols, cap, factor,
    R: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, KEPT: tl.constexpr, KIND: tl.constexpr,
    STEPS: tl.constexpr, FIRST: tl.constexpr, ERRORS: tl.constexpr, SHARES: tl.constexpr,
    SCALING: tl.constexpr,
):  # fmt: skip
    """Candidates of a row among the classes of a chunk, which begins with the class ``first``.

    Scores are read as R entries at each of C places; only places whose largest entry is above the
    threshold are looked at again. Rows whose share is 0 have none.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    place_ptr += row * C
    index_ptr += row * KEPT
    score_ptr += row * KEPT
    count = tl.full((), 0, tl.int32)
    tau = tl.full((), float("-inf"), tl.float32)
    top = tl.full((), float("-inf"), tl.float32)
    if not FIRST:
        count = tl.load(count_ptr + row)
        tau = tl.load(tau_ptr + row)
        top = tl.load(top_ptr + row)
    if ERRORS:
        error = tl.load(error_ptr + row)
    cols = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    begin = 0
    if SHARES:
        unused = tl.load(share_ptr + row) == 0.0
        begin = tl.where(unused, n_cols, 0)
        if FIRST:  # noqa: SIM102, a constant of the kernel
            if unused:
                tl.atomic_add(counter_ptr + 1, 1)
    while (begin < n_cols) & (count <= KEPT):
        x = tl.load(x_ptr + begin + cols, mask=begin + cols < n_cols, other=float("-inf"))
        if SCALING != UNSCALED:
            x = _scaled(x.to(tl.float32), cap, factor, SCALING)
        heads = tl.reduce(_widened(x), 0, _larger)
        most = tl.reduce(heads, 0, _larger)
        top = _larger(top, most)
        if FIRST:  # noqa: SIM102, a constant of the kernel
            if (begin == 0) & (top > float("-inf")) & (top < float("inf")):
                ref, off = _start(top, alpha, KIND)
                ref, off = _solve(heads, None, ref, off, top, alpha, KIND, STEPS, 0)
                tau = _threshold(top, ref, off, alpha, KIND)
        low = tau - _slack(top, tau, rounding, error)
        if (top != top) | (top == float("inf")):
            count = tl.full((), KEPT + 1, tl.int32)
        elif most > low:
            above = (heads > low).to(tl.int32)
            count = _append(
                x_ptr + begin, place_ptr, index_ptr, score_ptr, above, count, low, first + begin,
                n_cols - begin, cap, factor, R, C, GROUP, KEPT, SCALING,
            )  # fmt: skip
            if (count <= KEPT) & (begin + first > 0):
                tau = _raised(score_ptr, count, tau, top, alpha, KEPT, KIND)
        begin += R * C
    tl.store(count_ptr + row, count)
    tl.store(tau_ptr + row, tau)
    tl.store(top_ptr + row, top)
    if FIRST:  # noqa: SIM102, a constant of the kernel
        if count > KEPT:
            tl.atomic_add(counter_ptr, 1)


@triton.jit
def _prune(
    index_ptr, score_ptr, count_ptr, tau_ptr, top_ptr, error_ptr, counter_ptr, alpha, rounding,
    error,
    KEPT: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr, ERRORS: tl.constexpr,
):  # fmt: skip
    """Candidates that rounding leaves, of each row that has its candidates; how many in all."""
    row = tl.program_id(0).to(tl.int64)
    index_ptr += row * KEPT
    score_ptr += row * KEPT
    count = tl.load(count_ptr + row)
    if (count > 0) & (count <= KEPT):
        number = tl.arange(0, KEPT)
        score = tl.load(score_ptr + number, mask=number < count, other=float("-inf"))
        top = tl.load(top_ptr + row)
        ref, off = _start(top, alpha, KIND)
        ref, off = _solve(score, None, ref, off, top, alpha, KIND, STEPS, 0)
        tau = tl.maximum(_threshold(top, ref, off, alpha, KIND), tl.load(tau_ptr + row))
        if ERRORS:
            error = tl.load(error_ptr + row)
        low = tau - _slack(top, tau, rounding, error)
        count = _compress(index_ptr, score_ptr, count, low, KEPT)
        tl.store(count_ptr + row, count)
    many = count > KEPT
    tl.atomic_add(counter_ptr + tl.where(many, 2, 3), tl.where(many, 1, count))


@triton.jit
def _dots(
    hidden_ptr, weight_ptr, bias_ptr, index_ptr, count_ptr, out_ptr, width, n_features, n_classes,
    cap, factor,
    COUNTED: tl.constexpr, BIAS: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
    SCALING: tl.constexpr,
):  # fmt: skip
    """Scores of some classes of a row in float32; NaN for what is none of the classes."""
    row = tl.program_id(0).to(tl.int64)
    count = width
    if COUNTED:
        count = tl.load(count_ptr + row)
        count = tl.where(count > width, 0, count)
    hidden_ptr += row * n_features
    begin = 0
    while begin < count:
        place = begin + tl.arange(0, GROUP)
        index = tl.load(index_ptr + row * width + place, mask=place < count, other=0).to(tl.int64)
        inside = (place < count) & (index >= 0) & (index < n_classes)
        total = tl.zeros((GROUP, BLOCK), tl.float32)
        for start in range(0, n_features, BLOCK):
            feature = start + tl.arange(0, BLOCK)
            known = feature < n_features
            h = tl.load(hidden_ptr + feature, mask=known, other=0.0).to(tl.float32)
            w = tl.load(
                weight_ptr + index[:, None] * n_features + feature[None, :],
                mask=inside[:, None] & known[None, :],
                other=0.0,
            )
            total += w.to(tl.float32) * h[None, :]
        score = tl.sum(total, 1)
        if BIAS:
            score += tl.load(bias_ptr + index, mask=inside, other=0.0).to(tl.float32)
        if SCALING != UNSCALED:
            score = _scaled(score, cap, factor, SCALING)
        score = tl.where(inside, score, float("nan"))
        tl.store(out_ptr + row * width + place, score, mask=place < count)
        begin += GROUP


@triton.jit
def _finish(
    index_ptr, score_ptr, count_ptr, top_ptr, own_ptr, portion_ptr, share_ptr, entropy_ptr,
    loss_ptr, offset_ptr, alpha, width, n_targets,
    WIDTH: tl.constexpr, KIND: tl.constexpr, STEPS: tl.constexpr, LOSS: tl.constexpr,
    ENTROPY: tl.constexpr,
):  # fmt: skip
    """p in place of the scores, for the candidates whose p is not 0; the loss of the row.

    own : the scores of the row's targets. How many entries p - y has is written to
    ``offset_ptr``, from its second place on.
    """
    row = tl.program_id(0).to(tl.int64)
    index_ptr += row * width
    score_ptr += row * width
    count = tl.load(count_ptr + row)
    share = 1.0
    if LOSS:
        share = tl.load(share_ptr + row).to(tl.float32)
    loss = share * 0.0
    size = tl.full((), 0, tl.int64)
    if (count > 0) & (count <= width) & (share != 0.0):
        number = tl.arange(0, WIDTH)
        inside = number < count
        score = tl.load(score_ptr + number, mask=inside, other=float("-inf"))
        index = tl.load(index_ptr + number, mask=inside, other=0)
        top = tl.max(score, 0)
        ref, off = _start(top, alpha, KIND)
        ref, off = _solve(score, None, ref, off, top, alpha, KIND, STEPS, 2)
        p, _ = _entries(score, ref, off, alpha, KIND)
        kept = (p > 0.0).to(tl.int32)
        place = tl.cumsum(kept, 0) - kept
        tl.debug_barrier()  # all are read before any is written
        tl.store(score_ptr + place, p, mask=kept > 0)
        tl.store(index_ptr + place, index, mask=kept > 0)
        support = tl.sum(kept, 0)
        tl.store(count_ptr + row, support)
        if LOSS:
            mass, gain = _mass_and_gain(p, score - top)
            t = _threshold(top, ref, off, alpha, KIND) - top + 1.0 / (alpha - 1.0)
            loss = gain - (gain - mass * t) / alpha
            for target in range(n_targets):
                portion = tl.load(portion_ptr + row * n_targets + target).to(tl.float32)
                own = tl.load(own_ptr + row * n_targets + target)
                loss += tl.where(portion == 0.0, 0.0, portion * (top - own))
            if ENTROPY:
                loss += tl.load(entropy_ptr + row).to(tl.float32)
            loss = tl.where(loss < 0.0, 0.0, loss) * share  # NaN stays
            size = (support + n_targets).to(tl.int64)
    if LOSS:
        tl.store(loss_ptr + row, loss)
        tl.store(offset_ptr + row + 1, size)
        if row == 0:
            tl.store(offset_ptr, tl.full((), 0, tl.int64))


@triton.jit
def _pack(
    index_ptr, value_ptr, offset_ptr, target_ptr, share_ptr, packed_index_ptr, packed_value_ptr,
    packed_row_ptr, width, n_targets, n_classes,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A row of p - y where it belongs among all rows: what p has, then what y has."""
    row = tl.program_id(0).to(tl.int64)
    start = tl.load(offset_ptr + row)
    count = tl.load(offset_ptr + row + 1) - start
    own = count - n_targets
    first = 0
    while first < count:
        place = first + tl.arange(0, BLOCK)
        support = place < own
        index = tl.load(index_ptr + row * width + place, mask=support, other=0)
        value = tl.load(value_ptr + row * width + place, mask=support, other=0.0)
        target = (place >= own) & (place < count)
        at = row * n_targets + place - own
        label = tl.load(target_ptr + at, mask=target, other=0)
        right = target & (label >= 0) & (label < n_classes)
        value -= tl.load(share_ptr + at, mask=right, other=0.0)
        index += tl.where(right, label, 0).to(tl.int32)
        tl.store(packed_index_ptr + start + place, index, mask=place < count)
        tl.store(packed_value_ptr + start + place, value, mask=place < count)
        tl.store(packed_row_ptr + start + place, row.to(tl.int32), mask=place < count)
        first += BLOCK


def label_shares(label: Tensor, ignore: int, mean: bool) -> tuple[Tensor, Tensor] | None:
    """What each label has, and what its loss counts, in one launch; None where they are many."""
    if not 0 < len(label) <= _LABELS:
        return None
    portion, share = torch.empty((2, len(label)), dtype=torch.float32, device=label.device)
    launch(
        _label_shares, (1, 1, 1), (label, portion, share, ignore, len(label)),
        {"MEAN": mean, "BLOCK": 2048}, {"num_warps": 16},
    )  # fmt: skip
    return portion, share


# -- candidates ------------------------------------------------------------------------------------


def supported(hidden: Tensor, n_classes: int, alpha: float) -> bool:
    """Whether supports are sought here: others are solved as whole rows."""
    return hidden.dtype in _ROUNDING and alpha >= LEAST_ALPHA and n_classes < 1 << 31


def candidates(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    alpha: float,
    first: int = 0,
    share: Tensor | None = None,
    scaling: Scaling = PLAIN,
) -> tuple[Candidates | None, Look]:
    """The classes of each row that can be in its support, with their exact scores.

    first : the number of the first of these classes, where they are some of more.
    share : rows with 0 have no candidates.

    None where others than the first chunks would be looked at in vain: most supports are large, or
    many rows do not count. The look has how many rows have too many candidates after the first
    chunk, how many have share 0, how many have too many at the end, and how many candidates the
    others have.
    """
    rows, classes = len(hidden), len(weight)
    device, kind = hidden.device, _kind(alpha).value
    edges = _edges(rows, classes, hidden.dtype)
    most = rows * max(aligned(b - a) for a, b in edges)
    buffer = torch.empty(most, dtype=hidden.dtype, device=device)
    error, look = _error(hidden, weight, scaling), None
    shape, scaled = _scaling_arguments(scaling)
    r, c, warps = _TILE
    solving = {"KEPT": KEPT, "KIND": kind, "STEPS": _STEPS, "ERRORS": error is not None}
    constants = {"R": r, "C": c, "GROUP": max(32 * warps // r, 1)}
    constants |= solving | {"SHARES": share is not None} | scaled
    for start, stop in edges:
        part, width = weight[start:stop], aligned(stop - start)
        x = buffer[: rows * width].view(rows, width)
        write_scores(x, hidden, part, None if bias is None else bias[start:stop])
        if start == 0:  # while that is under way
            lists = Candidates.empty(rows, KEPT, device)
            counters = torch.zeros(4, dtype=torch.int32, device=device)
            places = torch.empty((rows, c), dtype=torch.int32, device=device)
            tau = torch.empty_like(lists.top)
            state = (lists.index, lists.score, lists.count, tau, lists.top)
            errors = lists.top if error is None else error
            shares = lists.top if share is None else share
            scale = (alpha, _ROUNDING[hidden.dtype], _ERROR / scaling.temperature)
        launch(
            _collect, (rows, 1, 1),
            (x, places, *state, errors, shares, counters, *scale, start, width, *shape),
            constants | {"FIRST": start == 0}, {"num_warps": warps},
        )  # fmt: skip
        if start == 0 and len(edges) > 1:
            look = Look(counters)
        elif look is not None:
            unknown, unused, _, _ = look.read()
            if 3 * unknown > 2 * rows or unused > UNUSED * rows:
                return None, look
            look = None
    del buffer, places
    launch(_prune, (rows, 1, 1), (*state, errors, counters, *scale), solving, {"num_warps": 1})
    look = Look(counters)
    _score(hidden, weight, bias, lists.index, lists.score, lists.count, scaling)
    if first:
        lists.index += first
    return lists, look


def _edges(rows: int, classes: int, dtype: torch.dtype) -> list[tuple[int, int]]:
    """The chunks: two short ones, to see what supports are like, and as long as there is room.

    There are short ones where others follow or products are slow, those of 32-bit numbers.
    """
    size = max(_ROOM // (rows * dtype.itemsize) // _CLASSES * _CLASSES, _CLASSES)
    looks = classes > (4 * _SHORT if dtype == torch.float32 else size)
    cuts = [0]
    while cuts[-1] < classes:
        short = len(cuts) <= 2 and looks
        cuts.append(min(cuts[-1] + (min(_SHORT, size) if short else size), classes))
    return list(pairwise(cuts))


def _scaling_arguments(scaling: Scaling) -> tuple[tuple[float, float], dict[str, int]]:
    """What kernels are told of it: numbers and constants."""
    if scaling.plain:
        return (1.0, 1.0), {"SCALING": UNSCALED.value}
    kind = CAPPED if scaling.soft_cap else SCALED
    return (scaling.soft_cap, 1 / scaling.temperature), {"SCALING": kind.value}


def scores_at(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor, scaling: Scaling
) -> Tensor:
    """Scores (rows, width) in float32 of the classes ``index``; NaN where there is none."""
    out = torch.empty(index.shape, dtype=torch.float32, device=hidden.device)
    _score(hidden, weight, bias, index, out, None, scaling)
    return out


def _score(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor,
    out: Tensor,
    count: Tensor | None,
    scaling: Scaling,
) -> None:
    rows, width = index.shape
    if rows == 0 or width == 0:
        return
    group, block, warps = _DOTS
    group, block = min(group, triton.next_power_of_2(width)), feature_block(hidden.shape[1], block)
    given = (hidden, weight, weight if bias is None else bias, index)
    shape, scaled = _scaling_arguments(scaling)
    given += (index if count is None else count, out, width, hidden.shape[1], len(weight), *shape)
    constants = {"COUNTED": count is not None, "BIAS": bias is not None}
    constants |= {"GROUP": group, "BLOCK": block} | scaled
    launch(_dots, (rows, 1, 1), given, constants, {"num_warps": warps})


def _error(hidden: Tensor, weight: Tensor, scaling: Scaling) -> Tensor | None:
    """What sums of products of each row may be off by, where they are rounded before the sum."""
    if hidden.dtype == torch.float32 and hidden.is_cuda and torch.backends.cuda.matmul.allow_tf32:
        largest = torch.linalg.vector_norm(weight, dim=1).amax()
        return torch.linalg.vector_norm(hidden, dim=1) * (largest * 2.0**-9 / scaling.temperature)
    return None


def supports(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, alpha: float, scaling: Scaling
) -> Candidates:
    """The support of each row, with p for scores."""
    lists, _ = candidates(hidden, weight, bias, alpha, scaling=scaling)
    if lists is None:
        lists = Candidates.empty(len(hidden), 0, hidden.device)
        lists.count.fill_(1)
    else:
        finish(lists, alpha)
    return lists


def finish(lists: Candidates, alpha: float) -> None:
    """p in place of the scores of candidates."""
    _finished(lists, alpha, [lists.score] * 6, False, 0, False)


def _finished(
    lists: Candidates, alpha: float, given: list[Tensor], loss: bool, n_targets: int, entropy: bool
) -> None:
    rows, width = lists.index.shape
    arguments = (lists.index, lists.score, lists.count, lists.top, *given, alpha, width, n_targets)
    constants = {"WIDTH": triton.next_power_of_2(width), "KIND": _kind(alpha).value}
    constants |= {"STEPS": _STEPS, "LOSS": loss, "ENTROPY": entropy}
    launch(_finish, (rows, 1, 1), arguments, constants, {"num_warps": 1})


def solve_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    alpha: float,
    scaling: Scaling,
    meanwhile: Callable[[], None],
) -> tuple[Tensor, SparseRows, Tensor | None]:
    """Losses times shares, p - y, and the rows that have too large a support, if any.

    meanwhile : what the device may as well do before it is asked how large they are.
    """
    rows, width = targets.index.shape
    device = hidden.device
    lists, look = candidates(hidden, weight, bias, alpha, 0, targets.share, scaling)
    if lists is None:
        if look.read()[1] > UNUSED * rows:
            return _solve_used(hidden, weight, bias, targets, alpha, scaling, meanwhile)
        every = look.read()[1] == 0
        number = torch.arange(rows, device=device) if every else _used(targets)
        loss = torch.zeros(rows, dtype=torch.float32, device=device)
        return loss, SparseRows.empty(rows, device), number
    loss = torch.empty(rows, dtype=torch.float32, device=device)
    offsets = torch.empty(rows + 1, dtype=torch.int64, device=device)  # sizes at first
    portion, entropy = targets.portion, loss
    if width > 1:
        entropy = entropy_value(portion, "tsallis", alpha)
    own = scores_at(hidden, weight, bias, targets.index, scaling)
    given = [own, portion, targets.share, entropy, loss, offsets]
    _finished(lists, alpha, given, True, width, width > 1)
    offsets = offsets.cumsum(0)
    meanwhile()
    _, _, unknown, room = look.read()  # of the time before: the device has something to do
    room += rows * width
    # no class where there are no entries
    index = torch.full((room,), len(weight), dtype=torch.int32, device=device)
    value = torch.empty(room, dtype=torch.float32, device=device)
    row = torch.empty(room, dtype=torch.int32, device=device)
    given = (lists.index, lists.score, offsets, targets.index, portion, index, value, row)
    launch(_pack, (rows, 1, 1), (*given, KEPT, width, len(weight)), {"BLOCK": 32}, {"num_warps": 1})
    whole = lists.unknown().nonzero()[:, 0] if unknown else None
    return loss, SparseRows(offsets, index, value, row), whole


def _used(targets: Targets) -> Tensor:
    return targets.share.nonzero()[:, 0]


def _solve_used(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    alpha: float,
    scaling: Scaling,
    meanwhile: Callable[[], None],
) -> tuple[Tensor, SparseRows, Tensor | None]:
    """The same without the rows that do not count."""
    number, rows = _used(targets), len(hidden)
    loss = torch.zeros(rows, dtype=torch.float32, device=hidden.device)
    if not len(number):
        return loss, SparseRows.empty(rows, hidden.device), None
    some, sparse, whole = solve_rows(
        hidden[number], weight, bias, targets.take(number), alpha, scaling, meanwhile
    )
    loss[number] = some
    return loss, sparse.among(number, rows), None if whole is None else number[whole]
