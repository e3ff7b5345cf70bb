"""Two classes as one output: scores [0, s] of a simplex entropy as one score s on the cube.

The loss is the same (Fenchel-Young paper, §4.4), and the Hessian is that of one weight per column,
which Newton's method can precondition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent.core.domains import Cube
from maxent.core.entropies import (
    BinaryGini,
    Entropy,
    FermiDirac,
    OneVsAll,
    Shannon,
    Shifted,
    Tsallis,
    Zero,
)
from maxent.rows.arrays import Array


@dataclass(frozen=True)
class SecondOfTwo(OneVsAll):
    """Omega(p) = omega([1 - p, p]): entropies that tell the first class from the second."""

    _place = 1

    @staticmethod
    def _pairs(first: Array, second: Array) -> Array:
        return OneVsAll._pairs(second, first)


def class_rows(
    entropy: Entropy, cost: Array | None, labels: Array, count: int
) -> tuple[Entropy, Array]:
    """The entropy of samples of these classes, with their costs, and their observed rows.

    Two classes have one output.
    """
    trained = entropy if cost is None else Shifted(entropy, cost[labels])
    observed = np.eye(count)[labels]
    if count == 2:
        return one_output(trained), observed[:, 1:]
    return trained, observed


def one_output(entropy: Entropy) -> Entropy:
    """The entropy of the second class's probability, that of the first being the rest."""
    if isinstance(entropy, Shifted):
        cost = np.asarray(entropy.cost)
        return Shifted(one_output(entropy.entropy), cost[..., 1:] - cost[..., :1])
    if isinstance(entropy, Zero):
        return Zero(domain=Cube())
    alpha = 1.0 if isinstance(entropy, Shannon) else getattr(entropy, "alpha", None)
    if isinstance(entropy, Shannon | Tsallis) and alpha in (1, 2):
        return FermiDirac() if alpha == 1 else BinaryGini()
    return SecondOfTwo(entropy)
