"""Scores of a linear layer that nobody computes unless somebody looks at them."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.nn.functional import linear
from torch.utils._pytree import tree_map

import torch
from torch import Tensor, nn

_PRODUCTS = ("aten::mul.Tensor", "aten::mul.Scalar")
_QUOTIENTS = ("aten::div.Tensor", "aten::div.Scalar")


class Step(NamedTuple):
    """What was done to all scores: a factor, a tanh, or neither where only the type changed."""

    factor: float = 1.0
    tanh: bool = False


class LazyScores(Tensor):
    """`W h + b`, and what is done to all of it alike: factors, tanh, another floating type.

    Any other operation of torch computes them. What autograd asks for is that of a linear layer.

    Attributes
    ----------
    layer : tuple
        Hidden vectors, weight and constants.
    steps : tuple of Step
        What was done to the scores.
    types : tuple of dtype
        The type after each step; the first is that of the scores.
    """

    layer: tuple[Tensor, Tensor, Tensor | None]
    steps: tuple[Step, ...]
    types: tuple[torch.dtype, ...]
    _dense: Tensor | None

    @staticmethod
    def __new__(
        cls,
        layer: tuple[Tensor, Tensor, Tensor | None],
        steps: tuple[Step, ...],
        types: tuple[torch.dtype, ...],
    ) -> LazyScores:
        """Nothing is computed."""
        hidden, weight, _ = layer
        shape = (*hidden.shape[:-1], len(weight))
        made = cls._make_wrapper_subclass(cls, shape, dtype=types[-1], device=hidden.device)
        made.layer, made.steps, made.types, made._dense = layer, steps, types, None
        return made

    def _computed(self) -> Tensor:
        """The scores, kept from now on: what is done to them in place is done to these."""
        if self._dense is None:
            hidden, weight, bias = _fixed(self.layer)
            x = linear(hidden, weight, bias)
            for step, dtype in zip(self.steps, self.types[1:], strict=True):
                x = (x.tanh() if step.tanh else x * step.factor).to(dtype)
            self._dense = x
        return self._dense

    def scaled_layer(self) -> tuple[float, float | None] | None:
        """(T, c) such that the scores are `c tanh(s / c) / T` of those of the layer; c may be None.

        None where they have been computed, are something else, or have a gradient of their own.
        """
        own = self.requires_grad and self.is_leaf
        if own or self._dense is not None or sum(step.tanh for step in self.steps) > 1:
            return None
        before = after = 1.0
        capped = False
        for step in self.steps:
            capped |= step.tanh
            if capped:
                after *= step.factor
            else:
                before *= step.factor
        if not (before > 0 and after > 0):
            return None
        return (1 / (before * after), 1 / before) if capped else (1 / before, None)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        later = _later(func, args, kwargs)
        if later is not None:
            return later
        given = tree_map(
            lambda x: x._computed() if isinstance(x, LazyScores) else x, (args, kwargs)
        )
        found = func(*given[0], **given[1])
        in_place = func.name().partition(".")[0].endswith("_") and isinstance(args[0], LazyScores)
        return args[0] if in_place else found


def _fixed(layer: tuple[Tensor, Tensor, Tensor | None]) -> tuple[Tensor, Tensor, Tensor | None]:
    """The layer without what autograd knows of it."""
    hidden, weight, bias = layer
    return hidden.detach(), weight.detach(), None if bias is None else bias.detach()


def _later(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LazyScores | None:
    """What an operation gives that need not be done now."""
    x = args[0] if args else None
    if not isinstance(x, LazyScores) or x._dense is not None:
        return None
    name = func.name()
    if name == "aten::detach":  # which autograd calls too, for what it keeps of tanh
        return LazyScores(_fixed(x.layer), x.steps, x.types)
    dtype, step = x.dtype, None
    if name == "aten::tanh":
        step = Step(tanh=True)
    elif name in (*_PRODUCTS, *_QUOTIENTS) and isinstance(args[1], float | int) and args[1] != 0:
        step = Step(args[1] if name in _PRODUCTS else 1 / args[1])
    elif name == "aten::_to_copy" and set(kwargs) == {"dtype"}:
        dtype = kwargs["dtype"]
        step = Step() if dtype.is_floating_point else None
    return None if step is None else LazyScores(x.layer, (*x.steps, step), (*x.types, dtype))


class _Linear(torch.autograd.Function):
    """A linear layer without its product."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return LazyScores((hidden, weight, bias), (), (hidden.dtype,))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        rows = g.reshape(-1, g.shape[-1])
        wanted = ctx.needs_input_grad
        return (
            g @ weight if wanted[0] else None,
            rows.T @ hidden.reshape(-1, hidden.shape[-1]) if wanted[1] else None,
            rows.sum(0) if wanted[2] else None,
        )


class LazyLinear(nn.Linear):
    """A linear layer which, while it is trained, computes its scores when they are looked at."""

    def forward(self, input: Tensor) -> Tensor:
        """The scores."""
        if not (self.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
            return super().forward(input)
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        device = input.device.type
        if torch.is_autocast_enabled(device) and input.dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)
            input, weight = input.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        if input.dtype != weight.dtype or input.shape[-1] != weight.shape[1]:
            return super().forward(input)  # which says what is wrong
        scores: Tensor = _Linear.apply(input, weight, bias)
        return scores
