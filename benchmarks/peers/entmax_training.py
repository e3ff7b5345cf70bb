"""Sparse classifiers the way of fenchel-young-losses: L-BFGS of scipy around entmax's maps."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np

NAME = "L-BFGS around entmax"
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)


def fit(
    X: np.ndarray, y: np.ndarray, alpha: float, strength: float, tol: float, threads: int
) -> np.ndarray:
    """Minimise mean L(x'W; y) + strength/2 ||W||^2; W (features, classes), L of the entmax family.

    ``tol`` is the largest entry of the gradient.
    """
    from entmax import entmax15, sparsemax
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    import torch

    maps = {1.5: entmax15, 2.0: sparsemax}
    rows, classes = np.arange(len(y)), int(y.max()) + 1

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        W = w.reshape(X.shape[1], classes)
        theta = X @ W
        with torch.no_grad():
            p = maps[alpha](torch.from_numpy(theta), dim=-1).numpy()
        entropy = (p - p**alpha).sum(axis=1) / (alpha * (alpha - 1))
        loss = np.einsum("ij,ij->i", theta, p) + entropy - theta[rows, y]
        p[rows, y] -= 1
        gradient = X.T @ p / len(y) + strength * W
        return float(loss.mean()) + strength / 2 * float(w @ w), gradient.ravel()

    start = np.zeros(X.shape[1] * classes)
    options = {"maxiter": 5000, "gtol": tol, "ftol": 0.0, "maxcor": 10}
    with threadpool_limits(threads):
        return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def describe() -> str:
    return f"entmax {version('entmax')}, scipy {version('scipy')}"
