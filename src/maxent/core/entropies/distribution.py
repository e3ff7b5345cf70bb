"""The entropy of a distribution over structures, sparse ones included (Fenchel-Young, §7.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import Domain, KBestDomain, Simplex
from maxent.core.domains.base import each_row
from maxent.core.entropies.base import Entropy, same_type
from maxent.core.entropies.smoothed import value_by_conjugate
from maxent.rows.arrays import Array, Rows, Tied, row_dot, row_scale
from maxent.structured.alignment.domain import Alignment
from maxent.structured.distribution import StructureDistribution, sparse_distribution


@io.register
@dataclass(frozen=True)
class DistributionEntropy(Entropy):
    """`Omega(p) = min_q omega(q)` over distributions q on structures whose mean is p, eq. (25).

    With Shannon's omega this is marginal inference, which ``Shannon(domain=...)`` does in closed
    form; with a sparse one, such as ``Tsallis(2.0)``, few structures have any probability:
    structured sparsemax. They are the k best, and k doubles until the last one has none. Where
    that takes more than ``max_k``, q has at most so many: `Omega*` and its loss stay convex, as a
    maximum over these q, and are a little smaller.

    Parameters
    ----------
    entropy : Entropy
        omega, a differentiable entropy of the simplex.
    structure : KBestDomain
        A domain with the k best structures: chains, alignments, trees, matchings, rankings.
    k : int, default 16
        Structures to begin with.
    max_k : int, default 1024
        Structures at most.

    Examples
    --------
    >>> from maxent.core.entropies import Tsallis
    >>> from maxent.structured import Chain
    >>> entropy = DistributionEntropy(Tsallis(2.0), Chain(2))
    >>> entropy.conjugate([1.0, 0.5, 0.0, 0.2, 0, 0, 0, 0])[1][:4].round(3)
    array([0.933, 0.067, 0.367, 0.633])
    """

    entropy: Entropy
    structure: Domain
    k: int = 16
    max_k: int = 1024

    def __post_init__(self) -> None:
        if not isinstance(self.structure, KBestDomain):
            raise TypeError(
                f"DistributionEntropy needs a domain with the k best structures (kbest), got "
                f"{self.structure!r}"
            )
        if not isinstance(self.entropy.domain, Simplex) or not self.entropy.differentiable:
            raise TypeError(
                f"the entropy of the distribution is a differentiable one of the simplex, got "
                f"{self.entropy!r}"
            )
        whole = all(isinstance(number, int | np.integer) for number in (self.k, self.max_k))
        if not whole or self.k < 1 or self.max_k < self.k:
            raise ValueError(
                f"k and max_k are integers with 1 <= k <= max_k, got {self.k} and {self.max_k}"
            )

    @property
    def domain(self) -> Domain:
        """The structure's domain."""
        return self.structure

    def cheap_value(self, p: Rows) -> bool:
        """Never: no formula is known but at vertices."""
        return False

    def distribution(self, theta: Rows) -> StructureDistribution:
        """The structures that have any probability, with it."""
        assert isinstance(self.structure, KBestDomain)
        if isinstance(theta, Tied):
            raise TypeError("the k best structures need scores for every position; write them out")
        return sparse_distribution(self.structure, theta, self.entropy, self.k, self.max_k)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        found = self.distribution(theta.astype(np.float64))
        return found.value, same_type(found.mean, theta)

    def _value(self, p: Rows) -> Array:
        at_vertex = float(self.entropy.value_inside(np.ones((1, 1)))[0])
        best = self.structure.argmax(2.0 * p - 1.0)
        distance = row_dot(p - best, p - best)
        values = np.full(len(distance), at_vertex)
        rows = each_row(p)
        for i in np.flatnonzero(distance > 0):
            alone = self._alone(int(i))
            values[i] = value_by_conjugate(alone._conjugate, rows[i].astype(np.float64))
        return values

    def _alone(self, row: int) -> DistributionEntropy:
        """The same for one row, where the domain lists the sizes of all."""
        if not (isinstance(self.structure, Alignment) and self.structure.ragged):
            return self
        return DistributionEntropy(self.entropy, self.structure.alone(row), self.k, self.max_k)

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """E[Y (J s)(Y)] with s(Y) = <v, Y>, J the Jacobian of the distribution."""
        found = self.distribution(theta.astype(np.float64))
        v = v.astype(np.float64)
        scores = np.stack([row_dot(theta, y) for y in found.structures], axis=1)
        scores[~_real(found.structures)] = -np.inf
        along = np.stack([row_dot(v, y) for y in found.structures], axis=1)
        moved = np.asarray(self.entropy.hvp(scores, found.probabilities, along))
        total = row_scale(found.structures[0], moved[:, 0])
        for rank in range(1, moved.shape[1]):
            total = total + row_scale(found.structures[rank], moved[:, rank])
        return same_type(total, theta)


def _real(structures: list[Rows]) -> Array:
    """Which of the k best of each row are structures, and not the rows of zeros after the last."""
    sums = [row_dot(y, y) for y in structures]
    return np.stack(sums, axis=1) > 0
