"""A new entropy: sparsemax with its own price for each class."""

from dataclasses import dataclass

import numpy as np

from maxent import Entropy
from maxent.testing import check_entropy


@dataclass(frozen=True)
class WeightedGini(Entropy):
    """Omega(p) = 1/2 sum_j c_j p_j^2 on the simplex; the map is p_j = [theta_j - tau]_+ / c_j."""

    costs: tuple[float, ...]

    def _value(self, p):
        return 0.5 * np.square(p, dtype=np.float64) @ np.array(self.costs)

    def _conjugate(self, theta):
        c, top = np.array(self.costs), theta.max(axis=1, keepdims=True)
        x = (theta - top).astype(np.float64)
        order = np.argsort(-x, axis=1)
        sorted_x, weight = np.take_along_axis(x, order, axis=1), 1 / c[order]
        tau = (np.cumsum(weight * sorted_x, axis=1) - 1) / np.cumsum(weight, axis=1)
        last = np.sum(sorted_x > tau, axis=1, keepdims=True) - 1
        p = np.maximum(x - np.take_along_axis(tau, last, axis=1), 0) / c
        score = np.sum(np.where(p > 0, x, 0) * p, axis=1)
        return top[:, 0] + score - self._value(p), p.astype(theta.dtype)


if __name__ == "__main__":
    check_entropy(WeightedGini((1.0, 0.5, 2.0, 1.0)), size=4)
