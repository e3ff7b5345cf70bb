"""Rows whose support is large, or has no zeros: whole rows of scores, some rows at a time.

Three products of matrices, as in a linear layer with a loss behind it, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.nn.functional import linear

import torch
from maxent.torch.head._aligned import aligned, write_product, write_scores
from maxent.torch.head._amended import class_weights, penalized
from maxent.torch.head._objective import Objective
from maxent.torch.head._sparse import Targets
from maxent.torch.maps import _dispatch
from maxent.torch.maps.scaling import Scaling
from torch import Tensor

ROOM = 1 << 28  # bytes of scores, or of scores and residuals, that are there at a time
ROOM_ON_CPU = 1 << 24
FEWEST = 64  # rows at a time on CPU, where the gradient of the weight is read for each
WAVES = (1024, 128)  # rows of which there are a multiple on CUDA: whole waves of tiles


@dataclass(frozen=True)
class View:
    """What is shown the scores and residuals of rows, which it may add to.

    see : takes scores, residuals, which rows they are, and what residuals are multiplied by later.
    size : how large what it adds can be, before that.
    """

    see: Callable[..., None]
    size: float | Tensor = 0.0


@dataclass
class DenseRows:
    """Gradients of some rows, each to be multiplied by ``factor`` and what comes back.

    Attributes
    ----------
    number : tensor
        Which rows they are.
    hidden : tensor
        Gradient of the hidden vectors.
    weight : tensor
        Gradient of the weights.
    bias : tensor or None
        Gradient of the constants.
    factor : tensor
        What they are to be multiplied by.
    """

    number: Tensor
    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    factor: Tensor

    def finish(self) -> None:
        """Multiply them."""
        kernel = _dispatch.backend_of(self.hidden) == "triton"
        kernel = kernel and self.hidden.dtype != torch.float64
        for x in (self.hidden, self.weight, self.bias):
            if x is not None and kernel:
                _dispatch.rescale(x, self.factor)  # not even read where it is 1
            elif x is not None:
                x.mul_(self.factor)


def blocks(rows: int, weight: Tensor, scaling: Scaling, copies: int = 1) -> list[slice]:
    """Rows that fit together.

    copies : how many numbers there are for each score on CUDA.
    """
    dtype = weight.dtype if scaling.plain else _dispatch.compute_type(weight)
    row = max(len(weight) * dtype.itemsize, 1)
    if weight.device.type == "cpu":
        size = max(ROOM_ON_CPU // row, FEWEST)
    else:
        size = max(ROOM // (copies * row), 1)
        size -= next((size % wave for wave in WAVES if size >= wave), 0)
    return [slice(first, first + size) for first in range(0, rows, size)]


def losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    number: Tensor,
    gradients: bool,
    view: View | None = None,
) -> tuple[Tensor, DenseRows | None]:
    """The losses of some rows, each times its share, and the gradients of their sum.

    number : which rows of ``hidden`` they are; ``targets`` are of these alone.
    gradients : whether they are wanted.
    """
    dtype = _dispatch.compute_type(hidden)
    if hidden.device.type == "cpu" and hidden.dtype != dtype:
        return _losses_in(dtype, hidden, weight, bias, targets, objective, number, gradients, view)
    every, classes = len(number) == len(hidden), len(weight)
    total = torch.zeros(len(number), dtype=dtype, device=hidden.device)
    factor = torch.ones((), dtype=dtype, device=hidden.device)
    share = targets.share
    if hidden.dtype == torch.float16 and len(share):
        # float16 has no room for small numbers
        size = share.abs().amax().clamp_min(1e-30)
        factor = size if view is None else torch.maximum(size, factor * view.size)
    relative = targets.times(1 / factor)
    gradient = None
    if gradients:
        made = hidden.new_empty(len(number), hidden.shape[1]), torch.empty_like(weight)
        sums = None if bias is None else torch.zeros_like(bias)
        gradient = DenseRows(number, made[0], made[1], sums, factor)
    alone = view is None and targets.index.shape[1] == 1 and objective.plain
    room = _room(hidden, classes, objective) if alone else None
    parts = blocks(len(number), weight, objective.scaling, 2 if room is None else 1)
    if room is not None and parts:
        room = room.new_empty(min(parts[0].stop, len(number)), room.shape[1])
    for rows in parts:
        h, y = hidden[rows if every else number[rows]], relative.take(rows)
        if room is None:
            total[rows], residual = _block(
                linear(h, weight, bias), y, objective,
                None if view is None else partial(view.see, rows=rows, factor=factor),
            )  # fmt: skip
        else:
            x = room[: len(h)]
            residual = write_scores(x, h, weight, bias)
            total[rows] = _loss_in_place(x, classes, y, objective)
        if gradient is not None:
            if room is None:
                torch.mm(residual, weight, out=gradient.hidden[rows])
            else:
                write_product(gradient.hidden[rows], residual, weight)
            torch.addmm(
                gradient.weight, residual.T, h, beta=int(rows.start > 0), out=gradient.weight
            )
            if gradient.bias is not None:
                gradient.bias += residual.sum(0)
        del residual  # before there are other scores
    return total * factor, gradient


def _room(hidden: Tensor, classes: int, objective: Objective) -> Tensor | None:
    """A row of scores whose residuals may take their place, with columns to spare; or None."""
    if hidden.device.type == "cpu":
        return None
    row = hidden.new_empty(1, aligned(classes))
    return row if _dispatch.fuses(row, objective.kind, objective.parameter) else None


def _loss_in_place(x: Tensor, classes: int, targets: Targets, objective: Objective) -> Tensor:
    """Losses times shares of scores with columns of -inf behind them; residuals in their place."""
    label = targets.index[:, 0].contiguous()
    if x.shape[1] > classes:  # a label of these columns is none either
        label = torch.where(label < classes, label, x.shape[1])
    kind, parameter = objective.kind, objective.parameter
    return _dispatch.shared_loss(x, label, targets.share, kind, parameter, -1, False, True)[0]


def _losses_in(
    dtype: torch.dtype, hidden: Tensor, weight: Tensor, bias: Tensor | None, *given: Any
) -> tuple[Tensor, DenseRows | None]:
    """``losses`` computed in another type, with gradients of the types of their inputs."""
    wide = None if bias is None else bias.to(dtype)
    total, gradient = losses(hidden.to(dtype), weight.to(dtype), wide, *given)
    if gradient is not None:
        gradient.hidden = gradient.hidden.to(hidden.dtype)
        gradient.weight = gradient.weight.to(weight.dtype)
        if bias is not None and gradient.bias is not None:
            gradient.bias = gradient.bias.to(bias.dtype)
    return total, gradient


def _block(
    scores: Tensor,
    targets: Targets,
    objective: Objective,
    see: Callable[[Tensor, Tensor], None] | None,
) -> tuple[Tensor, Tensor]:
    """Losses and gradients of rows of scores, times their shares."""
    kind, parameter, scaling = objective.kind, objective.parameter, objective.scaling
    x = scores if scaling.plain else scaling.apply_(scores.to(_dispatch.compute_type(scores)))
    target, portion, share = targets.index, targets.portion, targets.share
    label = target[:, 0].contiguous()
    if _dispatch.fuses(x, kind, parameter):
        loss, residual = _dispatch.shared_loss(x, label, share, kind, parameter, -1, False)
    else:
        loss, residual = _dispatch.loss(x, label, kind, parameter, -1, False)
        loss, residual = loss * share, residual.mul_(share[:, None].to(residual.dtype))
    if target.shape[1] == 1 and objective.plain and see is None:
        return loss, residual
    # from the first class alone to all of y
    at, part = target.clamp(0, x.shape[1] - 1), portion.clone()
    part[:, 0] -= 1
    empty = x.amax(1, keepdim=True) == -torch.inf
    part = part.masked_fill(empty, 0)
    own = x.gather(1, at).to(part.dtype)
    change = targets.entropy(kind, parameter) - torch.where(part != 0, part * own, 0).sum(1)
    loss = loss + share * torch.where(empty[:, 0], 0, change)
    first = torch.zeros_like(part)
    first[:, 0] = 1
    taken = targets.left() - first
    if objective.z_loss:
        conjugate = loss / share + targets.expected(own) - targets.entropy(kind, parameter)
        loss, factor = penalized(loss, conjugate, share, objective.z_loss)
        residual.mul_(factor[:, None].to(residual.dtype))
        taken = taken + (1 - factor[:, None]) * first
    taken = taken.masked_fill(empty, 0) * share[:, None]
    residual.scatter_add_(1, at, -taken.to(residual.dtype))
    if objective.dense:
        loss = _smoothed(x, residual, loss, own, targets, objective)
    if see is not None:
        see(x, residual)
    if not scaling.plain:
        residual.mul_(scaling.slope(x))
    return loss, residual.to(scores.dtype)


def _smoothed(
    x: Tensor, residual: Tensor, loss: Tensor, own: Tensor, targets: Targets, objective: Objective
) -> Tensor:
    """Losses with what smoothing adds to them, which is added to the residual in place.

    Capped scores alone: others have it at once, see ``_amended``.
    """
    assert targets.spread is not None
    importance = class_weights(targets, x.shape[1], loss.dtype)
    spread = targets.spread.masked_fill(x.amax(1) == -torch.inf, 0)
    y = targets.expected(own) - targets.entropy(objective.kind, objective.parameter)
    level = x @ importance
    if bool((level == -torch.inf).any()) or bool(level.isnan().any()):
        level = torch.where(importance == 0, 0, x * importance).sum(1)
    change = importance.mean() * y - level / x.shape[1]
    scale = spread * objective.label_smoothing
    residual.addr_(scale / x.shape[1], importance, alpha=-1)
    return loss + torch.where(scale == 0, 0, scale * change)
