"""Autograd around the head."""

from __future__ import annotations

from typing import Any

import torch
from maxent.torch.head._layer import without_autocast
from maxent.torch.head._objective import Objective
from maxent.torch.head._rows import gradients, solve
from maxent.torch.head._sparse import Targets
from maxent.torch.maps import _dispatch
from torch import Tensor


def apply_head(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    total: bool,
    sparse_grad: bool,
) -> Tensor:
    """The losses of the rows, each times its share, or their sum."""
    given = (hidden, weight, bias, *targets.tensors(), objective.kind, objective.numbers())
    loss: Tensor
    if not torch.compiler.is_compiling():
        loss = HeadLoss.apply(*given, total, sparse_grad)
        return loss
    if sparse_grad:
        raise NotImplementedError("sparse_grad=True is not for torch.compile: leave it out there")
    if total:
        loss = CompiledSum.apply(*given)[0]
        return loss
    loss = CompiledRows.apply(*given)
    return loss


class HeadLoss(torch.autograd.Function):
    """The losses; the forward pass keeps p - y where it has few entries."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        index: Tensor,
        portion: Tensor,
        share: Tensor,
        kept: Tensor | None,
        spread: Tensor | None,
        label_weight: Tensor | None,
        kind: str,
        numbers: list[float],
        total: bool,
        sparse_grad: bool,
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad[:3])
        targets = Targets(index, portion, share, kept, spread, label_weight)
        objective = Objective.of(kind, numbers)
        with without_autocast(hidden):
            solved = solve(hidden, weight, bias, targets, objective, wanted and total, sparse_grad)
        ctx.objective, ctx.sparse_grad, ctx.solved = objective, sparse_grad, solved
        ctx.save_for_backward(hidden, weight, bias, *targets.tensors())
        return solved.loss.sum() if total else solved.loss.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "linear_fenchel_young_loss has no second derivative (create_graph=True): use "
                "fenchel_young_loss(linear(hidden, weight, bias), target)"
            )
        hidden, weight, bias, *parts = ctx.saved_tensors
        made = gradients(
            hidden, weight, bias, Targets(*parts), ctx.solved, ctx.objective, g, ctx.sparse_grad
        )
        return *made, *(None,) * 10


# -- torch.compile: operators of tensors with known shapes -----------------------------------------


@torch.library.custom_op("maxent::head_losses", mutates_args=())
def _losses_op(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor,
    portion: Tensor,
    share: Tensor,
    kept: Tensor | None,
    spread: Tensor | None,
    label_weight: Tensor | None,
    kind: str,
    numbers: list[float],
) -> Tensor:
    targets = Targets(index, portion, share, kept, spread, label_weight)
    return solve(hidden, weight, bias, targets, Objective.of(kind, numbers), False).loss


@_losses_op.register_fake
def _(hidden: Tensor, *_: Any) -> Tensor:
    return hidden.new_empty(hidden.shape[0], dtype=_dispatch.compute_type(hidden))


@torch.library.custom_op("maxent::head_gradients", mutates_args=())
def _gradients_op(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor,
    portion: Tensor,
    share: Tensor,
    kept: Tensor | None,
    spread: Tensor | None,
    label_weight: Tensor | None,
    kind: str,
    numbers: list[float],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses and the gradients of their sum; that of the bias is empty where there is none."""
    targets = Targets(index, portion, share, kept, spread, label_weight)
    objective = Objective.of(kind, numbers)
    solved = solve(hidden, weight, bias, targets, objective, True)
    one = torch.ones((), dtype=share.dtype, device=share.device)
    d_hidden, d_weight, d_bias = gradients(hidden, weight, bias, targets, solved, objective, one)
    return solved.loss, d_hidden, d_weight, weight.new_empty(0) if d_bias is None else d_bias


@_gradients_op.register_fake
def _(hidden: Tensor, weight: Tensor, bias: Tensor | None, *_: Any) -> tuple[Tensor, ...]:
    return (
        hidden.new_empty(hidden.shape[0], dtype=_dispatch.compute_type(hidden)),
        torch.empty_like(hidden),
        torch.empty_like(weight),
        weight.new_empty(0) if bias is None else torch.empty_like(bias),
    )


class CompiledSum(torch.autograd.Function):
    """The sum of the losses, with its gradients."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        loss, *made = _gradients_op(*inputs)
        return loss.sum(), *made

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.has_bias = inputs[2] is not None
        ctx.save_for_backward(*output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = (g * x for x in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias if ctx.has_bias else None, *(None,) * 8


class CompiledRows(torch.autograd.Function):
    """The losses one by one; backward computes them again."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        loss: Tensor = _losses_op(*inputs)
        return loss

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kind, ctx.numbers = inputs[-2:]
        ctx.save_for_backward(*inputs[:-2])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, *parts = ctx.saved_tensors
        targets = Targets(*parts).times(g)
        _, *made = _gradients_op(hidden, weight, bias, *targets.tensors(), ctx.kind, ctx.numbers)
        return *made[:2], None if bias is None else made[2], *(None,) * 8
