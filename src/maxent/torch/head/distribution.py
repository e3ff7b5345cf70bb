"""Sparse distributions over classes from a linear layer, without its scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch.nn.functional import linear

import torch
from maxent.torch.head import _dense
from maxent.torch.head._layer import checked_layer, without_autocast
from maxent.torch.head._rows import ROWS, kernels
from maxent.torch.maps import _dispatch
from maxent.torch.maps.entropies import as_entropy
from maxent.torch.maps.scaling import Scaling, checked_scaling
from torch import Tensor


@dataclass(frozen=True)
class SparseDistribution:
    """Probabilities of the classes that have some, the most probable first.

    Attributes
    ----------
    indices : int tensor (..., k)
        Classes, with k the size of the largest support.
    probabilities : tensor (..., k)
        float32 or float64; 0 beyond the support, where indices are 0.
    support : int tensor (...)
        How many classes have a probability above 0.
    num_classes : int
        How many classes there are.

    Examples
    --------
    >>> import torch
    >>> p = linear_entmax(torch.tensor([[0.5], [3.0]]), torch.tensor([[1.0], [0.0], [-1.0]]), 2.0)
    >>> p.to_dense()
    tensor([[0.7500, 0.2500, 0.0000],
            [1.0000, 0.0000, 0.0000]])
    >>> p.argmax(), p.log_prob(torch.tensor([1, 1]))
    (tensor([0, 0]), tensor([-1.3863,    -inf]))
    """

    indices: Tensor
    probabilities: Tensor
    support: Tensor
    num_classes: int

    def to_dense(self) -> Tensor:
        """All probabilities, (..., num_classes)."""
        p = self.probabilities
        return p.new_zeros(*p.shape[:-1], self.num_classes).scatter_add_(-1, self.indices, p)

    def to_sparse_csr(self) -> Tensor:
        """All probabilities as a sparse matrix (rows, num_classes), leading dimensions as one."""
        number = torch.arange(self.indices.shape[-1], device=self.indices.device)
        rows = self.support.numel()
        meant = (number < self.support[..., None]).reshape(rows, len(number))
        index = self.indices.reshape(meant.shape).masked_fill(~meant, self.num_classes)
        index, order = index.sort(1)  # the classes of a row ascend
        p = self.probabilities.reshape(meant.shape).gather(1, order)
        used = index < self.num_classes
        offsets = torch.nn.functional.pad(self.support.reshape(-1).cumsum(0), (1, 0))
        with torch.sparse.check_sparse_tensor_invariants(False):
            return torch.sparse_csr_tensor(offsets, index[used], p[used], (rows, self.num_classes))

    def argmax(self) -> Tensor:
        """The most probable class of each row, of a row without any 0."""
        if not self.indices.shape[-1]:
            return torch.zeros_like(self.support)
        return self.indices[..., 0]

    def entropy(self, alpha: float = 1.0) -> Tensor:
        """`-Omega(p)` of each row: Shannon's by default, Tsallis' for other alpha."""
        chosen = as_entropy(alpha)
        flat = self.probabilities.reshape(self.support.numel(), self.indices.shape[-1])
        value = _dispatch.entropy_value(flat, chosen.kind, chosen.parameter)
        return -value.reshape(self.support.shape)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """n classes for each row, (..., n), drawn with replacement.

        >>> import torch
        >>> certain = linear_entmax(torch.tensor([3.0]), torch.tensor([[1.0], [0.0]]), 2.0)
        >>> certain.sample(3)
        tensor([0, 0, 0])
        """
        flat = self.probabilities.reshape(-1, self.probabilities.shape[-1])
        drawn = torch.multinomial(flat, n, replacement=True, generator=generator)
        return self.indices.gather(-1, drawn.reshape(*self.indices.shape[:-1], n))

    def log_prob(self, target: Tensor) -> Tensor:
        """log p of a class for each row; -inf off the support."""
        same = self.indices == target[..., None]
        return (same * self.probabilities).sum(-1).log()


@torch.no_grad()
def linear_entmax(
    hidden: Tensor,
    weight: Tensor,
    alpha: float = 1.5,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    soft_cap: float | None = None,
) -> SparseDistribution:
    """entmax of `W h + b`, exactly, without its scores: for decoding and sampling.

    Parameters
    ----------
    hidden : tensor (..., n_features)
        Hidden vectors h.
    weight : tensor (n_classes, n_features)
        The weights W.
    alpha : float, default 1.5
        Index, above 1.
    bias : tensor (n_classes,), default None
        The constants b.
    temperature : float, default 1.0
        T: entmax of `s / T` for scores `s = W h + b`. Below 1 supports are smaller.
    soft_cap : float, default None
        c: entmax of `c tanh(s / c) / T`.

    Notes
    -----
    It is not differentiated. Rows with NaN or +inf have NaN for the probability of class 0.

    Examples
    --------
    >>> import torch
    >>> p = linear_entmax(torch.tensor([1.0, 2.0]), torch.eye(3, 2), 2.0)
    >>> p.indices, p.probabilities, p.support
    (tensor([1]), tensor([1.]), tensor(1))
    """
    if not (isinstance(alpha, int | float) and 1 < alpha < math.inf):
        raise ValueError(
            f"linear_entmax needs a finite alpha > 1, got {alpha!r}; with alpha = 1 (Shannon) each "
            "class has some probability: use torch.softmax(linear(hidden, weight, bias), -1)"
        )
    hidden, weight, bias = checked_layer(hidden, weight, bias, "linear_entmax")
    scaling = checked_scaling(temperature, soft_cap, hidden.dtype, "linear_entmax")
    lead = hidden.shape[:-1]
    rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
    with without_autocast(hidden):
        parts = [
            _distribution(rows[first : first + ROWS], weight, bias, float(alpha), scaling)
            for first in range(0, max(len(rows), 1), ROWS)
        ]
    width = max(index.shape[1] for index, _, _ in parts)
    index = torch.cat([_widened(index, width) for index, _, _ in parts])
    p = torch.cat([_widened(p, width) for _, p, _ in parts])
    support = torch.cat([support for _, _, support in parts])
    return SparseDistribution(
        index.reshape(*lead, width), p.reshape(*lead, width), support.reshape(lead), len(weight)
    )


def _widened(x: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, width - x.shape[1]))


def _distribution(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, alpha: float, scaling: Scaling
) -> tuple[Tensor, Tensor, Tensor]:
    """Classes (rows, k), the most probable first, their probabilities, and how many are meant."""
    dtype = _dispatch.compute_type(hidden)
    index = torch.zeros((len(hidden), 0), dtype=torch.int64, device=hidden.device)
    p = torch.zeros((len(hidden), 0), dtype=dtype, device=hidden.device)
    support = torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    whole = torch.ones_like(support, dtype=torch.bool)
    sparse = kernels(hidden, len(weight), "tsallis", alpha)
    if sparse is not None and len(hidden):
        lists = sparse.supports(hidden, weight, bias, alpha, scaling)
        whole = lists.unknown()
        support = lists.count.long().masked_fill(whole, 0)
        width = int(support.max())
        beyond = torch.arange(width, device=hidden.device) >= support[:, None]
        p, order = lists.score[:, :width].masked_fill(beyond, 0).sort(dim=1, descending=True)
        index = lists.index[:, :width].long().masked_fill(beyond, 0).gather(1, order)
    number = whole.nonzero()[:, 0]
    for rows in _dense.blocks(len(number), weight, scaling):
        x = scaling.apply_(linear(hidden[number[rows]], weight, bias).to(dtype))
        dense = _dispatch.as_map(x, "tsallis", alpha, None)
        bad = dense[:, 0].isnan()
        dense[bad] = 0
        dense[bad, 0] = math.nan  # one entry: a bad row is no wider than others
        count = (dense != 0).sum(1)
        top, classes = dense.topk(int(count.max()), dim=1)
        width = max(index.shape[1], top.shape[1])
        index, p = _widened(index, width), _widened(p, width)
        index[number[rows]], p[number[rows]] = _widened(classes, width), _widened(top, width)
        support[number[rows]] = count
    return index, p, support
