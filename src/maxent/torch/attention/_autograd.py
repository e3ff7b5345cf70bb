"""Autograd around the engines that keep the support as lists."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any

import torch
from maxent.torch.attention._inputs import Attention
from maxent.torch.attention._kept import ENGINES, Kept, room
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.head._layer import without_autocast
from maxent.torch.maps import _dispatch
from torch import Tensor

_ENGINES = {
    "plain": "maxent.torch.attention._plain_attention",
    "numba": "maxent.torch.attention._compiled_attention",
    "triton": "maxent.torch.attention._triton_attention",
    "lists": "maxent.torch.attention._triton_attention",
    "tiles": "maxent.torch.attention._triton_attention",
}


@cache
def _engine(name: str) -> ModuleType:
    return importlib.import_module(_ENGINES[name])


def keeps_lists(given: Attention) -> bool:
    """Whether the support is kept for backward: not in torch.func, nor where biases learn."""
    learns = any(x is not None and x.requires_grad for x in (given.bias, given.slopes))
    return not learns and not torch._C._are_functorch_transforms_active()


def apply_attention(given: Attention) -> tuple[Tensor, Kept]:
    """The output, with gradients of query, key, value and alpha, and what is kept for them."""
    alpha = given.alpha if isinstance(given.alpha, Tensor) else None
    tensors = (given.query, given.key, given.value, alpha)
    if not torch.compiler.is_compiling():
        kept: list[Kept] = []
        out: Tensor = _Eager.apply(*tensors, given, kept)
        return out, kept[0]
    number = 0.0 if isinstance(given.alpha, Tensor) else given.alpha
    rest = (given.first, given.stop, given.bias, given.slopes, given.keeps)
    out, *_ = _Compiled.apply(*tensors, number, given.scale, *rest)
    return out, Kept("plain")  # who made it is known when it runs


def support(given: Attention, kept: Kept, shape: torch.Size) -> AttentionSupport:
    """The weights, from what ``apply_attention`` kept."""
    with torch.no_grad():
        found: AttentionSupport = _engine(kept.by).support(given, kept, shape)
    return found


class _Eager(torch.autograd.Function):
    """The output; what backward needs is in the context, and in a list for whoever asks."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, alpha: Any, given: Attention, found: list[Kept]
    ) -> Tensor:
        out, kept = _attend(given)
        found.append(kept)
        if given.keeps:
            ctx.made_by, ctx.number, ctx.scale = kept.by, given.alpha, given.scale
            rest = given.first, given.stop, given.bias, given.slopes
            ctx.save_for_backward(q, k, v, alpha, *rest, *kept[1:])
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        q, k, v, alpha, *rest = ctx.saved_tensors
        number = ctx.number if alpha is None else alpha
        given = Attention(q, k, v, number, ctx.scale, *rest[:4])
        dq, dk, dv, by_alpha = _gradients(given, Kept(ctx.made_by, *rest[4:]), g)
        learnt = None if alpha is None or by_alpha is None else by_alpha.to(alpha.dtype)
        return dq, dk, dv, learnt, None, None


class _Compiled(torch.autograd.Function):
    """The output and, as operators need them, all tensors that are kept."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        out, *kept = _attention_op(*inputs)
        ctx.number, ctx.scale = inputs[4:6]
        if inputs[10]:
            ctx.save_for_backward(*inputs[:4], *inputs[6:10], *kept)
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        return out, *kept

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return (None,) * 11
        _refuse_second_derivatives()
        q, k, v, alpha, *rest = ctx.saved_tensors
        made = _gradients_op(g, q, k, v, alpha, ctx.number, ctx.scale, *rest[:4], rest[4:])
        by_alpha = None if alpha is None else made[3].to(alpha.dtype)
        return *made[:3], by_alpha, *(None,) * 7


def _refuse_second_derivatives() -> None:
    if torch.is_grad_enabled():
        raise NotImplementedError(
            "entmax_attention has no second derivative (create_graph=True): use softmax "
            "attention, or entmax of the scores and a product with the values"
        )


def _attend(given: Attention) -> tuple[Tensor, Kept]:
    chosen = _engine(_dispatch.backend_of(given.query))
    if not chosen.takes(given):
        chosen = _engine("plain")
    with without_autocast(given.query):
        made: tuple[Tensor, Kept] = chosen.forward(given)
    return made


def _gradients(
    given: Attention, kept: Kept, g: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    with without_autocast(g):
        made: tuple[Tensor, Tensor, Tensor, Tensor | None]
        made = _engine(kept.by).backward(given, kept, g)
    return made


def _given(q: Tensor, k: Tensor, v: Tensor, alpha: Any, number: float, *rest: Any) -> Attention:
    return Attention(q, k, v, number if alpha is None else alpha, *rest)


@torch.library.custom_op("maxent::attention", mutates_args=())
def _attention_op(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: Tensor | None,
    number: float,
    scale: float,
    first: Tensor | None,
    stop: Tensor | None,
    bias: Tensor | None,
    slopes: Tensor | None,
    keeps: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Output; where rows of lists begin, keys, weights, rows of entries; what an engine keeps."""
    rest = (alpha, number, scale, first, stop, bias, slopes, keeps)
    given = _given(query, key, value, *rest)
    out, kept = _attend(given)
    names = Kept._fields[1:]
    made: Any = (room(given, a) if x is None else x for a, x in zip(names, kept[1:], strict=True))
    return out, *made, torch.tensor(ENGINES.index(kept.by))


@_attention_op.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    given = _given(query, key, value, *rest)
    total: Any = torch.library.get_ctx().new_dynamic_size()
    rooms = (room(given, name, total) for name in Kept._fields[1:])
    out = query.new_empty(*query.shape[:3], value.shape[3])
    return out, *rooms, torch.empty((), dtype=torch.int64, device="cpu")


@torch.library.custom_op("maxent::attention_gradients", mutates_args=())
def _gradients_op(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: Tensor | None,
    number: float,
    scale: float,
    first: Tensor | None,
    stop: Tensor | None,
    bias: Tensor | None,
    slopes: Tensor | None,
    kept: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value and alpha."""
    given = _given(query, key, value, alpha, number, scale, first, stop, bias, slopes)
    *tensors, engine = kept
    dq, dk, dv, by_alpha = _gradients(given, Kept(ENGINES[int(engine)], *tensors), g)
    if by_alpha is None:
        by_alpha = query.new_zeros(query.shape[1], dtype=torch.float64)
    return dq, dk, dv, by_alpha


@_gradients_op.register_fake
def _(g: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return (
        query.new_empty(query.shape),
        key.new_empty(key.shape),
        value.new_empty(value.shape),
        query.new_empty(query.shape[1], dtype=torch.float64),
    )
