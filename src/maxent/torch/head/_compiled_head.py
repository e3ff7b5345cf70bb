"""The head on CPU: supports by the core's threshold solver, sparse products as loops.

The functions of ``_triton_head`` for blocks of rows; imported where numba is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import torch
from maxent._support.compiling.kernels import njit
from maxent.core.kernels.threshold import solve_row
from maxent.torch.head._plain_scores import scores_at
from maxent.torch.head._sparse import Candidates, SparseRows, Targets, Turned
from maxent.torch.maps._compiled import _over_rows, _scratch
from maxent.torch.maps._dispatch import _array, compute_type, entropy_value
from maxent.torch.maps.scaling import Scaling
from torch import Tensor

__all__ = [
    "scores_at",
    "solve_rows",
    "supported",
    "supports",
    "times",
    "transposed_times",
    "turned",
]

_ROOM = 1 << 25  # scores that are there at a time
_MOST = 0.25  # larger parts of the classes are solved as whole rows


def supported(hidden: Tensor, n_classes: int, alpha: float) -> bool:
    """Whether supports are sought here: others are solved as whole rows."""
    return alpha > 1


def supports(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, alpha: float, scaling: Scaling
) -> Candidates:
    """The support of each row, with p for scores."""
    return _supports(hidden, weight, bias, alpha, scaling)[0]


def solve_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    alpha: float,
    scaling: Scaling,
    meanwhile: Callable[[], None],
) -> tuple[Tensor, SparseRows, Tensor | None]:
    """Losses times shares, p - y, and the rows that have too large a support, if any."""
    lists, excess = _supports(hidden, weight, bias, alpha, scaling)
    used = targets.share != 0
    unknown = used & lists.unknown()
    known = used & (lists.count > 0) & ~unknown
    portion, width = targets.portion, targets.index.shape[1]
    below = lists.top[:, None] - scores_at(hidden, weight, bias, targets.index, scaling)
    loss = excess + torch.where(portion == 0, 0, portion * below).sum(1)
    if width > 1:
        loss = loss + entropy_value(portion, "tsallis", alpha)
    # + 0: a loss of exactly zero has no sign; NaN stays
    loss = torch.where(known, loss.clamp_min(0) * targets.share + 0.0, 0)
    offsets = torch.nn.functional.pad(torch.where(known, lists.count + width, 0).cumsum(0), (1, 0))
    index = torch.empty(int(offsets[-1]), dtype=torch.int32)
    value = torch.empty(int(offsets[-1]), dtype=lists.score.dtype)
    given = (lists.index, lists.score, offsets, targets.index, portion, index, value)
    pack_rows(*map(_array, given), len(weight))
    number = unknown.nonzero()[:, 0]
    return loss, SparseRows(offsets, index, value), number if len(number) else None


def _supports(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, alpha: float, scaling: Scaling
) -> tuple[Candidates, Tensor]:
    """Supports, and what the conjugate exceeds the largest score by."""
    dtype = compute_type(hidden)
    rows, classes = len(hidden), len(weight)
    width = min(classes, max(512, int(_MOST * classes)))
    lists = Candidates.empty(rows, width, hidden.device, dtype)
    excess = torch.zeros(rows, dtype=dtype)
    block = max(_ROOM // max(classes, 1), 1)
    wide, offset = weight.to(dtype), None if bias is None else bias.to(dtype)
    for first in range(0, rows, block):
        part = slice(first, first + block)
        scores = torch.nn.functional.linear(hidden[part].to(dtype), wide, offset)
        scores = scaling.apply_(scores)
        out = [_array(x[part]) for x in (lists.index, lists.score, lists.count, lists.top, excess)]
        given = _array(scores)
        _over_rows(
            lambda start, stop, x=given, out=out: support_rows(x, alpha, *out, start, stop),
            *scores.shape,
        )
    return lists, excess


def times(sparse: SparseRows, share: Tensor, back: Tensor, rows: Tensor) -> Tensor:
    """The product of the sparse rows, each times its share and what comes back, with a matrix."""
    dtype = compute_type(rows)
    out = torch.zeros((len(sparse), rows.shape[1]), dtype=dtype)
    scale = (share * back).to(dtype)
    given = [_array(x) for x in (sparse.offsets, sparse.index, sparse.value, scale)]
    wide, into = _array(rows.to(dtype)), _array(out)
    _over_rows(lambda start, stop: combine_rows(*given, wide, into, start, stop), *out.shape)
    return out.to(rows.dtype)


def turned(sparse: SparseRows, n_classes: int) -> Turned:
    """The entries in the order of their classes."""
    entries = len(sparse.index)
    classes, order = torch.empty_like(sparse.index), torch.empty(entries, dtype=torch.int64)
    begin, end = torch.zeros((2, n_classes), dtype=torch.int64)
    count_classes(*map(_array, (sparse.index, classes, order, begin, end)))
    return Turned(classes, order, begin, end)


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
    if not len(sparse.index) or not hidden.shape[1]:
        return
    dtype = compute_type(hidden)
    kinds = torch.unique_consecutive(turned.classes).long()
    row = sparse.rows()[turned.order]
    value = sparse.value[turned.order] * (share * back).to(dtype)[row]
    offsets = torch.cat([turned.begin[kinds], turned.end[kinds[-1:]]])
    one = torch.ones((), dtype=dtype)
    columns = SparseRows(offsets, row, value)
    gradient = times(columns, one.expand(len(kinds)), one, hidden.to(dtype))
    to = kinds if rank is None else rank[kinds]
    out[to] = gradient.to(out.dtype) + (out[to] if add else 0)
    if bias is not None:
        sums = torch.zeros(len(kinds), dtype=dtype).index_add_(0, columns.rows(), value)
        bias[kinds] = sums.to(bias.dtype) + (bias[kinds] if add else 0)


@njit(cache=True, nogil=True, error_model="numpy")
def support_rows(theta, alpha, index, p, count, top, excess, start, stop):
    v, q, w, at, maxima = _scratch(theta)
    none = np.empty(0)
    a = alpha - 1.0
    width = index.shape[1]
    for r in range(start, stop):
        n, top[r], sigma = solve_row(theta[r], a, 1 / a, none, 1 / a, v, q, w, at, maxima)
        if n == 0:  # nothing to choose from, or no solution
            count[r] = 0 if top[r] == -np.inf else width + 1
            continue
        total, mean, kept = 0.0, 0.0, 0
        for j in range(n):
            total += w[j]
            mean += w[j] * v[j]
            kept += w[j] > 0.0
        # see tsallis_rows of the core
        excess[r] = (mean / total + sigma / a) / alpha
        count[r] = kept if kept <= width else width + 1
        if kept <= width:
            kept = 0
            for j in range(n):
                if w[j] > 0.0:
                    index[r, kept], p[r, kept] = at[j], w[j] / total
                    kept += 1


@njit(cache=True, nogil=True, error_model="numpy")
def pack_rows(index, p, offsets, target, share, packed_index, packed_value, n_classes):
    width = target.shape[1]
    for r in range(index.shape[0]):
        place = offsets[r]
        support = offsets[r + 1] - place - width
        if support < 0:
            continue
        for j in range(support):
            packed_index[place], packed_value[place] = index[r, j], p[r, j]
            place += 1
        for j in range(width):
            right = 0 <= target[r, j] < n_classes
            packed_index[place] = target[r, j] if right else 0
            packed_value[place] = -share[r, j] if right else 0.0
            place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def count_classes(index, classes, order, begin, end):
    """A stable sort by counting."""
    for c in index:
        end[c] += 1
    total = 0
    for c in range(end.size):
        begin[c] = total
        total += end[c]
        end[c] = begin[c]
    for e in range(index.size):
        c = index[e]
        classes[end[c]], order[end[c]] = c, e
        end[c] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def combine_rows(offsets, index, value, scale, rows, out, start, stop):
    features = rows.shape[1]
    for r in range(start, stop):
        for e in range(offsets[r], offsets[r + 1]):
            factor, row = value[e] * scale[r], rows[index[e]]
            for j in range(features):
                out[r, j] += factor * row[j]
