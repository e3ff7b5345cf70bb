"""Projective dependency trees for torch, by Eisner's chart.

Scores are (..., n, n) tensors [head, dependent] with node 0 the root, lengths the nodes of each
tree, the root included; see ``maxent.structured.ProjectiveTree``.
"""

from __future__ import annotations

from typing import Literal

from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._lengths import check_heads, check_root
from maxent.torch.structured._spans import Heads
from maxent.torch.structured.span_scores import SpanScores, check_kind
from torch import Tensor, nn

Root = Literal["single", "multi"]


class ProjectiveScores(SpanScores):
    """Scores of projective dependency trees, checked once and asked many times.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> trees = ProjectiveScores(torch.zeros(5, 5))
    >>> trees.log_partition().exp().round(), trees.entropy().exp().round()
    (tensor(30.), tensor(30.))
    >>> trees.kbest(2)[1].shape, trees.sample(3).shape
    (torch.Size([2, 5]), torch.Size([3, 5]))
    """

    def __init__(
        self, scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
    ) -> None:
        check_root(root)
        layout = "(..., n, n), [head, dependent] with the root first"
        self._prepare(scores, lengths, root, 2, layout)

    def __repr__(self) -> str:
        rows, n = self._rows.shape[:2]
        return f"ProjectiveScores({rows} trees, {n} nodes, root={self._kind!r})"

    @property
    def _ends(self) -> tuple[int, ...]:
        return self._tree[:1]

    def _structures(self, marks: Tensor) -> Tensor:
        return marks[..., 0].argmax(dim=1)

    def _marks(self, target: Tensor) -> Tensor:
        batch, n = self._rows.shape[:2]
        check_heads(target, self._shape, n)
        marks: Tensor = Heads.apply(target.reshape(batch, n).to(self._rows.device), self._lengths)
        return marks


def projective_log_partition(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """log of the sum of `exp(score)` over projective trees; its gradient is the marginals.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> projective_log_partition(torch.zeros(2, 4, 4), torch.tensor([4, 3])).exp().round()
    tensor([7., 2.])
    """
    return ProjectiveScores(scores, lengths, root).log_partition()


def projective_marginals(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The probability of each arc of a projective tree; 0 beyond the lengths.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> projective_marginals(torch.zeros(4, 4)).round(decimals=3)[0]  # the root's dependent
    tensor([0.0000, 0.4290, 0.1430, 0.4290])
    """
    return ProjectiveScores(scores, lengths, root).marginals()


def projective_argmax(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The heads (..., n) of the best projective tree; 0 for the root and beyond the lengths.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> projective_argmax(torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    tensor([0, 2, 0])
    """
    return ProjectiveScores(scores, lengths, root).argmax()


def projective_sparsemap(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The nearest point to the scores in the convex hull of projective trees.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> projective_sparsemap(torch.tensor([[0.0, 0.0, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    tensor([[0.0000, 0.4000, 0.6000],
            [0.0000, 0.0000, 0.4000],
            [0.0000, 0.6000, 0.0000]])
    """
    return ProjectiveScores(scores, lengths, root).sparsemap()


class ProjectiveLoss(nn.Module):
    """The loss of a projective tree, by name: "crf", "sparsemap", "hinge" or "perceptron".

    Parameters
    ----------
    kind : "crf", "sparsemap", "hinge" or "perceptron", default "crf"
        Which loss.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.

    Examples
    --------
    >>> import torch
    >>> loss = ProjectiveLoss("crf")
    >>> loss(torch.zeros(1, 4, 4), torch.tensor([[0, 0, 1, 2]])).exp()
    tensor(7.0000)
    """

    def __init__(self, kind: str = "crf", root: Root = "single", reduction: str = "mean") -> None:
        super().__init__()
        check_kind(kind)
        check_root(root)
        check_reduction(reduction)
        self.kind, self.root, self.reduction = kind, root, reduction

    def forward(self, scores: Tensor, heads: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The loss of the trees with these heads (..., n)."""
        return ProjectiveScores(scores, lengths, self.root).loss(heads, self.kind, self.reduction)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"kind={self.kind!r}, root={self.root!r}, reduction={self.reduction!r}"
