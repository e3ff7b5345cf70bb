"""
Structural maxent grows its features
====================================

Trees and products can describe any density, and so they can overfit any sample. Structural maxent
lets a model use them at a price that grows with their complexity.
"""

# %%
# :class:`maxent.StructMaxent` minimises the log loss plus :math:`\sum_k \beta_k \|w_k\|_1` with
# :math:`\beta_k = \lambda B_k + \beta`. The family :math:`k` holds monomials of degree :math:`k` or
# trees with :math:`k` nodes, and :math:`B_k` bounds its complexity. Each round adds the feature
# that violates the optimality conditions most. With :math:`\lambda = 0` all features cost the same.
#
# The truth here is simple, :math:`\exp(4 x_0 x_1 - 2 x_2)`, and the sample small: 150 records in
# 600 cells with four variables. Stopping after 1, 2, 3 ... rounds shows what comes in when.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
X = rng.uniform(size=(600, 4))
truth = np.exp(4 * X[:, 0] * X[:, 1] - 2 * X[:, 2])
truth /= truth.sum()
y = rng.multinomial(150, truth)
rounds = range(1, 10)


def grow(lam):
    """The features in the order they come in, and the loss in nats after each round."""
    features, training, error = {}, [], []
    families = [mx.Monomials(3), mx.Trees(4)]
    for n in rounds:  # no time for bounds over all features of a model that is not finished
        model = mx.StructMaxent(families, lam=lam, rounds=n, proof_budget=0).fit(X, y)
        p = model.predict(X)
        features |= {f["name"]: f for f in model.features_ if f["name"] not in features}
        training.append(-y @ np.log(600 * p) / y.sum())
        error.append(truth @ np.log(truth / p))
    return list(features.values()), training, error


same, priced = grow(lam=0.0), grow(lam=0.1)
print("lambda = 0.1:")
for number, feature in enumerate(priced[0], start=1):
    print(f"{number}. {feature['family']}, level {feature['level']}: {feature['name'][:60]}")

# %%
# What the two models chose, and what they learned:

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for (features, *_), colour, shift in ((same, "C1", 0.08), (priced, "C0", -0.08)):
    for family, marker in (("Trees", "s"), ("Monomials", "o")):
        chosen = [(n, f["level"]) for n, f in enumerate(features, 1) if f["family"] == family]
        if chosen:
            n, level = np.array(chosen).T
            left.plot(n, level + shift, marker, color=colour)
left.plot([], [], "s", color="0.5", label="tree")
left.plot([], [], "o", color="0.5", label="monomial")
left.set(title="Feature that comes in", xlabel="round", ylabel="level (complexity)")
left.set(yticks=[1, 2, 3, 4], ylim=(0.5, 5.4))
left.legend(ncols=2, loc="upper center")
for (_, training, error), colour, name in (
    (same, "C1", "$\\lambda$ = 0"),
    (priced, "C0", "$\\lambda$ = 0.1"),
):
    right.plot(rounds, training, "--", color=colour)
    right.plot(rounds, error, color=colour, label=name)
right.plot([], [], "--", color="0.5", label="training loss")
right.set(title="Distance from the truth (solid)", xlabel="round", ylabel="nats")
right.legend(fontsize="small")

# %%
# **How to read this.** Left, the level of the feature that comes in at each round; colours are
# those of the right panel. Where all features cost the same (orange), the search takes the largest
# trees it can get. With a price on complexity (blue) it also takes simpler features, and in rounds
# 5 and 7 it finds the two monomials of the truth. Right, both models describe the training records
# better and better (dashed). The distance from the truth, a Kullback-Leibler divergence (solid),
# falls to nearly 0 with prices and rises again without.
