"""
Choosing alpha by a grid search
===============================

The estimators follow scikit-learn's rules, so they work in pipelines and searches. Here
``GridSearchCV`` chooses how sparse the probabilities are (``alpha``) and how strong the penalty is
(``potential``).
"""

# %%
# The log-likelihood is minus infinity wherever a sparse model gives zero to the true class. So we
# compare models by the Brier score, the squared error of the probabilities.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxent as mx

X, y = load_iris(return_X_y=True)
alphas, strengths = [1, 1.5, 2], [1e-4, 1e-3, 1e-2, 1e-1]


def brier(estimator, X, y):
    """Minus the Brier score, since searches maximise."""
    return -np.mean(np.sum((estimator.predict_proba(X) - np.eye(3)[y]) ** 2, axis=1))


# %%
# Several settings are often as good as each other. ``refit`` takes a function that picks one: of
# the settings within one standard error of the best, we want the sparsest.


def sparsest(results):
    """Number of the setting with the largest alpha within one standard error of the best."""
    mean, error = results["mean_test_score"], results["std_test_score"] / np.sqrt(5)
    good = np.flatnonzero(mean >= (mean - error)[mean.argmax()])
    alpha = results["param_fenchelyoungclassifier__alpha"][good]
    return good[np.lexsort([mean[good], alpha.astype(float)])[-1]]


search = GridSearchCV(
    make_pipeline(StandardScaler(), mx.FenchelYoungClassifier()),
    {"fenchelyoungclassifier__alpha": alphas, "fenchelyoungclassifier__potential": strengths},
    scoring=brier,
    refit=sparsest,
    cv=5,
).fit(X, y)
chosen = search.best_estimator_[-1]
print(f"chosen: alpha {chosen.alpha}, strength {chosen.potential}, gap {chosen.gap_:.0e}")

scores = -search.cv_results_["mean_test_score"].reshape(len(alphas), len(strengths))
fig, axis = plt.subplots(figsize=(7, 3.2))
image = axis.imshow(scores, cmap="cividis_r", aspect="auto")
for (i, j), value in np.ndenumerate(scores):
    color = "white" if value > scores.mean() else "black"
    mark = "\nchosen" if i * len(strengths) + j == search.best_index_ else ""
    axis.text(j, i, f"{value:.3f}{mark}", ha="center", va="center", color=color)
axis.set(title="Brier score by cross-validation", xlabel="strength", ylabel="alpha")
axis.set_xticks(range(len(strengths)), strengths)
axis.set_yticks(range(len(alphas)), alphas)
fig.colorbar(image, label="lower is better")
fig.tight_layout()

# %%
# **How to read this.** Each cell is one pair of settings, and bright cells have the smaller error.
# The strength matters more than alpha here: in the two columns on the left, all rows are about
# equally good. So sparse probabilities cost next to nothing.

p = search.predict_proba(X)
print(f"flowers with a single possible class: {np.mean((p > 0).sum(axis=1) == 1):.0%}")
print(f"accuracy on the data of the fit: {np.mean(search.predict(X) == y):.3f}")

# %%
# :class:`maxent.FenchelYoungClassifierCV` is a search over alpha and strength that is ready to
# use.
