"""
Fenchel-Young losses and their margins
======================================

An entropy defines a loss. The shape of the entropy at the corners decides whether the loss has a
margin: a lead in score from which it is exactly 0.
"""

# %%
# The loss of an entropy :math:`\Omega` at scores :math:`\theta` and truth :math:`y` is
#
# .. math::
#
#    L_\Omega(\theta; y) = \Omega^*(\theta) + \Omega(y) - \langle \theta, y \rangle \ge 0 .
#
# With two classes only the lead :math:`s` of the right class counts, :math:`\theta = (s, 0)`. Each
# entropy gives a well-known loss.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

entropies = {
    "logistic (Shannon)": mx.Shannon(),
    "1.5-entmax (Tsallis)": mx.Tsallis(1.5),
    "sparsemax (Gini)": mx.Tsallis(2.0),
    "norm entropy, q = 2": mx.NormEntropy(2.0),
    "hinge": mx.Shifted(mx.Zero(), [0.0, 1.0]),
    "perceptron": mx.Zero(),
}
lead = np.linspace(-2.5, 3.5, 601)
theta = np.column_stack([lead, 0 * lead])
labels = np.zeros(lead.size, dtype=int)  # class 0
losses = {
    name: mx.FenchelYoungLoss(entropy).value(theta, labels) for name, entropy in entropies.items()
}

for name, entropy in entropies.items():
    zero = lead[losses[name] < 1e-12]
    found = f"0 from a lead of {zero[0]:.2f}" if zero.size else "never 0"
    print(f"{name:>20}: {found:21} (stated margin: {entropy.margin})")

# %%
# The entropies, turned round so that larger means more uncertain, and the losses they give:

share = np.linspace(0, 1, 201)
p = np.column_stack([share, 1 - share])
styles = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
for (name, entropy), style in zip(entropies.items(), styles, strict=True):
    left.plot(share, -entropy.value(p), linestyle=style)
    right.plot(lead, losses[name], linestyle=style, label=name)
left.set(title="Entropy", xlabel="probability of the first class", ylabel=r"$-\Omega(p)$")
right.set(title="Loss", xlabel="lead of the right class", ylabel="loss", ylim=(-0.1, 3))
right.legend(fontsize="small")

# %%
# **How to read this.** Left, the steeper an entropy meets the corner at probability 1, the larger
# the margin of its loss. The Shannon entropy is vertical there. Its loss, the logistic one, is
# never 0, and its probabilities never reach 0 or 1. The Tsallis and norm entropies have a finite
# slope. Their losses end at a lead equal to that slope: 2 for 1.5-entmax, 1 for sparsemax. The
# perceptron has no entropy at all and no margin. The hinge adds the cost of a wrong answer, a
# straight line, and gets a margin of 1 from it, without the smoothness of the others.
