"""Intervals: between which values a density lies, by curvature or by refits, as part of it.

With `theta = <w, f(x)>` the log density `l = theta - log Z(w)` has the slope `f(x) - E_q[f]` in the
weights, and the exponent of the cloglog output, `eta = l + H(q)`, the slope
`f(x) - E_q[f] - Cov_q(f) w`. Both are about normal where the weights are, so that an interval of
either is the value +- z times its standard deviation, and outputs that grow with one of them (raw,
log; cloglog, logistic) have the interval of its ends. Derived in docs/density.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from maxent import io
from maxent.core.potentials import Potential
from maxent.features import Cells, Operator, OperatorMap, bind
from maxent.rows.arrays import Array

if TYPE_CHECKING:
    from maxent.density.model import FittedDensity

OUTPUTS = ("raw", "log", "cloglog", "logistic")  # those that intervals are known of
METHODS = ("none", "laplace", "bootstrap")
LEVEL = 0.9  # where none is said
_BLOCK = 1 << 13  # cells whose features are written out at once


class Interval(NamedTuple):
    """Lower and upper ends, one of each for every row.

    Attributes
    ----------
    lower : array (n_rows,)
        Lower ends.
    upper : array (n_rows,)
        Upper ends.
    """

    lower: Array
    upper: Array


class Uncertainty(Protocol):
    """What is known of the error of a density: a ``Laplace`` approximation or ``Refits``."""

    @property
    def method(self) -> str:
        """ "laplace" or "bootstrap"."""

    @property
    def knows_scale(self) -> bool:
        """Whether it is that of an intensity, whose scale is known."""

    def deviation(
        self, density: FittedDensity, cells: Cells, output: str, clamp: bool = True
    ) -> Array:
        """Standard deviation of the log density, or of the exponent of the cloglog output."""

    def scaled_deviation(self, density: FittedDensity, cells: Cells, clamp: bool = True) -> Array:
        """Standard deviation of the log of an intensity, whose scale is known."""

    def exponents(
        self, density: FittedDensity, cells: Cells, n: int, seed: int, clamp: bool
    ) -> Array:
        """Exponents of cloglog maps that are as likely as one another, (cells, maps)."""

    def sums(
        self, density: FittedDensity, cells: Cells, size: Array, log_scale: float, clamp: bool
    ) -> Array:
        """What ``deviation_of_sum`` is found from, of cells of these sizes: it adds up."""

    def deviation_of_sum(self, sums: Array) -> float:
        """Standard deviation of the log of the sum of an intensity over cells."""


@io.register
@dataclass(frozen=True, eq=False)
class Laplace:
    """The weights in use as a normal distribution around the fit, given that they are in use.

    Attributes
    ----------
    covariance : array (n_used, n_used)
        `(n Cov_q(f) + P)^-1`, P the precision of the penalty as a prior.
    mean : array (n_used,)
        `E_q[f]`.
    curved : array (n_used,)
        `Cov_q(f) w`.
    scale : array (n_used + 1,) or None
        Covariances of the weights with the log scale of an intensity, and its variance last.
    """

    covariance: Array
    mean: Array
    curved: Array
    scale: Array | None = None

    def __post_init__(self) -> None:
        size = len(self.mean)
        if self.covariance.shape != (size, size) or self.curved.shape != (size,):
            raise ValueError(
                f"covariance {self.covariance.shape} and curved {self.curved.shape} are not those "
                f"of {size} weights"
            )

    @property
    def method(self) -> str:
        """How intervals are found."""
        return "laplace"

    @property
    def knows_scale(self) -> bool:
        """Whether it is that of an intensity, whose scale is known."""
        return self.scale is not None

    def deviation(
        self, density: FittedDensity, cells: Cells, output: str, clamp: bool = True
    ) -> Array:
        """Standard deviation of the log density, or of the exponent of the cloglog output."""
        centre = self._centre(output)
        found = np.empty(cells.n_cells)
        for rows, features in _design(density.operators, density, cells, clamp):
            slopes = features - centre
            inner = np.einsum("ij,ij->i", slopes @ self.covariance, slopes)
            found[rows] = np.sqrt(np.maximum(inner, 0.0))
        return found

    def scaled_deviation(self, density: FittedDensity, cells: Cells, clamp: bool = True) -> Array:
        """Standard deviation of the log of an intensity, whose scale is known."""
        assert self.scale is not None
        found = np.empty(cells.n_cells)
        for rows, features in _design(density.operators, density, cells, clamp):
            inner = np.einsum("ij,ij->i", features @ self.covariance, features)
            inner += 2 * features @ self.scale[:-1] + self.scale[-1]
            found[rows] = np.sqrt(np.maximum(inner, 0.0))
        return found

    def sums(
        self, density: FittedDensity, cells: Cells, size: Array, log_scale: float, clamp: bool
    ) -> Array:
        """Slopes of the sum of an intensity, in the weights and in the log scale."""
        expected = size * np.exp(density.scorer.scores(cells, clamp).astype(np.float64) + log_scale)
        found = np.zeros(len(self.mean) + 1)
        for rows, features in _design(density.operators, density, cells, clamp):
            found[:-1] += expected[rows] @ features
        found[-1] = expected.sum()
        return found

    def deviation_of_sum(self, sums: Array) -> float:
        """Standard deviation of the log of the sum of an intensity over cells."""
        assert self.scale is not None
        slope = sums[:-1] / sums[-1]
        inner = slope @ self.covariance @ slope + 2 * slope @ self.scale[:-1] + self.scale[-1]
        return float(np.sqrt(max(inner, 0.0)))

    def exponents(
        self, density: FittedDensity, cells: Cells, n: int, seed: int, clamp: bool
    ) -> Array:
        """Exponents of the cloglog output under ``n`` weights drawn from the distribution."""
        values, vectors = np.linalg.eigh(self.covariance)
        normal = np.random.default_rng(seed).standard_normal((len(self.mean), n))
        steps = (vectors * np.sqrt(np.maximum(values, 0.0))) @ normal
        fitted = fitted_exponents(density, cells, clamp)
        centre, found = self._centre("cloglog"), np.empty((cells.n_cells, n))
        for rows, features in _design(density.operators, density, cells, clamp):
            found[rows] = fitted[rows, None] + (features - centre) @ steps
        return found

    def _centre(self, output: str) -> Array:
        """What the slopes of an output's log or exponent are relative to."""
        return self.mean if output in ("raw", "log") else self.mean + self.curved


