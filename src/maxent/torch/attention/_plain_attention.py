"""Attention in torch's own operations, a block of queries at a time: every option, any device."""

from __future__ import annotations

import math

from torch.utils.checkpoint import checkpoint

import torch
from maxent.torch.attention._inputs import Attention
from maxent.torch.attention._kept import Kept
from maxent.torch.attention._lists import AttentionSupport, support_of
from maxent.torch.maps import _derivatives
from maxent.torch.maps._dispatch import compute_type
from maxent.torch.maps.functional import entmax
from torch import Tensor

_ENTRIES = {"cpu": 1 << 23, "cuda": 1 << 25}  # scores of a block


def attend(given: Attention) -> Tensor:
    """sum_j p_ij v_j; with several blocks their weights are computed again for gradients."""
    queries = given.query.shape[2]
    step = _step(given)
    if step >= queries:
        return _output(given, _weights(given, 0, queries))
    blocks = []
    for start in range(0, queries, step):
        stop = min(start + step, queries)
        if torch.is_grad_enabled():
            block = checkpoint(_block, given, start, stop, *_tensors(given), use_reentrant=False)
        else:
            block = _block(given, start, stop)
        blocks.append(block)
    return torch.cat(blocks, 2)


def attend_with_weights(given: Attention) -> tuple[Tensor, Tensor]:
    """The output and all weights, (batch, heads, queries, keys); both have derivatives."""
    empty = not given.key.shape[2]  # entmax needs something to choose from
    p = (_scores if empty else _weights)(given, 0, given.query.shape[2])
    return _output(given, p), p.flatten(1, 2).to(given.query.dtype)


def takes(given: Attention) -> bool:
    """Whether this engine is for these tensors."""
    return True


def forward(given: Attention) -> tuple[Tensor, Kept]:
    """The output; nothing is kept, as ``backward`` computes the weights again."""
    with torch.no_grad():
        return attend(given), Kept("plain")


def backward(given: Attention, kept: Kept, g: Tensor) -> tuple[Tensor, ...]:
    """Gradients of query, key, value and, one for each head, of alpha."""
    dtype = compute_type(given.query)
    k, v = (x[:, :, None].to(dtype) for x in (given.key, given.value))
    q, dout = (x.to(dtype).unflatten(1, (-1, given.group)) for x in (given.query, g))
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    by_alpha = torch.zeros(given.query.shape[1], dtype=torch.float64, device=g.device)
    dq = []
    step = _step(given)
    for start in range(0, q.shape[3], step):
        rows = slice(start, min(start + step, q.shape[3]))
        p, block = _weights(given, rows.start, rows.stop), dout[:, :, :, rows]
        dp = torch.matmul(block, v.mT)
        alphas: float | Tensor = given.alpha
        if isinstance(alphas, Tensor):
            alphas = _by_head(given, alphas.to(dtype)).expand(*p.shape[:-1], 1).reshape(-1, 1)
            slopes = _derivatives.alpha_vjp(p.flatten(0, -2), dp.flatten(0, -2), alphas)
            by_alpha += slopes.reshape(len(p), len(by_alpha), -1).double().sum((0, 2))
        ds = _derivatives.vjp("tsallis", p.flatten(0, -2), dp.flatten(0, -2), alphas)
        ds = ds.reshape(p.shape) * given.scale
        dq.append(torch.matmul(ds, k))
        dk += torch.matmul(ds.mT, q[:, :, :, rows]).sum(2, keepdim=True)
        dv += torch.matmul(p.mT, block).sum(2, keepdim=True)
    made = torch.cat(dq, 3).flatten(1, 2), dk[:, :, 0], dv[:, :, 0]
    return *(x.to(g.dtype) for x in made), by_alpha


def support(given: Attention, kept: Kept | None, shape: torch.Size) -> AttentionSupport:
    """Keys and weights, from all scores at once."""
    with torch.no_grad():
        p = _weights(given, 0, given.query.shape[2])
    return support_of(p.reshape(shape))


def _tensors(given: Attention) -> list[Tensor]:
    return [x for x in vars(given).values() if isinstance(x, Tensor)]


def _step(given: Attention) -> int:
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return given.query.shape[2]  # checkpoints are not for these
    batch, heads = given.query.shape[:2]
    one = max(batch * heads * given.key.shape[2], 1)
    return max(_ENTRIES.get(given.query.device.type, 1 << 25) // one, 1)


def _block(given: Attention, start: int, stop: int, *_: Tensor) -> Tensor:
    return _output(given, _weights(given, start, stop))


def _output(given: Attention, p: Tensor) -> Tensor:
    out = torch.matmul(p, given.value[:, :, None].to(p.dtype))
    return out.flatten(1, 2).to(given.query.dtype)


def _weights(given: Attention, start: int, stop: int) -> Tensor:
    """p of these queries, (batch, key heads, group, queries, keys), in the type of computation."""
    return _map(given, added(given, _scores(given, start, stop), start, stop))


def _scores(given: Attention, start: int, stop: int) -> Tensor:
    q = given.query[:, :, start:stop].unflatten(1, (-1, given.group))
    dtype = compute_type(q)
    return torch.matmul(q.to(dtype) * given.scale, given.key[:, :, None].to(dtype).mT)


def added(given: Attention, scores: Tensor, start: int, stop: int) -> Tensor:
    """The scores with what is added to them, -inf where a key is not seen."""
    keys = torch.arange(scores.shape[-1], device=scores.device)
    if given.slopes is not None:
        away = (torch.arange(start, stop, device=scores.device)[:, None] - keys).abs()
        scores = scores - _by_head(given, given.slopes.to(scores.dtype)) * away
    if given.bias is not None:
        bias = given.bias
        if bias.shape[2] > 1:
            bias = bias[:, :, start:stop]
        heads = (-1, given.group) if bias.shape[1] > 1 else (1, 1)
        scores = scores + bias.unflatten(1, heads).to(scores.dtype)
    if given.first is not None and given.stop is not None:
        first, after = given.first[:, start:stop, None], given.stop[:, start:stop, None]
        seen = (keys >= first) & (keys < after)
        scores = scores.masked_fill(~seen[:, None, None], -math.inf)
    return scores


def _map(given: Attention, scores: Tensor) -> Tensor:
    if isinstance(given.alpha, Tensor):
        return entmax(scores, _by_head(given, given.alpha))
    return entmax(scores, given.alpha)


def _by_head(given: Attention, x: Tensor) -> Tensor:
    return x.reshape(1, -1, given.group, 1, 1)
