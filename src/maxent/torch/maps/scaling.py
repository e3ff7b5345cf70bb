"""What is done to scores before a map or a loss: a soft cap, then a temperature."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor


class Scaling(NamedTuple):
    """`x = c tanh(s / c) / T` of scores s; -inf, a class that cannot be, stays.

    Attributes
    ----------
    temperature : float
        T.
    soft_cap : float
        c; 0 for none.
    """

    temperature: float = 1.0
    soft_cap: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether x is s."""
        return self.temperature == 1 and not self.soft_cap

    @property
    def bound(self) -> float:
        """What no x exceeds; inf without a cap."""
        return self.soft_cap / self.temperature if self.soft_cap else math.inf

    def apply(self, scores: Tensor) -> Tensor:
        """x."""
        if not self.soft_cap:
            return scores if self.temperature == 1 else scores / self.temperature
        capped = torch.tanh(scores / self.soft_cap) * self.bound
        return torch.where(scores == -math.inf, scores, capped)

    def apply_(self, scores: Tensor) -> Tensor:
        """x in the place of s."""
        if self.soft_cap:
            masked = scores == -math.inf
            scores.div_(self.soft_cap).tanh_().mul_(self.bound)
            return scores.masked_fill_(masked, -math.inf) if bool(masked.any()) else scores
        return scores if self.temperature == 1 else scores.div_(self.temperature)

    def slope(self, x: Tensor) -> Tensor | float:
        """The derivative of x by s, from x."""
        if not self.soft_cap:
            return 1 / self.temperature
        flat = (1 - (x / self.bound).square()).clamp_min(0) / self.temperature
        return torch.where(x.abs() <= 2 * self.bound, flat, 0)  # -inf and NaN have none


PLAIN = Scaling()


def checked_scaling(
    temperature: float, soft_cap: float | None, dtype: torch.dtype | None, name: str
) -> Scaling:
    """The scaling, or an error in words.

    dtype : of the scores, where it is known.
    """
    if not (_is_number(temperature) and 0 < temperature < math.inf):
        raise ValueError(f"{name} needs a finite temperature > 0, got {temperature!r}")
    if soft_cap is None:
        return Scaling(float(temperature))
    if not (_is_number(soft_cap) and 0 < soft_cap < math.inf):
        raise ValueError(
            f"{name} needs a finite soft_cap > 0, or None for scores without a cap, got "
            f"{soft_cap!r}"
        )
    if dtype is not None and soft_cap > torch.finfo(dtype).max:
        raise ValueError(
            f"{name}: no score of {dtype} reaches soft_cap={soft_cap:g}, since its largest number "
            f"is {torch.finfo(dtype).max:g}: take a smaller cap, or scores in bfloat16 or float32"
        )
    return Scaling(float(temperature), float(soft_cap))


def check_z_loss(z_loss: float) -> None:
    """Refuse a z_loss out of range."""
    if not (_is_number(z_loss) and 0 <= z_loss < math.inf):
        raise ValueError(f"z_loss must be a finite number >= 0, got {z_loss!r}")


def changed_settings(loss: object) -> str:
    """The settings of a loss that are not as by default, for its ``repr``."""
    defaults = {"label_smoothing": 0, "temperature": 1, "soft_cap": None, "z_loss": 0}
    given = {name: getattr(loss, name) for name in defaults}
    return "".join(f", {name}={x}" for name, x in given.items() if x != defaults[name])


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