@io.register
@dataclass(frozen=True, eq=False)
class Refits:
    """The densities of resampled records, as weights of the features that any of them uses.

    Attributes
    ----------
    operators : tuple of Operator
        The features.
    weights : array (n_features, n_refits)
        Their weights, a column for each refit.
    log_partition : array (n_refits,)
        `log Z` of each, over the cells of the fit.
    raw_entropy : array (n_refits,)
        Entropy of each.
    log_scale : array (n_refits,) or None
        The log scale of each, of an intensity.
    blocks : int
        How many blocks of records were drawn from; 0 where single records were.
    """

    operators: tuple[Operator, ...]
    weights: Array
    log_partition: Array
    raw_entropy: Array
    log_scale: Array | None = None
    blocks: int = 0

    @property
    def method(self) -> str:
        """How intervals are found."""
        return "bootstrap"

    @property
    def knows_scale(self) -> bool:
        """Whether it is that of an intensity, whose scale is known."""
        return self.log_scale is not None

    def logs(self, density: FittedDensity, cells: Cells, output: str, clamp: bool) -> Array:
        """The log density of each refit, or the exponent of its cloglog output."""
        found = np.empty((cells.n_cells, self.weights.shape[1]))
        shift = -self.log_partition
        if output not in ("raw", "log"):
            shift = shift + self.raw_entropy
        for rows, features in _design(self.operators, density, cells, clamp):
            found[rows] = features @ self.weights + shift
        return found

    def deviation(
        self, density: FittedDensity, cells: Cells, output: str, clamp: bool = True
    ) -> Array:
        """Standard deviation of the log density, or of the exponent of the cloglog output.

        Refits see some records several times, and are steeper than the fit: their percentiles lie
        to one side of it, and hold the truth less often (experiments.interval_coverage).
        """
        return np.asarray(self.logs(density, cells, output, clamp).std(axis=1, ddof=1))

    def scaled_deviation(self, density: FittedDensity, cells: Cells, clamp: bool = True) -> Array:
        """Standard deviation of the log of an intensity, whose scale is known."""
        return np.asarray(self._scaled_logs(density, cells, clamp).std(axis=1, ddof=1))

    def sums(
        self, density: FittedDensity, cells: Cells, size: Array, log_scale: float, clamp: bool
    ) -> Array:
        """The sum of the intensity of each refit."""
        return np.asarray(size @ np.exp(self._scaled_logs(density, cells, clamp)))

    def deviation_of_sum(self, sums: Array) -> float:
        """Standard deviation of the log of the sum of an intensity over cells."""
        return float(np.log(sums).std(ddof=1))

    def _scaled_logs(self, density: FittedDensity, cells: Cells, clamp: bool) -> Array:
        assert self.log_scale is not None
        return self.logs(density, cells, "log", clamp) + self.log_partition + self.log_scale

    def exponents(
        self, density: FittedDensity, cells: Cells, n: int, seed: int, clamp: bool
    ) -> Array:
        """The fit and the deviations of all refits from their mean, whatever ``n``."""
        logs = self.logs(density, cells, "cloglog", clamp)
        return logs + (fitted_exponents(density, cells, clamp) - logs.mean(axis=1))[:, None]


