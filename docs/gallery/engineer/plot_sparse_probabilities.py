"""
Sparse probabilities against softmax
====================================

Softmax gives every class some probability. Sparsemax and 1.5-entmax give exactly zero to the classes
that the scores rule out.
"""

# %%
# One family of maps: each is the gradient of the conjugate of an entropy,
# :math:`\hat p(\theta) = \nabla \Omega^*(\theta)`.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

scores = np.linspace(-3, 3, 301)
theta = np.column_stack([scores, np.zeros_like(scores)])
entropies = {"softmax": mx.Shannon(), "1.5-entmax": mx.Tsallis(1.5), "sparsemax": mx.Tsallis(2.0)}

fig, axis = plt.subplots()
for name, entropy in entropies.items():
    _, p = entropy.conjugate(theta)
    axis.plot(scores, p[:, 0], label=name)
axis.set(xlabel="score of the first class over the second", ylabel="its probability")
axis.legend()
fig.tight_layout()

# %%
# **How to read this.** Where a curve touches 0 or 1 the map has decided: sparsemax does so when the
# scores are 1 apart, 1.5-entmax when they are 2 apart, softmax never.
#
# The gap that a score needs is the *margin* of the loss that goes with the map:

for name, entropy in entropies.items():
    certain = scores[np.isclose(entropy.conjugate(theta)[1][:, 0], 1)]
    print(f"{name:>10}: certain from {certain[0]:.2f}" if certain.size else f"{name:>10}: never")
