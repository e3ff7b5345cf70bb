"""What a relaxation problem is given: prior, observation and multiplicities, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent.rows.arrays import Array

_SUM = 1e-8  # by which the sum of probabilities may differ from 1
_ROUNDING = 1e-13  # by which it may where they are used as they are


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a relaxation problem: u and q are probabilities, each of m_j symbols.

    ``prior`` and ``observed`` are the values as they were given, counts or probabilities, and the
    scales their sums: sums of counts are exact, which those of quotients are not.
    """

    prior: Array
    observed: Array
    m: Array
    prior_scale: float
    observed_scale: float

    @property
    def u(self) -> Array:
        """The prior probability of each symbol of a row."""
        return self.prior / self.prior_scale

    @property
    def q(self) -> Array:
        """The observed probability of each symbol of a row."""
        return self.observed / self.observed_scale

    @property
    def n(self) -> int:
        """How many rows."""
        return self.m.size

    @property
    def blocked(self) -> Array:
        """Rows that are observed but have no prior mass."""
        return (self.prior == 0) & (self.observed > 0)

    @property
    def stop(self) -> float:
        """The largest nu with a solution of finite relative entropy.

        It is 1/q_j for rows with u_j = 0, whose mass the others must also be able to take.
        """
        lost = self.observed[self.blocked]
        if not lost.size:
            return np.inf
        room = self.m[self.prior > 0].sum() / (self.m[self.blocked] @ lost)
        return float(self.observed_scale * min(1 / lost.max(), room))

    def swapped(self) -> Rows:
        """Prior and observation exchanged (the symmetry of §3)."""
        return Rows(self.observed, self.prior, self.m, self.observed_scale, self.prior_scale)


def read(prior: Any, observed: Any, multiplicity: Any = None) -> Rows:
    """Check prior, observation and multiplicities; counts are told from probabilities."""
    given, shape = vector("observed", observed), None
    if prior is None:
        u, u_scale = np.ones_like(given), None
    else:
        u, shape = vector("prior", prior), np.shape(prior)
    if u.shape != given.shape:
        raise ValueError(
            f"prior has shape {shape} and observed {np.shape(observed)}: give both one value per "
            "row"
        )
    m = np.ones(u.size) if multiplicity is None else vector("multiplicity", multiplicity)
    if m.shape != u.shape:
        raise ValueError(
            f"multiplicity has {m.size} values for {u.size} rows: give the number of symbols of "
            "each row"
        )
    if not (m > 0).all():
        raise ValueError(
            f"multiplicity must be positive, and {int((m <= 0).sum())} rows have 0: leave them out"
        )
    u_scale = float(m @ u) if prior is None else _scale("prior", prior, u, m)
    return Rows(u, given, m, u_scale, _scale("observed", observed, given, m))


def vector(name: str, values: Any) -> Array:
    """Counts or probabilities as one row of floats: finite, not negative."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got an array of type {array.dtype}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one row of values, got an array of shape {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} has {int((~np.isfinite(array)).sum())} values that are NaN or infinite: "
            "replace or drop these rows"
        )
    if (array < 0).any():
        raise ValueError(
            f"{name} has negative values (the least is {array.min():g}): counts and "
            "probabilities are at least 0"
        )
    return array


def _scale(name: str, given: Any, values: Array, m: Array) -> float:
    total = float(m @ values)
    if total == 0:
        raise ValueError(f"{name} is all zero: give at least one positive count or probability")
    if abs(total - 1) <= _SUM:
        return 1.0 if abs(total - 1) <= _ROUNDING else total
    if np.asarray(given).dtype.kind in "biu" or (values == np.round(values)).all():
        return total
    raise ValueError(
        f"{name} sums to {total:g} (multiplicities counted): give probabilities that sum to 1, or "
        "counts, which are whole numbers"
    )


def check_nu(nu: Any) -> Array:
    """Relaxation values as an array: positive, infinity allowed."""
    array = np.asarray(nu, dtype=np.float64)
    if np.isnan(array).any() or not (array > 0).all():
        raise ValueError(
            f"nu must be positive (1/nu is the largest difference from the observation), got {nu!r}"
        )
    return array
