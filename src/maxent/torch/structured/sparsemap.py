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
from maxent.torch._operators import Operation, eager
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured._domains import domain_argument, domain_of
from maxent.torch.structured.oracles import arrays, as_rows, beside
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
    rows = as_rows(theta, domain)
    point = None if start is None else _supported(domain, rows, start)[0]
    p: Tensor = _Project.apply(rows, point, domain_argument(domain, rows))
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
    rows = as_rows(theta, domain)
    point, supports = _supported(domain, rows, start)
    p: Tensor = _Project.apply(rows, point, domain)
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
    return loss.sum() / max(loss.shape[0], 1) if reduction == "mean" else loss.sum()


def _supported(
    domain: Domain, rows: Tensor, start: Sequence[Support] | None
) -> tuple[Tensor, list[Support]]:
    """The projections and their supports, which are objects that no recorded operation returns."""
    if not eager(rows):
        raise NotImplementedError(
            "supports are not for torch.compile, torch.export and torch.func: call sparsemap "
            "there, without start and warm_start"
        )
    (scores,) = arrays(rows)
    points, supports = domain.project_support(scores, start)
    return beside(points, rows), supports


class _Project(Operation, name="sparsemap"):
    """The projection, or ``point`` where it is known."""

    @staticmethod
    def run(theta: Tensor, point: Tensor | None, domain: str) -> Tensor:
        if point is not None:
            return point
        return beside(domain_of(domain).project(*arrays(theta)), theta)

    @staticmethod
    def fake(theta: Tensor, point: Tensor | None, domain: str) -> Tensor:
        return theta.new_empty(theta.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        theta, _, ctx.domain = inputs
        ctx.save_for_backward(theta, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        return _Tangent.apply(g, *ctx.saved_tensors, ctx.domain), None, None


class _Tangent(Operation, name="sparsemap_tangent"):
    """The derivative of the projection along v: symmetric, linear, constant almost everywhere."""

    @staticmethod
    def run(v: Tensor, theta: Tensor, p: Tensor, domain: str) -> Tensor:
        scores, point, along = arrays(theta, p, v)
        return beside(domain_of(domain).project_jvp(scores, point, along), v)

    @staticmethod
    def fake(v: Tensor, theta: Tensor, p: Tensor, domain: str) -> Tensor:
        return v.new_empty(v.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, theta, p, ctx.domain = inputs
        ctx.save_for_backward(theta, p)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _Tangent.apply(g, *ctx.saved_tensors, ctx.domain), None, None, None


class _Loss(Operation, name="sparsemap_loss"):
    """The SparseMAP loss of each row, given the projection p, which maximises within it."""

    @staticmethod
    def run(theta: Tensor, p: Tensor, y: Tensor) -> Tensor:
        # |theta - y|^2 - |theta - p|^2, over 2; where theta is -inf both points are 0
        apart = torch.where(p == y, 0, (p - y).double() * (theta - (p + y) / 2).double())
        return apart.sum(1).clamp_min(0).to(theta.dtype)

    @staticmethod
    def fake(theta: Tensor, p: Tensor, y: Tensor) -> Tensor:
        return theta.new_empty(theta.shape[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        p, y = ctx.saved_tensors
        return g[:, None] * (p - y), None, None
