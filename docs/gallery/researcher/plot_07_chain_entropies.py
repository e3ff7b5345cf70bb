"""
CRF, SparseMAP and max-margin network: one chain, three entropies
=================================================================

Three well-known models of sequences share their features, their penalty and their problem. They
differ in the entropy on the set of label paths.
"""

# %%
# The scores of a sequence are :math:`\theta = F^\top w`, for each label at each position and for
# each pair of neighbours. :class:`maxent.Chain` is the polytope of all paths. On it
#
# - the Shannon entropy of the distribution over paths gives the conditional random field (CRF),
# - the squared norm :math:`\frac12 \|p\|^2` gives SparseMAP,
# - no entropy, plus 1 for each wrong label, gives the max-margin network (M3N).
#
# Labels below follow each other in a circle, 0, 1, 2, 3, 0 ... and each position is observed with
# noise.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
means = rng.normal(size=(4, 5))


def draw(n, length=12):
    """Sequences whose label stays or moves on by one, and noisy observations of it."""
    y = (rng.integers(4, size=(n, 1)) + np.cumsum(rng.random((n, length)) < 0.4, axis=1)) % 4
    return list(means[y] + 1.1 * rng.normal(size=(n, length, 5))), list(y)


X, y = draw(40)
X_test, y_test = draw(300)
models = {
    "CRF": mx.ChainClassifier("crf", potential=0.03),
    "SparseMAP": mx.ChainClassifier("sparsemap", potential=0.03),
    "M3N": mx.ChainClassifier("hinge", potential=0.03),
}
for name, model in models.items():
    model.fit(X, y)
    right = 100 * model.score(X_test, y_test)
    print(f"{name:>9}: {right:.1f} % of labels right, gap {model.gap_:.0e}")

# %%
# What does each model say of a sequence it has not seen? The same entropies, without cost, turn the
# scores of each model into label probabilities for each position.

one, path = X_test[17], y_test[17]
shown = {name: models[name].predict_proba([one])[0] for name in ("CRF", "SparseMAP")}
shown["M3N"] = np.eye(4)[models["M3N"].predict([one])[0]]  # the best path, all or nothing

fig, axes = plt.subplots(3, 1, figsize=(7, 4.6), sharex=True, layout="constrained")
for axis, (name, p) in zip(axes, shown.items(), strict=True):
    picture = axis.imshow(p.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.plot(path, "o", color="C1", markersize=6)
    zero = np.argwhere(p == 0)
    axis.plot(*zero.T, "x", color="0.6", markersize=5)
    axis.set(title=name, ylabel="label", yticks=range(4))
axes[-1].set(xlabel="position", xticks=range(12))
fig.colorbar(picture, ax=axes, label="probability")

# %%
# **How to read this.** Darker means more probable, an orange dot is the true label, and a grey
# cross marks a probability of exactly 0. The CRF gives every label at every position some
# probability. SparseMAP rules many of them out and hesitates between a few paths where the
# observations are unclear. The max-margin network answers with one path.

for name, p in shown.items():
    print(f"{name:>9}: {np.sum(p == 0):2d} of {p.size} label probabilities are exactly 0")
