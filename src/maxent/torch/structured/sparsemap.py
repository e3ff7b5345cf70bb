"""SparseMAP: the Euclidean projection of scores on a domain, a mixture of few structures.

The active set of the core finds it on the CPU, which CUDA tensors make the way to and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import torch
from maxent.core.domains import Domain
from maxent.core.domains.active_set import Support
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured.oracles import as_rows, beside
from torch import Tensor


def sparsemap(domain: Domain, theta: Tensor, start: Sequence[Support] | None = None) -> Tensor:
    """`argmin_p ||p - theta||^2` over a domain, for scores (..., size).

    The derivative is that of the face on which the point lies: a projection, symmetric, its own
    second derivative 0.

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.
    start : sequence of Support, default None
        Supports of similar scores to start from, of ``sparsemap_support``.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> sparsemap(KSubset(2), torch.tensor([1.0, 0.5, 0.0]))
    tensor([1.0000, 0.7500, 0.2500])
    """
    found: list[Support] | None = None if start is None else []
    p: Tensor = _Project.apply(as_rows(theta, domain), domain, start, found)
    return p.reshape(theta.shape)


def sparsemap_support(
    domain: Domain, theta: Tensor, start: Sequence[Support] | None = None
) -> tuple[Tensor, list[Support]]:
    """``sparsemap`` and, row by row, the structures and weights of the mixture.

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.
    start : sequence of Support, default None
        Supports of similar scores to start from, of ``sparsemap_support``.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> p, (support,) = sparsemap_support(KSubset(2), torch.tensor([1.0, 0.5, 0.0]))
    >>> support.weights
    array([0.75, 0.25])
    """
    supports: list[Support] = []
    p: Tensor = _Project.apply(as_rows(theta, domain), domain, start, supports)
    return p.reshape(theta.shape), supports


def sparsemap_loss(
    domain: Domain,
    theta: Tensor,
    target: Tensor,
    reduction: str = "mean",
    start: Sequence[Support] | None = None,
) -> Tensor:
    """`max_p <theta, p> - |p|^2 / 2 + |y|^2 / 2 - <theta, y> >= 0`: the SparseMAP loss.

    It is the Fenchel-Young loss of ``SquaredNorm(domain)``, with gradient p - y.

    Parameters
    ----------
    domain : Domain
        The domain.
    theta : tensor (..., size)
        Scores.
    target : tensor (..., size)
        Points of the domain, in the shape of the scores.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the rows.
    start : sequence of Support, default None
        Supports of similar scores to start from, of ``sparsemap_support``.

    Examples
    --------
    >>> import torch
    >>> from maxent import KSubset
    >>> sparsemap_loss(KSubset(1), torch.tensor([[0.5, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.0625)
    """
    check_reduction(reduction)
    if not isinstance(target, Tensor) or target.shape != theta.shape:
        raise ValueError(
            f"targets are points in the shape of the scores {tuple(theta.shape)}, got "
            f"{tuple(np.shape(target))}"
        )
    if target.requires_grad:
        raise ValueError("targets are not differentiated: pass target.detach()")
    rows = as_rows(theta, domain)
    p = sparsemap(domain, rows, start)
    loss = _Loss.apply(rows, p, as_rows(target, domain).to(rows.dtype))
    if reduction == "none":
        return loss.reshape(theta.shape[:-1])
    return loss.sum() / max(len(loss), 1) if reduction == "mean" else loss.sum()


class _Project(torch.autograd.Function):
    """The projection; where ``found`` is a list, it gets the supports."""

    @staticmethod
    def forward(
        ctx: Any,
        theta: Tensor,
        domain: Domain,
        start: Sequence[Support] | None,
        found: list[Support] | None,
    ) -> Tensor:
        scores = theta.detach().cpu().numpy()
        if found is None:
            p = beside(domain.project(scores), theta)
        else:
            points, supports = domain.project_support(scores, start)
            found.extend(supports)
            p = beside(points, theta)
        ctx.domain = domain
        ctx.save_for_backward(theta, p)
        return p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _ProjectTangent.apply(g, *ctx.saved_tensors, ctx.domain), None, None, None


class _ProjectTangent(torch.autograd.Function):
    """The derivative of the projection along v: symmetric, linear, constant almost everywhere."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, theta: Tensor, p: Tensor, domain: Domain) -> Tensor:
        ctx.domain = domain
        ctx.save_for_backward(theta, p)
        scores, point, along = (x.detach().cpu().contiguous().numpy() for x in (theta, p, v))
        return beside(domain.project_jvp(scores, point, along), v)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _ProjectTangent.apply(g, *ctx.saved_tensors, ctx.domain), None, None, None


class _Loss(torch.autograd.Function):
    """The SparseMAP loss of each row, given the projection p, which maximises within it."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, p: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(p, y)
        # |theta - y|^2 - |theta - p|^2, over 2; where theta is -inf both points are 0
        apart = torch.where(p == y, 0, (p - y).double() * (theta - (p + y) / 2).double())
        return apart.sum(1).clamp_min(0).to(theta.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        p, y = ctx.saved_tensors
        return g[:, None] * (p - y), None, None
