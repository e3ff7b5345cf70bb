"""What a plan pays where its sums are not the masses given: a penalty, and all that is known of it.

With sums r, masses a and potentials f: `D(r | a)`, its conjugate in r, `r = grad D*(f)`, and the
potential that belongs to the scores of a row. These are exact, in the log domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_NEVER = 800.0  # exp(-800) is 0


@dataclass(frozen=True)
class MarginalPenalty(ABC):
    """A penalty of sums r >= 0 for masses a >= 0, both of one shape; ``weight`` is its factor."""

    weight: float

    @property
    def bound(self) -> float:
        """The largest absolute potential."""
        return torch.inf

    @abstractmethod
    def value(self, r: Tensor, a: Tensor) -> Tensor:
        """`D(r | a)`."""

    def conjugate(self, f: Tensor, a: Tensor) -> Tensor:
        """`D*(f)`."""
        return a * f

    def gap(self, r: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """`D(r | a) + D*(f) - f r >= 0`."""
        return self.value(r, a) + self.conjugate(f, a) - f * r

    def by_mass(self, f: Tensor) -> Tensor:
        """The derivative of `D*` in a."""
        return f

    def sums(self, f: Tensor, a: Tensor) -> Tensor:
        """`grad D*(f)`; of a penalty with bounds, within them."""
        return a + torch.zeros_like(f)

    def slope(self, r: Tensor) -> Tensor:
        """The derivative of ``sums`` in f, where they are r."""
        return torch.zeros_like(r)

    def sums_by_mass(self, r: Tensor, a: Tensor) -> Tensor:
        """The derivative of ``sums`` in a, where they are r."""
        return torch.ones_like(r)

    def moving(self, f: Tensor) -> Tensor:
        """Where the potential is within its bounds."""
        return f.abs() < self.bound

    def closed(self, a: Tensor) -> Tensor:
        """Where nothing can be, whatever the scores."""
        return torch.zeros_like(a, dtype=torch.bool)

    @abstractmethod
    def empty(self, a: Tensor) -> Tensor:
        """The potential where nothing can be."""

    @abstractmethod
    def of_level(self, level: Tensor, a: Tensor, strength: float) -> Tensor:
        """f with `exp((level - f) / strength) = sums(f)`, for what is not closed."""

    def over(self, r: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """What sums r have more than potentials f ask for; with bounds on f, within them."""
        return r - self.sums(f, a)


class Kept(MarginalPenalty):
    """The sums are the masses: a penalty without limit."""

    def value(self, r: Tensor, a: Tensor) -> Tensor:
        """0: what rounding leaves is not counted."""
        return torch.zeros_like(r)

    def gap(self, r: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """What rounding leaves, at its price."""
        return (f * (a - r)).abs()

    def closed(self, a: Tensor) -> Tensor:
        """Without mass."""
        return a == 0

    def empty(self, a: Tensor) -> Tensor:
        """Any will do."""
        return torch.zeros_like(a)

    def of_level(self, level: Tensor, a: Tensor, strength: float) -> Tensor:
        """Sinkhorn's scaling."""
        return (level - strength * a.log()).clamp(-self.bound, self.bound)


class Absolute(Kept):
    """`weight |r - a|`: potentials are bounded, and most sums are kept."""

    @property
    def bound(self) -> float:
        """The weight."""
        return self.weight

    def value(self, r: Tensor, a: Tensor) -> Tensor:
        """`weight |r - a|`."""
        return self.weight * (r - a).abs()

    def gap(self, r: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """`(weight - f) (r - a)`, or the same of what lacks."""
        return MarginalPenalty.gap(self, r, f, a)

    def closed(self, a: Tensor) -> Tensor:
        """Nowhere."""
        return MarginalPenalty.closed(self, a)

    def empty(self, a: Tensor) -> Tensor:
        """What nothing is worth."""
        return torch.full_like(a, -self.weight)


class KullbackLeibler(MarginalPenalty):
    """`weight (r log(r / a) - r + a)`."""

    def value(self, r: Tensor, a: Tensor) -> Tensor:
        """Infinite where there is something and no mass."""
        return self.weight * (torch.special.xlogy(r, r) - torch.special.xlogy(r, a) - r + a)

    def conjugate(self, f: Tensor, a: Tensor) -> Tensor:
        """`weight a (exp(f / weight) - 1)`."""
        return a * self.by_mass(f)

    def by_mass(self, f: Tensor) -> Tensor:
        """`weight (exp(f / weight) - 1)`."""
        return self.weight * torch.expm1(f / self.weight)

    def sums(self, f: Tensor, a: Tensor) -> Tensor:
        """`a exp(f / weight)`."""
        return a * torch.exp(f / self.weight)

    def slope(self, r: Tensor) -> Tensor:
        """`r / weight`."""
        return r / self.weight

    def sums_by_mass(self, r: Tensor, a: Tensor) -> Tensor:
        """`r / a`."""
        return r / torch.where(a > 0, a, 1.0)

    def closed(self, a: Tensor) -> Tensor:
        """Without mass."""
        return a == 0

    def over(self, r: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """Of the logarithms, which Newton's method takes in few steps."""
        ratio = torch.where(r > 0, r, 1.0) / torch.where(a > 0, a, 1.0)
        return r * (ratio.log() - f / self.weight)

    def empty(self, a: Tensor) -> Tensor:
        """As far down as numbers go."""
        return torch.full_like(a, -_NEVER * self.weight)

    def of_level(self, level: Tensor, a: Tensor, strength: float) -> Tensor:
        """Sinkhorn's scaling, shortened."""
        return (level - strength * a.log()) * (self.weight / (self.weight + strength))


class Squared(MarginalPenalty):
    """`weight / 2 (r - a)^2`."""

    def value(self, r: Tensor, a: Tensor) -> Tensor:
        """`weight / 2 (r - a)^2`."""
        return 0.5 * self.weight * (r - a).square()

    def conjugate(self, f: Tensor, a: Tensor) -> Tensor:
        """`a f + f^2 / (2 weight)`."""
        return f * (a + f / (2 * self.weight))

    def sums(self, f: Tensor, a: Tensor) -> Tensor:
        """`a + f / weight`."""
        return a + f / self.weight

    def slope(self, r: Tensor) -> Tensor:
        """`1 / weight`."""
        return torch.full_like(r, 1 / self.weight)

    def empty(self, a: Tensor) -> Tensor:
        """Where the sums are 0."""
        return -self.weight * a

    def of_level(self, level: Tensor, a: Tensor, strength: float) -> Tensor:
        """With `w = (level - f) / strength - c`: `exp(w) + w` is known."""
        c = torch.log(torch.as_tensor(strength / self.weight, dtype=a.dtype, device=a.device))
        return level - strength * (_log_omega((self.weight * a + level) / strength - c) + c)


PENALTIES: dict[str, Callable[[float], MarginalPenalty]] = {
    "kl": KullbackLeibler,
    "l1": Absolute,
    "l2": Squared,
}


def penalty_of(divergence: str, weight: float) -> MarginalPenalty:
    """By name and weight; an infinite one keeps the sums."""
    return Kept(weight) if weight == torch.inf else PENALTIES[divergence](weight)


def _log_omega(z: Tensor) -> Tensor:
    """w with `exp(w) + w = z`: Newton's method from above, where it is monotone."""
    w = torch.where(z > 1, z.clamp(min=1).log(), z)
    for _ in range(8):
        e = w.exp()
        w = w - (e + w - z) / (1 + e)
    return w
