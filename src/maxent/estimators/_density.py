"""What MaxentDensity is made of: checked input, merged cells, the link from scores to density."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from maxent import io
from maxent._rows import Array
from maxent.entropies import Entropy, NormEntropy, Renyi, Shannon, SquaredNorm, Tsallis
from maxent.features import Cells, FeatureClass, OperatorMap, Schema

_TABLE = 10_000  # entries of the stored cumulative distribution at most


@io.register
@dataclass(frozen=True)
class DensityLink:
    """Density against the default as a function of the score alone, up to normalisation.

    exp(theta - shift) for ``power`` 0, else [slope (theta - shift)]_+^(1 / power): the maps of all
    entropies are of this form, with power alpha - 1 for Tsallis, q - 1 for norms (an indicator for
    q = inf) and beta - 1 for Renyi.
    """

    power: float
    shift: float
    slope: float = 1.0

    @classmethod
    def of(cls, entropy: Entropy, theta: Array, ratio: Array) -> DensityLink:
        """The link of a fitted density, from the scores and p / q0 of its cells."""
        a = cls.power_of(entropy)
        top = int(np.argmax(theta))
        if a == 0:
            return cls(0.0, float(theta[top]))
        inside = ratio > 0
        low = int(np.argmin(np.where(inside, theta, np.inf)))
        if np.isinf(a):
            outside = theta[~inside]
            edge = outside.max() if outside.size else theta[low] - 1.0
            return cls(a, float(edge + theta[low]) / 2)
        # ratio^power is linear in the score, with a known slope for Tsallis
        slope = a
        if not isinstance(entropy, Tsallis):
            rise = ratio[top] ** a - ratio[low] ** a
            slope = rise / (theta[top] - theta[low]) if theta[top] > theta[low] else np.sign(a)
        return cls(a, float(theta[top] - ratio[top] ** a / slope), float(slope))

    @staticmethod
    def power_of(entropy: Entropy) -> float:
        """The power of an entropy's map."""
        if isinstance(entropy, Shannon):
            return 0.0
        if isinstance(entropy, Tsallis):
            return float(entropy.alpha - 1)
        if isinstance(entropy, SquaredNorm | NormEntropy):
            return float(entropy.q - 1)
        if isinstance(entropy, Renyi):
            return float(entropy.beta - 1)
        raise ValueError(
            "a density needs an entropy of the simplex with a default density: Shannon, Tsallis, "
            f"NormEntropy, SquaredNorm or Renyi, got {entropy!r}"
        )

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
        return np.exp(self.log(theta))

    def log_partition(self, log_total: float) -> float:
        """log sum exp(theta) for Shannon; the log of the normalisation otherwise."""
        return log_total + (self.shift if self.power == 0 else 0.0)


