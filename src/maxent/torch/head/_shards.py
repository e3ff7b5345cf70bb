"""A vocabulary in shards: what the processes of a group tell each other.

Each process has the weights of some classes, in the order of the ranks, and all hidden vectors.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch.distributed as dist

import torch
from torch import Tensor

SENT: Counter[str] = Counter()  # bytes that this process gave to its groups, by what they were
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Shards:
    """The classes of the processes of a group.

    Attributes
    ----------
    first : int
        The number of the first class here.
    own : int
        How many classes are here.
    largest : int
        How many are where most are.
    classes : int
        How many there are in all.
    """

    def __init__(self, group: Any, sizes: list[int]) -> None:
        self.group, self.rank = group, dist.get_rank(group)
        self.first, self.own = sum(sizes[: self.rank]), sizes[self.rank]
        self.largest, self.classes = max(sizes), sum(sizes)

    def mine(self, index: Tensor) -> Tensor:
        """Which classes are here."""
        return (index >= self.first) & (index < self.first + self.own)

    def local(self, index: Tensor) -> Tensor:
        """Their numbers here; that of another class is one of these."""
        return (index - self.first).clamp(0, self.own - 1)

    def summed(self, x: Tensor, what: str = "sums of rows") -> Tensor:
        """The sum over the processes, in place."""
        return self._reduced(x, dist.ReduceOp.SUM, what)

    def largest_of(self, x: Tensor) -> Tensor:
        """The largest over the processes, in place."""
        return self._reduced(x, dist.ReduceOp.MAX, "maxima of rows")

    def _reduced(self, x: Tensor, operation: Any, what: str) -> Tensor:
        SENT[what] += x.numel() * x.element_size()
        dist.all_reduce(x, operation, group=self.group)
        return x

    def gathered(self, *given: Tensor) -> list[list[Tensor]]:
        """Each of some vectors of one length, which may differ, from every process."""
        length = torch.tensor([len(given[0])], device=given[0].device)
        lengths = [int(x) for x in self._all(length)]
        most = max(lengths)
        found = []
        for x in given:
            parts = self._all(torch.nn.functional.pad(x, (0, most - len(x))))
            found.append([part[:n] for part, n in zip(parts, lengths, strict=True)])
        return found

    def _all(self, x: Tensor) -> list[Tensor]:
        SENT["candidates"] += x.numel() * x.element_size()
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return parts


def check_group(group: Any) -> None:
    """Refuse what is no group, or one that this process is not in."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "a group needs processes that know each other: call "
            "torch.distributed.init_process_group first, or leave out the group"
        )
    if dist.get_rank(group) < 0:
        raise ValueError(f"this process, rank {dist.get_rank()}, is not in the group")


def agreed_shards(
    group: Any, hidden: Tensor, weight: Tensor, target: Tensor | None, error: Exception | None
) -> Shards:
    """The shards, after every process has heard of all; an error in words in each of them.

    target : the labels; None where there was an error.
    error : what was wrong here. The others learn that they would wait in vain.
    """
    seen = [-1] * 6
    if error is None and target is not None:
        labels = int((target * _marks(target)).sum())  # wraps around
        rows = hidden.numel() // max(hidden.shape[-1], 1)
        dtype = _TYPES.index(weight.dtype)
        seen = [len(weight), weight.shape[1], dtype, rows, labels, hidden.shape[-1]]
    device = hidden.device if isinstance(hidden, Tensor) else torch.device("cpu")
    own = torch.tensor(seen, dtype=torch.int64, device=device)
    world = dist.get_world_size(group)
    SENT["checks"] += own.numel() * own.element_size()
    parts = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(parts, own, group=group)
    every = [part.tolist() for part in parts]
    if error is not None:
        raise error
    refused = [rank for rank, one in enumerate(every) if one[0] < 0]
    if refused:
        raise RuntimeError(
            f"the head of rank {refused[0]} refused its input, so there is no loss: see the error "
            "of that process"
        )
    sizes, widths, types, counts, sums, features = ([one[k] for one in every] for k in range(6))
    if 0 in sizes:
        raise ValueError(
            f"the shard of rank {sizes.index(0)} has no class: shards have {sizes} classes, and "
            "each needs one or more; use a smaller group"
        )
    if len(set(widths + features)) > 1:
        raise ValueError(
            f"shards of different widths: weights of the ranks have {widths} features and hidden "
            f"vectors {features}; all need the same"
        )
    if len(set(types)) > 1:
        raise TypeError(
            f"shards of different types: {', '.join(str(_TYPES[t]) for t in types)}; convert them "
            "with .to()"
        )
    if len(set(counts)) > 1:
        raise ValueError(
            f"ranks have {counts} hidden vectors: in a group that shares the vocabulary all need "
            "the same ones"
        )
    if len(set(sums)) > 1:
        raise ValueError(
            "ranks have different targets: in a group that shares the vocabulary all need the same"
        )
    return Shards(group, sizes)


def _marks(target: Tensor) -> Tensor:
    """One number for each place, so that other orders have other sums."""
    count = torch.arange(target.numel(), device=target.device).reshape(target.shape)
    return count % 8191 + 1
