"""Attention with projections, as a module that takes the place of torch's."""

from __future__ import annotations

import math
from typing import Literal

from torch.nn.functional import linear, pad

import torch
from maxent.torch.attention import _plain_attention
from maxent.torch.attention._inputs import check_alpha, check_window, checked, may_look
from maxent.torch.attention.functional import entmax_attention, in_autocast
from torch import Tensor, nn

_NAME = "EntmaxAttention"


class EntmaxAttention(nn.MultiheadAttention):
    """``entmax_attention`` with projections: takes the place of ``torch.nn.MultiheadAttention``.

    Its constructor, its ``forward`` and its parameters are those of torch's module, whose
    ``state_dict`` it loads; with ``alpha=1`` the numbers are the same too. Four things differ.
    There is no dropout of weights. A query that sees no key gets zeros, never NaN. A key of
    ``add_bias_kv`` or ``add_zero_attn`` is seen by all queries, with ``is_causal`` too. A hint
    ``is_causal=True`` beside a mask that is not causal is refused where looking costs nothing (on
    CPU); elsewhere it is trusted, as torch does.

    ``need_weights=False`` is what makes it fast: the default holds all scores at once, as torch's
    module does, so that the weights have derivatives. The fast path takes ``is_causal=True``
    with the causal mask, ``window``, and a ``key_padding_mask`` that is boolean, or 0 and -inf;
    other masks make it slower.

    Parameters
    ----------
    embed_dim : int
        Width of queries and of the output, split among the heads.
    num_heads : int
        Heads of queries.
    dropout : float, default 0.0
        Stands here for the order of the arguments: anything but 0 is refused.
    bias : bool, default True
        Whether the projections have biases.
    add_bias_kv : bool, default False
        Whether to append a key and a value that learn.
    add_zero_attn : bool, default False
        Whether to append a key and a value of zeros.
    kdim : int, default None
        Width of the keys given; embed_dim if None.
    vdim : int, default None
        Width of the values given; embed_dim if None.
    batch_first : bool, default False
        Whether tensors are (batch, tokens, width) instead of (tokens, batch, width).
    device : torch.device, default None
        Where the parameters are made.
    dtype : torch.dtype, default None
        Their type.
    alpha : float or "learned", default 1.5
        Index of entmax, from 1 (softmax) on, 2 for sparsemax. "learned" has one for each head,
        `alpha = 1 + sigmoid(r)`, always between 1 and 2; r is the parameter ``raw_alpha``, 0 at
        the start, which is 1.5.
    window : int, default None
        Keys that a query sees: its own place and those before it with ``is_causal=True``, else as
        many on either side.
    num_key_heads : int, default None
        Heads of keys and values, each shared by several heads of queries; num_heads if None.

    Examples
    --------
    >>> import torch
    >>> softmax = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    >>> sparse = EntmaxAttention(32, 4, batch_first=True)
    >>> sparse.load_state_dict(softmax.state_dict())
    <All keys matched successfully>
    >>> x = torch.randn(2, 10, 32)
    >>> out, weights = sparse(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([2, 10, 32]), torch.Size([2, 10, 10]))
    """

    raw_alpha: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        alpha: float | Literal["learned"] = 1.5,
        window: int | None = None,
        num_key_heads: int | None = None,
    ) -> None:
        if dropout != 0:
            raise ValueError(
                f"{_NAME} has no dropout of its weights, most of which are 0; got "
                f"dropout={dropout!r}: leave it at 0 and drop entries of the output, if any"
            )
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"{_NAME}: embed_dim must be a multiple of num_heads, both from 1 on, got "
                f"{embed_dim} and {num_heads}"
            )
        key_heads = num_heads if num_key_heads is None else num_key_heads
        if key_heads < 1 or num_heads % key_heads:
            raise ValueError(
                f"{_NAME}: num_heads must be a multiple of num_key_heads, got {num_heads} and "
                f"{num_key_heads}"
            )
        if window is not None and (add_bias_kv or add_zero_attn):
            raise ValueError(
                f"{_NAME}: keys of add_bias_kv and add_zero_attn have no place in a window; give "
                "an attn_mask instead of window"
            )
        check_window(window)
        if isinstance(alpha, str) and alpha != "learned":
            raise ValueError(f"{_NAME}: alpha is a number or 'learned', got {alpha!r}")
        super().__init__(
            embed_dim, num_heads, 0.0, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first,
            device, dtype,
        )  # fmt: skip
        # torch's encoder layers read this: False keeps them from computing softmax by themselves
        self._qkv_same_embed_dim = False
        self.num_key_heads = key_heads
        self.window = window
        self._number = None if isinstance(alpha, str) else check_alpha(alpha)
        learnt = nn.Parameter(torch.zeros(num_heads, device=device, dtype=dtype))
        self.register_parameter("raw_alpha", learnt if alpha == "learned" else None)
        if key_heads != num_heads:
            self._share_heads()

    def _share_heads(self) -> None:
        """Projections of keys and values as wide as their heads, drawn anew."""
        narrow = self.num_key_heads * self.head_dim
        sizes = {
            "in_proj_weight": self.embed_dim + 2 * narrow,
            "in_proj_bias": self.embed_dim + 2 * narrow,
            "k_proj_weight": narrow,
            "v_proj_weight": narrow,
        }
        for name, size in sizes.items():
            before = getattr(self, name)
            if before is not None:
                setattr(self, name, nn.Parameter(before.new_empty(size, *before.shape[1:])))
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(self, name, nn.Parameter(getattr(self, name).new_empty(1, 1, narrow)))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        packed = self.in_proj_weight is not None
        self._qkv_same_embed_dim = packed  # torch asks it for this
        super()._reset_parameters()
        self._qkv_same_embed_dim = False
        raw: Tensor | None = getattr(self, "raw_alpha", None)
        if raw is not None:
            nn.init.zeros_(raw)

    @property
    def alpha(self) -> float | Tensor:
        """The alpha in use: a number, or one for each head."""
        if self._number is not None:
            return self._number
        assert self.raw_alpha is not None
        raw = self.raw_alpha
        return 1 + torch.sigmoid(raw if raw.dtype == torch.float64 else raw.float())

    def extra_repr(self) -> str:
        """Sizes and alpha, and options that are in use."""
        alpha = "'learned'" if self._number is None else f"{self._number:g}"
        shown = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, alpha={alpha}"
        if self.num_key_heads != self.num_heads:
            shown += f", num_key_heads={self.num_key_heads}"
        if self.window is not None:
            shown += f", window={self.window}"
        return shown + f", batch_first={self.batch_first}"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the weights or None.

        Parameters
        ----------
        query : tensor
            (tokens, batch, embed_dim), with batch_first (batch, tokens, embed_dim); or (tokens,
            embed_dim).
        key : tensor
            Likewise, of width kdim.
        value : tensor
            Likewise, of width vdim, as many as there are keys.
        key_padding_mask : tensor, default None
            (batch, keys), or (keys,) without a batch: True where a key is not seen, or what is
            added to its scores.
        need_weights : bool, default True
            Whether to give the weights, which are then computed densely; False is faster.
        attn_mask : tensor, default None
            (queries, keys) or (batch * num_heads, queries, keys): True where a key is NOT seen, or
            what is added to the scores.
        average_attn_weights : bool, default True
            Whether the weights are means over the heads, or those of each head.
        is_causal : bool, default False
            Says that attn_mask, which must be given, is the causal one.
        """
        batched = self._check_inputs(query, key, value)
        turned = batched and not self.batch_first
        q, k, v = (
            x.transpose(0, 1) if turned else x if batched else x[None]
            for x in self._projected(query, key, value)
        )
        self._check_mask(attn_mask, (len(q), q.shape[1], k.shape[1]))
        hidden, added = _padding(key_padding_mask, (len(q), k.shape[1]), batched)
        if is_causal and attn_mask is None:
            raise ValueError(
                f"{_NAME}: is_causal=True says of attn_mask that it is causal: give it"
            )
        causal = attn_mask is not None and is_causal and self._takes_hint(attn_mask, added)
        mask = None if attn_mask is None or causal else _kept(attn_mask, (len(q), self.num_heads))
        k, v, more = self._appended(k, v)
        if more:
            seen = mask is not None and mask.dtype == torch.bool
            mask = None if mask is None else pad(mask, (0, more), value=seen)
            hidden, added = (None if x is None else pad(x, (0, more)) for x in (hidden, added))
        if added is not None:
            mask = added if mask is None else _as_added(mask, added) + added
        q, k, v = (x.unflatten(2, (-1, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        weights = None
        if need_weights:
            given, _ = checked(
                *in_autocast(q, k, v), self.alpha, mask, causal,
                enable_gqa=True, window=self.window, key_padding=hidden,
            )  # fmt: skip
            out, weights = _plain_attention.attend_with_weights(given)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights[0]
        else:
            out = entmax_attention(
                q, k, v, self.alpha, mask, causal,
                enable_gqa=True, window=self.window, key_padding=hidden,
            )  # fmt: skip
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        return out.transpose(0, 1) if turned else out if batched else out[0], weights

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        """Whether there is a batch."""
        if query.is_nested or key.is_nested or value.is_nested:
            raise ValueError(
                f"{_NAME} takes no nested tensors, which torch.nn.TransformerEncoder makes of "
                "padded sequences: build it with enable_nested_tensor=False"
            )
        shapes = tuple(tuple(x.shape) for x in (query, key, value))
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            raise ValueError(
                f"{_NAME} needs query, key and value of two dimensions, or of three with a batch, "
                f"got shapes {shapes}"
            )
        widths = self.embed_dim, self.kdim, self.vdim
        if tuple(shape[-1] for shape in shapes) != widths:
            raise ValueError(
                f"{_NAME} was made for query, key and value of widths {widths}, got shapes {shapes}"
            )
        batch = 0 if self.batch_first else 1
        if shapes[1][:-1] != shapes[2][:-1] or (
            query.ndim == 3 and query.shape[batch] != key.shape[batch]
        ):
            order = "(batch, tokens, width)" if self.batch_first else "(tokens, batch, width)"
            raise ValueError(
                f"{_NAME} needs a value for each key, and one batch, in tensors {order}, got "
                f"shapes {shapes}"
            )
        return query.ndim == 3

    def _check_mask(self, mask: Tensor | None, sizes: tuple[int, int, int]) -> None:
        if mask is None:
            return
        _check_kind(mask, "attn_mask")
        batch, queries, keys = sizes
        wanted = (queries, keys), (batch * self.num_heads, queries, keys)
        if tuple(mask.shape) not in wanted:
            raise ValueError(
                f"{_NAME}: attn_mask has shape {tuple(mask.shape)}; {wanted[0]} is needed, or "
                f"{wanted[1]}"
            )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of all heads; one product where they are of the same tensor."""
        narrow = self.num_key_heads * self.head_dim
        sizes = (self.embed_dim, narrow, narrow)
        packed, bias = self.in_proj_weight, self.in_proj_bias
        if packed is not None and query is key and key is value:
            return linear(query, packed, bias).split(sizes, -1)
        weights = (
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            if packed is None
            else packed.split(sizes)
        )
        biases = (None,) * 3 if bias is None else bias.split(sizes)
        given = zip((query, key, value), weights, biases, strict=True)
        return tuple(linear(x, w, b) for x, w, b in given)

    def _takes_hint(self, mask: Tensor, added: Tensor | None) -> bool:
        """Whether the hint can stand for the causal mask; it is checked where that is free."""
        if may_look(mask):
            causal = torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1)
            hidden = mask if mask.dtype == torch.bool else mask == -math.inf
            rest = mask.dtype != torch.bool and bool(mask.masked_fill(hidden, 0).any())
            if rest or not bool((hidden == causal).all()):
                raise ValueError(
                    f"{_NAME}: is_causal=True says that attn_mask hides the keys after each query "
                    "and nothing else, but it does not: leave is_causal out"
                )
        # keys appended to the others are seen by all, and a mask that learns needs its gradient
        alone = self.bias_k is None and not self.add_zero_attn and added is None
        return alone and not mask.requires_grad

    def _appended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Keys and values with those that are seen always, and their number."""
        before = k.shape[1]
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.to(k.dtype).expand(len(k), 1, -1)], 1)
            v = torch.cat([v, self.bias_v.to(v.dtype).expand(len(v), 1, -1)], 1)
        if self.add_zero_attn:
            k, v = (pad(x, (0, 0, 0, 1)) for x in (k, v))
        return k, v, k.shape[1] - before


def _check_kind(mask: Tensor, name: str) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"{_NAME}: {name} is boolean or floating, got {mask.dtype}")


def _padding(
    mask: Tensor | None, shape: tuple[int, int], batched: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Which keys are hidden, (batch, keys), or what is added to their scores."""
    if mask is None:
        return None, None
    _check_kind(mask, "key_padding_mask")
    wanted = shape if batched else shape[1:]
    if tuple(mask.shape) != wanted:
        raise ValueError(
            f"{_NAME}: key_padding_mask has shape {tuple(mask.shape)}; {wanted} is needed"
        )
    mask = mask if batched else mask[None]
    if mask.dtype == torch.bool:
        return mask, None
    # torch's encoder layers turn booleans into 0 and -inf
    if not torch.compiler.is_compiling() and not mask.requires_grad:
        hidden = mask == -math.inf
        if not bool(mask.masked_fill(hidden, 0).any()):
            return hidden, None
    return None, mask[:, None, None]


def _kept(mask: Tensor, heads: tuple[int, int]) -> Tensor:
    """A mask of torch's module, where True hides, as one of its function, where True keeps."""
    if mask.dtype == torch.bool:
        mask = ~mask
    return mask.unflatten(0, heads) if mask.ndim == 3 else mask


def _as_added(mask: Tensor, like: Tensor) -> Tensor:
    """What a mask adds to the scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -math.inf)
