"""What `entmax_attention` is given, checked and brought to one form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import torch
from maxent.torch.maps._shapes import check_floating
from torch import Tensor

_NAME = "entmax_attention"


@dataclass(slots=True)
class Attention:
    """Heads of queries, keys and values, and what a query may see.

    Tensors are query (batch, heads, queries, width), key (batch, key heads, keys, width) and value
    (batch, key heads, keys, value width), with heads a multiple of key heads.

    first, stop : (batch or 1, queries) int32: a query sees the keys first <= j < stop, and both
        rise with the queries; None where it sees all.
    bias : what is added to the scores, -inf where a key is hidden; it broadcasts against them.
    slopes : (heads,), the score of a key falls by its head's slope for every step away.
    keeps : whether what backward needs is kept.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    alpha: float | Tensor
    scale: float
    first: Tensor | None = None
    stop: Tensor | None = None
    bias: Tensor | None = None
    slopes: Tensor | None = None
    keeps: bool = True

    @property
    def group(self) -> int:
        """Heads of queries for each head of keys."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def sees_all(self) -> bool:
        """Whether every query sees all keys, and nothing is added to the scores."""
        return all(x is None for x in (self.first, self.bias, self.slopes))

    def alphas(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """One alpha for each head."""
        if isinstance(self.alpha, Tensor):
            return self.alpha.detach().to(dtype)
        heads = self.query.shape[1]
        return torch.full((heads,), self.alpha, dtype=dtype, device=self.query.device)


def checked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: float | Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: int | None = None,
    lengths: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    key_padding: Tensor | None = None,
    slopes: Tensor | None = None,
) -> tuple[Attention, torch.Size]:
    """The attention in its one form, and the leading dimensions of what comes out."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_floating(x, f"{_NAME}: {name}")
        if x.ndim < 2:
            raise ValueError(
                f"{_NAME}: {name} has shape {tuple(x.shape)}; (..., tokens, width) is needed"
            )
    if not query.dtype == key.dtype == value.dtype or not (
        query.device == key.device == value.device
    ):
        raise ValueError(
            f"{_NAME} needs query, key and value of one type on one device, got "
            f"{said(query)}, {said(key)}, {said(value)}"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{_NAME}: query has width {query.shape[-1]}, key {key.shape[-1]}; they must be equal"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{_NAME}: {key.shape[-2]} keys but {value.shape[-2]} values; one for each is needed"
        )
    leading = _leading(query, key, value, enable_gqa)
    query, key, value = _four(query, leading), _key_heads(key, leading), _key_heads(value, leading)
    if query.shape[1] % key.shape[1] or key.shape[1] != value.shape[1]:
        raise ValueError(
            f"{_NAME}: {query.shape[1]} heads of queries, {key.shape[1]} of keys, "
            f"{value.shape[1]} of values; those of queries must be a multiple of the others"
        )
    first, stop = _spans(query, key, is_causal, window, lengths, cu_seqlens)
    first, stop, bias = _with_padding(query, key, first, stop, key_padding)
    if attn_mask is not None:
        if is_causal:
            raise ValueError(f"{_NAME} takes attn_mask or is_causal=True, not both, as torch does")
        bias = _added(bias, _as_bias(attn_mask, query, key, leading))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else checked_number(scale, "scale")
    given = Attention(
        query,
        key,
        value,
        checked_alpha(alpha, query),
        scale,
        first,
        stop,
        bias,
        _per_head(slopes, query, "slopes"),
    )
    return given, leading


def said(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} on {x.device}"


