"""scikit-learn's partial fits, one block after another.

``SGDClassifier`` has no multinomial loss: its classes are separate logistic regressions, each with
its penalty, which is one-vs-all. ``MLPClassifier`` without hidden layers is multinomial: softmax
of W x + b by Adam, with the penalty alpha/2 ||W||^2 over the size of a batch.

The first has the best learning rate of seven that were tried on 40,000 of the benchmark's rows
(schedules of its own, constants, with averages and without); the second has two rates, a fast one
whose noise ends its progress early, and scikit-learn's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ONE_VS_ALL = "scikit-learn SGDClassifier.partial_fit"
SOFTMAX = "scikit-learn MLPClassifier.partial_fit, no hidden layer"
BATCH, RATES = 200, (1e-2, 1e-3)


def one_vs_all(strength: float) -> Any:
    """Not fitted yet."""
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(
        loss="log_loss", alpha=strength, learning_rate="constant", eta0=1e-3, random_state=0
    )


def softmax(strength: float, rate: float) -> Any:
    """Not fitted yet."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (), alpha=strength * BATCH, batch_size=BATCH, learning_rate_init=rate, random_state=0
    )


def learn(model: Any, X: np.ndarray, y: np.ndarray, classes: int) -> Any:
    """One pass over a block, by a copy of the model: a task may run again."""
    from copy import deepcopy

    return deepcopy(model).partial_fit(X, y, classes=np.arange(classes))


def weights(model: Any) -> np.ndarray:
    """[W; b], (columns + 1, classes)."""
    if hasattr(model, "coefs_"):
        return np.vstack([model.coefs_[0], model.intercepts_[0]]).astype(np.float64)
    return np.vstack([model.coef_.T, model.intercept_]).astype(np.float64)
