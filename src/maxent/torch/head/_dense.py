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
from maxent.torch.head._amended import class_weights, penalized
from maxent.torch.head._objective import Objective
from maxent.torch.head._sparse import Targets
from maxent.torch.maps import _dispatch
from maxent.torch.maps.scaling import Scaling
from torch import Tensor

ROOM = 1 << 28  # bytes of scores that are there at a time
ROOM_ON_CPU = 1 << 24
FEWEST = 64  # rows at a time on CPU, where the gradient of the weight is read for each


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


def blocks(hidden: Tensor, weight: Tensor, scaling: Scaling) -> list[slice]:
    """Rows that fit together."""
    dtype = hidden.dtype if scaling.plain else _dispatch.compute_type(hidden)
    return parts(len(hidden), len(weight) * dtype.itemsize, hidden.device)


def parts(rows: int, size: int, device: torch.device) -> list[slice]:
    """Rows that fit together, each of ``size`` bytes."""
    room, least = (ROOM_ON_CPU, FEWEST) if device.type == "cpu" else (ROOM, 1)
    step = max(room // max(size, 1), least)
    return [slice(first, first + step) for first in range(0, rows, step)]


def losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    number: Tensor | None,
    view: View | None = None,
) -> tuple[Tensor, DenseRows | None]:
    """The losses of the rows, each times its share, and the gradients of their sum.

    number : which rows they are, where gradients are wanted.
    """
    dtype = _dispatch.compute_type(hidden)
    if hidden.device.type == "cpu" and hidden.dtype != dtype:
        return _losses_in(dtype, hidden, weight, bias, targets, objective, number, view)
    total = torch.zeros(len(hidden), dtype=dtype, device=hidden.device)
    factor = torch.ones((), dtype=dtype, device=hidden.device)
    share = targets.share
    if hidden.dtype == torch.float16 and len(share):
        # float16 has no room for small numbers
        size = share.abs().amax().clamp_min(1e-30)
        factor = size if view is None else torch.maximum(size, factor * view.size)
    relative = targets.times(1 / factor)
    gradient = None
    if number is not None:
        made = [torch.empty_like(x) for x in (hidden, weight)]
        sums = None if bias is None else torch.zeros_like(bias)
        gradient = DenseRows(number, made[0], made[1], sums, factor)
    for rows in blocks(hidden, weight, objective.scaling):
        total[rows], residual = _block(
            linear(hidden[rows], weight, bias), relative.take(rows), objective,
            None if view is None else partial(view.see, rows=rows, factor=factor),
        )  # fmt: skip
        if gradient is not None:
            torch.mm(residual, weight, out=gradient.hidden[rows])
            torch.addmm(
                gradient.weight, residual.T, hidden[rows], beta=int(rows.start > 0),
                out=gradient.weight,
            )  # fmt: skip
            if gradient.bias is not None:
                gradient.bias += residual.sum(0)
    return total * factor, gradient


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
