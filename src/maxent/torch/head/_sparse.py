"""Rows with few entries, lists of candidates, and targets."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from maxent.torch.maps._dispatch import entropy_value
from torch import Tensor

UNUSED = 0.1  # a larger part of rows that do not count is left out of the products


@dataclass
class Candidates:
    """Classes that may be in the support of each row, with their scores.

    Attributes
    ----------
    index : tensor (n_rows, width)
        Classes, of which the first ``count`` are meant.
    score : tensor (n_rows, width)
        Their scores.
    count : tensor (n_rows,)
        How many; above the width where a row has more than that, and is not known.
    top : tensor (n_rows,)
        The largest score.
    """

    index: Tensor
    score: Tensor
    count: Tensor
    top: Tensor

    @classmethod
    def empty(
        cls, rows: int, width: int, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Candidates:
        """Lists to be filled."""
        return cls(
            torch.empty((rows, width), dtype=torch.int32, device=device),
            torch.empty((rows, width), dtype=dtype, device=device),
            torch.empty(rows, dtype=torch.int32, device=device),
            torch.empty(rows, dtype=dtype, device=device),
        )

    def unknown(self) -> Tensor:
        """Which rows have more candidates than there is room for."""
        return self.count > self.index.shape[1]

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        """Those of the same rows among several sets of classes: what shards tell each other."""
        width = sum(part.index.shape[1] for part in parts)
        number = torch.arange(width, device=parts[0].index.device)
        index = torch.cat([part.index for part in parts], 1)
        score = torch.cat([part.score for part in parts], 1)
        known = torch.cat(
            [number[: part.index.shape[1]] < part.count[:, None] for part in parts], 1
        )
        order = torch.argsort((~known).to(torch.int8), dim=1, stable=True)
        count = known.sum(1, dtype=torch.int32)
        for part in parts:
            count.masked_fill_(part.unknown(), width + 1)
        top = torch.stack([part.top for part in parts]).amax(0)
        return cls(index.gather(1, order), score.gather(1, order), count, top)


@dataclass
class SparseRows:
    """A matrix by its rows: entries ``offsets[i]`` to ``offsets[i + 1]`` belong to row i.

    index, value : of each entry, with room for more at the end, whose index is none of the columns.
    row : of each entry, where it is known.
    """

    offsets: Tensor
    index: Tensor
    value: Tensor
    row: Tensor | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> SparseRows:
        """Rows without entries."""
        none = torch.empty(0, dtype=torch.int32, device=device)
        offsets = torch.zeros(rows + 1, dtype=torch.int64, device=device)
        return cls(offsets, none, none.float())

    def rows(self) -> Tensor:
        """The row of each entry."""
        if self.row is not None:
            return self.row
        numbers = torch.arange(len(self), dtype=torch.int32, device=self.index.device)
        return torch.repeat_interleave(numbers, self.offsets.diff(), output_size=len(self.index))

    def sums(self, x: Tensor) -> Tensor:
        """Of numbers of the entries, for each row, in their order."""
        total: Tensor = torch.segment_reduce(x, "sum", offsets=self.offsets, initial=0, unsafe=True)
        return total

    def trimmed(self) -> SparseRows:
        """Without the room at the end."""
        total = int(self.offsets[-1])
        return SparseRows(self.offsets, self.index[:total], self.value[:total])

    @classmethod
    def joined(cls, parts: list[SparseRows]) -> SparseRows:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        parts = [part.trimmed() for part in parts]
        counts = torch.cat([part.offsets.diff() for part in parts])
        offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        return cls(
            offsets,
            torch.cat([part.index for part in parts]),
            torch.cat([part.value for part in parts]),
        )

    def among(self, number: Tensor, rows: int) -> SparseRows:
        """As the rows ``number`` of more, the others without entries."""
        own = self.trimmed()
        counts = own.offsets.new_zeros(rows).index_copy(0, number, own.offsets.diff())
        offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        return SparseRows(offsets, own.index, own.value)


@dataclass(frozen=True)
class Turned:
    """The entries of sparse rows in the order of their columns, here classes.

    Attributes
    ----------
    classes : tensor
        The class of each entry.
    order : tensor
        Where it is among the sparse rows.
    begin : tensor
        For each class that occurs, where its entries begin.
    end : tensor
        Where they end.
    """

    classes: Tensor
    order: Tensor
    begin: Tensor
    end: Tensor


@dataclass(frozen=True)
class Targets:
    """What the rows should be.

    Attributes
    ----------
    index : tensor (n_rows, width)
        The classes of y.
    portion : tensor (n_rows, width)
        What they have of it.
    share : tensor (n_rows,)
        What each loss is multiplied by; rows with 0 are left alone.
    kept : tensor (n_rows, width) or None
        What of y is left to its classes where labels are smoothed; None is all.
    spread : tensor (n_rows,) or None
        What smoothing each row is multiplied by.
    label_weight : tensor (n_classes,) or None
        How much each class counts when labels are smoothed; None is 1.
    """

    index: Tensor
    portion: Tensor
    share: Tensor
    kept: Tensor | None = None
    spread: Tensor | None = None
    label_weight: Tensor | None = None

    def take(self, rows: Tensor | slice) -> Targets:
        """Those of some rows."""
        kept = None if self.kept is None else self.kept[rows]
        spread = None if self.spread is None else self.spread[rows]
        index, portion, share = self.index[rows], self.portion[rows], self.share[rows]
        return Targets(index, portion, share, kept, spread, self.label_weight)

    def times(self, back: Tensor) -> Targets:
        """With this number, or one for each row, in front of the losses."""
        spread = None if self.spread is None else self.spread * back
        return replace(self, share=self.share * back, spread=spread)

    def tensors(self) -> tuple[Tensor | None, ...]:
        """What it is made of."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def left(self) -> Tensor:
        """What of y is left to its classes."""
        return self.portion if self.kept is None else self.kept

    def expected(self, own: Tensor) -> Tensor:
        """The mean of the scores of y's classes."""
        return torch.where(self.portion == 0, 0, self.portion * own).sum(1)

    def entropy(self, kind: str, parameter: float) -> Tensor | float:
        """Omega(y)."""
        return 0.0 if self.index.shape[1] == 1 else entropy_value(self.portion, kind, parameter)


class Look:
    """Numbers on their way from the device: asked for later, they need not be waited for."""

    def __init__(self, x: Tensor) -> None:
        self._numbers, self._event = x, None
        if x.is_cuda:
            self._numbers = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            self._numbers.copy_(x, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> list[int]:
        """The numbers."""
        if self._event is not None:
            self._event.synchronize()
        return self._numbers.tolist()
