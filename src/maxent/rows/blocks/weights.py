"""SparseWeights: the weights that are not 0, which is all that travels to a block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent.rows.arrays import Array


@dataclass(frozen=True, eq=False)
class SparseWeights:
    """``values`` at ``index`` of a vector of ``size`` weights, 0 elsewhere.

    >>> SparseWeights.from_vector(np.array([0.0, 2.0, 0.0])).full()
    array([0., 2., 0.])
    """

    index: Array
    values: Array
    size: int

    @classmethod
    def from_vector(
        cls, w: Array, index: Array | None = None, size: int | None = None
    ) -> SparseWeights:
        """Of a vector w of all weights, or of those of the features ``index`` among ``size``."""
        used = np.flatnonzero(w)
        if index is None:
            return cls(used, w[used], w.size)
        assert size is not None
        return cls(index[used], w[used], size)

    def full(self) -> Array:
        """All weights."""
        w = np.zeros(self.size)
        w[self.index] = self.values
        return w

    @property
    def key(self) -> tuple[bytes, bytes]:
        """What tells two vectors apart."""
        return self.index.tobytes(), self.values.tobytes()
