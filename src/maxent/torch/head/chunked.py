"""The loss of a head in chunks of the sequence, as torchtitan asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from maxent.torch.head.loss import linear_fenchel_young_loss
from maxent.torch.maps._dispatch import compute_type
from maxent.torch.maps.entropies import Entropy, as_entropy
from maxent.torch.maps.losses import check_smoothing
from maxent.torch.maps.scaling import changed_settings, check_z_loss, checked_scaling
from torch import Tensor, nn


class ChunkedLoss:
    """The sum of the losses over chunks of the rows, whose gradients are added up on the way.

    It is called as torchtitan calls a loss: with what the model returns without its head, labels,
    and the number of labels by which the sum is divided; it answers with the loss and no metrics.
    Of each chunk only its gradients are kept, so that the memory is that of one of them.

    Parameters
    ----------
    entropy : str, float or Entropy, default "entmax15"
        "shannon" (cross-entropy), "sparsemax", "entmax15", a number `alpha >= 1`, or ``Shannon()``,
        ``Tsallis(alpha)``, ``NormEntropy(q)``.
    num_chunks : int, default 8
        How many chunks. The last is shorter where rows do not divide by them.
    ignore_index : int, default -100
        Label of rows that do not count.
    label_smoothing : float, default 0.0
        As in ``linear_fenchel_young_loss``.
    temperature : float, default 1.0
        T: the loss is of `x = s / T` for scores `s = W h + b`.
    soft_cap : float, default None
        c: the loss is of `x = c tanh(s / c) / T`.
    z_loss : float, default 0.0
        Adds this times `Omega*(x)^2` to each loss.

    Notes
    -----
    The head is called as a module, once for all chunks, so that FSDP gathers its weight once and
    reduces its gradient once.

    Examples
    --------
    >>> import torch
    >>> loss = ChunkedLoss("sparsemax", num_chunks=2)
    >>> loss.set_lm_head(torch.nn.Linear(3, 3, bias=False))
    >>> torch.nn.init.eye_(loss.lm_head.weight)  # doctest: +ELLIPSIS
    Parameter containing:...
    >>> hidden, labels = torch.tensor([[2.0, 0, 0], [0, 2, 0], [0, 0, 2]]), torch.tensor([0, 1, 0])
    >>> loss(hidden, labels, global_valid_tokens=2)[0].item()
    1.0
    """

    def __init__(
        self,
        entropy: str | float | Entropy = "entmax15",
        num_chunks: int = 8,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        temperature: float = 1.0,
        soft_cap: float | None = None,
        z_loss: float = 0.0,
    ) -> None:
        if not (isinstance(num_chunks, int) and num_chunks >= 1):
            raise ValueError(f"num_chunks must be an integer >= 1, got {num_chunks!r}")
        check_smoothing(label_smoothing)
        check_z_loss(z_loss)
        checked_scaling(temperature, soft_cap, None, "ChunkedLoss")
        self.entropy, self.num_chunks, self.ignore_index = (
            as_entropy(entropy), num_chunks, ignore_index,
        )  # fmt: skip
        self.label_smoothing, self.temperature = label_smoothing, temperature
        self.soft_cap, self.z_loss = soft_cap, z_loss
        self.lm_head: nn.Linear | None = None

    def __repr__(self) -> str:
        """Its settings."""
        return f"ChunkedLoss({self.entropy}, num_chunks={self.num_chunks}{changed_settings(self)})"

    def set_lm_head(self, lm_head: nn.Linear) -> None:
        """Tell which linear layer the scores would come from."""
        if not isinstance(lm_head, nn.Linear):
            raise TypeError(
                f"ChunkedLoss needs a head that is a torch.nn.Linear, got {type(lm_head).__name__}"
            )
        self.lm_head = lm_head

    def __call__(
        self,
        pred: Tensor,
        labels: Tensor,
        global_valid_tokens: Tensor | float | None = None,
        **loss_inputs: Any,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, divided by ``global_valid_tokens`` if that is given, and no metrics.

        Parameters
        ----------
        pred : tensor (..., n_features)
            Hidden vectors.
        labels : int tensor (...)
            What they are to predict.
        global_valid_tokens : number or tensor, default None
            How many labels count in all processes and all batches whose gradients are added up.
        loss_inputs
            What torchtitan passes on to any loss.
        """
        head = self.lm_head
        if head is None:
            raise RuntimeError("ChunkedLoss has no head yet: call set_lm_head first")
        if labels.shape != pred.shape[:-1]:
            raise ValueError(
                f"ChunkedLoss needs labels of shape {tuple(pred.shape[:-1])} for hidden vectors "
                f"{tuple(pred.shape)}, got {tuple(labels.shape)}"
            )
        head.forward = partial(self._sum, head)  # type: ignore[method-assign]
        try:
            loss = head(pred, labels)
        finally:
            del head.forward
        return (loss if global_valid_tokens is None else loss / global_valid_tokens), {}

    def _sum(self, head: nn.Linear, hidden: Tensor, labels: Tensor) -> Tensor:
        """What the head returns in the place of its scores."""
        if torch.compiler.is_compiling():
            raise NotImplementedError(
                "ChunkedLoss is not for torch.compile: compile the model alone"
            )
        loss_of = partial(
            linear_fenchel_young_loss, entropy=self.entropy, ignore_index=self.ignore_index,
            reduction="sum", label_smoothing=self.label_smoothing, temperature=self.temperature,
            soft_cap=self.soft_cap, z_loss=self.z_loss,
        )  # fmt: skip
        rows, target = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
        size = max(-(-len(rows) // self.num_chunks), 1)
        loss: Tensor = _SumOfChunks.apply(rows, head.weight, head.bias, target, size, loss_of)
        return loss


class _SumOfChunks(torch.autograd.Function):
    """The sum, with its gradients: those of a chunk are added before the next is looked at."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        size: int,
        loss_of: Callable[..., Tensor],
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        made = torch.zeros_like(hidden) if wanted[0] else None
        shared = [
            None if x is None else x.detach().requires_grad_(need)
            for x, need in zip((weight, bias), wanted[1:], strict=True)
        ]
        total = torch.zeros((), dtype=compute_type(hidden), device=hidden.device)
        for first in range(0, len(hidden), size):
            rows = slice(first, first + size)
            own = hidden[rows].detach().requires_grad_(wanted[0])
            with torch.set_grad_enabled(any(wanted)):
                loss = loss_of(own, shared[0], target[rows], bias=shared[1])
            if any(wanted):
                loss.backward()
            if made is not None:
                made[rows] = cast(Tensor, own.grad)
            total += loss.detach()
        ctx.save_for_backward(made, *(None if x is None else x.grad for x in shared))
        return total

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError("ChunkedLoss has no second derivative (create_graph)")
        return *(None if x is None else x * g.to(x.dtype) for x in ctx.saved_tensors), *(None,) * 3
