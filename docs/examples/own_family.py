"""A family of your own for StructMaxent: nearness of the first variable to some value."""

from typing import ClassVar

import numpy as np

import maxent as mx
from maxent.families import FunctionFeatures, Proposal, Search

CENTRES = np.linspace(0, 1, 21)


class Near(mx.Family):
    """1 - |x - c| for c on a grid: a finite set of features in [0, 1]."""

    letter: ClassVar[str] = "n"

    def complexity(self, level, d, m):
        """A finite set of 21 features."""
        return np.sqrt(2 * np.log(2 * CENTRES.size) / m)  # Massart's lemma

    def search(self, cells, schema):
        """The family on given cells."""
        return NearSearch(cells)


class NearSearch(Search):
    """Tries every centre."""

    def propose(self, r):
        """The centre whose feature has the largest weighted sum."""
        values = [r @ nearness(self.cells, c) for c in CENTRES]
        best = int(np.argmax(np.abs(values)))
        name = f"near({CENTRES[best]:.2f})"
        feature = FunctionFeatures({name: lambda cells: nearness(cells, CENTRES[best])}, "n")
        return [Proposal(feature, level=1, value=values[best])]


def nearness(cells, centre):
    """1 at the centre, less away from it."""
    return 1 - np.abs(np.clip(cells.values[0], 0, 1) - centre)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2))
    y = rng.poisson(0.5 * np.exp(-20 * np.abs(X[:, 0] - 0.3)))
    model = mx.StructMaxent([Near(), mx.Monomials(2)], lam=0.02, beta=0.01).fit(X, y)
    assert model.features_[0]["name"] == "near(0.30)", model.features_
    assert model.gap_ < 1e-6
    print(model.features_[0])
