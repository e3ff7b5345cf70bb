"""Exactly sparse attention in the models of Hugging Face's transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

from torch.utils._pytree import tree_map

import torch
from maxent.torch.attention._inputs import check_alpha, checked, rising, spans_of
from maxent.torch.attention.functional import attend, in_autocast
from torch import Tensor, nn

_ENTRIES = 1 << 26  # entries of a mask that are looked at together
_CANNOT = ("softcap", "s_aux", "sinks", "position_bias", "alibi", "head_mask", "cache")
_TAKEN = ("sdpa", "flash", "flex", "eager", "paged")  # parts of names that transformers looks for


class SpanMask(Tensor):
    """A boolean mask (batch, 1, queries, keys) whose rows each keep ``first <= key < stop``.

    It holds these two numbers for each row. Any operation of torch makes it dense first, so that
    models may do with it what they like.
    """

    first: Tensor
    stop: Tensor

    @staticmethod
    def __new__(cls, first: Tensor, stop: Tensor, keys: int) -> SpanMask:
        """From (batch, queries) whole numbers."""
        shape = (first.shape[0], 1, first.shape[1], keys)
        made = cls._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=first.device)
        made.first, made.stop = first, stop
        return made

    def dense(self) -> Tensor:
        """All entries."""
        keys = torch.arange(self.shape[-1], device=self.first.device)
        first, stop = self.first[:, None, :, None], self.stop[:, None, :, None]
        return (keys >= first) & (keys < stop)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = tree_map(
            lambda x: x.dense() if isinstance(x, SpanMask) else x, (args, kwargs or {})
        )
        return func(*args, **kwargs)


class _MaskMaker(Protocol):
    def __call__(self, **given: Any) -> Tensor | None: ...


def register_attention(name: str = "entmax", alpha: float = 1.5) -> str:
    """Let models of transformers attend by ``entmax_attention``: ``attn_implementation="entmax"``.

    Padding, sliding windows, packed sequences and caches of keys and values are right, and what
    each query sees is two numbers wherever it has no gaps, so that no mask is read. With
    ``alpha=1`` models do what they do with "sdpa".

    A model can have alphas of its own, which go before the one given here: ``config.entmax_alpha``
    is a number, or a list with an entry for each layer, itself a number or a list with one for
    each head; it is saved with the model. An attention module's own attribute ``entmax_alpha``
    goes before both: a number, or a tensor with one for each head, such as a parameter to train.

    ``output_attentions=True`` in the call of a model gives the weights, without derivatives.
    Dropout of weights, and what some models ask of their attention (a cap of scores, sinks, biases
    of positions, paged caches), is refused where it is asked for.

    Parameters
    ----------
    name : str, default "entmax"
        The name to register. One that was registered here before is replaced.
    alpha : float, default 1.5
        Index of entmax, from 1 (softmax) on, 2 for sparsemax.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> mt.register_attention()  # doctest: +SKIP
    'entmax'
    >>> LlamaForCausalLM._from_config(config, attn_implementation="entmax")  # doctest: +SKIP
    """
    interface, masks, sdpa_mask = _transformers()
    if not isinstance(name, str) or not name.isidentifier() or any(x in name for x in _TAKEN):
        raise ValueError(
            f"register_attention: the name must be an identifier without {', '.join(_TAKEN)}, "
            f"which transformers keeps for itself, got {name!r}"
        )
    before = dict(interface()).get(name)
    if before is not None and getattr(before, "func", None) is not _attention:
        raise ValueError(
            f"register_attention: {name!r} is another's attention; give a name that is free"
        )
    interface.register(name, partial(_attention, registered=check_alpha(alpha)))
    masks.register(name, partial(_mask, sdpa_mask))
    return name


def _transformers() -> tuple[Any, Any, Callable[..., Tensor | None]]:
    words = "register_attention needs transformers 5.8 or newer: pip install maxent[transformers]"
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise ImportError(words) from error
    if not {"q_length", "q_offset"} <= inspect.signature(sdpa_mask).parameters.keys():
        raise ImportError(words)
    return AttentionInterface, AttentionMaskInterface, sdpa_mask


def _mask(
    sdpa_mask: _MaskMaker,
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **rest: Any,
) -> Tensor | None:
    """What queries see: None for what ``is_causal`` of the module says, or a boolean mask.

    The rules are those of transformers' own ``sdpa_mask``, which is asked a block of queries at a
    time; without gaps in what is seen, a mask takes two numbers for each query.
    """
    sizes = {"q_length": q_length, "q_offset": q_offset}
    rest |= {"kv_length": kv_length, "kv_offset": kv_offset, "local_size": local_size}
    skips = {
        "allow_is_causal_skip": allow_is_causal_skip,
        "allow_is_bidirectional_skip": allow_is_bidirectional_skip,
    }
    # these masks may enter a compiled graph, or are made in one
    if (
        torch.compiler.is_compiling()
        or isinstance(q_offset, Tensor)
        or (q_length == 1 and not allow_is_causal_skip and not allow_is_bidirectional_skip)
    ):
        return sdpa_mask(
            batch_size=batch_size, attention_mask=attention_mask, **sizes, **rest, **skips
        )
    if attention_mask is not None and attention_mask.shape[-1] >= kv_offset + kv_length:
        seen = attention_mask[:, kv_offset : kv_offset + kv_length]
        if bool(seen.all()):
            attention_mask = None
    far = local_size is None or kv_length < local_size
    if attention_mask is None and far:
        if allow_is_bidirectional_skip:
            return None
        if allow_is_causal_skip and q_length in (1, kv_length):
            return None
    # what may be skipped is the same for all sequences, but for their padding
    alike = attention_mask is None and any(skips.values())
    rest |= {"batch_size": 1 if alike else batch_size, "attention_mask": attention_mask}
    step = max(_ENTRIES // max(kv_length * rest["batch_size"], 1), 1)
    spans = []
    for start in range(0, q_length, step):
        block = {"q_length": min(step, q_length - start), "q_offset": q_offset + start}
        kept = sdpa_mask(**block, **rest, **dict.fromkeys(skips, False))
        assert kept is not None
        spans.append(spans_of(kept[:, 0]))
    first, stop, in_order = rising(*(torch.cat([x[i] for x in spans], 1) for i in (0, 1)))
    if not bool(torch.stack([in_order, *(whole for *_, whole in spans)]).all()):
        dense = sdpa_mask(**sizes, **rest, **dict.fromkeys(skips, False))
        assert dense is not None
        return dense.expand(batch_size, -1, -1, -1)
    first, stop = (x.expand(batch_size, -1) for x in (first, stop))
    return SpanMask(first.contiguous(), stop.contiguous(), kv_length)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    *,
    registered: float,
    **rest: Any,
) -> tuple[Tensor, Tensor | None]:
    """(batch, tokens, heads, width), and the weights if they are asked for."""
    queries, keys = query.shape[2], key.shape[2]
    _refuse(module, attention_mask, dropout, rest)
    asked = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(asked) and attention_mask is None and queries > 1
    if causal and sliding_window is not None and keys > sliding_window:
        raise ValueError(
            f"{_named(module)} asks for a sliding window of {sliding_window} of {keys} keys but "
            "gives no mask: make it with transformers' create_sliding_window_causal_mask"
        )
    spans = isinstance(attention_mask, SpanMask)
    given, leading = checked(
        *in_autocast(query, key, value), _alpha_of(module, registered, query.device),
        None if spans else attention_mask, causal, scaling, enable_gqa=True,
    )  # fmt: skip
    if isinstance(attention_mask, SpanMask):
        if attention_mask.shape[-2:] != (queries, keys):
            raise ValueError(
                f"{_named(module)} gives a mask of {tuple(attention_mask.shape)} for {queries} "
                f"queries and {keys} keys"
            )
        given = replace(given, first=attention_mask.first, stop=attention_mask.stop)
    out, support = attend(given, leading, causal, bool(rest.get("output_attentions")))
    weights = None if support is None else support.to_dense().to(out.dtype)
    return out.transpose(1, 2).contiguous(), weights


def _refuse(module: nn.Module, mask: Tensor | None, dropout: float, rest: dict[str, Any]) -> None:
    instead = "use another attn_implementation for this model"
    if dropout:
        raise ValueError(
            f"{_named(module)} asks for dropout={dropout!r} of its attention's weights, most of "
            f"which are 0 here: set it to 0 in the model's config (attention_dropout), or {instead}"
        )
    for name in _CANNOT:
        if rest.get(name) is not None:
            raise ValueError(f"{_named(module)} asks for {name}, which entmax has not: {instead}")
    if mask is None and rest.get("cu_seq_lens_q") is not None:
        raise ValueError(
            f"{_named(module)} gives sequences by cu_seq_lens_q without a mask: give position_ids "
            f"that begin anew at each sequence, or {instead}"
        )


def _named(module: nn.Module) -> str:
    return type(module).__name__


def _alpha_of(module: nn.Module, registered: float, device: torch.device) -> float | Tensor:
    """The module's own alpha, or that of its config, or the one registered."""
    own: float | Tensor | None = getattr(module, "entmax_alpha", None)
    if own is not None:
        return own
    config = getattr(module, "config", None)
    chosen = getattr(config, "entmax_alpha", None)
    if chosen is None:
        return registered
    if isinstance(chosen, list | tuple):
        layers, layer = (
            getattr(config, "num_hidden_layers", None),
            getattr(module, "layer_idx", None),
        )
        if layer is None or len(chosen) != layers:
            raise ValueError(
                f"config.entmax_alpha has {len(chosen)} entries, one for each of the {layers} "
                f"layers is needed; {_named(module)} is number {layer}"
            )
        chosen = chosen[layer]
    if isinstance(chosen, list | tuple):
        return torch.tensor(chosen, dtype=torch.float32, device=device)
    return cast(float, chosen)
