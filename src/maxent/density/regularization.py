"""How much each feature of a density is regularized: the tables of maxent.jar and of maxnet.

Both programs use beta_j = table(class, m) * sd_j / sqrt(m) with floors (density paper §5.1, §8;
Phillips and Dudik 2008 tuned the tables); they differ in the floors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxent.features import OperatorMap
from maxent.rows.arrays import Array

_FLOOR = 0.001
_EXACT = 1e-9  # means are sums in floating point
_LQP = {  # the richest class in use decides for linear, square and product features alike
    "p": ((0, 10, 17, 30, 100), (2.6, 1.6, 0.9, 0.55, 0.05)),
    "q": ((0, 10, 17, 30, 100), (1.3, 0.8, 0.5, 0.25, 0.05)),
    "l": ((10, 30, 100), (1.0, 0.2, 0.05)),
}
_OTHERS = {
    "t": ((0, 100), (2.0, 1.0)),
    "h": ((0,), (0.5,)),
    "c": ((0, 10, 17), (0.65, 0.5, 0.25)),
}

Rule = Callable[[Array, Array, Array, float], tuple[Array, Array]]


def class_beta(kinds: Array, m: float) -> Array:
    """The table's value for each feature's class at m presences, linear between its entries."""
    richest = next(letter for letter in "pql" if letter == "l" or (kinds == letter).any())
    tables = {**_OTHERS, **dict.fromkeys("lqp", _LQP[richest])}
    beta = np.ones(kinds.size)
    for letter, (counts, values) in tables.items():
        beta[kinds == letter] = np.interp(m, counts, values)
    return beta


def _with_kernels(kinds: Array, beta: Array, m: float) -> Array:
    """beta_j = 1 / sqrt(m) for features of kernels, whose sizes are what the kernel says of them.

    So the quadratic penalty beta^2/2 ||w||^2 is that of a Gaussian process with that covariance.
    """
    return np.where(kinds == "k", 1 / np.sqrt(m), beta)


def practical(kinds: Array, mean: Array, sd: Array, m: float) -> tuple[Array, Array]:
    """beta_j = sd_j / sqrt(m), beta_0 = 1 (density paper §8); 1 / m where all presences agree."""
    agree = sd < 1e-6  # sd is a difference of sums
    sd = np.where(agree, 1 / np.sqrt(m), sd)
    return _with_kernels(kinds, sd / np.sqrt(m), m), np.zeros(sd.size, dtype=bool)


def own(rule: Callable[[Array, Array, Array, float], Array]) -> Rule:
    """A user's function (kinds, mean, sd, m) -> beta, its answer checked."""

    def checked(kinds: Array, mean: Array, sd: Array, m: float) -> tuple[Array, Array]:
        beta = np.asarray(rule(kinds, mean, sd, m), dtype=np.float64)
        if beta.shape != kinds.shape or not np.isfinite(beta).all() or (beta < 0).any():
            raise ValueError(
                f"regularization must give a finite number >= 0 for each of the {kinds.size} "
                f"features, got shape {beta.shape}"
            )
        return beta, np.zeros(beta.size, dtype=bool)

    return checked


def jar(kinds: Array, mean: Array, sd: Array, m: float) -> tuple[Array, Array]:
    """beta_j of maxent.jar 3.4, and which features it leaves out."""
    sd = np.full_like(sd, 0.5) if m <= 1 else np.minimum(sd, 0.5)
    sd = np.where(kinds == "h", np.maximum(sd, min(1 / np.sqrt(m), 0.5)), sd)
    beta = class_beta(kinds, m) * sd / np.sqrt(m)
    # a level that holds every presence; a level or a threshold that none or all are above is off
    full = (kinds == "c") & (mean >= 1 - _EXACT) & (beta < _FLOOR)
    beta = np.where(full, 1 / (2 * m), np.maximum(beta, _FLOOR))
    off = ((kinds == "c") & (mean <= _EXACT)) | (
        (kinds == "t") & ((mean <= _EXACT) | (mean >= 1 - _EXACT))
    )
    return _with_kernels(kinds, beta, m), off


def maxnet(kinds: Array, mean: Array, sd: Array, m: float) -> tuple[Array, Array]:
    """beta_j of maxnet 0.1.4, which leaves nothing out."""
    sd = np.zeros_like(sd) if m <= 1 else sd
    beta = np.maximum(class_beta(kinds, m) * sd / np.sqrt(m), _FLOOR)
    hinge = 0.5 * np.maximum(sd, 1 / np.sqrt(m)) / np.sqrt(m)
    beta = np.where(kinds == "h", np.maximum(beta, hinge), beta)
    constant = (kinds == "t") & ((mean <= _EXACT) | (mean >= 1 - _EXACT))
    beta = np.where(constant, np.maximum(beta, 1.0), beta)
    return _with_kernels(kinds, beta, m), np.zeros(beta.size, dtype=bool)


def spread(features: OperatorMap, observed: Array, m: float) -> tuple[Array, Array]:
    """Mean and standard deviation (m - 1) of every feature over the presences."""
    mean = features.moments(observed)
    variance = np.maximum(features.squares(observed) - mean**2, 0.0)
    return mean, np.sqrt(variance * (m / (m - 1) if m > 1 else 1.0))
