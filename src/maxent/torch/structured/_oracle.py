"""Autograd around any programme that knows log-partitions, marginals and their derivative."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Oracle(Protocol):
    """A distribution over structures whose sums are known, given scores (B, ...)."""

    def softmax(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Log-partitions (B,) and marginals in the shape of the scores."""

    def covariance(self, theta: Tensor, v: Tensor) -> Tensor:
        """The derivative of the marginals along v."""


class Softmax(torch.autograd.Function):
    """Log-partitions and marginals: the second are the gradient of the first."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, oracle: Oracle) -> tuple[Tensor, Tensor]:
        value, mean = oracle.softmax(theta)
        ctx.oracle = oracle
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(theta, mean)
        return value, mean

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, g_mean: Tensor | None) -> tuple[Tensor | None, None]:
        theta, mean = ctx.saved_tensors
        d_theta = None if g is None else g.reshape(-1, *[1] * (mean.ndim - 1)) * mean
        if g_mean is not None:
            more = Covariance.apply(theta, g_mean, ctx.oracle)
            d_theta = more if d_theta is None else d_theta + more
        return d_theta, None


class Covariance(torch.autograd.Function):
    """The covariance of the structure times v: symmetric and linear in v."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, v: Tensor, oracle: Oracle) -> Tensor:
        ctx.oracle = oracle
        ctx.save_for_backward(theta)
        return oracle.covariance(theta, v)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor, None]:
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(
                "third derivatives of a log-partition are not there: second ones are the last "
                "(detach the scores in what is differentiated a third time)"
            )
        return None, Covariance.apply(*ctx.saved_tensors, g, ctx.oracle), None