def take_rows(X: Any, rows: Any) -> Any:
    """Some rows of a frame or an array."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows]


def masses(name: str, values: Any, count: int) -> Array:
    """A finite, non-negative number a row; ones by default."""
    if values is None:
        return np.ones(count)
    if isinstance(values, Real):
        values = np.full(count, float(values))
    masses = np.asarray(values, dtype=np.float64)
    if masses.shape != (count,):
        raise ValueError(f"{name} must have one entry a row, shape ({count},), got {masses.shape}")
    if not np.isfinite(masses).all() or (masses < 0).any():
        raise ValueError(f"{name} must be finite and non-negative")
    return masses


def positive(name: str, value: Any) -> float:
    """A positive number."""
    if not (isinstance(value, Real) and 0 < float(value) < np.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_counts(y: Array, weight: Array, prior: Array) -> None:
    """Counts that a density can be fitted to."""
    if not len(y):
        raise ValueError("no row is left after dropping missing values")
    if (y < 0).any():
        raise ValueError(
            f"y counts the occurrences in each row and cannot be negative: got {y.min():g}"
        )
    if (y != np.floor(y)).any():
        raise ValueError(
            f"y counts the occurrences in each row: expected integers, got "
            f"{y[y != np.floor(y)][0]:g}; weights go into sample_weight"
        )
    if len(y) == 1:
        raise ValueError("X has one sample: a density needs several cells, background among them")
    if not weight.any():
        raise ValueError("all sample weights are zero")
    y, prior = y[weight > 0], prior[weight > 0]
    if not y.any():
        raise ValueError("y holds no presence: at least one row needs y > 0")
    if (y == y[0]).all():
        raise ValueError(
            f"every row has y = {y[0]:g}, so there is nothing to tell presences from: add the "
            "background cells as rows with y = 0"
        )
    lost = int(((y > 0) & (prior <= 0)).sum())
    if lost:
        raise ValueError(
            f"{lost} presences lie where the prior is 0, so no density can explain them: give "
            "those rows a positive prior or leave them out"
        )


def warn_constant(cells: Cells, schema: Schema) -> None:
    """Say which columns tell nothing."""
    same = cells.values.min(axis=1, initial=np.inf) == cells.values.max(axis=1, initial=-np.inf)
    names = [name for name, constant in zip(schema.continuous, same, strict=True) if constant]
    names += [n for n, v in zip(schema.categorical, schema.levels, strict=True) if len(v) < 2]
    if names:
        warnings.warn(f"constant columns are not used: {', '.join(names)}", stacklevel=5)


def checked_classes(features: Any) -> list[FeatureClass]:
    """A list of feature classes."""
    listed = [features] if isinstance(features, FeatureClass) else list(features)
    wrong = [f for f in listed if not isinstance(f, FeatureClass)]
    if wrong or not listed:
        raise ValueError(
            "features must be letters or a list of feature classes such as Linear() and "
            f"Hinge(knots=20), got {features!r}"
        )
    return listed


def spread(features: OperatorMap, observed: Array, m: float) -> tuple[Array, Array]:
    """Mean and standard deviation (m - 1) of every feature over the presences."""
    mean = features.moments(observed)
    variance = np.maximum(features.squares(observed) - mean**2, 0.0)
    return mean, np.sqrt(variance * (m / (m - 1) if m > 1 else 1.0))


def with_mass(
    cells: Cells, counts: Array, mass: Array, prior: Array
) -> tuple[Cells, Array, Array, Array]:
    """The cells that have mass under the default density."""
    kept = mass * prior > 0
    if kept.all():
        return cells, counts, mass, prior
    return cells.take(kept), counts[kept], mass[kept], prior[kept]


def domain_points(
    cells: Cells, counts: Array, mass: Array, prior: Array, merge: bool
) -> tuple[Cells, Array, Array, Array]:
    """The points a density is over: cells with mass, equal ones as one where ``merge`` says so."""
    cells, counts, mass, prior = with_mass(cells, counts, mass, prior)
    if not merge:
        return cells, counts, mass, prior
    return with_mass(cells, *merged(cells, counts, mass), prior)


def merged(cells: Cells, counts: Array, mass: Array) -> tuple[Array, Array]:
    """Each presence moved to an equal background row, or to the first equal presence.

    Presences at one point make one point of mass 1, however many they are.
    """
    # rows are compared by a 64-bit hash: one in 1e9 tables of 5 million cells has a false match
    rng = np.random.default_rng(0)
    key = np.zeros(cells.n_cells, dtype=np.uint64)
    for column in (*cells.values, *cells.codes):
        bits = (column + 0.0).astype(np.float64).view(np.uint64)  # + 0.0: -0 is 0
        key = (key ^ bits) * (rng.integers(1 << 62, dtype=np.uint64) * np.uint64(2) + np.uint64(1))
        key ^= key >> np.uint64(29)
    counts, mass = counts.copy(), mass.copy()
    presences = np.flatnonzero(counts > 0)
    home: dict[int, int] = {}
    wanted = np.sort(key[presences])
    found = wanted[np.minimum(np.searchsorted(wanted, key), wanted.size - 1)] == key
    background = np.flatnonzero((counts == 0) & found)
    for row in background[::-1]:
        home[int(key[row])] = int(row)
    own = set(presences.tolist()) - set(home.values())
    for row in presences:
        target = home.setdefault(int(key[row]), int(row))
        if target != row:
            counts[target] += counts[row]
            if target in own:
                mass[target] += mass[row]
            counts[row] = mass[row] = 0.0
    alone = np.array(sorted(own), dtype=np.intp)
    mass[alone] = np.minimum(mass[alone], 1.0)
    return counts, mass


def cumulative_table(raw: Array, mass: Array) -> tuple[Array, Array]:
    """Raw values and the share of mass at or below each, thinned to a table."""
    order = np.argsort(raw)
    values, below = raw[order], np.cumsum((mass * raw)[order])
    last = np.append(np.flatnonzero(np.diff(values)), values.size - 1)
    values, below = values[last], below[last] / below[-1]
    if values.size > _TABLE:
        even = np.searchsorted(below, np.linspace(0, 1, _TABLE))
        chosen = np.unique(np.concatenate([[0], np.minimum(even, values.size - 1)]))
        values, below = values[chosen], below[chosen]
    return values, below
