"""A new estimator: a classifier with any entropy and any potential, saved like a model."""

# ruff: noqa: D102 - the base class documents the methods

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxent import FenchelYoungLoss, Problem, Quadratic, SampleMap, Tsallis, io


@io.register
class LinearClassifier(ClassifierMixin, BaseEstimator):
    """mean Fenchel-Young loss + V*(w), without intercept."""

    def __init__(self, entropy=None, potential=None):
        self.entropy = entropy
        self.potential = potential

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        self.entropy_ = Tsallis(1.5) if self.entropy is None else self.entropy
        potential = Quadratic(1e-2) if self.potential is None else self.potential
        count = len(self.classes_)
        observed = np.eye(count)[index]
        solution = Problem(self.entropy_, SampleMap(X, count), potential, observed=observed).solve()
        self.coef_, self.gap_ = solution.w.reshape(-1, count), solution.gap
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return FenchelYoungLoss(self.entropy_).predict(X @ self.coef_)

    def predict(self, X):
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __getmodel__(self):
        return vars(self)

    def __setmodel__(self, state):
        vars(self).update(state)


if __name__ == "__main__":
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(LinearClassifier(), on_skip=None)
