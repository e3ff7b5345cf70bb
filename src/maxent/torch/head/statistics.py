"""Losses, probabilities, entropies and predictions of rows in one pass over the classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from maxent.torch.head._layer import checked_layer
from maxent.torch.head._statistics import HeadStatistics
from maxent.torch.head.loss import checked_objective, checked_targets
from maxent.torch.maps.entropies import Entropy
from torch import Tensor

_NAME = "linear_statistics"


@dataclass(frozen=True)
class RowStatistics:
    """What a head says of each row; zeros, False and -1 in rows that do not count.

    Attributes
    ----------
    loss : tensor (...)
        The losses of the rows.
    probability : tensor (...)
        p of the targets.
    log_probability : tensor (...)
        Its logarithm; -inf, without a gradient, off the support.
    entropy : tensor (...)
        `-Omega(p)`: Shannon's entropy for "shannon", Tsallis' for others.
    correct : bool tensor (...)
        Whether the most probable class is the target.
    support : int tensor (...)
        How many classes have a probability above 0.
    top_indices : int tensor (..., k)
        The most probable classes, -1 where fewer have a probability.
    top_probabilities : tensor (..., k)
        Their probabilities.
    used : bool tensor (...)
        Which rows count.
    """

    loss: Tensor
    probability: Tensor
    log_probability: Tensor
    entropy: Tensor
    correct: Tensor
    support: Tensor
    top_indices: Tensor
    top_probabilities: Tensor
    used: Tensor

    def accuracy(self) -> Tensor:
        """The share of rows that are right, of those that count; NaN if none does."""
        return self.correct.sum() / self.used.sum()


def linear_statistics(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    entropy: str | float | Entropy = "entmax15",
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_weight: Tensor | None = None,
    shift: int = 0,
    check: bool | None = None,
    label_smoothing: float = 0.0,
    temperature: float = 1.0,
    soft_cap: float | None = None,
    z_loss: float = 0.0,
    top_k: int = 1,
) -> RowStatistics:
    """Losses, probabilities of the targets, entropies and predictions, row by row and in one pass.

    Losses, probabilities, their logarithms and entropies are differentiated by hidden, weight and
    bias: what policy gradients, preference losses and distillation need. In rows with few classes
    in their support these gradients have few entries, as that of the loss.

    Parameters
    ----------
    hidden : tensor (..., n_features)
        Hidden vectors h.
    weight : tensor (n_classes, n_features)
        W, of the type of ``hidden``.
    target : int tensor (...)
        Labels: the classes whose probability is asked for.
    entropy : str, float or Entropy, default "entmax15"
        "shannon", "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``.
    bias : tensor (n_classes,), default None
        The constants b.
    ignore_index : int, default -100
        Label of rows that do not count.
    label_weight : tensor (n_classes,), default None
        What losses are multiplied by, one number per class. A row with 0 does not count.
    shift : int, default 0
        hidden[..., t, :] is to predict target[..., t + shift]; the last ``shift`` places have
        nothing to predict and do not count.
    check : bool, default None
        Whether to refuse labels out of range. None is on CPU alone: on CUDA it would wait for the
        device, and there loss and probability of such a label are NaN.
    label_smoothing : float, default 0.0
        As in ``linear_fenchel_young_loss``; probabilities and entropies are those of the scores.
    temperature : float, default 1.0
        T: all is of `x = s / T` for scores `s = W h + b`.
    soft_cap : float, default None
        c: all is of `x = c tanh(s / c) / T`.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss.
    top_k : int, default 1
        How many of the most probable classes to return.

    Notes
    -----
    There is no second derivative, and it is not for ``torch.compile``.

    Examples
    --------
    >>> import torch
    >>> hidden, weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.eye(3, 2)
    >>> found = linear_statistics(hidden, weight, torch.tensor([1, 0]), "sparsemax", top_k=2)
    >>> found.probability, found.correct
    (tensor([1., 0.]), tensor([ True, False]))
    >>> found.top_indices, found.accuracy()
    (tensor([[ 1, -1],
            [ 1, -1]]), tensor(0.5000))
    """
    if torch.compiler.is_compiling():
        raise NotImplementedError(
            f"{_NAME} is not for torch.compile: call it outside of what is compiled"
        )
    hidden, weight, bias = checked_layer(hidden, weight, bias, _NAME)
    objective = checked_objective(
        entropy, temperature, soft_cap, label_smoothing, z_loss, hidden, _NAME
    )
    if objective.kind != "tsallis":
        raise NotImplementedError(
            f"{_NAME} is for Shannon and Tsallis entropies, got {entropy}; for others take the map "
            "of linear(hidden, weight, bias)"
        )
    if not isinstance(target, Tensor):
        raise TypeError(
            f"{_NAME} needs one label for each row, got {type(target).__name__}; losses of "
            "proportions are those of linear_fenchel_young_loss"
        )
    if not (isinstance(top_k, int) and 1 <= top_k <= len(weight)):
        raise ValueError(
            f"{_NAME} needs top_k from 1 to {len(weight)}, the number of classes, got {top_k!r}"
        )
    targets = checked_targets(
        target, hidden, len(weight), ignore_index, "none", label_weight, shift, check, objective
    )
    lead = hidden.shape[:-1]
    rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
    loss, probability, log, entropies, support, top, p = HeadStatistics.apply(
        rows, weight, bias, targets, objective, top_k
    )
    used = targets.share != 0
    correct = (top[:, 0] == targets.index[:, 0]) & used
    each = (loss, probability, log, entropies, correct, support)
    loss, probability, log, entropies, correct, support = (x.reshape(lead) for x in each)
    return RowStatistics(
        loss, probability, log, entropies, correct, support, top.reshape(*lead, top_k),
        p.reshape(*lead, top_k), used.reshape(lead),
    )  # fmt: skip
