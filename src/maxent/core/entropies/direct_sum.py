"""A sum of entropies over the blocks of a row: several losses of the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.domains import Blocks, Domain, ScaledDomain, Simplex
from maxent.core.entropies.base import Entropy, positive
from maxent.rows.arrays import Array, Rows


@io.register
@dataclass(frozen=True)
class DirectSum(Entropy):
    """`Omega(p) = sum_k c_k Omega_k(p_k / c_k)`, blocks `p_k` of a row in `c_k dom Omega_k`.

    Its conjugate is the weighted sum `sum_k c_k Omega_k*(theta_k)`, attained at `c_k p_k(theta_k)`:
    with scores that are all linear in one w, the sum of several losses with weights `c_k`.

    Parameters
    ----------
    entropies : sequence of Entropy
        One for each block.
    sizes : sequence of int
        Entries of each block.
    weights : sequence of float, default None
        `c_k > 0`; None is 1 each.

    Examples
    --------
    >>> from maxent.core.entropies import FermiDirac, Shannon
    >>> both = DirectSum([Shannon(), FermiDirac()], sizes=[2, 1], weights=[1.0, 3.0])
    >>> both.conjugate([0.0, 0.0, 0.0])[1]
    array([0.5, 0.5, 1.5])
    """

    entropies: Sequence[Entropy]
    sizes: Sequence[int]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        count = len(self.entropies)
        weights = [1.0] * count if self.weights is None else list(self.weights)
        if not count or not count == len(self.sizes) == len(weights):
            raise ValueError(
                f"DirectSum needs a size and a weight per entropy, got {count} entropies, "
                f"{len(self.sizes)} sizes and {len(weights)} weights"
            )
        for entropy, size, weight in zip(self.entropies, self.sizes, weights, strict=True):
            if not isinstance(entropy, Entropy):
                raise TypeError(f"expected an Entropy for each block, got {entropy!r:.60}")
            if int(size) != size or size < 1:
                raise ValueError(f"sizes must be integers >= 1, got {size!r}")
            positive("weight", weight)
        object.__setattr__(self, "entropies", tuple(self.entropies))
        object.__setattr__(self, "sizes", tuple(int(s) for s in self.sizes))
        object.__setattr__(self, "weights", tuple(float(c) for c in weights))

    @property
    def domain(self) -> Domain:
        """The product of the scaled domains."""
        parts = [ScaledDomain(e.domain, c) for e, _, c in self._parts()]
        return Blocks(parts, self.sizes)

    @property
    def differentiable(self) -> bool:
        """Whether all of them are."""
        return all(entropy.differentiable for entropy in self.entropies)

    @property
    def convex(self) -> bool:
        """Whether all of them are."""
        return all(entropy.convex for entropy in self.entropies)

    @property
    def smoothness(self) -> float:
        """The largest `c_k L_k`."""
        return max(c * entropy.smoothness for entropy, _, c in self._parts())

    @property
    def largest_score(self) -> float:
        """The least of the blocks'."""
        return min(entropy.largest_score for entropy in self.entropies)

    @property
    def has_curvature(self) -> bool:
        """Whether all have it, at most one of them on a simplex: several spikes are no rank one."""
        simplices = sum(isinstance(entropy.domain, Simplex) for entropy in self.entropies)
        return simplices < 2 and all(entropy.has_curvature for entropy in self.entropies)

    def cheap_value(self, p: Rows) -> bool:
        """Whether the values of all blocks are cheap."""
        blocks = zip(self._parts(), self._cut(p), strict=True)
        return all(entropy.cheap_value(x / c) for (entropy, _, c), x in blocks)

    def _parts(self) -> list[tuple[Entropy, int, float]]:
        assert self.weights is not None
        return list(zip(self.entropies, self.sizes, self.weights, strict=True))

    def _cut(self, rows: Rows) -> list[Array]:
        if rows.shape[-1] != sum(self.sizes):
            raise ValueError(f"rows must have {sum(self.sizes)} entries, got {rows.shape[-1]}")
        parts = np.split(rows, np.cumsum(self.sizes)[:-1], axis=-1)
        return [np.ascontiguousarray(part) for part in parts]

    def _value(self, p: Rows) -> Array:
        blocks = zip(self._parts(), self._cut(p), strict=True)
        values = [c * entropy._value(x / c) for (entropy, _, c), x in blocks]
        return np.asarray(np.sum(values, axis=0))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        found = [entropy._conjugate(x) for entropy, x in self._with(theta)]
        assert self.weights is not None
        total = np.sum(
            [c * value for c, (value, _) in zip(self.weights, found, strict=True)], axis=0
        )
        return np.asarray(total), self._joined([p for _, p in found])

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return self._each(lambda e, t, x, y: e._hvp(t, x, y), theta, p, v)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """Those of the blocks times `c_k`, side by side."""
        if not self.has_curvature:
            return super().curvature(theta, p)
        blocks = zip(self._parts(), self._cut(theta), self._cut(p), strict=True)
        found = [(*e.curvature(t, x / c), c) for (e, _, c), t, x in blocks]
        diagonal = np.concatenate([c * d for d, _, c in found], axis=-1)
        if all(u is None for _, u, _ in found):
            return diagonal, None
        spikes = [np.zeros_like(d) if u is None else np.sqrt(c) * u for d, u, c in found]
        return diagonal, np.concatenate(spikes, axis=-1)

    def _with(self, rows: Rows) -> list[tuple[Entropy, Array]]:
        return list(zip(self.entropies, self._cut(rows), strict=True))

    def _each(self, change: Callable[..., Rows], theta: Rows, p: Rows, v: Rows) -> Rows:
        blocks = zip(self._parts(), self._cut(theta), self._cut(p), self._cut(v), strict=True)
        return self._joined([change(e, t, x / c, y) for (e, _, c), t, x, y in blocks])

    def _joined(self, blocks: Sequence[Rows]) -> Array:
        assert self.weights is not None
        return np.concatenate([c * x for c, x in zip(self.weights, blocks, strict=True)], axis=-1)
