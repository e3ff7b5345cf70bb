"""Keys and values of earlier tokens, and exactly sparse attention of new ones to them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, overload

import torch
from maxent.torch.attention import _inputs
from maxent.torch.attention._autograd import apply_attention, support
from maxent.torch.attention._inputs import Attention
from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.attention._pages import Pages
from maxent.torch.head._layer import without_autocast
from maxent.torch.maps import _dispatch
from torch import Tensor

_NAME = "AttentionCache"
_NO_WINDOW = 1 << 30  # more tokens than any sequence has


class AttentionCache:
    """Keys and values of sequences that are being written, and attention to them, exactly sparse.

    `out_i = sum_j p_ij v_j` with `p_i = entmax_alpha(scale q_i K')`, as ``entmax_attention`` has it
    for the same keys, without gradients. On CUDA a step reads every key once, and the values of the
    support alone. With ``eight_bit`` it reads a copy of the keys in 8 bits, and in full only those
    that may be in the support: a copy `k_hat` of a key `k` is stored with the norm of its rounding
    error, and `|q k - q k_hat| <= ||q|| ||k - k_hat||` says which keys cannot be. The threshold and
    the scores above it are computed in float64, so that the support does not depend on the copy.

    Tokens are held in pages drawn from one pool, so that sequences may have any lengths. The pool
    grows by half when it is full; with ``capacity`` everything is reserved at once, nothing is
    allocated later but the output and the lists of a step, and steps can be captured in a CUDA
    graph.

    Parameters
    ----------
    batch : int
        Sequences.
    heads : int
        Heads of keys; those of queries are a multiple of them.
    width : int
        Of keys and queries.
    value_width : int, default None
        Of values, if it differs.
    page : int, default 128
        Tokens of a page: a power of two from 64 on.
    eight_bit : bool, default None
        Whether to hold the 8-bit copies too, half as many bytes again as the keys in 16 bits. By
        default they are there where kernels read them: on CUDA, float16, bfloat16 and float32,
        widths up to 256.
    dtype : torch.dtype, default None
        Of keys, values and queries; torch's default if None.
    device : torch.device or str, default None
        Where they are; torch's default if None.
    capacity : int, default None
        The most tokens of each sequence. More are refused; after the replay of a CUDA graph, which
        can refuse nothing, the output of a sequence with more is NaN.

    Examples
    --------
    >>> import torch, maxent.torch as mt
    >>> cache = mt.AttentionCache(batch=2, heads=4, width=64)
    >>> cache.append(torch.randn(2, 4, 300, 64), torch.randn(2, 4, 300, 64))  # what was read
    >>> key, value = torch.randn(2, 2, 4, 1, 64)  # one new token of each sequence
    >>> cache.append(key, value)
    >>> cache.attend(torch.randn(2, 16, 1, 64)).shape  # 4 heads of queries for each of keys
    torch.Size([2, 16, 1, 64])
    >>> cache.truncate([301, 250])
    >>> cache.lengths
    tensor([301, 250], dtype=torch.int32)
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        width: int,
        value_width: int | None = None,
        *,
        page: int = 128,
        eight_bit: bool | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        capacity: int | None = None,
    ) -> None:
        value_width = width if value_width is None else value_width
        named = {"batch": batch, "heads": heads, "width": width, "value_width": value_width}
        if capacity is not None:
            named["capacity"] = capacity
        for name, size in (named | {"page": page}).items():
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"{_NAME}: {name} is a whole number, got {size!r}")
            if size < 1:
                raise ValueError(f"{_NAME}: {name} is a whole number from 1 on, got {size}")
        if page < 64 or page & (page - 1):
            raise ValueError(f"{_NAME}: page is a power of two from 64 on, got {page}")
        if eight_bit is not None and not isinstance(eight_bit, bool):
            raise TypeError(f"{_NAME}: eight_bit is True, False or None, got {eight_bit!r}")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise TypeError(f"{_NAME}: dtype is a floating type of torch, got {dtype!r}")
        there = torch.empty(0, dtype=dtype, device=device)
        self._kernels = _kernels(there, width, value_width)
        if eight_bit and self._kernels is None:
            raise ValueError(
                f"{_NAME}: eight_bit=True is for the kernels on CUDA (float16, bfloat16 or "
                f"float32, widths up to 256, with Triton), got {_inputs.said(there)}, widths "
                f"{width} and {value_width}; without it the result is the same"
            )
        eight_bit = self._kernels is not None if eight_bit is None else eight_bit
        padded = self._kernels.padded(width) if eight_bit and self._kernels is not None else 0
        self._pages = Pages(
            batch, heads, (width, value_width), page, padded, self._kernels is not None, dtype,
            there.device, capacity,
        )  # fmt: skip

    @property
    def lengths(self) -> Tensor:
        """Tokens of each sequence, (batch,) int32."""
        return self._pages.lengths.clone()

    @property
    def eight_bit(self) -> bool:
        """Whether keys have 8-bit copies."""
        return self._pages.eight_bit

    @property
    def nbytes(self) -> int:
        """Bytes held: pages in use and free ones, copies, notes, the table."""
        return sum(x.numel() * x.element_size() for x in self._pages.tensors)

    def append(
        self, key: Tensor, value: Tensor, counts: Sequence[int] | Tensor | None = None
    ) -> None:
        """Add new tokens to the end of every sequence.

        Parameters
        ----------
        key : tensor
            (batch, heads, tokens, width).
        value : tensor
            (batch, heads, tokens, value width).
        counts : sequence of int or tensor, default None
            How many of the tokens are new in each sequence, if not all: the last ones, what comes
            before them is padding. A tensor on a device is waited for.
        """
        pages = self._pages
        self._check("append: key", key, pages.key)
        self._check("append: value", value, pages.value)
        if key.shape[:3] != (len(pages.lengths), pages.key.shape[1], value.shape[2]):
            raise ValueError(
                f"{_NAME}.append: key {tuple(key.shape)} and value {tuple(value.shape)}; (batch, "
                f"heads, tokens, width) are needed for {len(pages.lengths)} sequences and "
                f"{pages.key.shape[1]} heads, with a value for each key"
            )
        tokens = key.shape[2]
        many = [tokens] * len(pages.lengths)
        if counts is not None:
            self._not_captured("append with counts")
            many = self._numbers("append: counts", counts)
            if any(not 0 <= n <= tokens for n in many):
                raise ValueError(
                    f"{_NAME}.append: counts must be from 0 to {tokens}, the tokens given, "
                    f"got {many}"
                )
        self._check_room(many)
        if not any(many):
            return
        key, value = key.detach(), value.detach()
        counted = pages.added(many)
        if self._kernels is not None:
            self._kernels.append(pages, key, value, counted)
        else:
            self._write(key, value, many)
        pages.grown(many, counted)

    @overload
    def attend(
        self,
        query: Tensor,
        alpha: float | Tensor = 1.5,
        scale: float | None = None,
        *,
        window: int | None = None,
        return_support: Literal[False] = False,
    ) -> Tensor: ...
    @overload
    def attend(
        self,
        query: Tensor,
        alpha: float | Tensor = 1.5,
        scale: float | None = None,
        *,
        window: int | None = None,
        return_support: Literal[True],
    ) -> tuple[Tensor, AttentionSupport]: ...
    def attend(
        self,
        query: Tensor,
        alpha: float | Tensor = 1.5,
        scale: float | None = None,
        *,
        window: int | None = None,
        return_support: bool = False,
    ) -> Tensor | tuple[Tensor, AttentionSupport]:
        """The output of the newest tokens, whose keys and values have been appended.

        The last query sees every token of its sequence, the one before it all but the last, and so
        on. A query that sees nothing gets zeros; NaN or +inf among its scores make its output NaN.
        It is made for a few tokens at a time: more than 64 of them, and all on CPU, are computed as
        ``entmax_attention`` does, from a copy of the keys and values.

        Parameters
        ----------
        query : tensor
            (batch, heads of queries, tokens, width).
        alpha : float or tensor, default 1.5
            A number above 1 and up to 2 (sparsemax), or a tensor with one for each head of queries.
        scale : float, default None
            Factor of the products; `1 / sqrt(width)` if None.
        window : int, default None
            The number of tokens that a query sees, its own and those before it; all if None.
        return_support : bool, default False
            Whether to give the sparse weights too, as an ``AttentionSupport``; it waits for the
            device.

        Returns
        -------
        tensor
            (batch, heads of queries, tokens, value width), and the weights if asked for.
        """
        pages = self._pages
        self._check("attend: query", query, pages.key)
        batch, heads, tokens, width = query.shape
        if batch != len(pages.lengths) or heads < 1 or heads % pages.key.shape[1]:
            raise ValueError(
                f"{_NAME}.attend: query has shape {tuple(query.shape)}; (batch, heads, tokens, "
                f"width) is needed for {len(pages.lengths)} sequences and a multiple of "
                f"{pages.key.shape[1]} heads"
            )
        query = query.detach()
        alpha = _alpha(alpha, query)
        scale = 1 / math.sqrt(width) if scale is None else _inputs.checked_number(scale, "scale")
        reach = _window(window)
        if return_support:
            self._not_captured("attend with return_support=True")
        longest = pages.longest()
        if not longest or not tokens:
            out = query.new_zeros(batch, heads, tokens, pages.value.shape[3])
            return (out, _empty(query, longest)) if return_support else out
        kernels = self._kernels
        if kernels is not None and tokens > kernels.MOST_TOKENS:
            self._not_captured(f"attend of more than {kernels.MOST_TOKENS} new tokens")
            kernels = None
        if kernels is not None and _dispatch.backend_of(query) == "triton":
            out, lists = kernels.attend(pages, query, alpha, scale, reach, longest, return_support)
            if not return_support:
                return out
            longest = max(pages.counts())
            shape = (batch, heads, tokens, longest)
            return out, kernels.support(pages, lists, shape, reach)
        given = self._gathered(query, alpha, scale, reach)
        with torch.no_grad(), without_autocast(query):
            out, kept = apply_attention(given)
        if not return_support:
            return out
        return out, support(given, kept, torch.Size((*query.shape[:3], given.key.shape[2])))

    def truncate(self, lengths: int | Sequence[int] | Tensor) -> None:
        """Keep the first tokens of every sequence alone, as when new ones are rejected.

        Parameters
        ----------
        lengths : int, sequence of int or tensor
            How many stay in each sequence, one number for all or one for each. A tensor on a device
            is waited for.
        """
        self._not_captured("truncate")
        held = self._pages.counts()
        if isinstance(lengths, int) and not isinstance(lengths, bool):
            many = [min(lengths, n) for n in held]
        else:
            many = self._numbers("truncate: lengths", lengths)
        if any(not 0 <= n <= old for n, old in zip(many, held, strict=True)):
            raise ValueError(
                f"{_NAME}.truncate: lengths must be from 0 to those held, {held}, got {many}"
            )
        self._pages.shorten(many)

    def reset(self, sequences: int | Sequence[int] | None = None) -> None:
        """Drop all tokens of some sequences, whose places are then free for others.

        Parameters
        ----------
        sequences : int or sequence of int, default None
            Which ones, by their places in the batch; all if None.
        """
        self._not_captured("reset")
        held = list(self._pages.counts())
        chosen = range(len(held)) if sequences is None else sequences
        for place in [chosen] if isinstance(chosen, int) else chosen:
            if isinstance(place, bool) or not isinstance(place, int):
                raise TypeError(f"{_NAME}.reset: sequences are whole numbers, got {place!r}")
            if not 0 <= place < len(held):
                raise ValueError(
                    f"{_NAME}.reset: there is no sequence {place}, the batch has {len(held)}"
                )
            held[place] = 0
        self._pages.shorten(held)

    def _check(self, what: str, x: Tensor, pool: Tensor) -> None:
        """A tensor of the cache's type, device and width."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{_NAME}.{what} is a tensor, got {type(x).__name__}")
        if x.dtype != pool.dtype or x.device != pool.device:
            raise ValueError(
                f"{_NAME}.{what} is {_inputs.said(x)}, the cache {_inputs.said(pool)}; "
                "they must be the same"
            )
        if x.ndim != 4 or x.shape[3] != pool.shape[3]:
            raise ValueError(
                f"{_NAME}.{what} has shape {tuple(x.shape)}; (batch, heads, tokens, "
                f"{pool.shape[3]}) is needed"
            )
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{_NAME}.{what} requires a gradient, and there is none through a cache: use "
                "torch.no_grad(), or entmax_attention for training"
            )

    def _check_room(self, many: list[int]) -> None:
        capacity = self._pages.capacity
        if capacity is None:
            self._not_captured("append without a capacity")
            return
        if self._pages.capturing:
            return
        for place, held in enumerate(self._pages.counts()):
            more = held + many[place]
            if more > capacity:
                raise ValueError(
                    f"{_NAME}.append: sequence {place} would have {more} tokens, its capacity is "
                    f"{capacity}; truncate or reset it, or make a cache with a larger capacity"
                )

    def _numbers(self, what: str, given: object) -> list[int]:
        """One whole number for each sequence."""
        batch = len(self._pages.lengths)
        if isinstance(given, Tensor):
            if given.is_floating_point() or given.dtype == torch.bool:
                raise TypeError(f"{_NAME}.{what} are whole numbers, got {given.dtype}")
            given = given.reshape(-1).tolist()
        numbers: list[Any] = list(given) if isinstance(given, Sequence) else [given]
        if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise TypeError(f"{_NAME}.{what} are whole numbers, got {given!r}")
        if len(numbers) != batch:
            raise ValueError(
                f"{_NAME}.{what}: one for each of {batch} sequences is needed, got {len(numbers)}"
            )
        return numbers

    def _not_captured(self, what: str) -> None:
        if self._pages.capturing:
            raise RuntimeError(
                f"{_NAME}: {what} cannot be captured in a CUDA graph; captured steps append and "
                "attend with a capacity"
            )

    def _write(self, key: Tensor, value: Tensor, many: list[int]) -> None:
        """New tokens to their pages, without kernels."""
        pages = self._pages
        for b, (held, count) in enumerate(zip(pages.counts(), many, strict=True)):
            at = torch.arange(held, held + count, device=key.device)
            page, place = pages.table[b, at // pages.page].long(), at % pages.page
            for pool, new in ((pages.key, key), (pages.value, value)):
                pool[page, :, place] = new[b, :, new.shape[2] - count :].transpose(0, 1)

    def _gathered(
        self, query: Tensor, alpha: float | Tensor, scale: float, window: int
    ) -> Attention:
        """The same attention to keys and values one after the other."""
        tokens = torch.arange(query.shape[2], device=query.device)
        stop = self._pages.lengths[:, None] - (query.shape[2] - 1 - tokens)
        first = (stop - window).clamp(min=0)
        first, stop = (x.to(torch.int32).contiguous() for x in (first, stop.clamp(min=0)))
        return Attention(query, *self._pages.gathered(), alpha, scale, first, stop)


def _kernels(there: Tensor, *widths: int) -> ModuleType | None:
    """The kernels for tensors of this type and place."""
    if not there.is_cuda or _dispatch.backend_of(there) != "triton":
        return None
    return _found(there.dtype, *widths)


def _found(dtype: torch.dtype, *widths: int) -> ModuleType | None:
    module = importlib.import_module("maxent.torch.attention._triton_decode")
    return module if module.takes(dtype, *widths) else None


def _alpha(alpha: float | Tensor, query: Tensor) -> float | Tensor:
    found = _inputs.checked_alpha(alpha, query)
    if isinstance(found, Tensor):
        if _inputs.may_look(found) and not bool(((found > 1) & (found <= 2)).all()):
            raise ValueError(
                f"{_NAME}.attend: alphas are above 1 and up to 2, got {found.tolist()}"
            )
        return found.detach()
    if not 1 < found <= 2:
        raise ValueError(
            f"{_NAME}.attend: alpha is above 1 and up to 2, got {found!r}; at 1, softmax, every "
            "value has a weight: use torch's attention"
        )
    return found


def _window(window: int | None) -> int:
    if window is None:
        return _NO_WINDOW
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"{_NAME}.attend: window is a number of tokens, got {window!r}")
    if window < 1:
        raise ValueError(f"{_NAME}.attend: window is a number of tokens from 1 on, got {window}")
    return min(window, _NO_WINDOW)


def _empty(query: Tensor, longest: int) -> AttentionSupport:
    crow = torch.zeros(query.shape[:3].numel() + 1, dtype=torch.int64, device=query.device)
    none = torch.empty(0, dtype=torch.int32, device=query.device)
    return AttentionSupport(
        crow, none, none.to(_dispatch.compute_type(query)), torch.Size((*query.shape[:3], longest))
    )
