"""Fenchel-Young losses with the arguments of torch's cross-entropy."""

from __future__ import annotations

import math
from numbers import Real

from torch.nn.functional import cross_entropy

import torch
from maxent.torch._operators import eager
from maxent.torch.maps._autograd import LossSum, apply_loss, fused
from maxent.torch.maps._dispatch import (
    check_labels,
    check_probabilities,
    compute_type,
    entropy_value,
)
from maxent.torch.maps._plain import ignored, recording
from maxent.torch.maps._shapes import as_rows, checked_scores, moved_last
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.scaling import check_z_loss, checked_scaling
from torch import Tensor

_REDUCTIONS = ("none", "mean", "sum")


def fenchel_young_loss(
    input: Tensor,
    target: Tensor,
    entropy: str | float | Entropy = "entmax15",
    reduction: str = "mean",
    ignore_index: int = -100,
    weight: Tensor | None = None,
    dim: int | None = None,
    check: bool | None = None,
    label_smoothing: float = 0.0,
    temperature: float = 1.0,
    soft_cap: float | None = None,
    z_loss: float = 0.0,
) -> Tensor:
    """`Omega*(x) + Omega(y) - <x, y> >= 0`, with gradient `p(x) - y`.

    Parameters
    ----------
    input : tensor
        Scores, with the classes along ``dim``.
    target : tensor
        Class indices (integers, the shape of input without ``dim``) or probabilities (floats, the
        shape of input).
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the targets that are not ignored.
    ignore_index : int, default -100
        Label whose rows do not count. A row of probabilities does not where all its entries are
        this number.
    weight : tensor (n_classes,), default None
        One number per class. A row counts as much as its class (with probabilities: their mean
        weight), and "mean" divides by the sum of these.
    dim : int, default None
        Where the classes are. None is as in torch's cross_entropy: (C,), (N, C) or (N, C, ...).
        Scores (N, ..., C) need ``dim=-1``.
    check : bool, default None
        Whether to refuse labels out of range and rows that are not on the simplex. None is on CPU
        alone: on CUDA it would wait for the device, and there the loss of such a label is NaN.
        Compiled code does not check.
    label_smoothing : float, default 0.0
        epsilon in `(1 - epsilon) L(x; y) + epsilon / C sum_c L(x; c)`, each class times its weight,
        which is torch's for Shannon's entropy.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores s.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`, which no large score leaves.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss, which is the z-loss for Shannon's entropy.

    Notes
    -----
    Unlike torch, "mean" over nothing (all targets ignored, an empty batch) is 0 with gradient 0,
    and the loss of float16 and bfloat16 scores is float32.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    >>> fenchel_young_loss(x, torch.tensor([0, 2]), "sparsemax", reduction="none")
    tensor([0.0000, 0.5625])
    """
    chosen = as_entropy(entropy)
    kind, parameter = chosen.kind, chosen.parameter
    check_reduction(reduction)
    check_smoothing(label_smoothing)
    check_z_loss(z_loss)
    dim = class_dimension(input) if dim is None else dim
    input = checked_scores(input, dim, None, "fenchel_young_loss")
    scaling = checked_scaling(temperature, soft_cap, input.dtype, "fenchel_young_loss")
    scores = input if scaling.plain else scaling.apply(input.to(compute_type(input)))
    moved = moved_last(scores, dim)
    rows, targets = as_rows(moved), _target_rows(target, input, dim)
    if weight is not None:
        weight = _class_weights(weight, rows.shape[-1]).to(compute_type(rows))
    if check is None:
        check = input.device.type == "cpu"
    check = check and not (torch.compiler.is_compiling() or recording())
    labels = not targets.is_floating_point()
    if labels and kind == "tsallis" and parameter == 1 and not z_loss:
        known = _cross_entropy(rows, targets, weight, ignore_index, reduction, label_smoothing)
        if known is not None:
            return known.reshape(moved.shape[:-1]) if reduction == "none" else known
    simple = labels and not label_smoothing and not z_loss
    if simple and reduction != "none" and fused(rows, kind, parameter):
        share = _fused_shares(rows, targets, ignore_index, weight, reduction)
        total: Tensor = LossSum.apply(rows, targets, share, kind, parameter, ignore_index, check)
        return total
    share = _shares(rows, targets, ignore_index, weight)
    if label_smoothing:
        if check:
            (check_labels if labels else check_probabilities)(targets, rows.shape[1], ignore_index)
        loss = _smoothed(
            rows, targets, share, kind, parameter, ignore_index, weight, label_smoothing
        )
    else:
        loss = apply_loss(rows, targets, kind, parameter, ignore_index, check)
        loss = loss if weight is None else loss * share
    if z_loss:
        void = ignored(targets, ignore_index)
        counts = _smoothed_shares(share, void, weight, label_smoothing)
        conjugate = _conjugate(rows.masked_fill(void[:, None], 0), kind, parameter)
        loss = loss + z_loss * counts * conjugate.square()
    if reduction == "none":
        return loss.reshape(moved.shape[:-1])
    return loss.sum() / _divisor(share) if reduction == "mean" else loss.sum()


def class_dimension(input: Tensor) -> int:
    """Where torch's cross_entropy has the classes: the second dimension, or the only one."""
    return 1 if isinstance(input, Tensor) and input.ndim > 1 else 0


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that there is not."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f'reduction must be "none", "mean" or "sum", got {reduction!r}')


def check_smoothing(label_smoothing: float) -> None:
    """Refuse a label_smoothing out of range."""
    if not (isinstance(label_smoothing, Real) and 0 <= label_smoothing <= 1):
        raise ValueError(f"label_smoothing must be a number from 0 to 1, got {label_smoothing!r}")


