"""Pages of keys and values of several sequences, drawn from one pool."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Pages:
    """The pool, and which pages belong to which sequence.

    Attributes
    ----------
    key, value : (pages, heads, page, width) and (pages, heads, page, value width).
    copies : the keys as 8-bit whole numbers (pages, heads, page, padded width), if there are any.
    notes : what kernels know of each key, (pages, heads, page) words.
    table : (batch, pages of a sequence), where the pages of each sequence are; -1 beyond.
    lengths : (batch,), how many tokens each has.
    most : the tokens that a row of the table has pages for.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        widths: tuple[int, int],
        page: int,
        padded: int,
        noted: bool,
        dtype: torch.dtype,
        device: torch.device,
        capacity: int | None,
    ) -> None:
        self.page, self.capacity = page, capacity
        self.eight_bit, self._noted = padded > 0, noted
        shapes = (
            ((heads, page, widths[0]), dtype),
            ((heads, page, widths[1]), dtype),
            ((heads, page, padded), torch.int8),
            ((heads, page if noted else 0), torch.int32),
        )
        reserved = 0 if capacity is None else -(-capacity // page)
        with torch.inference_mode(False):  # tensors made there could not be changed elsewhere
            self.key, self.value, self.copies, self.notes = (
                torch.zeros(batch * reserved, *shape, dtype=kind, device=device)
                for shape, kind in shapes
            )
            order = torch.arange(batch * reserved, dtype=torch.int32, device=device)
            self.table = order.reshape(batch, reserved)
            self.lengths = torch.zeros(batch, dtype=torch.int32, device=device)
        self._counts = [0] * batch  # the same, where nothing has to be waited for
        self._owned: list[list[int]] = [[] for _ in range(batch)]
        self._free: list[int] = []
        self._replayed = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that is held."""
        return self.key, self.value, self.copies, self.notes, self.table, self.lengths

    @property
    def most(self) -> int:
        """Tokens of a sequence that the table has room for."""
        return self.table.shape[1] * self.page if self.capacity is None else self.capacity

    @property
    def capturing(self) -> bool:
        """Whether a CUDA graph records what is done: then nothing happens before its replay."""
        return self.key.is_cuda and torch.cuda.is_current_stream_capturing()

    def counts(self) -> list[int]:
        """The lengths; they are asked of the device once a graph has changed them."""
        if self._replayed:
            self._counts = self.lengths.tolist()
        return self._counts

    def longest(self) -> int:
        """Tokens of the longest sequence, or what it can have where a graph changes it."""
        if self.capturing or self._replayed:
            return self.most
        return max(self._counts, default=0)

    def added(self, more: list[int]) -> Tensor | None:
        """Room for more tokens of each sequence; their numbers as a tensor where they differ.

        The lengths stay as they are: ``grown`` changes them.
        """
        if self.capturing:
            self._replayed = True
            return None
        self._reserve([a + b for a, b in zip(self.counts(), more, strict=True)])
        if min(more) == max(more):
            return None
        return torch.tensor(more, dtype=torch.int32, device=self.lengths.device)

    def grown(self, more: list[int], tensor: Tensor | None) -> None:
        """The new tokens are there."""
        self.lengths.add_(more[0] if tensor is None else tensor)
        if not self.capturing:
            self._counts = [a + b for a, b in zip(self._counts, more, strict=True)]

    def shorten(self, counts: Sequence[int]) -> None:
        """Only the first tokens of each sequence stay; pages without any are free again."""
        self._counts = list(counts)
        self.lengths.copy_(torch.tensor(self._counts, dtype=torch.int32))
        if self.capacity is not None:
            return
        for owned, count in zip(self._owned, counts, strict=True):
            kept = -(-count // self.page)
            self._free.extend(owned[kept:])
            del owned[kept:]

    def gathered(self) -> tuple[Tensor, Tensor]:
        """Keys and values of all sequences (batch, heads, longest, width), zeros after each end."""
        longest = max(self.counts(), default=0)
        index = self.table[:, : -(-longest // self.page)].long().clamp_(min=0)
        after = torch.arange(longest, device=index.device) >= self.lengths[:, None]
        both = (
            x[index].transpose(1, 2).flatten(2, 3)[:, :, :longest] for x in (self.key, self.value)
        )
        key, value = (x.masked_fill(after[:, None, :, None], 0) for x in both)
        return key, value

    def _reserve(self, counts: list[int]) -> None:
        """Pages for that many tokens of each sequence."""
        if self.capacity is not None:
            return  # they are there
        needed = [-(-count // self.page) for count in counts]
        missing = sum(max(n - len(own), 0) for n, own in zip(needed, self._owned, strict=True))
        if not missing:
            return
        if missing > len(self._free):
            self._enlarge(missing - len(self._free))
        for n, own in zip(needed, self._owned, strict=True):
            while len(own) < n:
                own.append(self._free.pop())
        room = self.table.shape[1]
        if max(needed) > room:
            room = max(max(needed), room + room // 2)
        rows = [own + [-1] * (room - len(own)) for own in self._owned]
        self.table = torch.tensor(rows, dtype=torch.int32, device=self.table.device)

    def _enlarge(self, more: int) -> None:
        """A larger pool: half as much again, so that copying it stays a small part of the work."""
        held = len(self.key)
        more = max(more, held // 2)
        for name in ("key", "value", "copies", "notes"):
            old = getattr(self, name)
            with torch.inference_mode(False):
                new = torch.zeros(held + more, *old.shape[1:], dtype=old.dtype, device=old.device)
                new[:held] = old
            setattr(self, name, new)
        self._free.extend(range(held + more - 1, held - 1, -1))
