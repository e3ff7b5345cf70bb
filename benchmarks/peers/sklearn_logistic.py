"""scikit-learn's multinomial logistic regression, by each of its solvers that applies."""

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np

NAME = "scikit-learn"
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "saga")
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def fit(
    X: np.ndarray, y: np.ndarray, solver: str, strength: float, tol: float, threads: int
) -> np.ndarray:
    """Minimise the mean loss + strength/2 ||W||^2, without intercept; W (features, classes)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    model = LogisticRegression(
        C=1 / (strength * len(y)), solver=solver, tol=tol, max_iter=300, fit_intercept=False
    )
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the benchmark judges the answer
        return np.ascontiguousarray(model.fit(X, y).coef_.T).ravel()


def describe() -> str:
    return f"{NAME} {version('scikit-learn')}"