def _cross_entropy(
    rows: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor | None:
    """torch's own, on CPU, where its answer is ours; None elsewhere.

    It has other rules for rows of -inf alone or with NaN, for a mean of nothing and for labels out
    of range.
    """
    if recording() or not eager(rows) or rows.device.type != "cpu" or not len(rows):
        return None
    scores = rows.to(compute_type(rows))
    if not math.isfinite(scores.detach().amax(1).sum().item()):
        return None
    try:
        loss = cross_entropy(
            scores,
            labels,
            weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    except IndexError:
        return None
    return None if reduction == "mean" and math.isnan(loss.item()) else loss


def _smoothed(
    rows: Tensor,
    target: Tensor,
    share: Tensor,
    kind: str,
    parameter: float,
    ignore_index: int,
    weight: Tensor | None,
    epsilon: float,
) -> Tensor:
    """(1 - epsilon) L(x; y) + epsilon / C sum_c L(x; c), each times its weight.

    Up to a constant it is the loss of one target t, times a number: the map is computed once.
    """
    size, void = rows.shape[1], ignored(target, ignore_index)
    y = _probabilities(target, size, share.dtype).masked_fill(void[:, None], 0)
    weights = share.new_ones(size) if weight is None else weight
    own = ((1 - epsilon) * share)[:, None]
    mixed = own * y + epsilon / size * weights
    total = mixed.sum(1, keepdim=True)
    t = torch.where(total == 0, 1 / size, mixed / torch.where(total == 0, 1, total))
    empty = void | (rows == -torch.inf).all(1)
    loss = apply_loss(
        rows, t.masked_fill(void[:, None], ignore_index), kind, parameter, ignore_index, False
    )
    constant = own[:, 0] * entropy_value(y, kind, parameter)
    constant = constant - total[:, 0] * entropy_value(t, kind, parameter)
    return total[:, 0].masked_fill(empty, 0) * loss + constant.masked_fill(empty, 0)


def _smoothed_shares(share: Tensor, void: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """What the conjugate of each row is multiplied by."""
    mean = 1.0 if weight is None else weight.mean()
    return (share + epsilon * (mean - share)).masked_fill(void, 0)


def _conjugate(rows: Tensor, kind: str, parameter: float) -> Tensor:
    """Omega*(x) by the loss of the best class, whose Omega is 0; 0 where there is no class."""
    best = rows.detach().argmax(1)
    own = rows.gather(1, best[:, None])[:, 0]
    own = own.masked_fill(own == -torch.inf, 0)
    return apply_loss(rows, best, kind, parameter, -100, False) + own


def _probabilities(target: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Labels as rows of probabilities, NaN for one that is no column."""
    if target.is_floating_point():
        return target.to(dtype)
    columns = torch.arange(size, device=target.device)
    right = (target >= 0) & (target < size)
    return torch.where(right[:, None], (columns == target[:, None]).to(dtype), torch.nan)


def _fused_shares(
    rows: Tensor, target: Tensor, ignore_index: int, weight: Tensor | None, reduction: str
) -> Tensor | None:
    """What ``LossSum`` takes: without weights the number of labels that count is enough."""
    if weight is None:
        return (target != ignore_index).sum() if reduction == "mean" else None
    share = _shares(rows, target, ignore_index, weight)
    return share / _divisor(share) if reduction == "mean" else share


def _shares(rows: Tensor, target: Tensor, ignore_index: int, weight: Tensor | None) -> Tensor:
    """What each row counts: the weight of its class, or 1; 0 where it is ignored."""
    if weight is None:
        share = torch.ones_like(rows[:, 0], dtype=compute_type(rows))
    elif target.is_floating_point():
        share = target.to(weight.dtype) @ weight
    else:
        share = weight[target.clamp(0, rows.shape[-1] - 1)]
    return share.masked_fill(ignored(target, ignore_index), 0)


def _divisor(share: Tensor) -> Tensor:
    """The sum of shares, 1 in place of 0: a mean over nothing is 0."""
    mass = share.sum()
    return torch.where(mass != 0, mass, 1)


def _target_rows(target: Tensor, input: Tensor, dim: int) -> Tensor:
    """Labels (rows,) as long integers, or probabilities (rows, size)."""
    if not isinstance(target, Tensor):
        raise TypeError(
            f"targets must be a tensor, got {type(target).__name__}; use torch.as_tensor"
        )
    if target.requires_grad:
        raise ValueError("targets are not differentiated: pass target.detach()")
    if target.is_floating_point():
        if not recording() and target.shape != input.shape:
            raise ValueError(
                f"probabilities need the shape of the scores {tuple(input.shape)}, got "
                f"{tuple(target.shape)}; class indices must be integers"
            )
        return as_rows(moved_last(target, dim))
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(
            f"targets must be class indices (integers) or probabilities (floats), got "
            f"{target.dtype}; convert with target.long() or target.float()"
        )
    lead = moved_last(input, dim).shape[:-1]
    if not recording() and target.shape != lead:
        hint = "; pass dim=-1 if the classes are last" if target.shape == input.shape[:-1] else ""
        raise ValueError(
            f"scores need class indices of shape {tuple(lead)} (theirs without dim {dim}) or "
            f"probabilities of their own shape in floats, got {tuple(target.shape)} of "
            f"{target.dtype}{hint}"
        )
    return target.reshape(-1).long()


def _class_weights(weight: Tensor, size: int) -> Tensor:
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a tensor, got {type(weight).__name__}; use torch.tensor")
    if weight.shape != (size,):
        raise ValueError(
            f"weight needs one number for each of {size} classes, got a tensor of "
            f"shape {tuple(weight.shape)}"
        )
    return weight
