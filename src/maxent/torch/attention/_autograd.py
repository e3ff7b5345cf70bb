"""Autograd around the engines that keep the support as lists."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any

import torch
from maxent.torch.attention._inputs import Attention, maker, room_for_backward
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


def apply_attention(given: Attention) -> tuple[Tensor, ...]:
    """The output, with gradients of query, key, value and alpha, and what is kept for them."""
    alpha = given.alpha if isinstance(given.alpha, Tensor) else None
    number = 0.0 if isinstance(given.alpha, Tensor) else given.alpha
    rest = (given.first, given.stop, given.bias, given.slopes, given.keeps)
    made: tuple[Tensor, ...] = EntmaxAttentionFunction.apply(
        given.query, given.key, given.value, alpha, number, given.scale, *rest
    )
    return made


def support(given: Attention, lists: tuple[Tensor, ...], shape: torch.Size) -> AttentionSupport:
    """The weights, from what ``apply_attention`` kept."""
    with torch.no_grad():
        found: AttentionSupport = _engine(maker(lists)).support(given, lists, shape)
    return found


def _given(q: Tensor, k: Tensor, v: Tensor, alpha: Any, number: float, *rest: Any) -> Attention:
    return Attention(q, k, v, number if alpha is None else alpha, *rest)


class EntmaxAttentionFunction(torch.autograd.Function):
    """The output, and the lists that backward needs."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        run = _attention_op if torch.compiler.is_compiling() else _attend  # operators cost time
        out, *lists = run(*inputs)
        ctx.number, ctx.scale = inputs[4:6]
        if inputs[10]:
            ctx.save_for_backward(*inputs[:4], *inputs[6:10], *lists)
        ctx.mark_non_differentiable(*lists)
        ctx.set_materialize_grads(False)
        return out, *lists

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return (None,) * 11
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "entmax_attention has no second derivative (create_graph=True): use softmax "
                "attention, or entmax of the scores and a product with the values"
            )
        q, k, v, alpha, *rest = ctx.saved_tensors
        run = _gradients_op if torch.compiler.is_compiling() else _gradients
        made = run(g, q, k, v, alpha, ctx.number, ctx.scale, *rest[:4], rest[4:])
        by_alpha = None if alpha is None else made[3].to(alpha.dtype)
        return *made[:3], by_alpha, *(None,) * 7


_Made = tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor
]


def _attend(*inputs: Any) -> _Made:
    given = _given(*inputs)
    chosen = _engine(_dispatch.backend_of(given.query))
    if not chosen.takes(given):
        chosen = _engine("plain")
    with without_autocast(given.query):
        made: _Made = chosen.forward(given)
    return made


def _gradients(g: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *rest, lists = inputs
    given = _given(*rest)
    made: tuple[Tensor, Tensor, Tensor, Tensor]
    with without_autocast(g):
        made = _engine(maker(lists)).backward(given, lists, g)
    return made


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
    return _attend(query, key, value, alpha, number, scale, first, stop, bias, slopes, keeps)


@_attention_op.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    total = torch.library.get_ctx().new_dynamic_size()
    rows = query.shape[0] * query.shape[1] * query.shape[2]
    entries = query.new_empty(total, dtype=torch.int32)
    return (
        query.new_empty(*query.shape[:3], value.shape[3]),
        query.new_empty(rows + 1, dtype=torch.int64),
        entries,
        query.new_empty(total, dtype=_dispatch.compute_type(query)),
        torch.empty_like(entries) if query.is_cuda else query.new_empty(0, dtype=torch.int32),
        *room_for_backward(Attention(query, key, value, 1.5, 1.0, keeps=rest[-1])),
        torch.empty((), dtype=torch.int64, device="cpu"),
    )


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
    lists: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value and alpha."""
    rest = (alpha, number, scale, first, stop, bias, slopes)
    return _gradients(g, query, key, value, *rest, lists)


@_gradients_op.register_fake
def _(g: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return (
        query.new_empty(query.shape),
        key.new_empty(key.shape),
        value.new_empty(value.shape),
        query.new_empty(query.shape[1], dtype=torch.float64),
    )
