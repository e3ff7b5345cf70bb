"""
Choosing alpha by a grid search
===============================

The estimators follow scikit-learn's rules, so they work in pipelines and searches. Here
``GridSearchCV`` chooses how sparse the probabilities are (``alpha``) and how strong the penalty is
(``potential``).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxent as mx

X, y = load_wine(return_X_y=True)
model = make_pipeline(StandardScaler(), mx.FenchelYoungClassifier())
alphas, strengths = [1, 1.25, 1.5, 2], [1e-3, 1e-2, 1e-1, 1.0]


def brier(estimator, X, y):
    """Minus the squared error of the probabilities: higher is better, and zeros do no harm."""
    return -np.mean(np.sum((estimator.predict_proba(X) - np.eye(3)[y]) ** 2, axis=1))


# %%
# The log-likelihood is minus infinity wherever a sparse model gives the true class zero, so we compare
# models by the Brier score instead.

search = GridSearchCV(
    model,
    {"fenchelyoungclassifier__alpha": alphas, "fenchelyoungclassifier__potential": strengths},
    scoring=brier,
    cv=5,
).fit(X, y)
print("best:", {key.split("__")[1]: value for key, value in search.best_params_.items()})

scores = -search.cv_results_["mean_test_score"].reshape(len(alphas), len(strengths))
fig, axis = plt.subplots(figsize=(7, 3.2))
image = axis.imshow(scores, cmap="cividis_r", aspect="auto")
for (i, j), value in np.ndenumerate(scores):
    dark = value > (scores.min() + scores.max()) / 2
    axis.text(j, i, f"{value:.3f}", ha="center", va="center", color="w" if dark else "k")
axis.set(title="Brier score by cross-validation", xlabel="strength", ylabel="alpha")
axis.set_xticks(range(len(strengths)), strengths)
axis.set_yticks(range(len(alphas)), alphas)
fig.colorbar(image, label="lower is better")
fig.tight_layout()

# %%
# **How to read this.** Each cell is one pair of settings; bright cells have the smaller error. todo

p = search.predict_proba(X)
print(f"classes per wine: {(p > 0).sum(axis=1).mean():.2f}, gap {search.best_estimator_[-1].gap_:.0e}")

# %%
# :class:`maxent.FenchelYoungClassifierCV` does the same in one line, with scores of its own.
