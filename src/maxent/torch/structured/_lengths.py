"""How much of each padded row is there: lengths or masks, checked where values may be looked at."""

from __future__ import annotations

import math
from typing import Any

import torch
from maxent.torch._operators import Operation
from torch import Tensor


def check_lengths(
    lengths: Tensor | None,
    scores: Tensor,
    longest: int,
    least: int = 1,
    what: str = "the positions that there are",
) -> Tensor:
    """Lengths as int64 beside the scores, from integers (B,) or a bool mask (B, longest).

    On the CPU, lengths out of least .. longest are refused, and masks with gaps; on CUDA, where
    looking would wait for the device, lengths are clamped.
    """
    batch = scores.shape[0]
    if lengths is None:
        return torch.full((batch,), longest, device=scores.device)
    lengths = torch.as_tensor(lengths)
    if lengths.dtype == torch.bool and tuple(lengths.shape) != (batch, longest):
        raise ValueError(
            f"a mask of {batch} rows of up to {longest} has the shape {(batch, longest)}, True for "
            f"{what}, got {described(lengths)}; lengths are {batch} integers"
        )
    counts = lengths.dtype == torch.bool or tuple(lengths.shape) == (batch,)
    if lengths.is_floating_point() or lengths.is_complex() or not counts:
        raise ValueError(
            f"lengths are {batch} integers, one per sequence, or a bool mask of shape "
            f"{(batch, longest)}, got {described(lengths)}"
        )
    counted: Tensor = _Counted.apply(lengths, least, longest, what)
    return counted.to(scores.device)


def check_heads(heads: Tensor, shape: tuple[int, ...], n: int) -> None:
    """Refuse what are no heads (..., n) of a batch of this shape."""
    integers = isinstance(heads, Tensor) and not (heads.is_floating_point() or heads.is_complex())
    if not integers or tuple(heads.shape) != (*shape, n):
        raise ValueError(
            f"heads are integers of shape {(*shape, n)}, one for each node (that of the root is "
            f"not read), got {described(heads)}"
        )


def check_cost(cost: float, what: str) -> None:
    """Refuse what is no cost of a wrong part."""
    try:
        right = 0 <= cost < math.inf
    except TypeError:
        right = False
    if not right:
        raise ValueError(f"the cost of a wrong {what} is a finite number >= 0, got {cost!r}")


def check_generator(generator: torch.Generator | None) -> None:
    """Refuse what is no generator, and any in compiled code."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise TypeError(f"generator is a torch.Generator of the CPU or None, got {generator!r}")
    if torch.compiler.is_compiling():
        raise NotImplementedError(
            "a generator is not for torch.compile: leave it out there, and seed torch itself"
        )


def check_root(root: str) -> None:
    """Refuse what says nothing about the dependents of the root."""
    if root not in ("single", "multi"):
        raise ValueError(f'root must be "single" or "multi", got {root!r}')


def described(x: Any) -> str:
    """What was given, for a message."""
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__


class _Counted(Operation, name="lengths"):
    """Lengths within their range."""

    @staticmethod
    def run(given: Tensor, least: int, longest: int, what: str) -> Tensor:
        lengths = given.sum(1) if given.dtype == torch.bool else given.to(torch.int64, copy=True)
        if lengths.device.type != "cpu":
            return lengths.clamp_(least, longest)
        if given.dtype == torch.bool and bool((given[:, 1:] & ~given[:, :-1]).any()):
            row = int((given[:, 1:] & ~given[:, :-1]).any(1).nonzero()[0])
            raise ValueError(
                f"the mask of row {row} has a gap: True stands for {what}, and these come first"
            )
        if lengths.numel():
            low, high = int(lengths.min()), int(lengths.max())
            if low < least or high > longest:
                raise ValueError(
                    f"lengths run from {least} to {longest}, {what}, got {low} to {high}"
                )
        return lengths

    @staticmethod
    def fake(given: Tensor, least: int, longest: int, what: str) -> Tensor:
        return given.new_empty(given.shape[0], dtype=torch.int64)