def _leading(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> torch.Size:
    """Dimensions before tokens and width; heads may differ with enable_gqa alone."""
    shapes = [x.shape[:-2] for x in (query, key, value)]
    if shapes[0] == shapes[1] == shapes[2]:
        return shapes[0]
    if enable_gqa:
        if any(len(shape) == 0 for shape in shapes):
            raise ValueError(f"{_NAME}: enable_gqa=True needs a dimension of heads")
        outer = torch.broadcast_shapes(*(shape[:-1] for shape in shapes))
        return torch.Size((*outer, shapes[0][-1]))
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        told = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise ValueError(
            f"{_NAME}: the leading dimensions of {told} do not agree; heads of keys that several "
            "heads of queries share need enable_gqa=True"
        ) from None


def _four(x: Tensor, leading: torch.Size) -> Tensor:
    """(batch, heads, tokens, width); dimensions before the heads are one batch."""
    if x.shape[:-2] != leading:
        x = x.expand(*leading, *x.shape[-2:])
    if x.ndim < 4:
        return x[(None,) * (4 - x.ndim)]
    return x if x.ndim == 4 else x.reshape(-1, *x.shape[-3:])


def _key_heads(x: Tensor, leading: torch.Size) -> Tensor:
    heads = x.shape[-3] if x.ndim > 2 else 1
    outer = torch.Size((*leading[:-1], heads)) if leading else leading
    return _four(x, outer)


def _spans(
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    window: int | None,
    lengths: Tensor | None,
    cu_seqlens: Tensor | None,
) -> tuple[Tensor | None, Tensor | None]:
    """The first key of every query and the one after its last."""
    batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
    check_window(window)
    if lengths is None and cu_seqlens is None:
        if not is_causal and window is None:
            return None, None
        cached = not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled()
        make = _known_band if cached else _band
        return make(queries, keys, is_causal, window, query.device)
    at = torch.arange(queries, device=query.device, dtype=torch.int32)[None]
    first, stop = torch.zeros_like(at), torch.full_like(at, keys)
    if cu_seqlens is not None:
        first, stop = _packed(cu_seqlens, queries, keys, query.device)
    if lengths is not None:
        if cu_seqlens is not None:
            raise ValueError(f"{_NAME} takes lengths or cu_seqlens, not both")
        lengths = _whole(lengths, "lengths", query.device)
        if lengths.shape != (batch,):
            raise ValueError(
                f"{_NAME}: lengths has shape {tuple(lengths.shape)}; one for each of {batch} "
                "sequences is needed"
            )
        stop = lengths.clamp(0, keys)[:, None].expand(batch, queries)
    return _narrowed(first, stop, at, is_causal, window)


def check_window(window: int | None) -> None:
    """Refuse what is no number of keys."""
    if window is not None and (isinstance(window, bool) or not isinstance(window, int)):
        raise TypeError(f"{_NAME}: window is a number of keys, got {window!r}")
    if window is not None and window < 1:
        raise ValueError(f"{_NAME}: window is a number of keys from 1 on, got {window}")


def _band(
    queries: int, keys: int, is_causal: bool, window: int | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """What queries of every sequence see."""
    at = torch.arange(queries, device=device, dtype=torch.int32)[None]
    return _narrowed(torch.zeros_like(at), torch.full_like(at, keys), at, is_causal, window)


_known_band = lru_cache(maxsize=64)(_band)  # nothing writes to them


def _narrowed(
    first: Tensor, stop: Tensor, at: Tensor, is_causal: bool, window: int | None
) -> tuple[Tensor, Tensor]:
    if is_causal:
        stop = torch.minimum(stop, at + 1)
    if window is not None:
        first = torch.maximum(first, at - (window - 1))
        if not is_causal:
            stop = torch.minimum(stop, at + window)
    first, stop = torch.broadcast_tensors(first, stop)
    return first.to(torch.int32).contiguous(), stop.to(torch.int32).contiguous()


def _packed(
    cu_seqlens: Tensor, queries: int, keys: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    bounds = _whole(cu_seqlens, "cu_seqlens", device)
    if bounds.ndim != 1 or len(bounds) < 2:
        raise ValueError(
            f"{_NAME}: cu_seqlens has shape {tuple(bounds.shape)}; the starts of the sequences and "
            "the end of the last are needed, (sequences + 1,)"
        )
    if queries != keys:
        raise ValueError(
            f"{_NAME}: sequences packed by cu_seqlens have as many queries as keys, got {queries} "
            f"and {keys}"
        )
    if may_look(bounds) and not (
        bounds[0] == 0 and bounds[-1] == keys and bool((bounds.diff() >= 0).all())
    ):
        raise ValueError(
            f"{_NAME}: cu_seqlens must rise from 0 to {keys}, the number of tokens, got "
            f"{bounds.tolist()}"
        )
    at = torch.arange(queries, device=device, dtype=torch.int32)
    own = torch.searchsorted(bounds, at, right=True)
    return bounds[own - 1][None], bounds[own][None]


def _whole(x: Tensor, name: str, device: torch.device) -> Tensor:
    if not isinstance(x, Tensor) or x.is_floating_point() or x.dtype == torch.bool:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{_NAME}: {name} is a tensor of whole numbers, got {kind}")
    return x.to(device=device, dtype=torch.int32)


def _with_padding(
    query: Tensor,
    key: Tensor,
    first: Tensor | None,
    stop: Tensor | None,
    key_padding: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Padding before or after the keys that count narrows what is seen; other padding is a bias."""
    if key_padding is None:
        return first, stop, None
    batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
    if key_padding.dtype != torch.bool or key_padding.shape != (batch, keys):
        raise ValueError(
            f"{_NAME}: key_padding is boolean (True = padding) of shape {(batch, keys)}, got "
            f"{key_padding.dtype} of shape {tuple(key_padding.shape)}"
        )
    start, end, whole = spans_of(~key_padding)
    if torch.compiler.is_compiling() or not bool(whole):
        hidden = torch.zeros(key_padding.shape, dtype=query.dtype, device=query.device)
        return first, stop, hidden.masked_fill_(key_padding, -math.inf)[:, None, None]
    wide = (batch, queries)
    begin, after = start[:, None].expand(wide), end[:, None].expand(wide)
    if first is not None and stop is not None:
        begin, after = torch.maximum(begin, first), torch.minimum(after, stop)
    return begin.contiguous(), after.contiguous(), None


def spans_of(kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The first key kept of each row, the one after the last, and whether no row has a gap."""
    count, bytes_ = kept.sum(-1), kept.to(torch.uint8)
    first = bytes_.argmax(-1)
    stop = torch.where(count > 0, kept.shape[-1] - bytes_.flip(-1).argmax(-1), first)
    return first.to(torch.int32), stop.to(torch.int32), (stop - first == count).all()


def rising(first: Tensor, stop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What queries (batch, queries) see, and whether both ends rise, as kernels rely on.

    Queries at the end that see nothing are given ends that do.
    """
    later = (stop > first).flip(1).to(torch.int8).cummax(1).values.flip(1) > 0
    most = stop.amax(1, keepdim=True)
    first, stop = torch.where(later, first, most), torch.where(later, stop, most)
    return first, stop, (first.diff(dim=1) >= 0).all() & (stop.diff(dim=1) >= 0).all()


def _as_bias(mask: Tensor, query: Tensor, key: Tensor, leading: torch.Size) -> Tensor:
    """A mask of torch (True = keep, or what is added to the scores) as four dimensions."""
    full = (*leading, query.shape[2], key.shape[2])
    try:
        torch.broadcast_shapes(mask.shape, full)
        fits = mask.ndim <= max(len(full), 2)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{_NAME}: attn_mask of shape {tuple(mask.shape)} does not broadcast to {full}"
        )
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill(
            ~mask, -math.inf
        )
    elif not mask.is_floating_point():
        raise TypeError(f"{_NAME}: attn_mask is boolean or floating, got {mask.dtype}")
    if mask.ndim < 4:
        return mask[(None,) * (4 - mask.ndim)]
    return mask if mask.ndim == 4 else mask.expand(*leading, *mask.shape[-2:]).flatten(0, -4)


def _added(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one + other


def check_alpha(alpha: float) -> float:
    """One index for all heads."""
    alpha = checked_number(alpha, "alpha")
    if not 1 <= alpha < math.inf:
        raise ValueError(f"{_NAME} needs a finite alpha >= 1, got {alpha!r}")
    return alpha


def checked_alpha(alpha: float | Tensor, query: Tensor) -> float | Tensor:
    if not isinstance(alpha, Tensor):
        return check_alpha(alpha)
    if alpha.ndim == 0:
        alpha = alpha.expand(query.shape[1])
    given = _per_head(alpha, query, "alpha")
    assert given is not None
    if may_look(given) and not bool(((given >= 1) & (given < math.inf)).all()):
        raise ValueError(f"{_NAME} needs finite alphas >= 1, got {given.tolist()}")
    return given


def _per_head(x: Tensor | None, query: Tensor, name: str) -> Tensor | None:
    if x is None:
        return None
    heads = query.shape[1]
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.numel() != heads:
        kind = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x)
        raise ValueError(
            f"{_NAME}: {name} is a tensor of floats, one for each of {heads} heads, got {kind}"
        )
    return x.reshape(heads).to(query.device)


def may_look(x: Tensor) -> bool:
    """Whether numbers may be looked at: a look would wait for a device, and break a graph."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def checked_number(x: float, name: str) -> float:
    if isinstance(x, bool) or not isinstance(x, Real) or math.isnan(x):
        raise TypeError(f"{_NAME}: {name} must be a number, got {x!r}")
    return float(x)
