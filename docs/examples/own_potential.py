"""A new potential: the Huber penalty on the weights."""

# ruff: noqa: D102 - the base class documents the methods

from dataclasses import dataclass

import numpy as np

from maxent import Potential
from maxent.testing import check_potential


@dataclass(frozen=True)
class Huber(Potential):
    """V(r) = sum delta r_j^2 / (2 beta) on |r_j| <= beta; V*(v) = sum beta huber(v_j, delta)."""

    beta: float
    delta: float
    smooth_conjugate = True

    def value(self, r):
        inside = np.abs(r).max(initial=0) <= self.beta * (1 + 1e-12)
        return float(self.delta / (2 * self.beta) * (r @ r)) if inside else np.inf

    def conjugate(self, v):
        size = np.abs(v)
        near = size**2 / (2 * self.delta)
        return float(self.beta * np.sum(np.where(size < self.delta, near, size - self.delta / 2)))

    def conjugate_gradient(self, v):
        return self.beta * np.clip(v / self.delta, -1, 1)

    def prox_conjugate(self, v, step):
        near = v / (1 + step * self.beta / self.delta)
        far = v - step * self.beta * np.sign(v)
        return np.where(np.abs(near) <= self.delta, near, far)

    def gauge(self, r):
        return float(np.abs(r).max(initial=0) / self.beta)


if __name__ == "__main__":
    check_potential(Huber(beta=0.3, delta=0.5), size=3)
