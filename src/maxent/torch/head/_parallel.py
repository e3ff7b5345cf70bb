"""Losses where each process of a group has some of the classes.

Rows are solved some at a time. A process solves for its own classes; its threshold is at most that
of all. The largest threshold is told to all, and then the few classes above it: with these each
process finds the same solution. Rows with many such classes, as in the first steps of training, are
solved by Newton's steps on sums over the processes, and those of Shannon's entropy by one sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from maxent.torch.head._amended import add_smoothing, penalized, weighted_sum
from maxent.torch.head._dense import FEWEST, ROOM, ROOM_ON_CPU
from maxent.torch.head._layer import without_autocast
from maxent.torch.head._objective import Objective
from maxent.torch.head._rows import kernels
from maxent.torch.head._shards import Shards
from maxent.torch.head._sparse import SparseRows, Targets
from maxent.torch.maps import _dispatch
from torch import Tensor

TOLD = 48  # candidates of a row that are told; sums take fewer bytes than more of them
KEPT = 512  # candidates of a row whose gradient is kept; one with more is computed again
_STEPS = 100


@dataclass
class Solved:
    """What the backward pass needs of the rows.

    Attributes
    ----------
    factor : tensor (n_rows,)
        What p is multiplied by.
    level : tensor (n_rows,)
        The threshold, or the log-partition; NaN in rows that ``residual`` has.
    residual : SparseRows
        The gradient by the scores here, of rows with few candidates; empty rows elsewhere.
    """

    factor: Tensor
    level: Tensor
    residual: SparseRows


class ParallelLoss(torch.autograd.Function):
    """The losses, each times its share, or their sum; the same in every process."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Targets,
        objective: Objective,
        shards: Shards,
        total: bool,
    ) -> Tensor:
        with without_autocast(hidden):
            loss, solved = _solve(hidden, weight, bias, targets, objective, shards)
        ctx.save_for_backward(hidden, weight, bias)
        ctx.rest = (targets, objective, shards, solved)
        return loss.sum() if total else loss

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError("a loss with a group has no second derivative (create_graph)")
        hidden, weight, bias = ctx.saved_tensors
        targets, objective, shards, solved = ctx.rest
        made = _gradients(hidden, weight, bias, targets, objective, shards, solved, g)
        return *made, None, None, None, None


