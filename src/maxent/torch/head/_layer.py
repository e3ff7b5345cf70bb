"""The linear layer of a head, checked."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from maxent.torch.head._dtensor import check_whole
from maxent.torch.maps._shapes import check_floating
from torch import Tensor


def checked_layer(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, name: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Tensors that fit each other, cast where autocast is on."""
    for x, what in ((hidden, "hidden"), (weight, "weight"), (bias, "bias")):
        check_whole(x, what, name)
    check_floating(hidden, name)
    check_floating(weight, name)
    if hidden.ndim == 0 or weight.ndim != 2 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name} needs hidden (..., features) and weight (classes, features), got "
            f"{tuple(hidden.shape)} and {tuple(weight.shape)}"
        )
    if len(weight) == 0:
        raise ValueError(f"{name} needs one class or more, got a weight of {tuple(weight.shape)}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"{name} needs a bias with one number for each of {len(weight)} classes, got "
            f"{tuple(bias.shape)}"
        )
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and (other.dtype != hidden.dtype or other.device != hidden.device):
            raise TypeError(
                f"{name}: hidden is {hidden.dtype} on {hidden.device}, {what} {other.dtype} on "
                f"{other.device}; convert one with .to(), or use torch.autocast"
            )
    return hidden, weight.contiguous(), bias


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Where types are as they are."""
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)
