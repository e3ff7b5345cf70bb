"""Losses and gradients of rows by their supports, where more than p - y is asked for.

A row's loss is then `share (L + z Omega*(x)^2)` with `Omega*(x) = L + <x, y> - Omega(y)`, and its
gradient by the scores s is `share ((1 + 2 z Omega*) p - y) dx/ds`: it has the entries of p - y.
Smoothed labels add `spread (e w_mean (<x, y> - Omega(y)) - e/K <w, x>)`, whose first part takes
from y and whose second has the same coefficients in every row: a matrix of rank one.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from maxent.torch.head._objective import Objective
from maxent.torch.head._sparse import SparseRows, Targets
from torch import Tensor

_AT_ONCE = 1 << 24  # weights that are converted at a time


def amended(
    loss: Tensor, residual: SparseRows, targets: Targets, own: Tensor | None, objective: Objective
) -> tuple[Tensor, SparseRows]:
    """Losses and residuals of a loss without settings, with them.

    own : the scores of y's classes; not needed for a temperature and smoothing alone.
    """
    factor = conjugate = None
    if own is not None:
        conjugate = _conjugates(loss, targets, own, objective)
    if objective.z_loss:
        assert conjugate is not None
        loss, factor = penalized(loss, conjugate, targets.share, objective.z_loss)
    width = targets.index.shape[1]
    number = torch.arange(len(residual.index), device=loss.device)
    meant = number < residual.offsets[-1]
    row = residual.rows().long().masked_fill(~meant, 0) if len(residual) else number
    place = number - (residual.offsets[1:][row] - width)  # from 0 on among y's classes
    labels = meant & (place >= 0)
    at = (row, place.clamp(0, width - 1))
    value = residual.value
    p = value.masked_fill(labels, 0)
    if targets.kept is not None:
        value = torch.where(labels, -targets.kept.to(value.dtype)[at], value)
    if factor is not None:
        value = torch.where(labels, value, factor[row] * p)
    if objective.scaling.soft_cap:
        assert own is not None
        assert conjugate is not None
        level = _level(p, residual, conjugate, objective)
        x = torch.where(labels, own[at], support_scores(p, row, level, objective))
        value = value * objective.scaling.slope(x)
    elif not objective.scaling.plain:
        value = value / objective.scaling.temperature
    return loss, replace(residual, value=value)


def penalized(
    loss: Tensor, conjugate: Tensor, share: Tensor, z_loss: float
) -> tuple[Tensor, Tensor]:
    """Losses with the z-loss, and what p is multiplied by in their gradients."""
    known = torch.where(conjugate.isfinite(), conjugate, 0)  # a loss of inf or NaN stays what it is
    return loss + z_loss * share * known.square(), 1 + 2 * z_loss * known


def _conjugates(loss: Tensor, targets: Targets, own: Tensor, objective: Objective) -> Tensor:
    """Omega*(x) of each row."""
    share = torch.where(targets.share == 0, 1, targets.share)
    y = targets.entropy(objective.kind, objective.parameter)
    return loss / share + targets.expected(own) - y


def _level(p: Tensor, residual: SparseRows, conjugate: Tensor, objective: Objective) -> Tensor:
    """The score at which p would be 1, of each row."""
    mass = residual.sums(p.pow(objective.parameter))
    return conjugate - (mass - 1) / objective.parameter


def support_scores(p: Tensor, row: Tensor, level: Tensor, objective: Objective) -> Tensor:
    """The scores of the support, which p determines up to a number of each row."""
    a = objective.parameter - 1
    return level[row] + torch.expm1(a * torch.where(p > 0, p, 1).log()) / a


# -- smoothed labels -------------------------------------------------------------------------------


def smoothed(
    loss: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    own: Tensor,
    objective: Objective,
) -> Tensor:
    """Losses with what smoothing adds to them; own : the scores of y's classes."""
    assert targets.spread is not None
    dtype, epsilon = loss.dtype, objective.label_smoothing
    importance = class_weights(targets, len(weight), dtype)
    total = hidden.to(dtype) @ weighted_sum(weight, importance)
    if bias is not None:
        total = total + torch.where(importance == 0, 0, importance * bias.to(dtype)).sum()
    total = total / objective.scaling.temperature
    y = targets.expected(own) - targets.entropy(objective.kind, objective.parameter)
    change = epsilon * (importance.mean() * y - total / len(weight))
    change = torch.where(targets.spread == 0, 0, targets.spread * change)
    if bias is not None:  # no class at all
        change = change.masked_fill((bias == -torch.inf).all(), 0)
    return loss + change


def add_smoothing(
    made: tuple[Tensor, Tensor, Tensor | None],
    hidden: Tensor,
    weight: Tensor,
    targets: Targets,
    objective: Objective,
    back: Tensor,
    classes: int | None = None,
) -> None:
    """What smoothing adds to the gradients of hidden, weight and bias, in place: rank one.

    classes : how many there are, where ``weight`` has some of them.
    """
    assert targets.spread is not None
    d_hidden, d_weight, d_bias = made
    dtype = targets.spread.dtype
    importance = class_weights(targets, len(weight), dtype)
    count = len(weight) if classes is None else classes
    scale = objective.label_smoothing / count / objective.scaling.temperature
    rows = scale * targets.spread * back
    d_hidden.addr_(
        rows.to(d_hidden.dtype), weighted_sum(weight, importance).to(d_hidden.dtype), alpha=-1
    )
    used = hidden.to(dtype).masked_fill((targets.spread == 0)[:, None], 0)
    d_weight.addr_(importance.to(d_weight.dtype), (rows @ used).to(d_weight.dtype), alpha=-1)
    if d_bias is not None:
        d_bias.sub_((importance * rows.sum()).to(d_bias.dtype))


def class_weights(targets: Targets, classes: int, dtype: torch.dtype) -> Tensor:
    """How much each class counts when labels are smoothed."""
    if targets.label_weight is None:
        return torch.ones(classes, dtype=dtype, device=targets.index.device)
    return targets.label_weight.to(dtype)


def weighted_sum(weight: Tensor, importance: Tensor) -> Tensor:
    """importance times weight, summed over the classes in the type of the first."""
    size = max(_AT_ONCE // max(weight.shape[1], 1), 1)
    total = importance.new_zeros(weight.shape[1])
    for part, own in zip(importance.split(size), weight.split(size), strict=True):
        total += part @ own.to(part.dtype)
    return total
