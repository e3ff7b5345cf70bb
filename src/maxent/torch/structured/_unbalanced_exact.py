"""Unbalanced transport without regularization, under absolute penalties: balanced transport.

A column more takes what a row gives up, at the price of the penalty, or passes it on to the best
column beyond what that column is due; a row more does the same for columns.
"""

from __future__ import annotations

import torch
from maxent.structured import Transport
from torch import Tensor

Three = tuple[Tensor, Tensor, Tensor]


def solve(x: Tensor, a: Tensor, b: Tensor, of_rows: float, of_columns: float) -> Three:
    """Best plans (rows, m, n), and potentials that prove them best."""
    best_column, best_row = (x - of_columns).max(2), (x - of_rows).max(1)
    given_up = best_column.values.clamp(min=-of_rows)
    bought = best_row.values.clamp(min=-of_columns)
    corner = torch.zeros_like(x[:, :1, :1])
    scores = torch.cat(
        [
            torch.cat([x, given_up[:, :, None]], 2),
            torch.cat([bought[:, None], corner], 2),
        ],
        1,
    )
    rows = torch.cat([a, b.sum(1, keepdim=True)], 1)
    columns = torch.cat([b, a.sum(1, keepdim=True)], 1)
    whole = torch.stack(
        [_best(*each) for each in zip(scores, rows, columns, strict=True)]
        or [scores.new_empty(0, *scores.shape[1:])]
    ).reshape(scores.shape)
    f, g = _potentials(scores, whole)
    p = whole[:, :-1, :-1].clone()
    above = torch.where(best_column.values > -of_rows, whole[:, :-1, -1], 0)
    p.scatter_add_(2, best_column.indices[:, :, None], above[:, :, None])
    above = torch.where(best_row.values > -of_columns, whole[:, -1, :-1], 0)
    p.scatter_add_(1, best_row.indices[:, None], above[:, None])
    f, g = f[:, :-1] + g[:, -1:], g[:, :-1] + f[:, -1:]
    f = f.clamp(-of_rows, of_rows)
    g = (x - f[:, :, None]).amax(1).clamp(-of_columns, of_columns)
    return p, f, g


def _best(scores: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    if not bool(rows.any()):
        return torch.zeros_like(scores)
    domain = Transport(rows.numpy(), (columns * (rows.sum() / columns.sum())).numpy())
    return torch.from_numpy(domain.argmax(scores.reshape(-1).numpy())).reshape(scores.shape)


def _potentials(scores: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """f + g >= scores, with equality where a best plan is: longest paths (Bellman and Ford)."""
    g = torch.zeros_like(scores[:, 0])
    tight = torch.where(p > 0, scores, torch.inf)
    for _ in range(sum(scores.shape[1:])):
        f = (scores - g[:, None]).amax(2)
        new = torch.minimum(g, (tight - f[:, :, None]).amin(1))
        if not bool((new < g - 1e-14 * (1 + g.abs())).any()):
            break
        g = new
    return (scores - g[:, None]).amax(2), g
