"""
A sparse classifier in place of logistic regression
===================================================

:class:`maxent.FenchelYoungClassifier` is used like scikit-learn's ``LogisticRegression``. With
``alpha`` above 1 it names the few classes that are still possible, and gives the others exactly
zero.
"""

# %%
# We fit handwritten digits three times. ``alpha=1`` is logistic regression, 1.5 and 2 are sparser.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import maxent as mx

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

models = {}
for alpha in (1, 1.5, 2):
    classifier = mx.FenchelYoungClassifier(alpha=alpha, potential=1e-3)
    models[alpha] = make_pipeline(MinMaxScaler(), classifier).fit(X, y)

for alpha, model in models.items():
    p = model.predict_proba(X_test)
    brier = np.mean(np.sum((p - np.eye(10)[y_test]) ** 2, axis=1))
    print(
        f"alpha {alpha}: accuracy {model.score(X_test, y_test):.3f}, Brier score {brier:.3f}, "
        f"true digit still possible {np.mean(p[np.arange(len(p)), y_test] > 0):.3f}, "
        f"gap {model[-1].gap_:.0e}"
    )

# %%
# The Brier score is the squared error of the probabilities; lower is better. The ``gap_`` is a
# certificate: the training objective is at most that far above its minimum.

fig, axis = plt.subplots(figsize=(7, 3.2))
for shift, color, (alpha, model) in zip(
    (-0.27, 0, 0.27), ["#0072B2", "#E69F00", "#D55E00"], models.items(), strict=True
):
    size = (model.predict_proba(X_test) > 0).sum(axis=1)
    counts = np.bincount(size, minlength=11)[1:] / len(size)
    axis.bar(np.arange(1, 11) + shift, counts, 0.27, color=color, label=f"alpha = {alpha}")
axis.set_title("How many digits are possible for an image")
axis.set_xlabel("digits with probability above 0")
axis.set_ylabel("share of test images")
axis.set_xticks(range(1, 11))
axis.legend()
fig.tight_layout()

# %%
# **How to read this.** Logistic regression leaves all ten digits possible for every image. With
# alpha = 2 most images have a single candidate.
#
# A short list of candidates is easy to act on: an image with one candidate can be accepted, one
# with several can be sent to a person.

p = models[2].predict_proba(X_test)
hardest = np.argsort(-(p > 0).sum(axis=1), kind="stable")[:6]
fig, axes = plt.subplots(1, 6, figsize=(7, 2.4))
for axis, i in zip(axes, hardest, strict=True):
    axis.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    order = [k for k in np.argsort(-p[i]) if p[i, k] > 0]
    axis.set_xlabel("\n".join(f"{k}: {p[i, k]:.2f}" for k in order))
    axis.set_title(f"true: {y_test[i]}")
    axis.set(xticks=[], yticks=[])
fig.suptitle("The test images with the most candidates, alpha = 2")
fig.tight_layout()

# %%
# **How to read this.** Below each image are all digits that the model considers possible, with
# their probabilities. The probabilities shown sum to 1: nothing is hidden in a long tail.

single = (p > 0).sum(axis=1) == 1
right = models[2].predict(X_test) == y_test
print(f"one candidate:    {single.mean():.0%} of images, accuracy {right[single].mean():.3f}")
print(f"several:          {1 - single.mean():.0%} of images, accuracy {right[~single].mean():.3f}")
