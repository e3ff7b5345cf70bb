"""Trees put together from spans, for torch: scores checked once and asked many times.

CPU tensors go to the compiled charts of ``maxent.structured``. On CUDA log-partitions, marginals
and their derivatives are computed on the device; searches and projections take a round trip. Scores
that leave no tree are refused, but on CUDA, where looking would wait for the device, log-partition
and marginals of such a tree are NaN.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

import torch
from maxent.rows.arrays import Array, Ragged, Rows
from maxent.structured.trees.spans import SpanDomain
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._chains import check_lengths
from maxent.torch.structured._oracle import Softmax
from maxent.torch.structured.sparsemap import _Loss, _Project
from torch import Tensor

KINDS = ("crf", "sparsemap", "hinge", "perceptron")
Own = TypeVar("Own", bound="SpanScores")


@dataclass(frozen=True)
class SpanOracle:
    """The trees of a batch of scores (B, n, n, labels) with lengths (B,)."""

    domain: SpanDomain
    lengths: Tensor
    plain: Callable[[Tensor, Tensor], Tensor]

    def pack(self, table: Tensor) -> Rows:
        """Rows of the core: a view of all, or the used entries as a Ragged."""
        n = table.shape[1]
        values = table.detach().cpu()
        if bool((self.lengths == n).all()):
            return values.flatten(1).numpy()
        sizes = self.lengths.cpu() ** 2 * table.shape[3]
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        return Ragged(values[self.inside(n).cpu()].reshape(-1).numpy(), offsets.numpy())

    def unpack(self, result: Rows, like: Tensor) -> Tensor:
        """Rows of the core as a tensor (B, n, n, labels), 0 beyond the lengths."""
        if not isinstance(result, Ragged):
            return torch.from_numpy(np.asarray(result)).reshape(like.shape).to(like)
        out = torch.zeros(like.shape, dtype=like.dtype)
        values = torch.from_numpy(result.values).to(like.dtype)
        out[self.inside(like.shape[1]).cpu()] = values.reshape(-1, like.shape[3])
        return out.to(like.device)

    def inside(self, n: int) -> Tensor:
        """Which cells (B, n, n) are between nodes of the tree."""
        real = torch.arange(n, device=self.lengths.device) < self.lengths[:, None]
        return real[:, :, None] & real[:, None, :]

    def project(self, scores: Array) -> Array:
        """The nearest points of padded rows, as ``sparsemap`` asks a domain for them."""
        table = self._table(scores)
        p = self.domain.project(self.pack(table))
        return self.unpack(p, table).flatten(1).numpy()

    def project_jvp(self, scores: Array, p: Array, v: Array) -> Array:
        """Its derivative along v."""
        rows = (self.pack(self._table(x)) for x in (scores, p, v))
        moved = self.domain.project_jvp(*rows)
        return self.unpack(moved, self._table(v)).flatten(1).numpy()

    def _table(self, rows: Array) -> Tensor:
        labels = getattr(self.domain, "labels", 1)
        n = math.isqrt(rows.shape[1] // labels)
        return torch.from_numpy(rows).reshape(-1, n, n, labels)

    def softmax(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Log-partitions and marginals."""
        if theta.device.type != "cpu":
            value, (mean,) = self._derived(theta, [])
            return value.to(theta.dtype), mean.to(theta.dtype)
        log_partition, p = self.domain.softmax(self.pack(theta))
        return torch.from_numpy(log_partition).to(theta.dtype), self.unpack(p, theta)

    def covariance(self, theta: Tensor, v: Tensor) -> Tensor:
        """The derivative of the marginals along v."""
        if theta.device.type != "cpu":
            return self._derived(theta, [v])[1][1].to(theta.dtype)
        rows, along = self.pack(theta), self.pack(v.to(theta.dtype))
        return self.unpack(self.domain.softmax_jvp(rows, rows, along), theta)

    def third_cumulant(self, theta: Tensor, v: Tensor, u: Tensor) -> Tensor:
        """The derivative of the covariance times v, along u, by sums that autograd follows."""
        return self._derived(theta, [v, u])[1][2].to(theta.dtype)

    def _derived(self, theta: Tensor, along: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The log-partition, its gradient, and the gradients of each one's product with a v."""
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            scores = theta if again and theta.requires_grad else theta.detach().requires_grad_()
            value = self.plain(scores, self.lengths)
            slopes, sums = [], value.sum()
            for place in range(len(along) + 1):
                more = again or place < len(along)
                (slope,) = torch.autograd.grad(sums, scores, create_graph=more)
                slopes.append(slope)
                if place < len(along):
                    sums = (slope * along[place]).sum()
        missing = value.detach().isnan()[:, None, None, None]
        return value.detach(), [slope.masked_fill(missing, torch.nan) for slope in slopes]


class SpanScores:
    """Scores of a batch of trees; subclasses say which and how targets are written."""

    _rows: Tensor  # (B, n, n, labels)
    _shape: torch.Size  # of the batch
    _oracle: SpanOracle

    def _prepare(
        self,
        scores: Tensor,
        lengths: Tensor | None,
        domain: SpanDomain,
        plain: Callable[[Tensor, Tensor], Tensor],
        cell: int,
    ) -> None:
        """Check scores whose last axes, from ``cell`` on from the end, are those of a tree."""
        name = type(self).__name__
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise TypeError(f"{name} needs floating scores, got {getattr(scores, 'dtype', scores)}")
        self._shape, tree = scores.shape[:-cell], scores.shape[-cell:]
        if scores.ndim < cell or tree[0] != tree[1] or 0 in tree:
            raise ValueError(
                f"{name} needs scores of shape {self._layout}, got {tuple(scores.shape)}"
            )
        dtype = torch.float64 if scores.dtype == torch.float64 else torch.float32
        self._rows = scores.to(dtype).reshape(-1, *tree[:2], tree[2] if cell == 3 else 1)
        if lengths is not None:
            lengths = torch.as_tensor(lengths)
            if lengths.shape != self._shape:
                raise ValueError(
                    f"lengths have the shape {tuple(self._shape)}, one per tree, got "
                    f"{tuple(lengths.shape)}"
                )
            lengths = lengths.reshape(-1)
        self._oracle = SpanOracle(domain, check_lengths(lengths, self._rows, tree[0]), plain)
        self._tree = tree

    @property
    @abstractmethod
    def _layout(self) -> str:
        """The shape of scores, in words."""

    @abstractmethod
    def _structures(self, marks: Tensor) -> Tensor:
        """Trees (..., n, n, labels) of zeros and ones in the form in which they are returned."""

    @abstractmethod
    def _marks(self, target: Tensor) -> Tensor:
        """A target as zeros and ones (B, n, n, labels) in float64; refuses what is no tree."""

    def _sums(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, Tensor] = Softmax.apply(rows, self._oracle)
        return both

    def log_partition(self) -> Tensor:
        """log of the sum of `exp(score)` over all trees, (...); its gradient is the marginals."""
        return self._sums(self._rows)[0].reshape(self._shape)

    def marginals(self) -> Tensor:
        """Probabilities in the shape of the scores, 0 beyond the lengths; differentiable twice."""
        return self._sums(self._rows)[1].reshape(*self._shape, *self._tree)

    def argmax(self) -> Tensor:
        """The best tree."""
        best = self._oracle.domain.argmax(self._oracle.pack(self._rows))
        return self._structures(self._oracle.unpack(best, self._rows)).reshape(
            *self._shape, *self._ends
        )

    @property
    def _ends(self) -> torch.Size:
        """The shape of one returned tree."""
        return self._tree

    def kbest(self, k: int) -> tuple[Tensor, Tensor]:
        """Scores (..., k) of the k best trees, falling, and the trees (..., k, ...).

        Where there are fewer, the rest score -inf and are zeros.
        """
        values, batches = self._oracle.domain.kbest(self._oracle.pack(self._rows), k)
        marks = torch.stack([self._oracle.unpack(batch, self._rows) for batch in batches], 1)
        scores = torch.from_numpy(values).to(self._rows)
        trees = self._structures(marks.flatten(0, 1))
        return scores.reshape(*self._shape, k), trees.reshape(*self._shape, k, *self._ends)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """n trees (n, ...) drawn with probability `exp(score) / Z`."""
        seed = int(torch.randint(2**62, (), generator=generator))
        drawn = self._oracle.domain.sample(self._oracle.pack(self._rows), n, seed)
        marks = torch.stack([self._oracle.unpack(batch, self._rows) for batch in drawn])
        trees = self._structures(marks.flatten(0, 1))
        return trees.reshape(n, *self._shape, *self._ends)

    def sparsemap(self) -> Tensor:
        """The nearest point to the scores in the convex hull of the trees: a mean of few."""
        return self._nearest(self._rows).reshape(*self._shape, *self._tree)

    def _nearest(self, rows: Tensor) -> Tensor:
        p: Tensor = _Project.apply(rows.flatten(1).contiguous(), self._oracle, None, None)
        return p.reshape(rows.shape)

    def entropy(self) -> Tensor:
        """Shannon's entropy of the trees, (...); differentiable."""
        return self.cross_entropy(self)

    def cross_entropy(self: Own, other: Own) -> Tensor:
        """`-sum_v p(v) log q(v)` with p of these scores and q of ``other``, (...)."""
        if other._rows.shape != self._rows.shape or other._oracle.domain != self._oracle.domain:
            raise ValueError(
                f"the other scores are of trees of the same kind and shape, got {self} and {other}"
            )
        p = self._sums(self._rows.double())[1]
        exact = other._rows.double()
        value = other._sums(exact)[0] - inner(exact, p)
        return value.to(self._rows.dtype).reshape(self._shape)

    def kl(self: Own, other: Own) -> Tensor:
        """`KL(p || q) >= 0` of the trees of these scores from those of ``other``, (...)."""
        if other._rows.shape != self._rows.shape or other._oracle.domain != self._oracle.domain:
            return self.cross_entropy(other)  # which says what is wrong
        exact, others = self._rows.double(), other._rows.double()
        value, p = self._sums(exact)
        moved = torch.where(p > 0, others - exact, 0.0)
        divergence = other._sums(others)[0] - value - inner(moved, p)
        return divergence.clamp_min(0).to(self._rows.dtype).reshape(self._shape)

    def loss(self, target: Tensor, kind: str = "crf", reduction: str = "mean") -> Tensor:
        """The loss of a tree: "crf" (`log Z - score`), "sparsemap", "hinge" or "perceptron".

        The hinge charges 1 for every cell of the best tree that the target does not have.
        """
        check_reduction(reduction)
        check_kind(kind)
        gold = self._marks(target)
        exact = self._rows.double()  # log Z and the score of a tree may be large and close
        if kind == "crf":
            value = self._sums(exact)[0] - inner(exact, gold)
        elif kind == "sparsemap":
            p = self._nearest(exact)
            value = _Loss.apply(*(x.flatten(1) for x in (exact, p, gold)))
        else:
            cost = 1.0 if kind == "hinge" else 0.0
            augmented = (exact.detach() + cost) - cost * gold
            best = self._oracle.domain.argmax(self._oracle.pack(augmented))
            wrong = self._oracle.unpack(best, augmented) - gold
            value = inner(exact, wrong) + cost * wrong.clamp_min(0).sum((1, 2, 3))
        value = value.to(self._rows.dtype)
        if reduction == "none":
            return value.reshape(self._shape)
        return value.sum() / max(len(value), 1) if reduction == "mean" else value.sum()

    def _check_trees(self, marks: Tensor, what: str) -> Tensor:
        """Marks that are trees of the domain: each is the best tree where its own cells score."""
        lengths = self._oracle.lengths
        kept = marks * self._oracle.inside(marks.shape[1])[..., None]
        if marks.device.type != "cpu":
            return kept
        best = self._oracle.domain.argmax(self._oracle.pack(2 * kept - 1))
        apart = (self._oracle.unpack(best, kept) - kept).abs().sum((1, 2, 3))
        wrong = (apart > 0).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"{what} of row {row} (of length {int(lengths[row])}) are no tree of "
                f"{self._oracle.domain}"
            )
        return kept


def check_kind(kind: str) -> None:
    """Refuse a loss that there is not."""
    if kind not in KINDS:
        raise ValueError(f'kind must be "crf", "sparsemap", "hinge" or "perceptron", got {kind!r}')


def inner(x: Tensor, y: Tensor) -> Tensor:
    """<x, y> of each tree; a cell that y does not use counts 0, also where x is -inf."""
    return torch.where(y != 0, x * y, 0.0).sum((1, 2, 3))
