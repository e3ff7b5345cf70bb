"""Autograd around the row maps: derivatives of any order, torch.func transforms, torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from maxent.torch._operators import eager, fold, runs_here
from maxent.torch.maps import _derivatives, _dispatch, _plain, _unrolled
from torch import Tensor

_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)


@torch.library.custom_op("maxent::map", mutates_args=())
def _map_op(x: Tensor, kind: str, parameter: float, parameters: Tensor | None) -> Tensor:
    return _dispatch.as_map(x, kind, parameter, parameters)


@_map_op.register_fake
def _(x: Tensor, kind: str, parameter: float, parameters: Tensor | None) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("maxent::loss", mutates_args=())
def _loss_op(
    x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int, check: bool
) -> tuple[Tensor, Tensor]:
    return _dispatch.loss(x, target, kind, parameter, ignore, check)


@_loss_op.register_fake
def _(
    x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int, check: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0], dtype=_dispatch.compute_type(x)), torch.empty_like(x)


def direct(x: Tensor, dim: int) -> bool:
    """Whether a kernel takes the scores as they lie, and nothing but backward looks on."""
    return (
        type(x) is Tensor
        and x.is_cuda
        and x.dtype in _KERNEL_TYPES
        and (dim == -1 or dim == x.ndim - 1)
        and x.is_contiguous()
        and x.numel() > 0
        and eager(x)
        and not torch._C._is_tracing()
        and _dispatch.direct(x)
    )


def direct_map(x: Tensor, alpha: float) -> Tensor:
    """entmax of what is ``direct``."""
    p: Tensor
    if torch.is_grad_enabled() and x.requires_grad:
        p = DirectMap.apply(x, alpha)
    else:
        p = _dispatch.direct_map(x, alpha)
    return p


def _check_transforms() -> None:
    """Refuse forward mode within forward mode, which loses the tangents of what was saved."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return
    functorch = torch._C._functorch
    stack = functorch.get_interpreter_stack() or []
    if sum(level.key() == functorch.TransformType.Jvp for level in stack) > 1:
        raise NotImplementedError(
            "forward mode within forward mode (jacfwd of jacfwd): use torch.func.hessian or "
            "jacfwd of jacrev"
        )


def apply_map(x: Tensor, parameters: Tensor | None, kind: str, parameter: float) -> Tensor:
    """p of each row of a contiguous (rows, size) tensor, by the shortest way to it."""
    if _plain.recording():
        return _unrolled.as_map(x, kind, parameter, parameters)
    _check_transforms()
    p: Tensor
    if not eager(x):
        p = _map_function().apply(x, parameters, kind, parameter)
    elif torch.is_grad_enabled() and (
        x.requires_grad or (parameters is not None and parameters.requires_grad)
    ):
        p = EagerMap.apply(x, parameters, kind, parameter)
    else:
        p = _dispatch.as_map(x, kind, parameter, parameters)
    return p


def apply_loss(
    x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int, check: bool
) -> Tensor:
    """The loss of each row."""
    if _plain.recording():
        return _unrolled.loss(x, target, kind, parameter, ignore)
    _check_transforms()
    chosen = EagerLoss if eager(x) else _loss_function()
    loss: Tensor = chosen.apply(x, target, kind, parameter, ignore, check)[0]
    return loss


def _map_function() -> type[Map]:
    return Map if torch.compiler.is_compiling() else ForwardMap


def _loss_function() -> type[Loss]:
    return Loss if torch.compiler.is_compiling() else ForwardLoss


def fused(x: Tensor, kind: str, parameter: float) -> bool:
    """Whether ``LossSum`` takes these scores: outside of torch.func and torch.compile alone."""
    return eager(x) and not _plain.recording() and _dispatch.fuses(x, kind, parameter)


class Map(torch.autograd.Function):
    """p of each row of a contiguous (rows, size) tensor."""

    @staticmethod
    def forward(x: Tensor, parameters: Tensor | None, kind: str, parameter: float) -> Tensor:
        run = _dispatch.as_map if runs_here(x) else _map_op
        p: Tensor = run(x, kind, parameter, parameters)
        return p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, parameters, ctx.kind, ctx.parameter = inputs
        ctx.save_for_backward(output, parameters)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        p, parameters = ctx.saved_tensors
        dx = dalpha = None
        if ctx.needs_input_grad[0]:
            dx = _dispatch.vjp(ctx.kind, p, g, ctx.parameter, parameters)
        if ctx.needs_input_grad[1]:
            dtype = _dispatch.compute_type(p)
            alphas = parameters.to(dtype)[:, None]
            dalpha = _derivatives.alpha_vjp(p.to(dtype), g.to(dtype), alphas)[:, 0]
            dalpha = dalpha.to(parameters.dtype)
        return dx, dalpha, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        x: Tensor,
        parameters: Tensor | None,
        kind: str,
        parameter: float,
    ) -> tuple[Tensor, int]:
        """More rows."""
        batch = info.batch_size
        rows = fold(x, batch, in_dims[0])
        alphas = None if parameters is None else fold(parameters, batch, in_dims[1])
        p = _map_function().apply(rows, alphas, kind, parameter)
        return p.unflatten(0, (batch, -1)), 0


class ForwardMap(Map):
    """``Map`` with forward mode, which torch.compile refuses to see."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        Map.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output, inputs[1])

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dparameters: Tensor | None, *_: None) -> Tensor:
        """Forward mode; the Jacobian in x is symmetric."""
        p, parameters = ctx.saved_tensors
        dp = torch.zeros_like(p)
        if dx is not None:
            dp = _dispatch.plain_vjp(ctx.kind, p, dx, ctx.parameter, parameters)
        if dparameters is not None and ctx.kind == "tsallis":
            dtype = _dispatch.compute_type(p)
            alphas, change = parameters.to(dtype)[:, None], dparameters.to(dtype)[:, None]
            dp = dp + _derivatives.alpha_jvp(p.to(dtype), change, alphas).to(p.dtype)
        return dp


class EagerMap(torch.autograd.Function):
    """``Map`` without torch.func, whose checks of every call cost as much as a small map."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        p = Map.forward(*inputs)
        Map.setup_context(ctx, inputs, p)
        return p

    backward = Map.backward


