"""
The exact relaxation path, as an animation
==========================================

Between a prior and an observation lies a path of distributions. It is piecewise linear in a known
sense, so that all of it is computed at once, not on a grid.
"""

# %%
# The prior :math:`u` is how often the letters occur in one English text, the observation :math:`q`
# how often they occur in the first 300 letters of another. Both texts are descriptions of data sets
# that come with scikit-learn. For every :math:`\nu > 0` the path has the distribution that is
# closest to the prior while each letter stays within :math:`1/\nu` of its observed frequency:
#
# .. math::
#
#    \min_p\; \sum_j p_j \log \frac{p_j}{u_j}
#    \quad\text{with}\quad \sum_j p_j = 1,\quad |p_j - q_j| \le \frac1\nu .

from collections import Counter
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from sklearn.datasets import load_breast_cancer, load_wine

import maxent as mx


def letters(text):
    """The letters of a text, in lower case."""
    return [letter for letter in text.lower() if letter in ascii_lowercase]


def counts(sample):
    """How often each letter occurs."""
    found = Counter(sample)
    return np.array([found[letter] for letter in ascii_lowercase])


wine = letters(load_wine().DESCR)
prior = counts(letters(load_breast_cancer().DESCR)) + 1  # no letter is impossible
seen, held_out = counts(wine[:300]), counts(wine[300:])

path = mx.RelaxationPath(prior, seen).fit()
best = path.select(held_out)
print(f"{path.segments} segments, largest duality gap {path.gap_:.0e}")
print(f"best for {held_out.sum()} letters that follow: nu = {best:.1f}")

# %%
# The whole path. At :math:`\nu = 0` it starts from the prior. A letter moves with the prior, in
# proportion, until it meets the edge of its interval. Then the edge carries it to the observation.
# A knot is a value of :math:`\nu` where a letter meets or leaves an edge.

nu = np.geomspace(5, 1500, 400)
p = path.distribution_at(nu)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for letter in "eatrow":
    j = ascii_lowercase.index(letter)
    left.semilogx(nu, p[:, j])
    left.text(nu[-1] * 1.08, p[-1, j], letter, va="center")
left.plot(path.nu[1:], np.zeros(path.nu.size - 1), "|", color="black", markersize=8)
left.set(title="Probability of some letters", xlabel=r"$\nu$ (marks: knots)", ylabel="probability")
loss = -path.log_likelihood(held_out, nu) / held_out.sum()
right.semilogx(nu, loss)
right.axvline(best, color="black", linewidth=0.8, linestyle=":")
right.set(title="Loss on held-out text", xlabel=r"$\nu$", ylabel="nats per letter")

# %%
# **How to read this.** Left, each curve is the probability of one letter. It is bent at the knots,
# which the short marks show, and straight in :math:`1/\nu` between them. Right, the loss on text
# that was not used: it falls while the path learns from the observation, and rises where it follows
# it too closely. The line marks the best place.
#
# The animation steps along the path. Use the slider to go to any frame.

frames = np.geomspace(20, 1500, 16)
shown = np.argsort(-prior)[:12]  # the most frequent letters
place, q = np.arange(12), seen[shown] / seen.sum()
fig, axis = plt.subplots(figsize=(6.4, 3.2), dpi=80)
axis.plot(place, prior[shown] / prior.sum(), "_", color="black", markersize=16, label="prior")
bars = axis.bar(place, q, color="C0", alpha=0.6, label="path")
_, _, (intervals,) = axis.errorbar(place, q, yerr=0 * q, fmt="none", color="C1")
axis.plot(place, q, ".", color="C1", label="observed, and its interval")
axis.set(title=" ", ylabel="probability", ylim=(0, 0.18))
axis.set_xticks(place, [ascii_lowercase[j] for j in shown])
axis.legend(loc="upper right")
fig.tight_layout()


def draw(nu):
    """The bars and intervals of one frame."""
    for bar, height in zip(bars, path.distribution_at(nu, shown), strict=True):
        bar.set_height(height)
    intervals.set_segments([[(j, q[j] - 1 / nu), (j, q[j] + 1 / nu)] for j in place])
    axis.set_title(f"From the prior to the observation: nu = {nu:.0f}")


animation = FuncAnimation(fig, draw, frames=frames, interval=300)
page = animation.to_jshtml(default_mode="reflect")
print(f"{frames.size} frames, {len(page) / 1e6:.1f} MB")

# %%
# **How to read this.** Bars are the path, short lines the prior, dots the observation with its
# interval of :math:`\pm 1/\nu`. While :math:`\nu` grows, the intervals shrink, and every bar is as
# close to the prior as its interval allows.
