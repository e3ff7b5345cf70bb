"""Probabilities of chosen classes and entropies of rows, with gradients, beside the loss.

Both are functions of p, whose Jacobian is `diag(s) - s s' / sum(s)` with `s = p^(2 - alpha)` on the
support: gradients have the entries of p, like that of the loss.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from maxent.torch.head._amended import support_scores
from maxent.torch.head._dense import View
from maxent.torch.head._layer import without_autocast
from maxent.torch.head._objective import Objective
from maxent.torch.head._rows import Solved, gradients, scores_at, solve
from maxent.torch.head._sparse import SparseRows, Targets
from maxent.torch.maps import _dispatch
from torch import Tensor


class Seen:
    """What is known of the rows besides their losses.

    Attributes
    ----------
    chosen : tensor (n_rows,)
        The class of each row whose probability is asked for.
    numbers : tensor (n_rows, 3)
        This probability, its logarithm, and the entropy.
    support : tensor (n_rows,)
        How many classes have a probability.
    top : tensor (n_rows, k)
        The most probable classes, -1 where there are no more.
    p : tensor (n_rows, k)
        Their probabilities.
    """

    def __init__(self, targets: Targets, objective: Objective, k: int) -> None:
        device, dtype = targets.share.device, targets.share.dtype
        rows = len(targets.index)
        self.chosen = targets.index[:, 0]
        self.alpha = objective.parameter
        self.numbers = torch.zeros((rows, 3), dtype=dtype, device=device)
        self.support = torch.zeros(rows, dtype=torch.int64, device=device)
        self.top = torch.full((rows, k), -1, device=device)
        self.p = torch.zeros((rows, k), dtype=dtype, device=device)

    def look(
        self, number: Tensor, x: Tensor, residual: Tensor, rows: slice, factor: Tensor
    ) -> None:
        """Note what whole rows of scores are like."""
        to, chosen = number[rows], self.chosen[number[rows]]
        p, log_p = self._map(x)
        own = chosen.clamp(0, x.shape[1] - 1)[:, None]
        right = (own[:, 0] == chosen)[:, None]
        probability = torch.where(right, p.gather(1, own), torch.nan)[:, 0]
        log = probability.log() if log_p is None else log_p.gather(1, own)[:, 0]
        log = torch.where(right[:, 0], log, torch.nan)
        entropy = -_dispatch.entropy_value(p, "tsallis", self.alpha)
        self.numbers[to] = torch.stack([probability, log, entropy], 1).to(self.numbers.dtype)
        self.support[to] = (p > 0).sum(1)
        best, index = p.topk(min(self.top.shape[1], p.shape[1]), dim=1)
        width = best.shape[1]
        self.p[to, :width] = best.to(self.p.dtype)
        self.top[to, :width] = index.masked_fill(~(best > 0), -1)

    def look_at_entries(self, entries: SparseRows) -> None:
        """The same of rows by the entries of p - y."""
        entries = entries.trimmed()
        row, p = entries.rows().long(), _support(entries)
        length = entries.offsets.diff()
        own = entries.sums(p * (entries.index == self.chosen[row]))
        entropy = -_dispatch.entropy_value(p[:, None], "tsallis", self.alpha)
        found = torch.stack([own, own.log(), entries.sums(entropy)], 1)
        known = length > 0
        self.numbers = torch.where(known[:, None], found, self.numbers)
        self.support = torch.where(known, length - 1, self.support)
        order = torch.argsort(p, descending=True, stable=True)
        order = order[torch.argsort(row[order], stable=True)]
        rank = torch.arange(len(order), device=order.device) - entries.offsets[row]
        first = rank < torch.minimum(self.support[row], length.new_tensor(self.top.shape[1]))
        at = (row[first], rank[first])
        self.top[at] = entries.index[order[first]].long()
        self.p[at] = p[order[first]]

    def _map(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """p, and its logarithm where all have one."""
        x = x.to(_dispatch.compute_type(x))
        if self.alpha == 1:
            log_p = torch.log_softmax(x, 1)
            empty = x.amax(1, keepdim=True) == -torch.inf
            return log_p.exp().masked_fill(empty, 0), log_p.masked_fill(empty, -torch.inf)
        return _dispatch.as_map(x, "tsallis", self.alpha, None), None

    # -- gradients

    def pull(
        self, g: Tensor, number: Tensor, x: Tensor, residual: Tensor, rows: slice, factor: Tensor
    ) -> None:
        """Add to the residual of whole rows what comes back to their numbers."""
        to = number[rows]
        p, _ = self._map(x)
        back = g[to] / factor
        slope = self._slope(p)
        pulled = slope * (-back[:, 2:] * self.level(p))
        own = self.chosen[to].clamp(0, x.shape[1] - 1)[:, None]
        pulled.scatter_add_(1, own, self._direct(back, p.gather(1, own)[:, 0])[:, None])
        mass = slope.sum(1, keepdim=True)
        pulled -= slope * (pulled.sum(1, keepdim=True) / torch.where(mass == 0, 1, mass))
        residual.add_(pulled.to(residual.dtype))

    def pulled_entries(self, g: Tensor, entries: SparseRows) -> Tensor:
        """What comes back to each entry of p."""
        row, p = entries.rows().long(), _support(entries)
        back, slope = g[row], self._slope(p)
        pulled = slope * (-back[:, 2] * self.level(p))
        own = (entries.index == self.chosen[row]) & (p > 0)
        pulled = torch.where(own, pulled + self._direct(back, p), pulled)
        mass, total = entries.sums(slope), entries.sums(pulled)
        return pulled - slope * (total / torch.where(mass == 0, 1, mass))[row]

    def _slope(self, p: Tensor) -> Tensor:
        return torch.where(p > 0, torch.where(p > 0, p, 1).pow(2 - self.alpha), 0)

    def level(self, p: Tensor) -> Tensor:
        """The derivative of Omega up to a constant: the score, up to one of each row."""
        log_p = torch.where(p > 0, p, 1).log()
        a = self.alpha - 1
        return log_p if a == 0 else torch.expm1(a * log_p) / a

    def _direct(self, back: Tensor, p: Tensor) -> Tensor:
        """What a chosen class with probability p gets before normalisation; off the support 0."""
        known = torch.where(p > 0, p, 1)
        direct = back[:, 0] * known.pow(2 - self.alpha) + back[:, 1] * known.pow(1 - self.alpha)
        floor = back[:, 1] if self.alpha == 1 else 0  # a softmax that rounds to 0 is none
        return torch.where(p > 0, direct, floor)


def _support(entries: SparseRows) -> Tensor:
    """p of the entries, 0 for the last of each row, which is y's."""
    p = entries.value.clone()
    p[entries.offsets[1:][entries.offsets.diff() > 0] - 1] = 0
    return p


