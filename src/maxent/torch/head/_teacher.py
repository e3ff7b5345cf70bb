"""Losses against the distributions of another head, some rows at a time.

Neither the scores of the student nor those of the teacher are ever there at once: rows whose
teacher has a small support are proportions of a few classes, the others are solved as whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.nn.functional import linear

import torch
from maxent.torch.head import _dense
from maxent.torch.head._layer import without_autocast
from maxent.torch.head._objective import Objective
from maxent.torch.head._rows import ROWS, kernels
from maxent.torch.maps import _dispatch
from maxent.torch.maps.scaling import Scaling
from torch import Tensor

_COPIES = 6  # how many numbers there are for each score, in the type of the weight
KEPT = 512  # classes of a teacher's row that are kept; one with more is computed again


@dataclass(frozen=True)
class Teacher:
    """A head whose distributions are targets.

    Attributes
    ----------
    hidden : tensor (n_rows, n_features)
        Its hidden vectors.
    weight : tensor (n_classes, n_features)
        Its weights.
    bias : tensor (n_classes,) or None
        Its constants.
    kind, parameter : str, float
        Its entropy.
    scaling : Scaling
        What is done to its scores first.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    kind: str
    parameter: float
    scaling: Scaling

    def whole(self, rows: Tensor) -> Tensor:
        """p of some rows, every class."""
        x = linear(self.hidden[rows], self.weight, self.bias)
        x = self.scaling.apply_(x.to(_dispatch.compute_type(x)))
        return _dispatch.as_map(x, self.kind, self.parameter, None)

    def supports(self) -> tuple[Tensor, Tensor, Tensor]:
        """Classes and portions (n_rows, k) of rows with small supports, and which rows have those.

        Places beyond the support have portion 0 and class 0.
        """
        rows, device = len(self.hidden), self.hidden.device
        sparse = kernels(self.hidden, len(self.weight), self.kind, self.parameter)
        if sparse is None or not rows:
            none = torch.zeros((rows, 0), dtype=torch.int64, device=device)
            dtype = _dispatch.compute_type(self.hidden)
            return none, none.to(dtype), torch.zeros(rows, dtype=torch.bool, device=device)
        parts = [
            sparse.supports(
                self.hidden[first : first + ROWS], self.weight, self.bias, self.parameter,
                self.scaling,
            )
            for first in range(0, rows, ROWS)
        ]  # fmt: skip
        known = torch.cat([(p.count > 0) & ~p.unknown() & (p.count <= KEPT) for p in parts])
        count = torch.cat([p.count for p in parts]).masked_fill(~known, 0)
        width = int(count.max())
        found = []
        for name in ("index", "score"):
            lists = [getattr(p, name)[:, :width] for p in parts]
            filled = torch.cat([torch.nn.functional.pad(x, (0, width - x.shape[1])) for x in lists])
            beyond = torch.arange(width, device=device) >= count[:, None]
            found.append(filled.masked_fill(beyond, 0))
        return found[0].long(), found[1], known


class WholeRows(torch.autograd.Function):
    """Losses of the rows ``number`` against whole distributions: their sum, or one by one.

    The sum has its gradients at once; those of single losses are computed when they are weighed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        number: Tensor,
        teacher: Teacher,
        objective: Objective,
        total: bool,
    ) -> Tensor:
        given = (hidden, weight, bias)
        wanted = total and any(ctx.needs_input_grad[:3])
        one = torch.ones(len(number), dtype=_dispatch.compute_type(hidden), device=hidden.device)
        with without_autocast(hidden):
            loss, made = _losses(given, number, teacher, objective, one if wanted else None)
        ctx.rest, ctx.total = (number, teacher, objective), total
        ctx.save_for_backward(*(made if wanted else given))
        return loss.sum() if total else loss

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError("distillation has no second derivative (create_graph=True)")
        hidden, weight, bias = ctx.saved_tensors
        if ctx.total:
            made = [None if x is None else x * g.to(x.dtype) for x in (hidden, weight, bias)]
            return *made, *(None,) * 4
        with without_autocast(hidden):
            size = g.abs().amax() if len(g) else g.new_ones(())  # 16 bits have no small numbers
            size = torch.where(size == 0, 1, size)
            number, teacher, objective = ctx.rest
            given = (hidden, weight, bias)
            _, parts = _losses(given, number, teacher, objective, g / size)
        made = [None if x is None else x * size.to(x.dtype) for x in parts]
        return *made, *(None,) * 4


def _losses(
    given: tuple[Tensor, Tensor, Tensor | None],
    number: Tensor,
    teacher: Teacher,
    objective: Objective,
    back: Tensor | None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Losses, and gradients of their sum weighed by ``back`` where there is one."""
    hidden, weight, bias = given
    types = [None if x is None else x.dtype for x in given]
    dtype = _dispatch.compute_type(hidden)
    if hidden.device.type == "cpu":  # products in 16 bits are slow there, and round
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        given = (hidden, weight, bias)
    loss = torch.zeros(len(number), dtype=dtype, device=hidden.device)
    made = [None if x is None or back is None else torch.zeros_like(x) for x in given]
    d_hidden, d_weight, d_bias = made
    for part in _dense.blocks(len(number), weight, objective.scaling, _COPIES):
        rows = number[part]
        h = hidden[rows]
        x = linear(h, weight, bias)
        x = objective.scaling.apply_(x.to(dtype))
        y = teacher.whole(rows).to(dtype)
        loss[part], residual = _dispatch.loss(
            x, y, objective.kind, objective.parameter, -100, False
        )
        if back is None or d_hidden is None or d_weight is None:
            continue
        residual.mul_(back[part, None])
        if not objective.scaling.plain:
            residual.mul_(objective.scaling.slope(x))
        residual = residual.to(h.dtype)
        d_hidden[rows] = residual @ weight
        d_weight.addmm_(residual.T, h)
        if d_bias is not None:
            d_bias += residual.sum(0)
    return loss, [None if x is None else x.to(t) for x, t in zip(made, types, strict=True)]
