"""Losses of rows by their supports where these are small, and as whole rows elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType

import torch
from maxent.torch.head import _dense, _plain_scores
from maxent.torch.head._amended import add_smoothing, amended, smoothed
from maxent.torch.head._dense import DenseRows, View
from maxent.torch.head._objective import Objective
from maxent.torch.head._sparse import SparseRows, Targets, Turned
from maxent.torch.maps import _dispatch
from torch import Tensor

ROWS = 16384  # at a time
_MODULES = {"numba": "_compiled_head", "triton": "_triton_head"}


@dataclass
class Solved:
    """Losses, each times its share, and p - y of the rows.

    Attributes
    ----------
    loss : tensor (n_rows,)
        The losses.
    residual : SparseRows or None
        p - y of rows with small supports, empty rows elsewhere; or None.
    dense : DenseRows or None
        Gradients of the others, where they were wanted.
    whole : tensor or None
        The numbers of the others, if there are any.
    entries : SparseRows or None
        p - y of the same rows for a loss without settings, where it was asked for.
    turned : Turned or None
        What the gradient of the weight needs of the residual.
    blank : tensor or None
        Zeros for the gradient of the weight, used up.
    """

    loss: Tensor
    residual: SparseRows | None = None
    dense: DenseRows | None = None
    whole: Tensor | None = None
    entries: SparseRows | None = None
    turned: Turned | None = None
    blank: Tensor | None = None


def label_shares(index: Tensor, ignore: int, mean: bool) -> Targets | None:
    """Labels and what each loss counts, where there is a kernel for it."""
    if torch.compiler.is_compiling() or _dispatch.backend_of(index) != "triton":
        return None
    known = _module("triton").label_shares(index, ignore, mean)
    return None if known is None else Targets(index, known[0][:, None], known[1])


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"maxent.torch.head.{_MODULES[name]}")


def kernels(hidden: Tensor, n_classes: int, kind: str, parameter: float) -> ModuleType | None:
    """The module that finds supports; None where there is none or they are large."""
    name = _dispatch.backend_of(hidden)
    if kind != "tsallis" or name not in _MODULES:
        return None
    module = _module(name)
    return module if module.supported(hidden, n_classes, parameter) else None


def solve(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    gradients: bool,
    sparse_grad: bool = False,
    view: View | None = None,
) -> Solved:
    """All losses.

    gradients : whether those of their sum are wanted, of whole rows now.
    view : is shown the scores of whole rows, see ``_dense.losses``; the others keep their entries.
    """
    sparse = kernels(hidden, len(weight), objective.kind, objective.parameter)
    if sparse is not None and len(hidden) and not objective.dense:
        blank: list[Tensor] = []

        def meanwhile() -> None:
            if gradients and not sparse_grad and not blank:
                blank.append(torch.zeros_like(weight))

        if len(hidden) <= ROWS:
            parts = [_solve_rows(sparse, hidden, weight, bias, targets, objective, meanwhile)]
        else:
            parts = [
                _solve_rows(
                    sparse, hidden[rows], weight, bias, targets.take(rows), objective, meanwhile
                )
                for rows in (slice(first, first + ROWS) for first in range(0, len(hidden), ROWS))
            ]
        loss = parts[0][0] if len(parts) == 1 else torch.cat([loss for loss, *_ in parts])
        residual = SparseRows.joined([part for _, part, *_ in parts])
        solved = Solved(loss, residual)
        if view is not None:
            solved.entries = SparseRows.joined([entries for *_, entries in parts])
        whole = [
            block * ROWS + number
            for block, (_, _, number, _) in enumerate(parts)
            if number is not None
        ]
        if gradients and len(residual.index):  # the device does it while autograd gets there
            solved.turned = sparse.turned(residual, len(weight))
        if not whole:
            solved.blank = blank[0] if blank else None
        else:
            solved.whole = torch.cat(whole)
        blank.clear()  # whole rows need a gradient of the weight of their own
    else:
        dtype = _dispatch.compute_type(hidden)
        solved = Solved(torch.zeros(len(hidden), dtype=dtype, device=hidden.device))
        solved.whole = targets.share.nonzero()[:, 0]
    if solved.whole is not None and len(solved.whole):
        solved.loss[solved.whole], solved.dense = dense_rows(
            hidden, weight, bias, targets, solved.whole, objective, gradients, view
        )
    if objective.rank_one and len(hidden):
        own = scores_at(hidden, weight, bias, targets.index, objective)
        solved.loss = smoothed(solved.loss, hidden, weight, bias, targets, own, objective)
    return solved


def _solve_rows(
    sparse: ModuleType,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    objective: Objective,
    meanwhile: Callable[[], None],
) -> tuple[Tensor, SparseRows, Tensor | None, SparseRows]:
    """Losses, residuals, the rows that are not known, and p - y, of some rows."""
    loss, entries, number = sparse.solve_rows(
        hidden, weight, bias, targets, objective.parameter, objective.scaling, meanwhile
    )
    residual = entries
    if not objective.plain:
        own = None
        if objective.z_loss or objective.scaling.soft_cap:
            own = scores_at(hidden, weight, bias, targets.index, objective)
        loss, residual = amended(loss, entries, targets, own, objective)
    return loss, residual, number, entries


def scores_at(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor, objective: Objective
) -> Tensor:
    """Scores (rows, width) of the classes ``index``; NaN where there is none."""
    module = kernels(hidden, len(weight), objective.kind, objective.parameter) or _plain_scores
    scores: Tensor = module.scores_at(hidden, weight, bias, index, objective.scaling)
    return scores


def dense_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    number: Tensor,
    objective: Objective,
    gradients: bool,
    view: View | None = None,
) -> tuple[Tensor, DenseRows | None]:
    """Losses of the rows ``number``, times their shares, and gradients of their sum."""
    y = targets if len(number) == len(hidden) else targets.take(number)
    if view is not None:
        view = replace(view, see=partial(view.see, number))
    return _dense.losses(hidden, weight, bias, y, objective, number, gradients, view)


def gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Targets,
    solved: Solved,
    objective: Objective,
    back: Tensor,
    sparse_grad: bool = False,
    view: View | None = None,
    weighed: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of hidden, weight and bias; that of the weight has few rows with ``sparse_grad``.

    back : what comes back to the sum of the losses, or to each of them. ``solved.dense`` belongs
        to the sum; it and ``solved.blank`` are used up.
    view : is shown the scores and residuals of whole rows, see ``_dense.losses``.
    weighed : whether the entries of the residual have their shares and what comes back.
    """
    back = back.contiguous()
    residual, dense, whole = solved.residual, solved.dense, solved.whole
    scales = (targets.share, back)
    if weighed:
        one = torch.ones_like(targets.share)
        scales = (one, one)
    if dense is not None:
        dense.factor = dense.factor * back
    elif whole is not None and len(whole):
        y = targets.times(back)
        dense = dense_rows(hidden, weight, bias, y, whole, objective, True, view)[1]
    if dense is not None:
        dense.finish()
    sparse = kernels(hidden, len(weight), objective.kind, objective.parameter)
    every = dense is not None and len(dense.number) == len(hidden)
    if residual is None or sparse is None or every:
        d_hidden = dense.hidden if dense is not None and every else torch.zeros_like(hidden)
    else:
        d_hidden = sparse.times(residual, *scales, weight)
    if dense is not None and not every:
        d_hidden[dense.number] = dense.hidden
    classes = rank = None  # those whose gradient is not 0, where only these are wanted
    if sparse_grad and dense is None:
        used = weight.new_empty(0, dtype=torch.int64) if residual is None else residual.index
        classes = torch.unique(used).long()
        classes = classes[classes < len(weight)]
        numbers = torch.arange(len(classes), dtype=torch.int32, device=weight.device)
        rank = numbers.new_empty(len(weight)).index_copy(0, classes, numbers)
    elif sparse_grad:
        classes = torch.arange(len(weight), device=weight.device)
    if dense is not None:
        d_weight, d_bias = dense.weight, dense.bias
    else:
        count = len(weight) if classes is None else len(classes)
        blank, solved.blank = solved.blank, None
        d_weight = weight.new_zeros(count, weight.shape[1]) if blank is None else blank
        d_bias = None if bias is None else torch.zeros_like(bias)
    if residual is not None and sparse is not None and not every:
        turned = sparse.turned(residual, len(weight)) if solved.turned is None else solved.turned
        sparse.transposed_times(
            residual, turned, *scales, hidden, d_weight, d_bias, dense is not None, rank
        )
    solved.dense = None
    if objective.rank_one and len(hidden):
        made = (d_hidden, d_weight, d_bias)
        add_smoothing(made, hidden, weight, targets, objective, back)
    if classes is not None:
        with torch.sparse.check_sparse_tensor_invariants(False):
            d_weight = torch.sparse_coo_tensor(
                classes[None], d_weight, weight.shape, is_coalesced=True
            )
    return d_hidden, d_weight, d_bias
