"""The weights of an attention as lists: for each query its keys and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionSupport:
    """The keys that every query attends to, and how much: rows of a sparse matrix.

    The rows of all batches and heads follow one another: row r has the keys
    ``col[crow[r] : crow[r + 1]]``, in rising order, with the weights of the same places in
    ``value``.

    Attributes
    ----------
    crow : tensor
        Where each row begins, (rows + 1,) int64.
    col : tensor
        Keys, int32.
    value : tensor
        Their weights; those of a row sum to 1.
    shape : torch.Size
        The dense weights' shape, (..., queries, keys).

    Examples
    --------
    >>> import torch, maxent.torch as mt
    >>> q = torch.tensor([[4.0, 0.0], [0.0, 0.0]])
    >>> k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> _, support = mt.entmax_attention(q, k, k, alpha=2, return_support=True)
    >>> support.counts
    tensor([1, 3])
    >>> support.to_dense()
    tensor([[1.0000, 0.0000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """

    crow: Tensor
    col: Tensor
    value: Tensor
    shape: torch.Size

    @property
    def counts(self) -> Tensor:
        """The number of keys of every query, (..., queries)."""
        return self.crow.diff().reshape(self.shape[:-1])

    def to_dense(self) -> Tensor:
        """All weights, zeros too: for pictures of short sequences."""
        rows = torch.arange(len(self.crow) - 1, device=self.col.device)
        dense = self.value.new_zeros(len(rows), self.shape[-1])
        dense[rows.repeat_interleave(self.crow.diff()), self.col.long()] = self.value
        return dense.reshape(self.shape)


def support_of(p: Tensor) -> AttentionSupport:
    """Of dense weights (..., queries, keys)."""
    rows = p.detach().reshape(-1, p.shape[-1])
    on = rows > 0
    crow = torch.zeros(len(rows) + 1, dtype=torch.int64, device=p.device)
    torch.cumsum(on.sum(1), 0, out=crow[1:])
    return AttentionSupport(crow, on.nonzero()[:, 1].to(torch.int32), rows[on], p.shape)
