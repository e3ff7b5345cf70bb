"""
A max-margin tagger beside a CRF
================================

A CRF fits probabilities of whole label sequences. A *max-margin Markov network* (M3N) asks for
less: the right sequence has to score higher than every other, by at least the number of labels in
which the other is wrong. Both are fitted here to the same tokens.
"""

# %%
# The tokens are made-up words. Each sentence is made of a determiner, adjectives, a noun and a
# verb. Some words belong to two classes, as "fish" does in English, so the neighbours decide.

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

rng = np.random.default_rng(0)
lexicon = {"DET": 4, "ADJ": 40, "NOUN": 80, "VERB": 60}
shared = {"ADJ": "NOUN", "NOUN": "VERB", "VERB": "NOUN"}


def word(tag):
    """A word of the class, which one in three times looks like one of another class."""
    other = shared.get(tag)
    number = rng.integers(lexicon[tag])
    if other and rng.random() < 0.35:
        return f"{min(tag, other)}/{max(tag, other)}{number % 12}"
    return f"{tag}{number}"


def sentence():
    """Tags, and for each token the names of its attributes."""
    tags = []
    for _ in range(2):
        tags += (
            ["DET"] * int(rng.random() < 0.7) + ["ADJ"] * int(rng.integers(3)) + ["NOUN", "VERB"]
        )
    words = [word(tag) for tag in tags]
    return [[f"w={w}", "bias"] for w in words], tags


X, y = zip(*(sentence() for _ in range(60)), strict=True)
X_test, y_test = zip(*(sentence() for _ in range(300)), strict=True)

# %%
# :class:`maxent.L2CRF` minimises the sum of losses plus :math:`c_2 \|w\|^2`.
# :class:`maxent.M3N` minimises :math:`\|w\|^2 / 2` plus C times the sum of slacks. With
# :math:`C = 1 / (2 c_2)` both penalties are the same, so we can compare them strength by strength.

strengths = [0.01, 0.1, 1.0, 10.0]
models = {
    "CRF": [mx.L2CRF(c2=s).fit(X, y) for s in strengths],
    "M3N": [mx.M3N(C=1 / (2 * s)).fit(X, y) for s in strengths],
}


def error(model):
    """Share of wrong tags in the test sentences."""
    return np.mean(np.concatenate(model.predict(X_test)) != np.concatenate(y_test))


def margins(model):
    """Score of the best sequence minus that of the second best, training sentences."""
    return [first[0] - second[0] for first, second in model.predict_kbest(X, 2)]


fig, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for (name, fits), color, marker in zip(models.items(), ["#0072B2", "#D55E00"], "os", strict=True):
    axes[0].semilogx(strengths, [error(m) for m in fits], color=color, marker=marker, label=name)
    axes[1].hist(margins(fits[1]), np.linspace(0, 6, 31), color=color, alpha=0.6, label=name)
axes[0].set(title="Test error", xlabel="strength c2 of the penalty", ylabel="share of wrong tags")
axes[0].legend()
axes[1].axvline(1, color="black", linestyle=":")
axes[1].set(title="Margins in training, c2 = 0.1", ylabel="sentences")
axes[1].set_xlabel("best sequence minus second best")
axes[1].legend()
fig.tight_layout()

# %%
# **How to read this.** Left: the max-margin network works over a wide range of strengths here. The
# CRF needs a weaker penalty. Right: the max-margin network stops pushing once a sentence has its
# margin, which is 1 (dotted) against a sequence with one wrong tag. The CRF always gains by
# pushing a little further.

for name, fits in models.items():
    print(f"{name}: test error {error(fits[1]):.3f}, gap {fits[1].gap_:.0e}")

# %%
# If you need the probability of a tag, take the CRF. If you only need the tags, try both.
