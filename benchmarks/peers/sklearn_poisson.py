"""scikit-learn's Poisson regression, by each of its solvers."""

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np

NAME = "scikit-learn"
SOLVERS = ("newton-cholesky", "lbfgs")
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)


def fit(
    X: np.ndarray, y: np.ndarray, area: np.ndarray, solver: str, strength: float, tol: float
) -> np.ndarray:
    """Minimise the mean of `a e^theta - y theta` + strength/2 ||w||^2; w, then the intercept."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import PoissonRegressor
    from threadpoolctl import threadpool_limits

    # its loss is a mean weighted by areas, of rates
    model = PoissonRegressor(
        alpha=strength * len(y) / area.sum(), solver=solver, tol=tol, max_iter=1000
    )
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the benchmark judges the answer
        model.fit(X, y / area, sample_weight=area)
    return np.append(model.coef_, model.intercept_)


def describe() -> str:
    return f"{NAME} {version('scikit-learn')}"
