"""The link from scores to density: what a fitted entropy predicts at a cell it has never seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core.entropies import Entropy
from maxent.rows.arrays import Array


@io.register
@dataclass(frozen=True)
class DensityLink:
    """Density against the default as a function of the score alone, up to normalisation.

    exp(theta - shift) for ``power`` 0, else [slope (theta - shift)]_+^(1 / power): the maps of all
    entropies with a ``link_power`` are of this form.

    >>> DensityLink(power=1.0, shift=2.0)(np.array([1.0, 2.5, 4.0]))
    array([0. , 0.5, 2. ])
    """

    power: float
    shift: float
    slope: float = 1.0

    @classmethod
    def from_scores(cls, entropy: Entropy, theta: Array, p: Array, q0: Array) -> DensityLink:
        """The link of a fitted density, from the scores of its cells, p and the default q0."""
        power, ratio = required_power(entropy), p / q0
        top = int(np.argmax(theta))
        if power == 0:
            return cls(0.0, float(theta[top]))
        # ratio^power is linear in the score
        height = ratio[top] ** power
        slope = entropy.link_slope(p, q0)
        if slope is None:
            inside = ratio > 0
            low = int(np.argmin(np.where(inside, theta, np.inf)))
            if theta[top] > theta[low]:
                slope = (height - ratio[low] ** power) / (theta[top] - theta[low])
            else:  # any line from there to 0 at the scores outside
                outside = np.max(theta[~inside], initial=theta[top] - 1.0)
                slope = np.sign(power) * height / (theta[top] - outside)
        return cls(power, float(theta[top] - height / slope), float(slope))

    def log(self, theta: Array) -> Array:
        """Log of the unnormalised density."""
        if self.power == 0:
            return theta - self.shift
        inside = self.slope * (theta - self.shift)
        if self.power < 0:  # a pole at the shift, which no cell of the fit reaches
            inside = np.maximum(inside, np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(inside) / self.power
        return np.where(inside > 0, log, np.where(np.isnan(theta), np.nan, -np.inf))

    def __call__(self, theta: Array) -> Array:
        """The unnormalised density."""
        return np.exp(self.log(theta))

    def log_partition(self, log_total: float) -> float:
        """log sum exp(theta) for Shannon; the log of the normalisation otherwise."""
        return log_total + (self.shift if self.power == 0 else 0.0)


def required_power(entropy: Entropy) -> float:
    """The power of an entropy's map; an error where a density could not be predicted from it."""
    power = entropy.link_power
    if power is not None and not entropy.differentiable:
        raise ValueError(
            f"{entropy!r} has several densities for the same scores, so none can be predicted from "
            "weights: use an entropy with a single one, such as Shannon or Tsallis"
        )
    if power is None:
        raise ValueError(
            "a density needs an entropy of the simplex with a default density: Shannon, Tsallis, "
            f"NormEntropy, SquaredNorm or Renyi, got {entropy!r}"
        )
    return power
