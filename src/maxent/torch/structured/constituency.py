"""Binary constituency trees for torch, by the chart of Cocke, Kasami and Younger.

Scores are (..., n, n, labels) tensors [first word, last word, label], lengths the words of each
sentence; entries whose first word is behind the last are not read. A tree is a tensor of that shape
with ones at its 2 n - 1 labelled spans. See ``maxent.structured.ConstituencyTree``.
"""

from __future__ import annotations

from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._lengths import described
from maxent.torch.structured.span_scores import SpanScores, check_kind
from torch import Tensor, nn


class ConstituencyScores(SpanScores):
    """Scores of binary trees with labels, checked once and asked many times.

    Parameters
    ----------
    scores : tensor (..., n, n, labels)
        Scores of the labelled spans [first word, last word, label].
    lengths : int tensor (...) or bool tensor (..., n), default None
        Words of each sentence, or a mask of them; None is n for all.

    Examples
    --------
    >>> import torch
    >>> trees = ConstituencyScores(torch.zeros(4, 4, 2))
    >>> trees.log_partition().exp().round()  # 5 trees, 2^7 ways to label each
    tensor(640.)
    >>> trees.sample(3).sum((1, 2, 3))
    tensor([7., 7., 7.])
    """

    def __init__(self, scores: Tensor, lengths: Tensor | None = None) -> None:
        layout = "(..., n, n, labels), [first word, last word, label]"
        self._prepare(scores, lengths, "binary", 3, layout)

    def __repr__(self) -> str:
        rows, n, _, labels = self._rows.shape
        return f"ConstituencyScores({rows} trees, {n} words, {labels} labels)"

    def _structures(self, marks: Tensor) -> Tensor:
        return marks

    def _marks(self, target: Tensor) -> Tensor:
        shape = (*self._shape, *self._tree)
        if not isinstance(target, Tensor) or tuple(target.shape) != shape:
            raise ValueError(
                f"trees are zeros and ones in the shape of the scores {shape}, got "
                f"{described(target)}"
            )
        return target.detach().reshape(self._rows.shape).to(self._rows.device)


def constituency_log_partition(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """log of the sum of `exp(score)` over labelled binary trees; its gradient is the marginals.

    Parameters
    ----------
    scores : tensor (..., n, n, labels)
        Scores of the labelled spans [first word, last word, label].
    lengths : int tensor (...) or bool tensor (..., n), default None
        Words of each sentence, or a mask of them; None is n for all.

    Examples
    --------
    >>> import torch
    >>> constituency_log_partition(torch.zeros(2, 5, 5, 1), torch.tensor([5, 4])).exp().round()
    tensor([14.,  5.])
    """
    return ConstituencyScores(scores, lengths).log_partition()


def constituency_marginals(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The probability of each labelled span, in the shape of the scores.

    Parameters
    ----------
    scores : tensor (..., n, n, labels)
        Scores of the labelled spans [first word, last word, label].
    lengths : int tensor (...) or bool tensor (..., n), default None
        Words of each sentence, or a mask of them; None is n for all.

    Examples
    --------
    >>> import torch
    >>> constituency_marginals(torch.zeros(3, 3, 1))[..., 0]
    tensor([[1.0000, 0.5000, 1.0000],
            [0.0000, 1.0000, 0.5000],
            [0.0000, 0.0000, 1.0000]])
    """
    return ConstituencyScores(scores, lengths).marginals()


def constituency_argmax(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The best tree: ones at its labelled spans, in the shape of the scores.

    Parameters
    ----------
    scores : tensor (..., n, n, labels)
        Scores of the labelled spans [first word, last word, label].
    lengths : int tensor (...) or bool tensor (..., n), default None
        Words of each sentence, or a mask of them; None is n for all.

    Examples
    --------
    >>> import torch
    >>> scores = torch.zeros(3, 3, 2)
    >>> scores[0, 1, 1] = 1.0
    >>> constituency_argmax(scores).nonzero().tolist()
    [[0, 0, 0], [0, 1, 1], [0, 2, 0], [1, 1, 0], [2, 2, 0]]
    """
    return ConstituencyScores(scores, lengths).argmax()


def constituency_sparsemap(scores: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The nearest point to the scores in the convex hull of the trees: a mean of few of them.

    Parameters
    ----------
    scores : tensor (..., n, n, labels)
        Scores of the labelled spans [first word, last word, label].
    lengths : int tensor (...) or bool tensor (..., n), default None
        Words of each sentence, or a mask of them; None is n for all.

    Examples
    --------
    >>> import torch
    >>> scores = torch.zeros(3, 3, 1)
    >>> scores[0, 1] = 0.5
    >>> constituency_sparsemap(scores)[..., 0]
    tensor([[1.0000, 0.7500, 1.0000],
            [0.0000, 1.0000, 0.2500],
            [0.0000, 0.0000, 1.0000]])
    """
    return ConstituencyScores(scores, lengths).sparsemap()


class ConstituencyLoss(nn.Module):
    """The loss of a labelled tree, by name: "crf", "sparsemap", "hinge" or "perceptron".

    Parameters
    ----------
    kind : "crf", "sparsemap", "hinge" or "perceptron", default "crf"
        Which loss.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.

    Examples
    --------
    >>> import torch
    >>> tree = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> ConstituencyLoss()(torch.zeros(1, 3, 3, 1), tree[None, :, :, None]).exp()
    tensor(2.)
    """

    def __init__(self, kind: str = "crf", reduction: str = "mean") -> None:
        super().__init__()
        check_kind(kind)
        check_reduction(reduction)
        self.kind, self.reduction = kind, reduction

    def forward(self, scores: Tensor, trees: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The loss of trees, zeros and ones in the shape of the scores (..., n, n, labels)."""
        return ConstituencyScores(scores, lengths).loss(trees, self.kind, self.reduction)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"kind={self.kind!r}, reduction={self.reduction!r}"
