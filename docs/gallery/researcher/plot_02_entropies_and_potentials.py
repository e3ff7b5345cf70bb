"""
Six entropies, six potentials, the same data
============================================

The entropy decides what a fitted distribution looks like where the data say nothing. The potential
decides how much the data may say. The two are chosen independently of each other.
"""

# %%
# The data are 100 draws from a mixture on a line of 40 cells. The features are nine smooth bumps.
# Each of the 36 models is one :class:`maxent.Problem`. ``Relative`` measures an entropy against a
# default distribution, here the uniform one, which puts all six on a comparable scale.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(1)
x = np.linspace(-1, 1, 40)
truth = 0.6 * np.exp(-(((x + 0.5) / 0.15) ** 2)) + 0.4 * np.exp(-(((x - 0.35) / 0.25) ** 2))
observed = rng.multinomial(100, truth / truth.sum()) / 100
features = np.exp(-0.5 * ((x[:, None] - np.linspace(-1, 1, 9)) / 0.2) ** 2)
uniform = np.full(40, 1 / 40)

entropies = {
    "Shannon": mx.Shannon(),
    "Renyi(0.5)": mx.Renyi(0.5),
    "Tsallis(1.5)": mx.Tsallis(1.5),
    "Tsallis(2)": mx.Tsallis(2.0),
    "Tsallis(3)": mx.Tsallis(3.0),
    "NormEntropy(2)": mx.NormEntropy(2.0),
}
potentials = {
    "Box(0.03)": mx.Box(0.03),
    "Ball(0.1)": mx.Ball(0.1),
    "Quadratic(0.02)": mx.Quadratic(0.02),
    "ElasticNet(0.03, 0.1)": mx.ElasticNet(0.03, 0.1),
    "SmoothBox(0.03, 0.1)": mx.SmoothBox(0.03, 0.1),
    "LaplacePrior(0.1)": mx.LaplacePrior(0.1),
}

# %%
# Thirty-six fits, each to a duality gap of one millionth:

fig, axes = plt.subplots(6, 6, figsize=(9, 8), sharex=True, sharey=True, layout="constrained")
gaps, zeros = [], {}
for row, (name, entropy) in zip(axes, entropies.items(), strict=True):
    for axis, potential in zip(row, potentials.values(), strict=True):
        problem = mx.Problem(mx.Relative(entropy, uniform), features, potential, observed=observed)
        solution = problem.solve(tol=1e-6)
        gaps.append(solution.gap)
        zeros.setdefault(name, []).append(int(np.sum(solution.p == 0)))
        axis.fill_between(x, observed, step="mid", color="0.85")
        axis.plot(x, solution.p, color="C0")
        axis.plot(x[solution.p == 0], 0 * x[solution.p == 0], ".", color="C1", markersize=3)
        axis.set(xticks=[], yticks=[], ylim=(-0.006, 0.13))
    row[0].set_ylabel(name)
for axis, name in zip(axes[0], potentials, strict=True):
    axis.set_title(name, fontsize="small")

print(f"largest gap of the 36 fits: {max(gaps):.1e}")
for name, counts in zeros.items():
    print(f"{name:>14}: cells with probability exactly 0: {counts}")

# %%
# **How to read this.** Rows are entropies, columns potentials. Grey bars are the 100 draws, the
# line is the fitted distribution, and an orange dot marks a cell whose probability is exactly 0.
#
# Down a column the peaks become rounder and the tails shorter. Shannon and Rényi keep every cell
# possible. The Tsallis entropies cut the tails off, the earlier the larger the index. Along a row
# the potential says how closely the draws are followed. ``Box`` and its smooth version tolerate the
# same error in every mean and nearly agree. The elastic net is the strictest of these six and gives
# the flattest fits.
