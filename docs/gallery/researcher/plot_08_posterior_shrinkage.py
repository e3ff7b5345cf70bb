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
models = {"M3N": mx.M3N(C=0.1), "Laplace": mx.LaplaceMEDN(C=0.1, lam=40.0)}
for name, model in models.items():
    model.fit(X, y)
    print(
        f"{name:>7}: {100 * model.score(X_test, y_test):.1f} % of labels right, gap {model.gap_:.0e}"
    )

# %%
# Left, the two laws of shrinkage. Right, the weights of all features in the two fits:

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
eta = np.linspace(-3, 3, 201)
left.plot(eta, eta, "--", color="C1", label="normal prior")
for lam, style in ((4.0, ":"), (12.0, "-")):
    inside = eta[eta**2 < 0.97 * lam]
    left.plot(
        inside,
        mx.LaplaceMEDN(lam=lam).shrinkage(inside),
        style,
        color="C0",
        label=f"Laplace, {lam:g}",
    )
left.set(title="Posterior mean of a weight", xlabel=r"force of the data, $\eta$", ylabel="mean")
left.set(ylim=(-4, 4))
left.legend(fontsize="small")
weights = {name: model.coef_[-1] - model.coef_[0] for name, model in models.items()}
for name, marker, colour in (("M3N", "o", "C1"), ("Laplace", "x", "C0")):
    right.plot(
        np.arange(40), weights[name] / np.abs(weights[name]).max(), marker, color=colour, label=name
    )
right.axvline(4.5, color="black", linewidth=0.8, linestyle=":")
right.set(title="Weights, largest = 1", xlabel="feature", ylabel="weight")
right.legend()
