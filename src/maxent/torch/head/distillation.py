"""Learning what another head says: both heads by their weights, without the scores of either."""

from __future__ import annotations

from typing import Any

import torch
from maxent.torch.head._layer import checked_layer, without_autocast
from maxent.torch.head._teacher import Teacher, WholeRows
from maxent.torch.head.loss import checked_objective, linear_fenchel_young_loss
from maxent.torch.maps.entropies import Entropy
from maxent.torch.maps.losses import check_reduction
from torch import Tensor

_NAME = "linear_distillation_loss"


def linear_distillation_loss(
    hidden: Tensor,
    weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    entropy: str | float | Entropy = "entmax15",
    teacher_entropy: str | float | Entropy | None = None,
    bias: Tensor | None = None,
    teacher_bias: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
    temperature: float = 1.0,
    teacher_temperature: float | None = None,
    soft_cap: float | None = None,
    teacher_soft_cap: float | None = None,
) -> Tensor:
    """`Omega*(x) + Omega(q) - <x, q>` of scores `x = W h + b` and what a teacher's head says, q.

    q is the map of the teacher's entropy at its own scores: exactly sparse for `alpha > 1`, softmax
    for "shannon". With Shannon's entropy on both sides the loss is the Kullback-Leibler divergence
    of q from p. Gradients, p - q, go to the student alone. Neither (rows, classes) scores nor
    probabilities are there for more than some rows at a time.

    Parameters
    ----------
    hidden : tensor (..., n_features)
        Hidden vectors h of the student.
    weight : tensor (n_classes, n_features)
        W, of the type of ``hidden``.
    teacher_hidden : tensor (..., n_teacher_features)
        Hidden vectors of the teacher for the same rows.
    teacher_weight : tensor (n_classes, n_teacher_features)
        Its weight, for the same classes.
    entropy : str, float or Entropy, default "entmax15"
        Of the loss: "shannon", "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    teacher_entropy : str, float or Entropy, default None
        Of the teacher's probabilities. None is that of the loss, whose minimum is then where the
        student's scores are the teacher's.
    bias : tensor (n_classes,), default None
        The constants b.
    teacher_bias : tensor (n_classes,), default None
        Those of the teacher.
    mask : bool tensor (...), default None
        Which rows count. None is all.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the rows that count.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores s. It is not multiplied by `T^2`.
    teacher_temperature : float, default None
        That of the teacher's scores. None is ``temperature``.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`.
    teacher_soft_cap : float, default None
        The cap of the teacher's scores. None is no cap.

    Notes
    -----
    A mean over nothing is 0. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> hidden, weight = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.eye(3, 2)
    >>> linear_distillation_loss(hidden, weight, hidden, weight, "sparsemax")
    tensor(0.)
    >>> first = torch.tensor([True, False])  # whose teacher is sure of the last class
    >>> linear_distillation_loss(hidden, weight, hidden, weight.flip(0), "sparsemax", mask=first)
    tensor(2.)
    """
    check_reduction(reduction)
    if torch.compiler.is_compiling():
        raise NotImplementedError(
            f"{_NAME} is not for torch.compile: call it outside of what is compiled"
        )
    teacher = _teacher(
        teacher_hidden, teacher_weight, teacher_bias,
        entropy if teacher_entropy is None else teacher_entropy,
        temperature if teacher_temperature is None else teacher_temperature, teacher_soft_cap,
    )  # fmt: skip
    settings: dict[str, Any] = {"temperature": temperature, "soft_cap": soft_cap}
    lead = hidden.shape[:-1]
    hidden, weight, bias = checked_layer(hidden, weight, bias, _NAME)
    if teacher_hidden.shape[:-1] != lead or len(teacher_weight) != len(weight):
        raise ValueError(
            f"{_NAME}: student and teacher need the same rows and classes, got hidden of "
            f"{tuple(hidden.shape)} and {tuple(teacher_hidden.shape)}, weights of "
            f"{tuple(weight.shape)} and {tuple(teacher_weight.shape)}"
        )
    if teacher_hidden.device != hidden.device:
        raise ValueError(
            f"{_NAME}: the student is on {hidden.device}, the teacher on {teacher_hidden.device}; "
            "move one with .to()"
        )
    objective = checked_objective(entropy, temperature, soft_cap, 0.0, 0.0, hidden, _NAME)
    rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
    counts = _counting(mask, lead, rows)
    with torch.no_grad(), without_autocast(rows):
        index, portion, known = teacher.supports()
    narrow = (known & counts).nonzero()[:, 0]
    wide = (~known & counts).nonzero()[:, 0]
    total = reduction != "none"
    parts = []
    if len(narrow):
        some = rows if len(narrow) == len(rows) else rows[narrow]
        pairs = (index[narrow], portion[narrow])
        given = "sum" if total else "none"
        parts.append(
            linear_fenchel_young_loss(
                some, weight, pairs, entropy, bias, ignore_index=-1, reduction=given, check=False,
                **settings,
            )
        )  # fmt: skip
    if len(wide) or not parts:
        parts.append(WholeRows.apply(rows, weight, bias, wide, teacher, objective, total))
    if total:
        loss: Tensor = sum(parts[1:], parts[0])
        return loss / counts.sum().clamp_min(1) if reduction == "mean" else loss
    place = torch.cat([narrow, wide])
    each = torch.cat(parts)
    return each.new_zeros(len(rows)).index_copy(0, place, each).reshape(lead)


def _teacher(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    entropy: str | float | Entropy,
    temperature: float,
    soft_cap: float | None,
) -> Teacher:
    """The teacher, checked, without what autograd knows of it."""
    name = f"{_NAME}, teacher"
    hidden, weight, bias = checked_layer(hidden, weight, bias, name)
    chosen = checked_objective(entropy, temperature, soft_cap, 0.0, 0.0, hidden, name)
    rows = hidden.detach().reshape(-1, hidden.shape[-1]).contiguous()
    fixed = None if bias is None else bias.detach()
    return Teacher(rows, weight.detach(), fixed, chosen.kind, chosen.parameter, chosen.scaling)


def _counting(mask: Tensor | None, lead: torch.Size, rows: Tensor) -> Tensor:
    """Which rows count."""
    if mask is None:
        return torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != lead:
        given = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else repr(mask)
        raise ValueError(
            f"{_NAME} needs a mask of booleans of shape {tuple(lead)}, True where a row counts, "
            f"got {given}"
        )
    return mask.reshape(-1)
