"""skglm: l1 logistic regression by proximal Newton with working sets."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np

NAME = "skglm"
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


def fit(X: np.ndarray, y: np.ndarray, beta: float, tol: float) -> np.ndarray:
    """Minimise mean log(1 + exp(-y Xw)) + beta ||w||_1, y in {-1, 1}."""
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(alpha=beta, tol=tol, fit_intercept=False)
    return model.fit(X, y).coef_.ravel()


def describe() -> str:
    return f"{NAME} {version('skglm')}"
