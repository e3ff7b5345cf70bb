"""Entropies of records of an intensity: sites searched, and counts with more than Poisson's spread.

An intensity `lambda = exp(theta)` per unit of area is seen through what a visit to an area finds.
Minus the log likelihood of each kind is a Fenchel-Young loss at the record y,
`Omega*(theta) - <theta, y> + Omega(y)`, and a constant: its conjugate and a gap are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from maxent import io
from maxent.core.domains import Domain, Intervals
from maxent.core.entropies.base import Entropy, double, positive, same_type
from maxent.rows.arrays import Array, Rows, row_sum, uneven

_LARGEST = 650.0  # with areas up to e^50 no power of e overflows
_SERIES = 1e-2  # expected finds below which 1 - u/(e^u - 1) is a series: the next term is 3e-17
_NEWTON = 6


def _vector(name: str, values: Any) -> Array:
    """A read-only row of numbers."""
    row = np.array(values, dtype=np.float64, ndmin=1)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise ValueError(f"{name} must be a row of finite numbers, got {values!r:.80}")
    row.setflags(write=False)
    return row


class _Records(Entropy):
    """What the entropies of records share: an area and a record for each entry of a row."""

    area: Any
    has_curvature = True
    largest_score = _LARGEST

    def _keep(self, name: str, values: Any) -> None:
        area, row = _vector("area", self.area), _vector(name, values)
        if not (area > 0).all():
            raise ValueError(f"area must be > 0, got {float(area.min())!r}")
        if area.size not in (1, row.size):
            raise ValueError(f"{row.size} records need as many areas, got {area.size}")
        area = np.broadcast_to(area, row.shape)
        object.__setattr__(self, "area", area)
        object.__setattr__(self, name, row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.area.size} records)"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def _key(self) -> tuple[Any, ...]:
        own = vars(self).values()
        return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in own)

    def _fits(self, rows: Rows) -> None:
        if uneven(rows) or rows.shape[-1] != self.area.size:
            raise ValueError(f"{self!r} needs rows of {self.area.size} scores")

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return same_type(self.curvature(theta, p)[0] * v, theta)


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class Detection(_Records):
    """Whether a search of an area a finds anything: `P(found) = 1 - exp(-a e^theta)` (cloglog).

    With `u = a e^theta` the conjugate is, entry by entry, `Omega* = u` with `p = u` where nothing
    was found, and `Omega* = theta - log(1 - e^-u)` with `p = 1 - u/(e^u - 1)` where something was.
    So `Omega* - y theta` is minus the log likelihood of y. `Omega` is `p log(p/a) - p` on `p >= 0`,
    and on `0 <= p <= 1`, with u of the p above, `(1 - p) log(a/u) + log(1 - e^-u)`; it is 0 at y.

    Parameters
    ----------
    found : array (n,)
        1 where something was found, 0 where not.
    area : float or array (n,), default 1.0
        The area, or the effort, of each search.

    Examples
    --------
    >>> import numpy as np
    >>> values, p = Detection([0, 1], area=[2.0, 1.0]).conjugate(np.log([1.5, 1.0]))
    >>> p.round(4).tolist(), round(float(values), 4)
    ([3.0, 0.418], 3.4587)
    """

    found: Any
    area: Any = 1.0

    def __post_init__(self) -> None:
        self._keep("found", self.found)
        if not np.isin(self.found, (0.0, 1.0)).all():
            raise ValueError("found must be 1 or 0 for each search")

    @property
    def domain(self) -> Domain:
        """Up to 1 where something was found."""
        return Intervals(np.where(self.found == 1, 1.0, np.inf))

    @property
    def _finds(self) -> Array:
        return np.flatnonzero(self.found == 1)  # costly functions are for these alone

    def _expected(self, theta: Rows) -> Array:
        self._fits(theta)
        with np.errstate(over="ignore"):
            return np.exp(double(theta) + np.log(self.area))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, finds = self._expected(theta), self._finds
        p, u = values.copy(), values[:, finds]
        near = np.log(self.area[finds]) + np.log(special.exprel(-np.minimum(u, 1.0)))
        far = double(theta)[:, finds] - np.log1p(-np.exp(-np.maximum(u, 1.0)))
        values[:, finds] = np.where(u > 1, far, -near)  # no difference of large numbers
        p[:, finds] = _share(u)
        return row_sum(values), same_type(p, theta)

    def _value(self, p: Rows) -> Array:
        self._fits(p)
        finds, at_least = self._finds, np.maximum(double(p), 0)
        values = special.xlogy(at_least, at_least / self.area) - at_least
        inside = np.clip(at_least[:, finds], 0, 1)
        u, left = _expected_at(inside), 1 - inside
        with np.errstate(divide="ignore", invalid="ignore"):
            near = special.xlogy(inside, u) + np.log(special.exprel(-np.minimum(u, 1.0)))
            far = np.log1p(-np.exp(-u)) - special.xlogy(left, u)
        some = np.where(u > 1, far, near) + left * np.log(self.area[finds])
        values[:, finds] = np.where(left > 0, some, 0.0)
        return row_sum(values)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, None]:
        """u where nothing was found, (1 - p)(u - p) where something was."""
        curved, finds = self._expected(theta), self._finds
        u = curved[:, finds]
        with np.errstate(over="ignore", invalid="ignore"):
            q = np.where(u < 700, 1 / special.exprel(np.minimum(u, 700)), 0.0)
            curved[:, finds] = np.where(q > 0, q * (u - _share(u)), 0.0)
        return curved, None


def _share(u: Array) -> Array:
    """1 - u/(e^u - 1)."""
    small = np.minimum(u, _SERIES)
    series = small / 2 - small**2 / 12 + small**4 / 720
    return np.where(u < _SERIES, series, 1 - 1 / special.exprel(np.clip(u, _SERIES, 700)))


def _expected_at(p: Array) -> Array:
    """The u with `1 - u/(e^u - 1) = p`, by Lambert's function and Newton's method."""
    q = 1 - p
    with np.errstate(divide="ignore", invalid="ignore"):
        far = -q - np.real(special.lambertw(-q * np.exp(-q), -1))
        u = np.where(p < 0.3, 2 * p + 2 / 3 * p**2 + p**3 / 2, far)
    u = np.where(np.isfinite(u), np.clip(u, 0, 800), 800.0)
    for _ in range(_NEWTON):
        share = _share(u)
        slope = (1 - share) * (u - share)
        inside = (u > 0) & (u < 36) & (slope > 0)  # beyond, Lambert's function has all digits
        step = np.divide(u * (share - p), slope, out=np.zeros_like(u), where=inside)
        u = np.maximum(u - step, u / 2)
    return u


@io.register
@dataclass(frozen=True, eq=False, repr=False)
class OverdispersedCounts(_Records):
    """Counts of Poisson visits whose intensity varies as a gamma of a fixed size k.

    The negative binomial: mean `a e^theta`, variance `mean + mean^2/k`. Minus its log likelihood,
    `(y + k) log(1 + a e^theta / k) - y theta` and a constant, is convex in theta for every fixed k:
    `Omega* = (y + k) log(1 + a e^theta / k)`, with `0 <= p <= y + k`. Its curvature is that of a
    logistic loss. In k it is not convex, so k is given.

    Parameters
    ----------
    counts : array (n,)
        The counts y.
    size : float
        The size k; infinity is Poisson, ``UnnormalisedRelativeEntropy(area)``.
    area : float or array (n,), default 1.0
        The area, or the effort, of each count.

    Examples
    --------
    >>> OverdispersedCounts([0, 3], size=2.0).conjugate([0.0, 0.0])[1].round(4).tolist()
    [0.6667, 1.6667]
    """

    counts: Any
    size: float
    area: Any = 1.0

    def __post_init__(self) -> None:
        positive("size", self.size)
        self._keep("counts", self.counts)
        if (self.counts < 0).any():
            raise ValueError(f"counts must not be negative, got {float(self.counts.min())!r}")

    @property
    def domain(self) -> Domain:
        """Up to y + k."""
        return Intervals(self.counts + self.size)

    @property
    def smoothness(self) -> float:
        """(y + k)/4, of the largest count."""
        return float(self.counts.max() + self.size) / 4

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        self._fits(theta)
        top, x = self.counts + self.size, double(theta) + np.log(self.area / self.size)
        return row_sum(top * np.logaddexp(0, x)), same_type(top * special.expit(x), theta)

    def _value(self, p: Rows) -> Array:
        self._fits(p)
        top = self.counts + self.size
        share = np.clip(double(p) / top, 0, 1)
        entropy = special.entr(share) + special.entr(1 - share)
        return row_sum(-top * entropy - p * np.log(self.area / self.size))

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, None]:
        """p (1 - p/(y + k))."""
        top = self.counts + self.size
        x = double(theta) + np.log(self.area / self.size)
        return top * special.expit(x) * special.expit(-x), None
