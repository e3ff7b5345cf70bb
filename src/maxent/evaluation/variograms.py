"""Variograms: over what distance the values at places are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxent import io
from maxent.rows.arrays import Array

# rise from 0 to 1 along distances in units of the range; 95 % of it is reached there
_SHAPES: dict[str, Callable[[Array], Array]] = {
    "spherical": lambda u: np.where(u < 1, 1.5 * u - 0.5 * u**3, 1.0),
    "exponential": lambda u: 1 - np.exp(-3 * u),
    "gaussian": lambda u: 1 - np.exp(-3 * u**2),
}
_RANGES = 200  # tried for each shape
_PART = 3.0  # of the largest distance: pairs further apart are few, and all at the edges
_SLIGHT = 0.05  # of the variance: a rise of less is none


@io.register
@dataclass(frozen=True, eq=False)
class Variogram:
    """Half of the mean squared difference of values, by their distance, and a curve through it.

    The curve is `nugget + (sill - nugget) f(h / span)` at a distance h, where f rises from 0 to 1
    and has 95 % or more of its rise behind it at 1.

    Attributes
    ----------
    distance : array (n_lags,)
        Mean distance of the pairs of each class.
    semivariance : array (n_lags,)
        Half of their mean squared difference.
    pairs : array (n_lags,)
        How many there are.
    shape : "spherical", "exponential", "gaussian" or "none"
        f; "none" where nearer values are not more alike than others.
    nugget : float
        Semivariance of neighbours.
    sill : float
        Semivariance beyond the range.
    span : float
        Distance over which the curve rises; 0 for "none".
    reach : float
        Largest distance that was looked at.
    """

    distance: Array
    semivariance: Array
    pairs: Array
    shape: str
    nugget: float
    sill: float
    span: float
    reach: float

    @property
    def range(self) -> float:
        """Distance up to which values are alike: 0 for none, infinite where it is not seen."""
        return self.span if self.span <= self.reach else float("inf")

    def curve(self, distance: ArrayLike) -> Array:
        """Semivariance at distances."""
        h = np.asarray(distance, dtype=np.float64)
        if self.shape == "none":
            return np.full(h.shape, self.sill)
        rise = _SHAPES[self.shape](h / self.span)
        return np.asarray(self.nugget + (self.sill - self.nugget) * rise)


def variogram(
    values: ArrayLike, distances: ArrayLike, *, reach: float | None = None, n_lags: int = 15
) -> Variogram:
    """The variogram of values at places, with the best of three curves.

    Curves are fitted by least squares with weights `n / h^2`, n pairs at a distance of h (Cressie,
    1985), as gstat does.

    Parameters
    ----------
    values : array (n,)
        Values at n places.
    distances : array (n * (n - 1) / 2,)
        Distances of all pairs, in the order of ``scipy.spatial.distance.pdist``.
    reach : float, default None
        Largest distance to look at; None is a third of the largest there is.
    n_lags : int, default 15
        Number of classes of distance.

    Examples
    --------
    >>> from scipy.spatial.distance import pdist
    >>> noise = np.random.default_rng(0).normal(size=1019)
    >>> means = np.convolve(noise, np.ones(20), "valid")  # alike up to a distance of 20
    >>> found = variogram(means, pdist(np.arange(1000.0)[:, None]), reach=60)
    >>> 15 < found.range < 25
    True
    """
    z, h = np.asarray(values, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    n = z.size
    if h.shape != (n * (n - 1) // 2,):
        raise ValueError(
            f"{n} values have {n * (n - 1) // 2} pairs, and distances has shape {h.shape}"
        )
    if n < 3 or not np.isfinite(z).all():
        raise ValueError("a variogram needs 3 or more values, all of them finite")
    end = h.max() / _PART if reach is None else float(reach)
    if not end > 0:
        raise ValueError(f"reach must be a distance above 0, got {end!r}: are all places the same?")
    first, second = np.triu_indices(n, 1)
    near = np.flatnonzero(h <= end)
    lag = np.minimum((h[near] / end * n_lags).astype(int), n_lags - 1)
    squares = (z[first[near]] - z[second[near]]) ** 2 / 2
    pairs = np.bincount(lag, minlength=n_lags)
    known = pairs > 0
    distance, semivariance = (
        np.bincount(lag, v, n_lags)[known] / pairs[known] for v in (h[near], squares)
    )
    curve = _fitted(distance, semivariance, pairs[known], end)
    return Variogram(distance, semivariance, pairs[known], *curve, reach=end)


def _fitted(h: Array, gamma: Array, pairs: Array, end: float) -> tuple[str, float, float, float]:
    """Shape, nugget, sill and span of the best curve."""
    weight = pairs / np.maximum(h, end / 1e3) ** 2
    level = float(np.average(gamma, weights=pairs))
    best = ("none", level, level, 0.0)
    least = float((weight * (gamma - level) ** 2).sum())
    if not level > 0:
        return best
    for shape, rise in _SHAPES.items():
        for span in np.geomspace(h[0] / 2 or end / 100, 2 * end, _RANGES):
            f = rise(h / span)
            nugget, partial = _straight(f, gamma, weight)
            error = float((weight * (gamma - nugget - partial * f) ** 2).sum())
            if partial > _SLIGHT * level and error < least * (1 - 1e-9):
                least, best = error, (shape, nugget, nugget + partial, float(span))
    return best


def _straight(f: Array, gamma: Array, weight: Array) -> tuple[float, float]:
    """Intercept and slope of gamma on f by weighted least squares, neither below 0."""
    middle, height = np.average(f, weights=weight), np.average(gamma, weights=weight)
    spread = float((weight * (f - middle) ** 2).sum())
    slope = float((weight * (f - middle) * (gamma - height)).sum()) / spread if spread else 0.0
    nugget = float(height - slope * middle)
    if nugget < 0:
        nugget, slope = 0.0, float((weight * f * gamma).sum() / (weight * f**2).sum())
    return nugget, max(slope, 0.0)