class DirectMap(torch.autograd.Function):
    """``EagerMap`` of scores that are ``direct``, of any shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float) -> Tensor:
        p = _dispatch.direct_map(x, alpha)
        ctx.save_for_backward(p)
        ctx.alpha = alpha
        return p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        if type(g) is Tensor and not torch.is_grad_enabled() and _dispatch.direct_pair(p, g):
            return _dispatch.direct_vjp(p, g, ctx.alpha), None
        if g.shape != p.shape:  # a batch of gradients
            return _dispatch.plain_vjp("tsallis", p, g, ctx.alpha, None), None
        size = p.shape[-1]
        rows, cotangent = p.reshape(-1, size), g.reshape(-1, size)
        return _dispatch.vjp("tsallis", rows, cotangent, ctx.alpha, None).reshape(p.shape), None


class Loss(torch.autograd.Function):
    """The loss of each row, and its gradient p - y, kept so that backward is one product."""

    @staticmethod
    def forward(
        x: Tensor, target: Tensor, kind: str, parameter: float, ignore: int, check: bool
    ) -> tuple[Tensor, Tensor]:
        run = _dispatch.loss if runs_here(x) else _loss_op
        both: tuple[Tensor, Tensor] = run(x, target, kind, parameter, ignore, check)
        return both

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, target, ctx.kind, ctx.parameter, ctx.ignore, _ = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], target)

    @staticmethod
    def backward(
        ctx: Any, g: Tensor | None, g_residual: Tensor | None
    ) -> tuple[Tensor | None, None, None, None, None, None]:
        residual, target = ctx.saved_tensors
        dx = None if g is None else (g[:, None] * residual).to(residual.dtype)
        if g_residual is not None:  # a second derivative
            p = _prediction(residual, target, ctx.ignore)
            second = _dispatch.vjp(ctx.kind, p, g_residual, ctx.parameter, None)
            dx = second if dx is None else dx + second
        return dx, None, None, None, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        x: Tensor,
        target: Tensor,
        kind: str,
        parameter: float,
        ignore: int,
        check: bool,
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """More rows."""
        batch = info.batch_size
        rows, targets = fold(x, batch, in_dims[0]), fold(target, batch, in_dims[1])
        loss, residual = _loss_function().apply(rows, targets, kind, parameter, ignore, check)
        return (loss.unflatten(0, (batch, -1)), residual.unflatten(0, (batch, -1))), (0, 0)


class ForwardLoss(Loss):
    """``Loss`` with forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        Loss.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output[1], inputs[1])

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, *_: None) -> tuple[Tensor, Tensor]:
        """Forward mode."""
        residual, target = ctx.saved_tensors
        slope = (residual * dx).sum(1).to(_dispatch.compute_type(residual))
        p = _prediction(residual, target, ctx.ignore)
        return slope, _dispatch.plain_vjp(ctx.kind, p, dx, ctx.parameter, None)


def _prediction(residual: Tensor, target: Tensor, ignore: int) -> Tensor:
    """p of the residual p - y; an ignored row, whose residual is 0, has no derivative there."""
    if target.is_floating_point():
        void = _plain.ignored(target, ignore)
        return residual + target.to(residual.dtype).masked_fill(void[:, None], 0)
    own = target.clamp(0, residual.shape[1] - 1)[:, None]
    return residual.scatter_add(1, own, torch.ones_like(own, dtype=residual.dtype))


class EagerLoss(torch.autograd.Function):
    """``Loss`` without torch.func."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        both = Loss.forward(*inputs)
        Loss.setup_context(ctx, inputs, both)
        return both

    backward = Loss.backward


class LossSum(torch.autograd.Function):
    """The sum of losses by labels, each times its share, where there is a fused kernel.

    The gradient is written with its shares in the pass that computes the loss, and is what
    backward returns: it is not read again unless something other than 1 comes back.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        target: Tensor,
        share: Tensor | None,
        kind: str,
        parameter: float,
        ignore: int,
        check: bool,
    ) -> Tensor:
        loss, gradient = _dispatch.shared_loss(x, target, share, kind, parameter, ignore, check)
        ctx.kind, ctx.parameter, ctx.ignore, ctx.spent = kind, parameter, ignore, False
        ctx.save_for_backward(x, target, share, gradient)
        return loss.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, target, share, gradient = ctx.saved_tensors
        if torch.is_grad_enabled() or not _dispatch.has_memory(g):  # differentiated again, a batch
            _, residual = EagerLoss.apply(x, target, ctx.kind, ctx.parameter, ctx.ignore, False)
            gradient = (_scaled(g, share)[..., None] * residual).to(x.dtype)
        elif ctx.spent:
            scaled = _scaled(g, share).expand(len(x)).contiguous()
            gradient = _dispatch.shared_loss(
                x, target, scaled, ctx.kind, ctx.parameter, ctx.ignore, False
            )[1]
        else:
            ctx.spent = True
            _dispatch.rescale(gradient, g)
        return gradient, None, None, None, None, None, None


def _scaled(g: Tensor, share: Tensor | None) -> Tensor:
    """g times what a row's loss is multiplied by: a share, or one over a number of rows."""
    if share is None:
        return g
    return g * share if share.ndim else g / share.clamp(min=1)
