"""Entropies and divergences of exponential families, from log-partitions and marginals alone.

With `p(v) = exp(<theta, v> - A(theta))`, the cross-entropy of p and of the q of other scores eta is
`A(eta) - <eta, p>`, where p also names the mean structure. All of it is in float64: A and <eta, p>
are large and close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# scores as tensors of rows give log-partitions and marginals, each of the shape of its scores
Sums = Callable[..., tuple[Tensor, Sequence[Tensor]]]


def cross_entropy_of(sums: Sums, theta: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """`-sum_v p(v) log q(v) >= 0` of each row, in float64."""
    theta, other = _doubled(theta), _doubled(other)
    return (sums(*other)[0] - inner(other, sums(*theta)[1])).clamp_min(0)


def kl_of(sums: Sums, theta: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """`KL(p || q) >= 0` of each row, in float64."""
    theta, other = _doubled(theta), _doubled(other)
    value, p = sums(*theta)
    moved = [eta - x for eta, x in zip(other, theta, strict=True)]
    return (sums(*other)[0] - value - inner(moved, p)).clamp_min(0)


def inner(scores: Sequence[Tensor], p: Sequence[Tensor]) -> Tensor:
    """<scores, p> of each row; a cell that p does not use counts 0, also where it is forbidden."""
    # the score of a cell without probability is not read: its product with p and the derivative
    # in p would be NaN where it is -inf
    used = (torch.where(mean > 0, x, 0.0) * mean for x, mean in zip(scores, p, strict=True))
    total: Tensor = sum(x.flatten(1).sum(1) for x in used)  # type: ignore[assignment]
    return total


def _doubled(scores: Sequence[Tensor]) -> list[Tensor]:
    return [x.double() for x in scores]
