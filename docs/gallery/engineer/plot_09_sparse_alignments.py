"""
Aligning two time series with SparseMAP
=======================================

*Dynamic time warping* finds the one best alignment of two sequences. It jumps when the data change
a little. A CRF averages over all alignments and blurs. *SparseMAP* is in between: a mixture of the
few alignments that compete. One domain, :class:`maxent.Alignment`, has all three.
"""

# %%
# The second series is a noisy copy of the first that starts more slowly. The score of a pair of
# elements is minus their squared difference.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
n, m = 24, 30


def signal(t):
    """Two bumps."""
    return np.exp(-(((t - 0.3) / 0.1) ** 2)) + 0.7 * np.exp(-(((t - 0.7) / 0.1) ** 2))


first = signal(np.linspace(0, 1, n)) + 0.05 * rng.normal(size=n)
second = signal(np.linspace(0, 1, m) ** 1.4) + 0.05 * rng.normal(size=m)
scores = -((first[:, None] - second) ** 2)

# %%
# A row of scores is the flattened matrix. Dividing it by a temperature says how much the
# alternatives count: with a low one all three answers are nearly the best path.

temperature = 0.05
alignment = mx.Alignment(n, m)
theta = scores.ravel() / temperature
best = alignment.argmax(theta)
mixture, (support,) = alignment.project_support(theta[None])
_, marginals = alignment.softmax(theta)
panels = {"best path (DTW)": best, "SparseMAP": mixture[0], "CRF marginals": marginals}

fig, axes = plt.subplots(1, 3, figsize=(7, 3.0), sharey=True)
for axis, (name, p) in zip(axes, panels.items(), strict=True):
    p = p.reshape(n, m)
    axis.imshow(np.where(p > 0, p, np.nan), cmap="Blues", vmin=-0.15, vmax=1, origin="lower")
    axis.set(title=name, xlabel="second series")
axes[0].set_ylabel("first series")
fig.tight_layout()

# %%
# **How to read this.** A blue cell says that two elements may be aligned; the darker, the more
# certain. White cells are exactly zero. SparseMAP is most certain on the slopes, and branches
# where the series are flat. The marginals of the CRF give every cell some probability.

for name, p in panels.items():
    print(f"{name:>15}: {np.mean(p > 0):4.0%} of the pairs have a probability above 0")
log_count, _ = alignment.softmax(np.zeros(n * m))
print(f"SparseMAP mixes {len(support.weights)} of the {np.exp(log_count):.0e} possible paths")

# %%
# The same mixture, drawn as links between the series:

fig, axis = plt.subplots(figsize=(7, 3.2))
x, z = np.linspace(0, 1, n), np.linspace(0, 1, m)
p = mixture[0].reshape(n, m)
for i, j in np.argwhere(p > 0):
    axis.plot([x[i], z[j]], [first[i] + 1.5, second[j]], color="0.4", alpha=p[i, j], linewidth=1)
axis.plot(x, first + 1.5, "o-", color="#0072B2", markersize=4, label="first (moved up)")
axis.plot(z, second, "o-", color="#D55E00", markersize=4, label="second")
axis.set(title="Links of the SparseMAP alignment", xlabel="time", ylabel="value", ylim=(-0.2, 3.2))
axis.legend(loc="upper right")
fig.tight_layout()

# %%
# **How to read this.** A dark link is a certain pair, a faint one is one of several possibilities.
# The bumps are linked to each other although they happen at different times.
#
# To train a network through this layer, use ``sparsemap`` of ``maxent.torch.structured``: it has
# the same values, and derivatives.
