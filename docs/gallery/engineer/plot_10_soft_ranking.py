r"""
Soft ranks that can be trained through
======================================

Sorting and ranking have no useful derivative: ranks jump when two scores swap and are flat
elsewhere. :func:`maxent.soft_rank` replaces a rank by the nearest point of the *permutahedron*,
the convex hull of all rankings. It changes smoothly when scores come close, and is exact when they
are far apart.
"""

# %%
# Soft ranks against their strength
# ---------------------------------
#
# Five scores, ranked with more and more regularization. A strength of 0 gives the usual ranks.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

import maxent as mx
import maxent.torch.structured as ms
import torch

scores = np.array([0.1, 0.9, 1.2, 3.0, 3.4])
strengths = np.geomspace(0.05, 10, 200)
ranks = np.array([mx.soft_rank(scores, strength=s) for s in strengths])
print("hard ranks:", mx.soft_rank(scores, strength=0))
print("strength 1:", mx.soft_rank(scores, strength=1.0).round(2))

fig, axis = plt.subplots(figsize=(7, 3.2))
for line, score in zip(ranks.T, scores, strict=True):
    axis.semilogx(strengths, line, color=plt.cm.viridis(score / 4), label=f"score {score}")
axis.set(title="Soft ranks of five scores", xlabel="strength", ylabel="rank", yticks=range(1, 6))
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True)
fig.tight_layout()

# %%
# **How to read this.** On the left the ranks are 1 to 5. From left to right, scores that are close
# start to share their places first: the scores 0.9 and 1.2 do so from a strength of 0.3 on, which
# is their difference. On the far right all ranks tend to the mean, 3.

# %%
# Training on ranks
# -----------------
#
# Soft ranks have gradients, so a model can be trained for the ranking itself. Here the target is a
# noisy linear score, stretched by an exponential: a few targets are huge. Least squares chases
# those. The second model maximises the correlation of ranks (Spearman's), which no stretching can
# change.

generator = np.random.default_rng(0)
X = generator.normal(size=(300, 8))
y = np.exp(1.5 * (X @ generator.normal(size=8) + 0.5 * generator.normal(size=300)))
train, test = slice(0, 100), slice(100, 300)

torch.set_num_threads(1)
features, target = torch.tensor(X[train]), torch.tensor(y[train])


def centred(x):
    """Less its mean, and of norm 1."""
    x = x - x.mean()
    return x / x.norm()


weights = torch.zeros(8, dtype=torch.float64).normal_(generator=torch.manual_seed(0))
weights.requires_grad_()
optimizer = torch.optim.Adam([weights], lr=0.1)
true_ranks = centred(ms.soft_rank(target, strength=0))
history = []
for _ in range(60):
    correlation = centred(ms.soft_rank(features @ weights)) @ true_ranks
    optimizer.zero_grad()
    (-correlation).backward()
    optimizer.step()
    history.append(spearmanr(X[test] @ weights.detach().numpy(), y[test]).statistic)

plain, *_ = np.linalg.lstsq(X[train], y[train] - y[train].mean(), rcond=None)
squares = spearmanr(X[test] @ plain, y[test]).statistic

fig, axis = plt.subplots(figsize=(7, 3.2))
axis.plot(history, color="#D55E00", label="trained on soft ranks")
axis.axhline(squares, color="#0072B2", linestyle="--", label="least squares")
axis.set(title="How well new cases are ordered", xlabel="step", ylabel="Spearman correlation")
axis.legend()
fig.tight_layout()

# %%
# **How to read this.** 1 means that all test cases are in the right order, 0 means no relation.
# Training on ranks ends well above least squares.

print(f"least squares: {squares:.3f}, soft ranks: {history[-1]:.3f}")
