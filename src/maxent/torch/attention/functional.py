"""Attention whose weights are exactly sparse."""

from __future__ import annotations

from typing import Literal, overload

import torch
from maxent.torch.attention import _plain_attention
from maxent.torch.attention._autograd import apply_attention, keeps_lists, support
from maxent.torch.attention._inputs import Attention, checked
from maxent.torch.attention._lists import AttentionSupport
from torch import Tensor


@overload
def entmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: float | Tensor = 1.5,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: int | None = None,
    lengths: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    key_padding: Tensor | None = None,
    slopes: Tensor | None = None,
    return_support: Literal[False] = False,
) -> Tensor: ...
@overload
def entmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: float | Tensor = 1.5,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: int | None = None,
    lengths: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    key_padding: Tensor | None = None,
    slopes: Tensor | None = None,
    return_support: Literal[True],
) -> tuple[Tensor, AttentionSupport]: ...
def entmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: float | Tensor = 1.5,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: int | None = None,
    lengths: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    key_padding: Tensor | None = None,
    slopes: Tensor | None = None,
    return_support: bool = False,
) -> Tensor | tuple[Tensor, AttentionSupport]:
    """`sum_j p_ij v_j`, `p_i = entmax_alpha(scale q_i K')`: attention to few keys, exactly.

    The signature of ``torch.nn.functional.scaled_dot_product_attention`` (without dropout). Keys
    outside of a query's support have weight 0 and gradient 0. On CPU and CUDA the support is found
    with certainty, and on long sequences everything but the products of queries and keys is done on
    it alone; the results do not change from run to run. A query without a key to see gets zeros;
    NaN or +inf among the scores of a query make its output NaN.

    Parameters
    ----------
    query : tensor
        (..., heads, queries, width).
    key : tensor
        (..., heads, keys, width).
    value : tensor
        (..., heads, keys, value width).
    alpha : float or tensor, default 1.5
        A number from 1 (softmax: torch's own attention) on, 2 for sparsemax; or a tensor with one
        for each head, which learns.
    attn_mask : tensor, default None
        Boolean (True = attend), or what is added to the scores; it broadcasts against them. Scores
        are then held a block of queries at a time, and its own gradient is computed if asked for.
    is_causal : bool, default False
        Whether query i sees the keys up to i alone.
    scale : float, default None
        Factor of the products; `1 / sqrt(width)` if None.
    enable_gqa : bool, default False
        Whether several heads of queries share a head of keys and values.
    window : int, default None
        Keys that a query sees: its own place and those before it with ``is_causal``, else as many
        on either side.
    lengths : int tensor, default None
        The number of keys of each sequence of the batch, the others being padding.
    cu_seqlens : int tensor, default None
        Where the sequences begin that are packed one after the other along the tokens, and the end
        of the last: tokens see their own sequence alone.
    key_padding : bool tensor, default None
        (batch, keys), True where a key is padding.
    slopes : tensor, default None
        One for each head: the score falls by it for each step between query and key (ALiBi).
    return_support : bool, default False
        Whether to give the sparse weights too, as an ``AttentionSupport``.

    Examples
    --------
    >>> import torch
    >>> q, k, v = torch.randn(3, 2, 4, 64, 32).unbind()
    >>> out, support = entmax_attention(q, k, v, is_causal=True, return_support=True)
    >>> out.shape, bool(support.counts.max() < 64)
    (torch.Size([2, 4, 64, 32]), True)
    """
    given, leading = checked(
        *in_autocast(query, key, value), alpha, attn_mask, is_causal, scale, enable_gqa, window,
        lengths, cu_seqlens, key_padding, slopes,
    )  # fmt: skip
    alone = all(x is None for x in (window, lengths, cu_seqlens, key_padding, slopes))
    out, found = attend(given, leading, is_causal and alone, return_support)
    return out if found is None else (out, found)


def attend(
    given: Attention,
    leading: torch.Size,
    plainly_causal: bool = False,
    return_support: bool = False,
) -> tuple[Tensor, AttentionSupport | None]:
    """The output of an attention that is checked, and its support if asked for.

    With ``plainly_causal``, what queries see is what torch's ``is_causal`` says, nothing else.
    """
    shape = (*leading, given.query.shape[2], given.value.shape[3])
    kept = None
    inputs = given.query, given.key, given.value
    if 0 in (x.numel() for x in inputs):
        nothing = inputs[0].sum() + inputs[1].sum() + inputs[2].sum()  # they have gradients: zeros
        out = given.value.new_zeros(shape) + nothing * 0
    elif not isinstance(given.alpha, Tensor) and given.alpha == 1:
        out = _softmax(given, plainly_causal)
    elif keeps_lists(given):
        given.keeps = return_support or _learns(given)
        out, kept = apply_attention(given)
    else:
        out = _plain_attention.attend(given)
    out = out.reshape(shape)
    if not return_support:
        return out, None
    whole = torch.Size((*shape[:-1], given.key.shape[2]))
    if kept is not None:
        return out, support(given, kept, whole)
    return out, _plain_attention.support(given, None, whole)


def _learns(given: Attention) -> bool:
    """Whether something asks for gradients."""
    learning = (given.query, given.key, given.value, given.alpha)
    return torch.is_grad_enabled() and any(
        isinstance(x, Tensor) and x.requires_grad for x in learning
    )


def in_autocast(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In autocast the type is its own, as for torch's attention."""
    kind = query.device.type if isinstance(query, Tensor) else "cpu"
    if not torch.is_autocast_enabled(kind) or query.dtype == torch.float64:
        return query, key, value
    dtype = torch.get_autocast_dtype(kind)
    query, key, value = (x.to(dtype) if x.is_floating_point() else x for x in (query, key, value))
    return query, key, value


def _softmax(given: Attention, is_causal: bool) -> Tensor:
    """Torch's attention; a mask says what a query sees where torch has no word for it."""
    mask = None
    if not given.sees_all and not is_causal:
        heads = given.key.shape[1], given.group
        zeros = given.query.new_zeros(1, *heads, given.query.shape[2], given.key.shape[2])
        mask = _plain_attention.added(given, zeros, 0, given.query.shape[2]).flatten(1, 2)
    return torch.nn.functional.scaled_dot_product_attention(
        given.query, given.key, given.value, mask,
        is_causal=is_causal, scale=given.scale, enable_gqa=given.group > 1,
    )  # fmt: skip