def _blocks(rows: int, shards: Shards, dtype: torch.dtype, device: torch.device) -> list[slice]:
    """Rows at a time, the same in every process."""
    room, least = (ROOM_ON_CPU, FEWEST) if device.type == "cpu" else (ROOM, 1)
    size = max(room // (shards.largest * dtype.itemsize), least)
    return [slice(first, first + size) for first in range(0, rows, size)]


def _scores(hidden: Tensor, weight: Tensor, bias: Tensor | None, objective: Objective) -> Tensor:
    """x of the classes here."""
    scores = torch.nn.functional.linear(hidden, weight, bias)
    return objective.scaling.apply_(scores.to(_dispatch.compute_type(scores)))


def _wide(
    hidden: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The layer in the type of the computation, where products in 16 bits are slow: on CPU."""
    if hidden.device.type != "cpu":
        return hidden, weight, bias
    dtype = _dispatch.compute_type(hidden)
    return hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


def _solve(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    shards: Shards,
) -> tuple[Tensor, Solved]:
    """Losses times shares."""
    dtype, device = _dispatch.compute_type(hidden), hidden.device
    rows = len(hidden)
    conjugate = torch.zeros(rows, dtype=dtype, device=device)
    level = torch.full((rows,), torch.nan, dtype=torch.float64, device=device)
    own = torch.zeros(targets.index.shape, dtype=dtype, device=device)
    given, entries = _wide(hidden, weight, bias), []
    sparse = kernels(hidden, shards.own, objective.kind, objective.parameter)
    for part in _blocks(rows, shards, dtype, device):
        x = _scores(given[0][part], *given[1:], objective)
        at = targets.index[part]
        mine = shards.mine(at)
        seen = torch.where(mine, x.gather(1, shards.local(at)), 0)
        own[part] = shards.summed(seen)
        if objective.parameter == 1:
            conjugate[part] = level[part] = _log_partition(x, shards)
            continue
        found = _thresholds(x, objective.parameter, shards, part.start, sparse is not None)
        conjugate[part], level[part] = found[:2]
        if found[2] is not None:
            entries.append(found[2])
    outside = (targets.index < 0) | (targets.index >= shards.classes)
    own = own.masked_fill(outside, torch.nan)
    y = targets.entropy(objective.kind, objective.parameter)
    excess = conjugate - targets.expected(own) + y
    empty = conjugate == -torch.inf
    excess = excess.masked_fill(empty, 0)
    used = targets.share != 0
    loss = torch.where(used, excess.clamp_min(0) * targets.share + 0.0, 0)
    factor = torch.ones_like(loss)
    if objective.z_loss:
        square, factor = penalized(loss, conjugate, targets.share, objective.z_loss)
        loss = torch.where(used, square, 0)
    residual = _packed(entries, targets, own, factor, level, objective, shards)
    if objective.rank_one and rows:
        change = _smoothing(hidden, weight, bias, targets, own, objective, shards)
        loss = loss + change.masked_fill(empty, 0)
    return loss, Solved(factor, level, residual)


def _log_partition(x: Tensor, shards: Shards) -> Tensor:
    """Of rows, by the largest score and one sum; NaN where there is NaN or +inf."""
    bad = ~(x < torch.inf).all(1)
    top = shards.largest_of(torch.where(bad, torch.inf, x.amax(1)))
    base = torch.where(top.isfinite(), top, 0)
    mass = shards.summed((x - base[:, None]).exp_().sum(1))
    return torch.where(top == torch.inf, torch.nan, base + mass.log())


def _thresholds(
    x: Tensor, alpha: float, shards: Shards, first: int, sparse: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor, Tensor] | None]:
    """Conjugates and thresholds of rows, and the entries here of those with few candidates.

    The threshold of the latter is NaN: their entries are known. An entry is a row (counted from
    ``first``), a class here, its score and its probability.
    """
    a = alpha - 1
    p = _dispatch.as_map(x, "tsallis", alpha, None)
    best, at = x.max(1)
    bad = ~(x < torch.inf).all(1)
    here = best - p.gather(1, at[:, None])[:, 0].pow(a) / a
    here = torch.where(best == -torch.inf, -torch.inf, here)
    tau = shards.largest_of(torch.where(bad, torch.inf, here))
    bad, empty = tau == torch.inf, tau == -torch.inf
    # rounding of thresholds
    slack = 16 * torch.finfo(x.dtype).eps * (tau.abs() + 1 / a)
    near = (p > 0) & (x > (tau - slack)[:, None]) & ~(bad | empty)[:, None]
    count = shards.summed(near.sum(1, dtype=torch.int32))
    conjugate = torch.full_like(tau, torch.nan)
    level = tau.double().masked_fill(bad, torch.nan)
    conjugate[empty] = -torch.inf
    known = (count > 0) & (count <= TOLD)
    q = torch.zeros_like(p)  # the solution for all, where it is kept
    if bool(known.any()):
        found = _by_candidates(x, near & known[:, None], alpha, shards)
        threshold, value, row, column, share = found
        conjugate = torch.where(known, value, conjugate)
        level = torch.where(known, threshold.double(), level)
        q[row, column] = share
    many = (count > 0) & ~known
    if bool(many.any()):
        wide = x[many].double()
        tau, value = _by_sums(wide, (tau - slack)[many].double(), alpha, shards)
        level[many], conjugate[many] = tau, value.to(x.dtype)
        q[many] = _powers(wide, tau, a).to(x.dtype)
    entries = None
    kept = (count > 0) & (count <= KEPT)
    if sparse and bool(kept.any()):
        row, column = (near & kept[:, None]).nonzero(as_tuple=True)
        entries = (row + first, column, x[row, column], q[row, column])
        level = level.masked_fill(kept, torch.nan)
    return conjugate, level, entries


def _by_candidates(
    x: Tensor, near: Tensor, alpha: float, shards: Shards
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Thresholds and conjugates of rows, and p of their candidates here, which are marked.

    The candidates of all processes have whole solutions of few entries.
    """
    row, column = near.nonzero(as_tuple=True)
    told = shards.gathered(row.to(torch.int32), x[row, column])
    begin = sum(len(part) for part in told[0][: shards.rank])
    rows, scores = torch.cat(told[0]).long(), torch.cat(told[1])
    counts = torch.bincount(rows, minlength=len(x))
    order = torch.argsort(rows, stable=True)
    number = torch.arange(len(rows), device=x.device)
    place = torch.empty_like(number)
    place[order] = number - (counts.cumsum(0) - counts)[rows[order]]
    padded = x.new_full((len(x), int(counts.max())), -torch.inf)
    padded[rows, place] = scores
    p, top, excess = _dispatch.conjugate(padded, "tsallis", alpha)
    threshold = top - p.amax(1).pow(alpha - 1) / (alpha - 1)
    return threshold, top + excess, row, column, p[row, place[begin : begin + len(row)]]


def _by_sums(x: Tensor, tau: Tensor, alpha: float, shards: Shards) -> tuple[Tensor, Tensor]:
    """Thresholds and conjugates of rows from a lower bound, by steps on sums over the processes.

    Newton's in a bracket: the largest p is at least 1 / classes.
    """
    a = alpha - 1
    top = shards.largest_of(x.amax(1))
    low, high = tau, top - shards.classes ** (-a) / a
    for step in range(_STEPS):
        p = _powers(x, tau, a)
        sums = torch.stack([p.sum(1), torch.where(p > 0, p.pow(1 - a), 0).sum(1)])
        mass, slope = shards.summed(sums)
        done = (mass - 1).abs() <= 1e-12
        if bool(done.all()):
            break
        low = torch.where(mass >= 1, torch.maximum(low, tau), low)
        high = torch.where(mass <= 1, torch.minimum(high, tau), high)
        newton = tau + mass * (1 - mass.pow(-a)) / (a * slope)
        inside = (newton > low) & (newton < high)
        if a > 1 and step % 2:  # steep: Newton's steps alone may creep
            inside = torch.zeros_like(inside)
        tau = torch.where(done, tau, torch.where(inside, newton, (low + high) / 2))
    power = shards.summed(_powers(x, tau, a).pow(alpha).sum(1))
    return tau, tau + 1 / a + (power - 1) / alpha


def _powers(x: Tensor, tau: Tensor, a: float) -> Tensor:
    return (a * (x - tau[:, None])).clamp_min(0).pow(1 / a)


def _packed(
    entries: list[tuple[Tensor, Tensor, Tensor, Tensor]],
    targets: Targets,
    own: Tensor,
    factor: Tensor,
    level: Tensor,
    objective: Objective,
    shards: Shards,
) -> SparseRows:
    """The gradient by the scores here, of rows whose candidates are known."""
    rows, scaling = len(factor), objective.scaling
    if not entries:
        return SparseRows.empty(rows, factor.device)
    row, column, score, p = (torch.cat(parts) for parts in zip(*entries, strict=True))
    value = factor[row] * p * scaling.slope(score)
    # a row without candidates here may have its target here
    known = level.isnan() & (targets.share != 0)
    at = (shards.mine(targets.index) & known[:, None]).nonzero(as_tuple=True)
    taken = -(targets.left() * scaling.slope(own))[at]
    column = torch.cat([column, shards.local(targets.index)[at]])
    row, value = torch.cat([row, at[0]]), torch.cat([value, taken.to(value.dtype)])
    kept = targets.share[row] != 0
    row, column, value = row[kept], column[kept], value[kept]
    order = torch.argsort(row, stable=True)
    offsets = torch.nn.functional.pad(torch.bincount(row, minlength=rows).cumsum(0), (1, 0))
    return SparseRows(offsets, column[order].to(torch.int32), value[order])


def _smoothing(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    own: Tensor,
    objective: Objective,
    shards: Shards,
) -> Tensor:
    """What smoothing adds to the losses."""
    assert targets.spread is not None
    importance = _importance(targets, shards)
    total = hidden.to(own.dtype) @ weighted_sum(weight, importance)
    if bias is not None:
        total = total + torch.where(importance == 0, 0, importance * bias.to(own.dtype)).sum()
    total = shards.summed(total) / objective.scaling.temperature
    mean = 1.0 if targets.label_weight is None else targets.label_weight.mean()
    y = targets.expected(own) - targets.entropy(objective.kind, objective.parameter)
    change = objective.label_smoothing * (mean * y - total / shards.classes)
    return torch.where(targets.spread == 0, 0, targets.spread * change)


def _importance(targets: Targets, shards: Shards) -> Tensor:
    """How much each class here counts when labels are smoothed."""
    if targets.label_weight is None:
        return torch.ones(shards.own, dtype=targets.share.dtype, device=targets.share.device)
    return targets.label_weight[shards.first : shards.first + shards.own]


def _gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    shards: Shards,
    solved: Solved,
    back: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of hidden, weight and bias; the first is summed over the processes."""
    dtype = _dispatch.compute_type(hidden)
    h, w, b = _wide(hidden, weight, bias)
    d_hidden, d_weight = torch.zeros_like(h), torch.zeros_like(w)
    d_bias = None if b is None else torch.zeros_like(b)
    back = back.contiguous()
    sparse = kernels(h, shards.own, objective.kind, objective.parameter)
    if sparse is not None and len(solved.residual.index):
        residual = solved.residual
        d_hidden = sparse.times(residual, targets.share, back, w)
        turned = sparse.turned(residual, shards.own)
        sparse.transposed_times(residual, turned, targets.share, back, h, d_weight, d_bias, False)
    y = targets.times(back)
    number = (~solved.level.isnan() & (targets.share != 0)).nonzero()[:, 0]
    for part in _blocks(len(number), shards, dtype, hidden.device):
        rows = number[part]
        x = _scores(h[rows], w, b, objective)
        values = _residual(x, y.take(rows), solved, rows, objective, shards).to(h.dtype)
        d_hidden[rows] += values @ w
        d_weight.addmm_(values.T, h[rows])
        if d_bias is not None:
            d_bias += values.sum(0)
    if objective.rank_one and len(hidden):
        weights = None if targets.label_weight is None else _importance(targets, shards)
        here = replace(targets, label_weight=weights)
        add_smoothing((d_hidden, d_weight, d_bias), h, w, here, objective, back, shards.classes)
    d_hidden = shards.summed(d_hidden.to(dtype), "gradient of hidden")
    bias_gradient = None if bias is None or d_bias is None else d_bias.to(bias.dtype)
    return d_hidden.to(hidden.dtype), d_weight.to(weight.dtype), bias_gradient


def _residual(
    x: Tensor,
    y: Targets,
    solved: Solved,
    rows: Tensor,
    objective: Objective,
    shards: Shards,
) -> Tensor:
    """The gradient of whole rows by the scores here."""
    level = solved.level[rows]
    if objective.parameter == 1:
        p = (x - level.to(x.dtype)[:, None]).exp()
        p = p.masked_fill((level == -torch.inf)[:, None], 0)
    else:
        p = _powers(x.double(), level, objective.parameter - 1).to(x.dtype)
        p = p.masked_fill((level == -torch.inf)[:, None], 0)
    values = p.mul_((solved.factor[rows] * y.share)[:, None])
    taken = torch.where(shards.mine(y.index), y.left() * y.share[:, None], 0)
    taken = taken.masked_fill((level == -torch.inf)[:, None], 0)
    values.scatter_add_(1, shards.local(y.index), -taken.to(values.dtype))
    return values if objective.scaling.plain else values * objective.scaling.slope(x)
