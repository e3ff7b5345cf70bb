"""scipy: unbalanced transport under absolute penalties as a linear programme, by HiGHS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, sparse

NAME = "scipy linprog (HiGHS)"


def unbalanced(
    a: np.ndarray, b: np.ndarray, cost: np.ndarray, penalty: float
) -> dict[str, Callable[[], np.ndarray]]:
    """Entries, then what each sum has too much and too little."""
    m, n = cost.shape
    sums = sparse.vstack(
        [sparse.kron(sparse.eye(m), np.ones(n)), sparse.kron(np.ones(m), sparse.eye(n))]
    )
    off = sparse.eye(m + n)
    equations = sparse.hstack([sums, -off, off], format="csc")
    prices = np.concatenate([cost.ravel(), np.full(2 * (m + n), penalty)])
    masses = np.concatenate([a, b])

    def plan() -> np.ndarray:
        found = optimize.linprog(prices, A_eq=equations, b_eq=masses, method="highs")
        return np.asarray(found.x[: m * n]).reshape(m, n)

    return {NAME: plan}
