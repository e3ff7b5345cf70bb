"""Connectionist temporal classification (CTC): exact, sparse, and as alignments.

Conventions: B sequences of up to T positions over V labels, one of which, the blank, stands for
nothing; what is left of an alignment when repeats are joined and blanks are taken out is its
target.

scores : (B, T, V), unnormalised; log-probabilities are scores too.
targets : (B, S) integers, none of them the blank; what lies behind their ends is not read.
lengths : (B,) integers from 1 to T, or a mask (B, T); None for T.
target_lengths : (B,) integers from 0 to S, or a mask (B, S); None for S.

Sums are in float64. CPU tensors are read by compiled programmes, CUDA tensors by Triton kernels,
both with the same results in every run; targets of more than 2047 labels on CUDA, and machines
without numba or Triton, take batched torch operations. The best and the sparse alignments are found
on the CPU.
"""

from __future__ import annotations

import torch
from maxent.torch.maps.functional import sparsemax
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._ctc import Best, Loss, Sparse, Sums, Target, supports
from maxent.torch.structured._lengths import check_lengths, described
from torch import Tensor


def ctc_loss(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """`log Z - log sum over alignments of exp(score)`: minus the log-likelihood of the targets.

    Z sums over all sequences of labels, so that scores need not be normalised: the value is that
    of ``torch.nn.functional.ctc_loss`` at their log-softmax, and so is its gradient,
    ``softmax(scores) - ctc_marginals(scores, targets)``. It can be differentiated twice.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" divides each loss by the length of its target, and is over the sequences.
    zero_infinity : bool, default False
        Whether targets without an alignment count as 0; otherwise they are refused on the CPU, and
        infinite on CUDA.

    Examples
    --------
    >>> import torch
    >>> ctc_loss(torch.zeros(1, 2, 2), torch.tensor([[1]])).exp()  # 3 of 4 words stand for it
    tensor(1.3333)
    """
    check_reduction(reduction)
    _, *given = _prepared(scores, targets, lengths, target_lengths, blank, zero_infinity)
    loss, _ = Loss.apply(scores.to(_type(scores)), *given, blank, zero_infinity)
    if zero_infinity:
        loss = torch.where(loss == torch.inf, 0.0, loss)
    return _reduced(loss, given[2], reduction).to(_type(scores))


def ctc_log_partition(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> Tensor:
    """log sum over the alignments of each target of `exp(score)`, (B,).

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> import torch
    >>> ctc_log_partition(torch.zeros(1, 4, 3), torch.tensor([[1, 2]])).exp().round()
    tensor([15.])
    """
    given = _prepared(scores, targets, lengths, target_lengths, blank, False)
    value: Tensor = Sums.apply(*given, blank)[0]
    return value.to(_type(scores))


def ctc_marginals(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> Tensor:
    """Probabilities (B, T, V) of the labels of an alignment of each target, 0 behind the ends.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> import torch
    >>> ctc_marginals(torch.zeros(1, 2, 2), torch.tensor([[1]]))
    tensor([[[0.3333, 0.6667],
             [0.3333, 0.6667]]])
    """
    given = _prepared(scores, targets, lengths, target_lengths, blank, False)
    mean: Tensor = Sums.apply(*given, blank)[1]
    return mean.to(_type(scores))


def ctc_argmax(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> tuple[Tensor, Tensor]:
    """Scores (B,) and labels (B, T) of the best alignments: forced alignment; no derivative.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]]])
    >>> ctc_argmax(scores, torch.tensor([[1]]))[1]
    tensor([[0, 1, 0]])
    """
    given = _prepared(scores, targets, lengths, target_lengths, blank, False)
    value, labels = Best.apply(given[0].detach(), *given[1:], blank)
    return value.to(_type(scores)), labels


def ctc_sparsemap(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> Tensor:
    """The mean alignment (B, T, V) of each target nearest to the scores: a mixture of few.

    `argmin_p ||p - theta||^2` over the hull of the alignments, where ``ctc_marginals`` has a
    positive probability for each of them.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[[0.0, 1.0], [1.0, 0.5]]])
    >>> ctc_sparsemap(scores, torch.tensor([[1]]))
    tensor([[[0.0000, 1.0000],
             [0.7500, 0.2500]]])
    """
    given = _prepared(scores, targets, lengths, target_lengths, blank, False)
    p: Tensor = Sparse.apply(*given, blank)
    return p.to(_type(scores))


def ctc_sparsemap_support(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
) -> list[list[tuple[float, list[int]]]]:
    """The weights and labels of the alignments that each ``ctc_sparsemap`` mixes, heaviest first.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[[0.0, 1.0], [1.0, 0.5]]])
    >>> [(round(w, 6), word) for w, word in ctc_sparsemap_support(scores, torch.tensor([[1]]))[0]]
    [(0.75, [1, 0]), (0.25, [1, 1])]
    """
    return supports(*_prepared(scores, targets, lengths, target_lengths, blank, False), blank)


def sparse_ctc_loss(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None = None,
    target_lengths: Tensor | None = None,
    blank: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """`1/2 d(theta, alignments)^2 - 1/2 d(theta, all sequences)^2`: CTC with projections for sums.

    CTC is the difference of two log-partitions, over all sequences of labels and over the
    alignments of the target. With half the squared norm in place of the entropy they become
    conjugates of projections: sparsemax at each position, and ``ctc_sparsemap``. The loss is at
    least 0, and 0 once the sparsemax of the scores is a mixture of alignments; its gradient is
    ``sparsemax(scores) - ctc_sparsemap(scores, targets)``, with exact zeros.

    Parameters
    ----------
    scores : tensor (B, T, V)
        Scores of labels at each position.
    targets : int tensor (B, S)
        What alignments stand for.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    target_lengths : int tensor (B,) or bool tensor (B, S), default None
        Labels of each target, or a mask of them; None is S for all.
    blank : int, default 0
        The label that stands for nothing.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" divides each loss by the length of its target, and is over the sequences.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])  # for blanks, and the target is a label
    >>> sparse_ctc_loss(scores, torch.tensor([[1]])), sparse_ctc_loss(-scores, torch.tensor([[1]]))
    (tensor(0.5000), tensor(0.))
    """
    check_reduction(reduction)
    given = _prepared(scores, targets, lengths, target_lengths, blank, False)
    theta = torch.where(_inside(given[0], given[2])[:, :, None], given[0], 0.0)
    near = sparsemax(theta).masked_fill(~_inside(theta, given[2])[:, :, None], 0.0)
    aligned = Sparse.apply(*given, blank)
    # |theta - aligned|^2 - |theta - near|^2, over 2; the points maximise, so they are held fixed
    near, aligned = near.detach(), aligned.detach()
    # a label that is forbidden is in neither, and -inf times 0 would be NaN
    apart = torch.where(near == aligned, 0.0, theta - (near + aligned) / 2)
    loss = ((near - aligned) * apart).sum((1, 2)).clamp_min(0)
    return _reduced(loss, given[3], reduction).to(_type(scores))


def _prepared(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor | None,
    target_lengths: Tensor | None,
    blank: int,
    lacking: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Checked scores in float64, targets without what lies behind, and the lengths of both."""
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise TypeError(f"scores must be a tensor of floats, got {described(scores)}")
    if scores.ndim != 3 or 0 in scores.shape[1:]:
        raise ValueError(
            "scores have the shape (sequences, positions, labels) with at least one position and "
            f"label, got {tuple(scores.shape)}"
        )
    batch, positions, labels = scores.shape
    wrong = not isinstance(targets, Tensor) or targets.ndim != 2 or targets.shape[0] != batch
    if wrong or targets.is_floating_point() or targets.dtype == torch.bool:
        raise ValueError(
            f"targets are integers of shape ({batch}, labels of the longest), got "
            f"{described(targets)}"
        )
    if isinstance(blank, bool) or not isinstance(blank, int) or not 0 <= blank < labels:
        raise ValueError(f"the blank is a label from 0 to {labels - 1}, got {blank!r}")
    spans = check_lengths(lengths, scores, positions)
    count = "the labels that there are"
    sizes = check_lengths(target_lengths, scores, targets.shape[1], 0, count)
    kept = Target.apply(targets.to(scores.device), spans, sizes, labels, blank, lacking)
    return scores.double(), kept, spans, sizes


def _inside(scores: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]


def _reduced(loss: Tensor, sizes: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return (loss / sizes.clamp_min(1)).sum() / max(loss.shape[0], 1)


def _type(scores: Tensor) -> torch.dtype:
    """Of results: float32 for 16-bit scores as well."""
    return torch.float64 if scores.dtype == torch.float64 else torch.float32
