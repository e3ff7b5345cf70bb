"""Rows whose support is large, or has no zeros: whole rows of scores, some rows at a time.

Three products of matrices, as in a linear layer with a loss behind it, in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.nn.functional import linear

import torch
from maxent.torch.maps import _dispatch
from torch import Tensor

ROOM = 1 << 28  # bytes of scores that are there at a time


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


def blocks(hidden: Tensor, weight: Tensor) -> list[slice]:
    """Rows that fit together."""
    size = max(ROOM // max(len(weight) * hidden.element_size(), 1), 1)
    return [slice(first, first + size) for first in range(0, len(hidden), size)]


def losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    portion: Tensor,
    share: Tensor,
    kind: str,
    parameter: float,
    number: Tensor | None,
) -> tuple[Tensor, DenseRows | None]:
    """The losses of the rows, each times its share, and the gradients of their sum.

    target, portion : (rows, width), the classes of y and what they have of it.
    number : which rows they are, where gradients are wanted.
    """
    dtype = _dispatch.compute_type(hidden)
    if hidden.device.type == "cpu" and hidden.dtype != dtype:
        return _losses_in(
            dtype, hidden, weight, bias, target, portion, share, kind, parameter, number
        )
    total = torch.zeros(len(hidden), dtype=dtype, device=hidden.device)
    factor = torch.ones((), dtype=dtype, device=hidden.device)
    if hidden.dtype == torch.float16 and len(share):
        factor = share.abs().amax().clamp_min(1e-30)  # float16 has no room for small numbers
    relative = share / factor
    gradient = None
    if number is not None:
        made = [torch.empty_like(x) for x in (hidden, weight)]
        sums = None if bias is None else torch.zeros_like(bias)
        gradient = DenseRows(number, made[0], made[1], sums, factor)
    for rows in blocks(hidden, weight):
        total[rows], residual = _block(
            linear(hidden[rows], weight, bias), target[rows], portion[rows], relative[rows],
            kind, parameter,
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
    x: Tensor, target: Tensor, portion: Tensor, share: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor]:
    """Losses and gradients of rows of scores, times their shares."""
    label = target[:, 0].contiguous()
    if _dispatch.fuses(x, kind, parameter):
        loss, residual = _dispatch.shared_loss(x, label, share, kind, parameter, -1, False)
    else:
        loss, residual = _dispatch.loss(x, label, kind, parameter, -1, False)
        loss, residual = loss * share, residual * share[:, None].to(residual.dtype)
    if target.shape[1] == 1:
        return loss, residual
    # from the first class alone to all of y
    at, part = target.clamp(0, x.shape[1] - 1), portion.clone()
    part[:, 0] -= 1
    empty = x.amax(1, keepdim=True) == -torch.inf
    part = part.masked_fill(empty, 0)
    below = torch.where(part != 0, x.gather(1, at).to(part.dtype), 0)
    change = _dispatch.entropy_value(portion, kind, parameter) - (part * below).sum(1)
    residual.scatter_add_(1, at, (-part * share[:, None]).to(residual.dtype))
    return loss + share * change.masked_fill(empty[:, 0], 0), residual
