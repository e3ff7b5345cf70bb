# ruff: noqa: D102 - the base class documents the methods
"""
A family of features of your own
================================

:class:`maxent.StructMaxent` grows a density one feature at a time, from families of features. This
family holds "nearness to a value", which no polynomial of low degree imitates well.
"""

# %%
# A family says how complex it is, and makes a search for given cells. Complexity is a bound on the
# Rademacher complexity, the price of the family: for a finite set of :math:`N` features with values
# in :math:`[0, 1]` and :math:`m` records, Massart's lemma gives :math:`\sqrt{2 \log(2 N) / m}`. The
# search proposes the feature :math:`\phi` with the largest :math:`|\sum_i r_i \phi(x_i)|` for the
# weights :math:`r_i` that the fit hands to it.

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx
from maxent.families import FunctionFeatures, Proposal, Search

CENTRES = np.linspace(0, 1, 21)


class Near(mx.Family):
    """1 - |x - c| for c on a grid: a finite set of features in [0, 1]."""

    letter: ClassVar[str] = "n"

    def complexity(self, level, d, m):
        return np.sqrt(2 * np.log(2 * CENTRES.size) / m)  # Massart's lemma

    def search(self, cells, schema):
        return NearSearch(cells)


class NearSearch(Search):
    """Tries every centre, so what it finds is the best there is."""

    exhaustive = True

    def propose(self, r):
        values = [r @ nearness(self.cells, c) for c in CENTRES]
        best = int(np.argmax(np.abs(values)))
        name = f"near({CENTRES[best]:.2f})"
        feature = FunctionFeatures({name: lambda cells: nearness(cells, CENTRES[best])}, "n")
        return [Proposal(feature, level=1, value=values[best])]


def nearness(cells, centre):
    """1 at the centre, less away from it."""
    return 1 - np.abs(np.clip(cells.values[0], 0, 1) - centre)


# %%
# Records come from a density with a sharp peak at 0.3. One model has monomials only, the other may
# also use the new family.

rng = np.random.default_rng(0)
X = np.linspace(0, 1, 500)[:, None]
truth = np.exp(-12 * np.abs(X[:, 0] - 0.3))
truth /= truth.sum()
y = rng.multinomial(300, truth)
models = {
    "monomials": mx.StructMaxent([mx.Monomials(2)], lam=0.02, beta=0.01).fit(X, y),
    "monomials and near": mx.StructMaxent([Near(), mx.Monomials(2)], lam=0.02, beta=0.01).fit(X, y),
}
for name, model in models.items():
    first = model.features_[0]["name"]
    error = np.abs(model.predict(X) - truth).sum()
    print(f"{name:>18}: {first} weighs most, distance to the truth {error:.3f}")

# %%
# The fitted densities, in units of the uniform density:

fig, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
axis.fill_between(X[:, 0], 500 * truth, color="0.85", label="truth")
for (name, model), style in zip(models.items(), ("--", "-"), strict=True):
    axis.plot(X[:, 0], 500 * model.predict(X), style, label=name)
axis.set(title="A density with a peak", xlabel="x", ylabel="density")
axis.legend()

# %%
# **How to read this.** The grey area is the density that the records were drawn from. Polynomials
# of degree 2 (dashed) can only make a smooth hill, too low and too wide. With the new family
# (solid) the model finds the peak and its place: the feature with the largest weight, printed
# above, is nearness to 0.30.
