"""Extrapolation beyond single variables: ExDet (Mesgaran, Cousens and Webber 2014).

Diversity and Distributions 20:1147-1159. MESS looks at one variable at a time; ExDet also finds
combinations that the training region does not have, such as hot and wet where it is hot or wet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxent import io
from maxent._support.checks import floats
from maxent.features.cells import Schema
from maxent.rows.arrays import Array

_RIDGE = 1e-6  # least eigenvalue, of the largest: what never varied is new beyond rounding


@io.register
@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Ranges, mean and covariance of the continuous variables of background and records.

    ExDet of a place is `NT1 = sum_v min(0, p_v - min_v, max_v - p_v) / (max_v - min_v)` where that
    is negative: a variable is outside its range. Elsewhere it is `NT2 = D^2 / max D^2`, with D the
    Mahalanobis distance to the mean and max that of the reference points: within 0 to 1 the
    combination is like theirs, above 1 it is not, though each variable is.

    Attributes
    ----------
    variables : tuple of str
        Names of the variables.
    low : array (n_variables,)
        Smallest value of each.
    high : array (n_variables,)
        Largest value of each.
    mean : array (n_variables,)
        Mean of each.
    root : array (n_variables, rank)
        Such that `D^2 = |root'(p - mean)|^2`.
    furthest : float
        Largest `D^2` of the reference points.

    Notes
    -----
    Of correlations, eigenvalues below 1e-6 of the largest count as that: where one variable was
    a sum of others, a place where it is not is new, but not one where numbers were rounded.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> heat = rng.normal(size=1000)
    >>> X = np.column_stack([heat, heat + 0.1 * rng.normal(size=1000)])
    >>> exdet = Extrapolation.from_table(X)
    >>> values = exdet.novelty({"x0": np.array([0.0, 1.5, 9.0]), "x1": np.array([0.0, -1.5, 0.0])})
    >>> bool(values[0] <= 1 < values[1]), bool(values[2] < 0)
    (True, True)
    """

    variables: tuple[str, ...]
    low: Array
    high: Array
    mean: Array
    root: Array
    furthest: float

    def __post_init__(self) -> None:
        size = len(self.variables)
        for name in ("low", "high", "mean"):
            floats(name, getattr(self, name), size)
        if self.root.ndim != 2 or self.root.shape[0] != size or not np.isfinite(self.root).all():
            raise ValueError(f"root needs one row per variable, {size}, got {self.root.shape}")
        if (self.low > self.high).any() or not 0 <= self.furthest < np.inf:
            raise ValueError("a range must not end before it begins, nor a distance be negative")

    @classmethod
    def from_table(cls, X: Any, categorical: Sequence[Any] = ()) -> Extrapolation | None:
        """From a table, one row per point; categories do not count. None without a number."""
        schema = Schema.from_table(X, categorical)
        values = schema.read(X).values.astype(np.float64)
        if not len(values):
            return None
        mean = values.mean(axis=1)
        centred = values - mean[:, None]
        covariance = centred @ centred.T / max(values.shape[1] - 1, 1)
        scale = np.sqrt(np.diag(covariance))
        scale[scale == 0] = 1.0
        eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        eigenvalues = np.maximum(eigenvalues, _RIDGE * max(eigenvalues[-1], 1e-300))
        root = vectors / np.sqrt(eigenvalues) / scale[:, None]
        distances = ((root.T @ centred) ** 2).sum(axis=0)
        return cls(
            schema.continuous, values.min(axis=1), values.max(axis=1), mean, root,
            float(distances.max(initial=0.0)),
        )  # fmt: skip

    def reaching(self, low: Mapping[str, float], high: Mapping[str, float]) -> Extrapolation:
        """With ranges that reach at least so far, of points that were not all seen."""
        names = self.variables
        return replace(
            self,
            low=np.minimum(self.low, [low.get(n, np.inf) for n in names]),
            high=np.maximum(self.high, [high.get(n, -np.inf) for n in names]),
        )

    def __repr__(self) -> str:
        return f"<Extrapolation: ExDet of {', '.join(self.variables)}>"

    def novelty(self, values: Mapping[str, Any]) -> Array:
        """ExDet of places; one array per variable, all of one shape; NaN where one is."""
        missing = [name for name in self.variables if name not in values]
        if missing:
            raise ValueError(f"no values of {', '.join(missing)}: ExDet needs all variables")
        places = np.array([values[name] for name in self.variables], np.float64)
        shape = places.shape[1:]
        places = places.reshape(len(self.variables), -1)
        low, high = self.low[:, None], self.high[:, None]
        width = np.where(high > low, high - low, 1.0)
        outside = (np.minimum(np.minimum(places - low, high - places), 0.0) / width).sum(axis=0)
        distances = ((self.root.T @ (places - self.mean[:, None])) ** 2).sum(axis=0)
        inside = distances / self.furthest if self.furthest else np.zeros_like(distances)
        return np.where(outside < 0, outside, inside + 0 * outside).reshape(shape)
