"""
Posterior shrinkage of the Laplace network
==========================================

A max-margin network with a normal prior on its weights shrinks all of them alike. With a Laplace
prior, small weights shrink much more than large ones.
"""

# %%
# Maximum-entropy discrimination learns a distribution of the weights: as close to a prior as the
# margins of the training data allow. The normal prior gives the max-margin Markov network,
# :class:`maxent.M3N`. The Laplace prior gives :class:`maxent.LaplaceMEDN`. Predictions use the
# posterior mean. In both, the data push each weight with a force :math:`\eta`; the prior decides
# how far the mean moves. It is :math:`\eta` under the normal prior and :math:`2 \eta / (\lambda -
# \eta^2)` under the Laplace prior.
#
# Sequences of eight binary labels depend on 5 of 40 features.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
truth = np.r_[1.5, -1.2, 1.0, -0.8, 0.6, np.zeros(35)]


def draw(n):
    """Sequences of observations, and labels that some of them decide."""
    X = rng.normal(size=(n, 8, 40))
    return list(X), list((X @ truth + rng.normal(size=(n, 8)) > 0).astype(int))


X, y = draw(50)
X_test, y_test = draw(500)
models = {"M3N": mx.M3N(C=0.1), "Laplace": mx.LaplaceMEDN(C=10.0, lam=40_000.0)}
for name, model in models.items():
    model.fit(X, y)
    weight = np.abs(model.coef_).sum(axis=0)
    useless = 100 * weight[5:].sum() / weight.sum()
    right = 100 * model.score(X_test, y_test)
    print(f"{name:>7}: {right:.1f} % right, {useless:.0f} % of the weight on useless features")

# %%
# Left, the two laws of shrinkage. Right, every weight in one fit against the same weight in the
# other:

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
eta = np.linspace(-3, 3, 201)
left.plot(eta, eta, "--", color="C1", label="normal")
for lam, style in ((4.0, ":"), (12.0, "-")):
    inside = eta[eta**2 < 0.97 * lam]
    mean = mx.LaplaceMEDN(lam=lam).shrinkage(inside)
    left.plot(inside, mean, style, color="C0", label=rf"Laplace, $\lambda$ = {lam:g}")
left.set(title="Posterior mean of a weight", xlabel=r"force of the data, $\eta$", ylabel="mean")
left.set(ylim=(-4, 4))
left.legend(fontsize="small")

normal, laplace = (model.coef_[1] for model in models.values())
right.axline((0, 0), slope=1, color="C1", linestyle="--", linewidth=0.8)
right.plot(normal[5:], laplace[5:], ".", color="0.5", label="useless")
right.plot(normal[:5], laplace[:5], "o", color="C0", label="useful")
right.set(title="Weights of 40 features", xlabel="M3N", ylabel="Laplace network")
right.legend()

# %%
# **How to read this.** Left, a weak force moves the mean much less under a Laplace prior than under
# a normal one, and the more so the larger :math:`\lambda` is. A strong force meets little
# resistance. Right, the same in a fit: grey weights, of the features that do not matter, are
# pressed towards 0, while the five useful ones keep about half of their size or more.