class HeadStatistics(torch.autograd.Function):
    """Losses, probabilities of the labels, their logarithms and entropies, and what was seen."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Targets,
        objective: Objective,
        k: int,
    ) -> tuple[Tensor, ...]:
        seen = Seen(targets, objective, k)
        with without_autocast(hidden):
            solved = solve(hidden, weight, bias, targets, objective, False, False, View(seen.look))
        if solved.entries is not None:
            solved.entries = solved.entries.trimmed()
            assert solved.residual is not None
            solved.residual = solved.residual.trimmed()
            seen.look_at_entries(solved.entries)
        ctx.save_for_backward(hidden, weight, bias)
        ctx.targets, ctx.objective, ctx.solved, ctx.seen = targets, objective, solved, seen
        used = targets.share != 0
        numbers = torch.where(used[:, None], seen.numbers, 0)
        made = (seen.support, seen.top, seen.p)
        ctx.mark_non_differentiable(*made)
        ctx.set_materialize_grads(False)
        return solved.loss.clone(), *numbers.unbind(1), *made

    @staticmethod
    def backward(ctx: Any, *back: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "linear_statistics has no second derivative (create_graph=True)"
            )
        hidden, weight, bias = ctx.saved_tensors
        targets, objective, seen = ctx.targets, ctx.objective, ctx.seen
        solved: Solved = replace(ctx.solved, turned=None)
        zero = torch.zeros_like(targets.share)
        g_loss, *others = (zero if g is None else g for g in back[:4])
        g = torch.stack(others, 1).masked_fill((targets.share == 0)[:, None], 0)
        if solved.residual is not None and solved.entries is not None:
            value = _together(hidden, weight, bias, solved, targets, objective, seen, g_loss, g)
            solved.residual = replace(solved.residual, value=value)

        view = View(partial(seen.pull, g), g.abs().amax() if len(g) else 0.0)
        made = gradients(
            hidden, weight, bias, targets, solved, objective, g_loss, view=view, weighed=True
        )
        return *made, None, None, None


def _together(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    solved: Solved,
    targets: Targets,
    objective: Objective,
    seen: Seen,
    g_loss: Tensor,
    g: Tensor,
) -> Tensor:
    """Entries of the gradient by the scores, with what comes back to losses and numbers."""
    residual, entries, scaling = solved.residual, solved.entries, objective.scaling
    assert residual is not None
    assert entries is not None
    row = entries.rows().long()
    pulled = seen.pulled_entries(g, entries)
    if scaling.soft_cap:
        first = seen.top[:, :1].contiguous()
        best = scores_at(hidden, weight, bias, first, objective)[:, 0]
        level = best - seen.level(seen.p[:, 0])
        x = support_scores(_support(entries), row, level, objective)
        pulled = pulled * scaling.slope(x)
    elif not scaling.plain:
        pulled = pulled / scaling.temperature
    return residual.value * (targets.share * g_loss)[row] + pulled
