r"""
Sparse probabilities against softmax
====================================

Softmax gives every class some probability, however low its score. 1.5-entmax and sparsemax give
exactly zero to the classes that the scores rule out. All three belong to one family, so swapping
one for another takes a single argument.
"""

# %%
# Two classes
# -----------
#
# Each map is the gradient of the convex conjugate of an entropy :math:`\Omega`:
#
# .. math:: \hat p(\theta) = \nabla \Omega^*(\theta)
#    = \operatorname{argmax}_p \; \langle \theta, p \rangle - \Omega(p).
#
# :class:`maxent.Shannon` gives softmax. :class:`maxent.Tsallis` gives entmax: its index is 2 for
# sparsemax and 1.5 for the map halfway between. The method ``conjugate`` returns both
# :math:`\Omega^*(\theta)` and the probabilities.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

entropies = {"softmax": mx.Shannon(), "1.5-entmax": mx.Tsallis(1.5), "sparsemax": mx.Tsallis(2.0)}
difference = np.linspace(-3, 3, 301)
theta = np.column_stack([difference, np.zeros_like(difference)])

fig, axis = plt.subplots(figsize=(7, 3.2))
for (name, entropy), color in zip(
    entropies.items(), ["#0072B2", "#D55E00", "#009E73"], strict=True
):
    _, p = entropy.conjugate(theta)
    axis.plot(difference, p[:, 0], color=color, label=name)
axis.set_title("Probability of the first of two classes")
axis.set_xlabel("score of the first class minus score of the second")
axis.set_ylabel("probability")
axis.legend()
fig.tight_layout()

# %%
# **How to read this.** Where a curve touches 0 or 1, the map has decided. Sparsemax decides once
# the scores differ by 1, and 1.5-entmax once they differ by 2. Softmax never does. The difference
# needed is the *margin* of the loss that belongs to the map: beyond it, the training loss is zero.

for name, entropy in entropies.items():
    certain = difference[np.isclose(entropy.conjugate(theta)[1][:, 0], 1)]
    print(f"{name:>10}: certain from {certain[0]:.2f}" if certain.size else f"{name:>10}: never")

# %%
# Three classes
# -------------
#
# The probabilities of three classes are points of a triangle, the *simplex*. A corner is one
# class, an edge is two classes, and inside the triangle all three are possible. We draw random
# scores and look at where each map sends them.

rng = np.random.default_rng(0)
theta = rng.normal(scale=1.5, size=(600, 3))
corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])

fig, axes = plt.subplots(1, 3, figsize=(7, 3.2))
for axis, (name, entropy) in zip(axes, entropies.items(), strict=True):
    _, p = entropy.conjugate(theta)
    size = (p > 0).sum(axis=1)
    axis.fill(*corners.T, facecolor="0.96", edgecolor="0.5")
    for k, color in zip((3, 2, 1), ["#0072B2", "#E69F00", "#D55E00"], strict=True):
        points = p[size == k] @ corners
        axis.scatter(*points.T, s=14, color=color, alpha=0.5, label=f"{k}", clip_on=False)
    axis.set_title(name)
    axis.set_aspect("equal")
    axis.axis("off")
handles, labels = axis.get_legend_handles_labels()
fig.legend(handles, labels, title="classes with probability > 0", loc="lower center", ncols=3)
fig.tight_layout(rect=(0, 0.16, 1, 1))

# %%
# **How to read this.** Every dot is one row of scores, and all panels show the same rows. Softmax
# keeps every dot inside the triangle. Sparsemax moves most of them onto edges and corners, where
# one or two classes are ruled out. 1.5-entmax is in between.

for name, entropy in entropies.items():
    size = (entropy.conjugate(theta)[1] > 0).sum(axis=1)
    shares = ", ".join(f"{k}: {np.mean(size == k):.0%}" for k in (1, 2, 3))
    print(f"{name:>10}: rows by number of possible classes  {shares}")