def ends(
    density: FittedDensity, cells: Cells, output: str, level: float, clamp: bool = True
) -> Interval:
    """The interval of an output at some cells: the fit, z times its deviation to both sides."""
    known = density.known_uncertainty()
    theta = density.scorer.scores(cells, clamp)
    reach = quantile(level) * known.deviation(density, cells, output, clamp)
    return Interval(*(density.output(theta + s * reach, output) for s in (-1, 1)))


def fitted_exponents(density: FittedDensity, cells: Cells, clamp: bool = True) -> Array:
    """`eta` of the fit, of which `1 - exp(-exp(eta))` is the cloglog output."""
    return density.output(density.scorer.scores(cells, clamp), "log") + density.raw_entropy


def quantile(level: float) -> float:
    """z of a two-sided interval.

    >>> round(quantile(0.95), 3)
    1.96
    """
    check_level(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def tails(level: float) -> tuple[float, float]:
    """Shares below the two ends of an interval."""
    check_level(level)
    return (1 - level) / 2, (1 + level) / 2


def check_level(level: float) -> None:
    """Refuse what is no share of cases."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.9, got {level!r}")


def check_method(method: str) -> None:
    """Refuse what is no way to have intervals."""
    if method not in METHODS:
        raise ValueError(f"intervals must be one of {', '.join(METHODS)}, got {method!r}")


def check_output(output: str) -> None:
    """Refuse an output that no interval is known of."""
    if output not in OUTPUTS:
        raise ValueError(f"intervals are known of {', '.join(OUTPUTS)}, got {output!r}")


def prior_precision(potential: Potential, n_features: int, n: float) -> Array:
    """The precision of each weight under a penalty of n records as a prior.

    `n l2 + (n l1)^2 / 2` of the penalty `n sum l1 |w| + l2/2 w^2`: that of a normal prior, and of
    the normal one with the variance of a Laplace prior.
    """
    terms = potential.elastic(n_features)
    if terms is None:
        raise ValueError(
            f"intervals by laplace need a penalty that is a sum of |w| and w^2 over the features, "
            f"got {potential!r:.80}: take box, elastic or quadratic, or intervals by bootstrap"
        )
    l1, l2 = terms
    return np.asarray(n * l2 + (n * l1) ** 2 / 2)


def inverse(precision: Array) -> Array:
    """The inverse of a positive matrix; rounding leaves no direction without any precision."""
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    values = np.maximum(values, values.max(initial=0) * len(values) * np.finfo(float).eps)
    return np.asarray((vectors / values) @ vectors.T)


def curvature(
    features: OperatorMap,
    q: Array,
    weights: Array,
    n: float,
    prior: Array,
    predicted: Array | None = None,
) -> Laplace:
    """The approximation at a Gibbs density q with these weights, n records behind it.

    ``predicted`` is the density that is put out, where the one fitted has sampling effort in it.
    """
    covariance = features.gram(q, q)
    found = inverse(n * covariance + np.diag(prior))
    if predicted is not None:
        q, covariance = predicted, features.gram(predicted, predicted)
    return Laplace(found, features.moments(q), covariance @ weights)


def bound_features(
    operators: tuple[Operator, ...], density: FittedDensity, cells: Cells, clamp: bool = True
) -> OperatorMap:
    """The features at cells, with variables held in the ranges of the fit as its scores do."""
    if clamp:
        low, high = density.scorer.limits(cells.values.dtype)
        values = np.clip(cells.values, low[:, None], high[:, None])
        cells = Cells(values.astype(cells.values.dtype, copy=False), cells.codes)
    return bind(operators, cells, clamp)


def _design(
    operators: tuple[Operator, ...], density: FittedDensity, cells: Cells, clamp: bool
) -> Iterator[tuple[slice, Any]]:
    """Features of a block of cells after the other, (cells, features)."""
    for start in range(0, cells.n_cells, _BLOCK):
        stop = min(start + _BLOCK, cells.n_cells)
        part = cells.take(np.arange(start, stop))
        yield slice(start, stop), bound_features(operators, density, part, clamp).columns()
