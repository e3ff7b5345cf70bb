"""Scores of trees put together from spans: checked once, and asked many times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from maxent.torch._operators import eager
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._divergences import cross_entropy_of, kl_of
from maxent.torch.structured._lengths import check_generator, check_lengths
from maxent.torch.structured._spans import (
    Best,
    Checked,
    KBest,
    Project,
    Sample,
    Softmax,
    SparseLoss,
    cells,
)
from torch import Tensor

KINDS = ("crf", "sparsemap", "hinge", "perceptron")
Own = TypeVar("Own", bound="SpanScores")


class SpanScores:
    """Scores of a batch of trees; subclasses say which and how targets are written."""

    _rows: Tensor  # (B, n, n, labels)
    _lengths: Tensor
    _kind: str
    _shape: tuple[int, ...]  # of the batch
    _tree: tuple[int, ...]  # of the scores of a tree

    def _prepare(
        self, scores: Tensor, lengths: Tensor | None, kind: str, axes: int, layout: str
    ) -> None:
        """Check scores whose last axes are those of a tree."""
        name = type(self).__name__
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise TypeError(f"{name} needs floating scores, got {getattr(scores, 'dtype', scores)}")
        shape, tree = tuple(scores.shape[:-axes]), tuple(scores.shape[-axes:])
        if scores.ndim < axes or tree[0] != tree[1] or 0 in tree:
            raise ValueError(f"{name} needs scores of shape {layout}, got {tuple(scores.shape)}")
        dtype = torch.float64 if scores.dtype == torch.float64 else torch.float32
        labels = tree[2] if axes == 3 else 1
        rows = scores.to(dtype).reshape(-1, tree[0], tree[1], labels)
        if lengths is not None:
            lengths = torch.as_tensor(lengths)
            mask = (tree[0],) if lengths.dtype == torch.bool else ()
            if tuple(lengths.shape) != (*shape, *mask):
                raise ValueError(
                    f"lengths are integers of shape {shape}, one per tree, or a bool mask of shape "
                    f"{(*shape, tree[0])}, got {lengths.dtype} of shape {tuple(lengths.shape)}"
                )
            lengths = lengths.reshape(-1, *mask)
        self._shape, self._tree, self._kind = shape, tree, kind
        self._lengths = check_lengths(lengths, rows, tree[0], what="the nodes that there are")
        # what no tree has may be anything, NaN as well
        self._rows = torch.where(cells(self._lengths, tree[0], kind), rows, 0.0)

    @property
    def _ends(self) -> tuple[int, ...]:
        """The shape of one returned tree."""
        return self._tree

    @abstractmethod
    def _structures(self, marks: Tensor) -> Tensor:
        """Trees (..., n, n, labels) of zeros and ones in the form in which they are returned."""

    @abstractmethod
    def _marks(self, target: Tensor) -> Tensor:
        """A target as zeros and ones (B, n, n, labels) in float64; refuses wrong shapes."""

    def _sums(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, Tensor] = Softmax.apply(rows, self._lengths, self._kind)
        return both

    def log_partition(self) -> Tensor:
        """log of the sum of `exp(score)` over all trees, (...); its gradient is the marginals."""
        return self._sums(self._rows)[0].reshape(self._shape)

    def marginals(self) -> Tensor:
        """Probabilities in the shape of the scores, 0 beyond the lengths; differentiable twice."""
        return self._sums(self._rows)[1].reshape(*self._shape, *self._tree)

    def argmax(self) -> Tensor:
        """The best tree."""
        best: Tensor = Best.apply(self._rows.detach(), self._lengths, self._kind)
        return self._structures(best).reshape(*self._shape, *self._ends)

    def kbest(self, k: int) -> tuple[Tensor, Tensor]:
        """Scores (..., k) of the k best trees, falling, and the trees (..., k, ...).

        Where there are fewer, the rest score -inf and are zeros. Without derivatives.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"kbest needs an integer k >= 1, got {k!r}")
        values, marks = KBest.apply(self._rows.detach(), self._lengths, k, self._kind)
        trees = self._structures(marks.flatten(0, 1))
        return values.reshape(*self._shape, k), trees.reshape(*self._shape, k, *self._ends)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """n trees (n, ...) drawn with probability `exp(score) / Z`."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"sample needs an integer n >= 1, got {n!r}")
        check_generator(generator)
        batch, nodes = self._rows.shape[:2]
        uniform = torch.rand((batch, n, 4 * nodes), dtype=torch.float64, generator=generator)
        marks: Tensor = Sample.apply(self._rows.detach(), self._lengths, uniform, self._kind)
        trees = self._structures(marks.movedim(1, 0).flatten(0, 1))
        return trees.reshape(n, *self._shape, *self._ends)

    def sparsemap(self) -> Tensor:
        """The nearest point to the scores in the convex hull of the trees: a mean of few."""
        p: Tensor = Project.apply(self._rows, self._lengths, self._kind)
        return p.reshape(*self._shape, *self._tree)

    def entropy(self) -> Tensor:
        """Shannon's entropy of the trees, (...); differentiable."""
        return self.cross_entropy(self)

    def cross_entropy(self: Own, other: Own) -> Tensor:
        """`-sum_v p(v) log q(v)` with p of these scores and q of ``other``, (...)."""
        return self._compared(cross_entropy_of, other)

    def kl(self: Own, other: Own) -> Tensor:
        """`KL(p || q) >= 0` of the trees of these scores from those of ``other``, (...)."""
        return self._compared(kl_of, other)

    def _compared(self, divergence: Callable[..., Tensor], other: SpanScores) -> Tensor:
        self._check_alike(other)

        def sums(rows: Tensor) -> tuple[Tensor, tuple[Tensor]]:
            value, mean = self._sums(rows)
            return value, (mean,)

        value = divergence(sums, [self._rows], [other._rows])
        return value.to(self._rows.dtype).reshape(self._shape)

    def loss(self, target: Tensor, kind: str = "crf", reduction: str = "mean") -> Tensor:
        """The loss of a tree: "crf" (`log Z - score`), "sparsemap", "hinge" or "perceptron".

        The hinge charges 1 for every cell of the best tree that the target does not have.
        """
        check_reduction(reduction)
        check_kind(kind)
        gold = Checked.apply(self._marks(target), self._lengths, self._kind, "the targets")
        exact = self._rows.double()  # log Z and the score of a tree may be large and close
        if kind == "crf":
            value = self._sums(exact)[0] - _inner(exact, gold)
        elif kind == "sparsemap":
            p = Project.apply(exact, self._lengths, self._kind)
            value = SparseLoss.apply(exact, p, gold)
        else:
            cost = 1.0 if kind == "hinge" else 0.0
            augmented = (exact.detach() + cost) - cost * gold
            wrong = Best.apply(augmented, self._lengths, self._kind) - gold
            value = _inner(exact, wrong) + cost * wrong.clamp_min(0).sum((1, 2, 3))
        value = value.to(self._rows.dtype)
        if reduction == "none":
            return value.reshape(self._shape)
        return value.sum() / max(value.shape[0], 1) if reduction == "mean" else value.sum()

    def _check_alike(self, other: SpanScores) -> None:
        same = isinstance(other, SpanScores) and self._kind == other._kind
        if not same or tuple(self._rows.shape) != tuple(other._rows.shape):
            raise ValueError(
                f"the other scores are of trees of the same kind and shape, got {self} and {other}"
            )
        mine, theirs = self._lengths, other._lengths
        if mine.device.type == "cpu" and eager(self._rows) and not torch.equal(mine, theirs):
            raise ValueError(
                f"both have trees of the same lengths, got {mine.tolist()} and {theirs.tolist()}"
            )


def check_kind(kind: str) -> None:
    """Refuse a loss that there is not."""
    if kind not in KINDS:
        raise ValueError(f'kind must be "crf", "sparsemap", "hinge" or "perceptron", got {kind!r}')


def _inner(x: Tensor, y: Tensor) -> Tensor:
    """<x, y> of each tree; a cell that y does not use counts 0, also where x is -inf."""
    return torch.where(y != 0, x * y, 0.0).sum((1, 2, 3))
