"""Segmentations of padded tensors: semi-Markov models as functions with hand-written derivatives.

Conventions: B sequences of up to T positions, C labels, segments of up to K positions.

content : (B, T, C) scores of each position inside a segment with a label; a segment takes their
    sum, as a difference of cumulative sums. Finite.
durations : (K, C) or (B, K, C) scores [length - 1, label] of a segment's length.
transitions : (C, C) or (B, C, C) scores [from, to] of the labels of neighbouring segments.
lengths : (B,) integers from 1 to T, or a mask (B, T); None for T. What lies behind is not read.
begins, ends : (B, T, C) scores of the first and of the last position of a segment; None for 0.

The segment of label c from s up to, not including, e after one with label a scores
``sum content[s:e, c] + begins[s, c] + ends[e - 1, c] + durations[e - s - 1, c]`` and
``transitions[a, c]``.
Nothing of size T K C is ever written: sums take O(T C (K + C)) time and O(T C + K C) room, in
float64 whatever the scores are. A score of -inf forbids. CPU tensors are read by the compiled
programmes of ``maxent.structured.segments``, CUDA tensors by Triton kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._segments import prepare
from torch import Tensor


class SegmentMarginals(NamedTuple):
    """Probabilities and expected counts of segments.

    Attributes
    ----------
    labels : tensor (B, T, C)
        Probability of each label at each position.
    begins : tensor (B, T, C)
        Probability that a segment with a label begins at a position.
    ends : tensor (B, T, C)
        Probability that one ends there, the position being its last.
    durations : tensor (B, K, C)
        Expected number of segments of each length and label.
    transitions : tensor (B, C, C)
        Expected number of neighbours [from, to].
    """

    labels: Tensor
    begins: Tensor
    ends: Tensor
    durations: Tensor
    transitions: Tensor


def segment_log_partition(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
) -> Tensor:
    """log sum over segmentations of `exp(score)`, (B,); differentiable twice.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.

    Examples
    --------
    >>> import torch
    >>> content, durations = torch.zeros(1, 4, 1), torch.zeros(4, 1)  # 2^3 ways to cut 4 positions
    >>> segment_log_partition(content, durations, torch.zeros(1, 1)).exp().round()
    tensor([8.])
    """
    value = prepare(content, durations, transitions, lengths, begins, ends).sums()[0]
    return value.to(_type(content))


def segment_marginals(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
) -> SegmentMarginals:
    """Probabilities of labels, beginnings and ends, and expected counts; differentiable.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.

    Examples
    --------
    >>> import torch
    >>> content, durations = torch.zeros(1, 3, 1), torch.zeros(3, 1)
    >>> segment_marginals(content, durations, torch.zeros(1, 1)).begins[0, :, 0]
    tensor([1.0000, 0.5000, 0.5000])
    """
    scores = prepare(content, durations, transitions, lengths, begins, ends)
    _, begin, end, reverse, change = scores.sums()
    begin, end = begin.mT, end.mT
    ended = torch.cat([torch.zeros_like(end[:, :1]), end[:, :-1]], 1)
    inside = torch.arange(content.shape[1], device=content.device) < scores.lengths[:, None]
    labels = (begin - ended).cumsum(1).clamp(0, 1) * inside[:, :, None]
    found = labels, begin, end, reverse.flip(2).mT, change
    return SegmentMarginals(*(x.to(_type(content)) for x in found))


def segment_argmax(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (B,) of the best segmentations, labels (B, T), and where segments begin (B, T).

    The scores are differentiable; labels and beginnings are 0 behind the end.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.

    Examples
    --------
    >>> import torch
    >>> durations = torch.tensor([[0.0], [3.0]])  # pairs score most
    >>> segment_argmax(torch.zeros(1, 4, 1), durations, torch.zeros(1, 1))[2]
    tensor([[ True, False,  True, False]])
    """
    scores = prepare(content, durations, transitions, lengths, begins, ends)
    labels, first = scores.best()
    return scores.score(labels, first).to(_type(content)), labels, first


def segment_sample(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
    n: int = 1,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Labels and beginnings (n, B, T) of segmentations drawn with probability `exp(score) / Z`.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.
    n : int, default 1
        Draws of each sequence.
    generator : torch.Generator, default None
        Source of random numbers, on the CPU.

    Examples
    --------
    >>> import torch
    >>> content, durations = torch.zeros(1, 3, 1), torch.tensor([[0.0]])
    >>> segment_sample(content, durations, torch.zeros(1, 1))[1]
    tensor([[[True, True, True]]])
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"segment_sample needs an integer n >= 1, got {n!r}")
    scores = prepare(content, durations, transitions, lengths, begins, ends)
    return scores.sample(n, generator)


def segment_score(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    labels: Tensor,
    first: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
) -> Tensor:
    """The scores (B,) of given segmentations.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    labels : int tensor (B, T)
        The label of each position; what lies behind the end is not read.
    first : bool tensor (B, T)
        Whether a segment begins at each position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.

    Examples
    --------
    >>> import torch
    >>> first = torch.tensor([[True, False, True]])
    >>> durations = torch.tensor([[1.0], [5.0]])
    >>> segment_score(torch.zeros(1, 3, 1), durations, torch.zeros(1, 1), 0 * first, first)
    tensor([6.])
    """
    scores = prepare(content, durations, transitions, lengths, begins, ends)
    return scores.score(*scores.check_target(labels, first)).to(_type(content))


def segment_crf_loss(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    labels: Tensor,
    first: Tensor,
    lengths: Tensor | None = None,
    begins: Tensor | None = None,
    ends: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log Z - score of given segmentations: the negative log-likelihood of a semi-Markov CRF.

    It is the Fenchel-Young loss of ``Shannon(domain=SemiMarkov(C, K))``.

    Parameters
    ----------
    content : tensor (B, T, C)
        Scores of the positions inside segments of each label.
    durations : tensor (K, C) or (B, K, C)
        Scores of lengths 1, ..., K.
    transitions : tensor (C, C) or (B, C, C)
        Scores [from, to] of neighbouring segments.
    labels : int tensor (B, T)
        The label of each position; what lies behind the end is not read.
    first : bool tensor (B, T)
        Whether a segment begins at each position.
    lengths : int tensor (B,) or bool tensor (B, T), default None
        Positions of each sequence, or a mask of them; None is T for all.
    begins : tensor (B, T, C), default None
        Scores of first positions.
    ends : tensor (B, T, C), default None
        Scores of last positions.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the sequences.

    Examples
    --------
    >>> import torch
    >>> first = torch.tensor([[True, False, True]])
    >>> scores = torch.zeros(1, 3, 1), torch.zeros(3, 1), torch.zeros(1, 1)
    >>> segment_crf_loss(*scores, 0 * first, first).exp().round()
    tensor(4.)
    """
    check_reduction(reduction)
    scores = prepare(content, durations, transitions, lengths, begins, ends)
    target = scores.check_target(labels, first)
    loss = (scores.sums()[0] - scores.score(*target)).to(_type(content))
    if reduction == "none":
        return loss
    return loss.sum() / max(loss.shape[0], 1) if reduction == "mean" else loss.sum()


def _type(content: Tensor) -> torch.dtype:
    """Of results: float32 for 16-bit scores as well."""
    return torch.float64 if content.dtype == torch.float64 else torch.float32
