"""Autograd around any programme that knows log-partitions, marginals and their derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxent.torch._operators import Operation
from torch import Tensor


def sums(
    name: str,
    softmax: Callable[..., tuple[Tensor, Tensor]],
    covariance: Callable[..., Tensor],
) -> type[Operation]:
    """Log-partitions and marginals as an operation: the second are the gradient of the first.

    softmax : of scores (B, ...) and whatever says which structures there are: log-partitions (B,)
        and marginals in the shape of the scores.
    covariance : of the scores, v and the same: the derivative of the marginals along v.
    """

    class Covariance(Operation, name=f"{name}_covariance"):
        """The covariance of the structure times v: symmetric and linear in v."""

        run = staticmethod(covariance)

        @staticmethod
        def fake(theta: Tensor, v: Tensor, *structure: Any) -> Tensor:
            return theta.new_empty(theta.shape)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            theta, _, *structure = inputs
            _keep(ctx, structure, theta)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
            if ctx.needs_input_grad[0]:
                raise NotImplementedError(
                    "third derivatives of a log-partition are not there: second ones are the last "
                    "(detach the scores in what is differentiated a third time)"
                )
            (theta,), structure = _kept(ctx, 1)
            return None, Covariance.apply(theta, g, *structure), *(None for _ in structure)

    class Softmax(Operation, name=f"{name}_softmax"):
        """Log-partitions and marginals."""

        run = staticmethod(softmax)

        @staticmethod
        def fake(theta: Tensor, *structure: Any) -> tuple[Tensor, Tensor]:
            return theta.new_empty(theta.shape[0]), theta.new_empty(theta.shape)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
            theta, *structure = inputs
            ctx.set_materialize_grads(False)
            _keep(ctx, structure, theta, output[1])

        @staticmethod
        def backward(
            ctx: Any, g: Tensor | None, g_mean: Tensor | None
        ) -> tuple[Tensor | None, ...]:
            (theta, mean), structure = _kept(ctx, 2)
            d_theta = None if g is None else g.reshape(-1, *[1] * (mean.ndim - 1)) * mean
            if g_mean is not None:
                more = Covariance.apply(theta, g_mean, *structure)
                d_theta = more if d_theta is None else d_theta + more
            return d_theta, *(None for _ in structure)

    return Softmax


def _keep(ctx: Any, structure: list[Any], *tensors: Tensor) -> None:
    """Save tensors for backward, and what says which structures there are."""
    ctx.structure = [None if isinstance(x, Tensor) else x for x in structure]
    ctx.places = [i for i, x in enumerate(structure) if isinstance(x, Tensor)]
    ctx.save_for_backward(*tensors, *(structure[i] for i in ctx.places))


def _kept(ctx: Any, count: int) -> tuple[list[Tensor], list[Any]]:
    """What ``_keep`` saved: tensors, of which there are ``count``, and the structure."""
    saved, structure = list(ctx.saved_tensors), list(ctx.structure)
    for i, x in zip(ctx.places, saved[count:], strict=True):
        structure[i] = x
    return saved[:count], structure
