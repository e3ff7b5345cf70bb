"""Entropies of the losses, named as in the core."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class Entropy(ABC):
    """An entropy of the simplex: a family of maps and a parameter of it."""

    kind: ClassVar[str] = "tsallis"

    @property
    @abstractmethod
    def parameter(self) -> float:
        """Which member of the family."""


@dataclass(frozen=True)
class Shannon(Entropy):
    """`sum p log p`: softmax and cross-entropy.

    >>> Shannon().parameter  # Tsallis at 1
    1.0
    """

    @property
    def parameter(self) -> float:
        """Alpha = 1."""
        return 1.0


@dataclass(frozen=True)
class Tsallis(Entropy):
    """`sum (p^alpha - p) / (alpha (alpha - 1))`, `alpha >= 1`: entmax.

    Parameters
    ----------
    alpha : float
        Index, >= 1.

    Examples
    --------
    >>> Tsallis(1.5).parameter
    1.5
    """

    alpha: float

    def __post_init__(self) -> None:
        if not (_is_number(self.alpha) and 1 <= self.alpha < math.inf):
            raise ValueError(f"Tsallis needs a finite alpha >= 1, got {self.alpha!r}")

    @property
    def parameter(self) -> float:
        """Alpha."""
        return float(self.alpha)


@dataclass(frozen=True)
class NormEntropy(Entropy):
    """`||p||_q - 1`, `q > 1`, inf allowed: normmax.

    Parameters
    ----------
    q : float
        Order of the norm, > 1; inf is allowed.

    Examples
    --------
    >>> NormEntropy(2.0).parameter
    2.0
    """

    q: float
    kind: ClassVar[str] = "norm"

    def __post_init__(self) -> None:
        if not (_is_number(self.q) and self.q > 1):
            raise ValueError(f"NormEntropy needs q > 1 (inf allowed), got {self.q!r}")

    @property
    def parameter(self) -> float:
        """The exponent q."""
        return float(self.q)


_NAMED = {"shannon": Shannon(), "entmax15": Tsallis(1.5), "sparsemax": Tsallis(2.0)}


def as_entropy(entropy: str | float | Entropy) -> Entropy:
    """The entropy of a name, a number alpha, or itself."""
    if isinstance(entropy, Entropy):
        return entropy
    if isinstance(entropy, str) and entropy in _NAMED:
        return _NAMED[entropy]
    if _is_number(entropy):
        return Tsallis(float(entropy))
    names = ", ".join(f'"{name}"' for name in _NAMED)
    raise ValueError(
        f"entropy must be one of {names}, a number alpha >= 1, or an entropy of maxent.torch "
        f"(Shannon, Tsallis, NormEntropy), got {entropy!r}"
    )
