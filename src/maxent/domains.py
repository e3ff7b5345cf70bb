"""Domains: convex sets reached through oracles.

A domain answers for batches of rows (see :mod:`maxent._rows`): ``argmax`` (a best vertex),
``project`` (the nearest point) and, where sums over all vertices are tractable, ``softmax``
(log-partition and marginals). Entropies know their domain through these oracles alone, so
every entropy written for oracles works on every domain that has them.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import optimize, special

from maxent._active_set import project_by_argmax
from maxent._rows import (
    Array,
    Ragged,
    Rows,
    as_float,
    as_rows,
    check_scores,
    flat,
    leading,
    like,
    row_dot,
    row_sum,
)

_EPS = 6e-6  # step of central differences: near the cube root of the rounding unit


class Domain(ABC):
    """A convex set, row by row; ``theta`` and ``p`` are batches of rows of one size (or Ragged).

    Subclasses write the hooks ``_argmax`` and ``vertices``; a projection by an active set on
    ``argmax`` alone comes for nothing, closed forms override ``_project`` and ``_contains``.
    """

    bounded: bool = True
    constant_norm: bool = False  # all vertices (of rows of one size) have the same length
    ragged: bool = False  # whether rows may have different sizes

    def check_rows(self, rows: Rows) -> Rows:
        """Rows with one leading axis; refuses ragged rows where the domain has no use for them."""
        if isinstance(rows, Ragged) and not self.ragged:
            raise TypeError(f"{self} needs rows of one size, got Ragged rows; use an array")
        return as_rows(rows)

    def argmax(self, theta: Any) -> Rows:
        """One vertex v of each row that maximises <theta, v>."""
        theta = check_scores(theta)
        return like(self._argmax(self.check_rows(theta)), theta)

    def project(self, theta: Any) -> Rows:
        """The nearest point of the domain to each row, argmin_p ||p - theta||^2."""
        theta = check_scores(theta, "points to project")
        return like(self._project(self.check_rows(theta)), theta)

    def contains(self, p: Any, atol: float = 1e-9) -> Array:
        """Whether each row lies in the domain, up to ``atol`` (float32 rows: at least 1e-5)."""
        p = as_float(p)
        if p.dtype == np.float32:
            atol = max(atol, 1e-5)
        with np.errstate(invalid="ignore"):
            return leading(self._contains(self.check_rows(p), atol), p)

    def require(self, p: Rows, name: str) -> None:
        """Refuse points outside the domain, saying which and why."""
        inside = np.atleast_1d(self.contains(p)).ravel()
        if inside.all():
            return
        row = int(np.flatnonzero(~inside)[0])
        reason = self._why_outside(_each_row(as_rows(p))[row])
        raise ValueError(f"row {row} of the {name} is not in {self}: {reason}")

    def _why_outside(self, row: Array) -> str:
        """What is wrong with a row, and what to do."""
        if not np.isfinite(row).all():
            return "it contains NaN or infinity; remove or impute those entries"
        if row.min() < 0:
            return f"it has a negative entry ({row.min():.6g})"
        return f"it sums to {row.sum():.6g} with entries up to {row.max():.6g}"

    @abstractmethod
    def vertices(self, size: int) -> Array:
        """All vertices for rows of ``size`` entries, (n_vertices, size); small sizes only."""

    @abstractmethod
    def _argmax(self, theta: Rows) -> Rows: ...

    def _project(self, theta: Rows) -> Rows:
        return project_by_argmax(self._argmax, theta)

    def _contains(self, p: Rows, atol: float) -> Array:
        finite = row_sum(~np.isfinite(p)) == 0
        if not finite.all():
            return finite
        distance = p - self._project(p)
        return np.sqrt(row_dot(distance, distance)) <= atol

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Derivative of ``project`` at theta along v; central differences unless overridden."""
        return _central_difference(self._project, theta, v)


class SumProductDomain(Domain):
    """A domain whose sums over all vertices are tractable: it has a log-partition function."""

    def softmax(self, theta: Any) -> tuple[Array, Rows]:
        """log sum_v exp<theta, v> of each row, and the mean vertex (the marginals)."""
        theta = check_scores(theta)
        log_partition, mean = self._softmax(self.check_rows(theta))
        return leading(log_partition, theta), like(mean, theta)

    @abstractmethod
    def _softmax(self, theta: Rows) -> tuple[Array, Rows]: ...

    def negentropy(self, p: Rows) -> Array:
        """-H of the maximum-entropy distribution with mean p, = max_theta <theta, p> - log Z.

        Fenchel-Young paper, eq. (26). Solved numerically here; closed forms override.
        """
        return np.array([self._negentropy_row(row) for row in _each_row(p)])

    def _negentropy_row(self, p: Array) -> float:
        def negative(theta: Array) -> tuple[float, Array]:
            log_partition, mean = self._softmax(theta[None])
            return float(log_partition[0] - theta @ p), np.asarray(mean)[0] - p

        start = np.zeros(p.size)
        found = optimize.minimize(
            negative, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
        )
        return -float(found.fun)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Derivative of the marginals at theta along v (covariance of the vertex times v)."""
        return _central_difference(lambda t: self._softmax(t)[1], theta, v)


@dataclass(frozen=True)
class Simplex(SumProductDomain):
    """The probability simplex {p >= 0, sum p = 1}; its vertices are the unit vectors.

    >>> Simplex().project([0.5, 1.5, 0.0])
    array([0., 1., 0.])
    """

    constant_norm = True

    def vertices(self, size: int) -> Array:
        """The unit vectors."""
        return np.eye(size)

    def _argmax(self, theta: Rows) -> Rows:
        out = np.zeros_like(theta)
        out[np.arange(len(out)), np.argmax(theta, axis=-1)] = 1
        return out

    def _project(self, theta: Rows) -> Rows:
        from maxent._maps import tsallis_map

        return tsallis_map(theta, 2.0)[1]

    def _contains(self, p: Rows, atol: float) -> Array:
        return (np.min(p, axis=-1) >= -atol) & _sums_to(p, 1, atol)

    def _why_outside(self, row: Array) -> str:
        reason = super()._why_outside(row)
        return f"{reason}, not to 1; divide counts by their sum" if "sums" in reason else reason

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent._maps import softmax_map

        return softmax_map(theta)

    def negentropy(self, p: Rows) -> Array:
        """sum p log p."""
        return -row_sum(special.entr(p))

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p v - p <p, v>."""
        return p * (v - row_dot(p, v)[..., None].astype(p.dtype))

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less its mean over the support, 0 off the support."""
        support = p > 0
        mean = row_dot(support.astype(p.dtype), v) / row_sum(support)
        return np.where(support, v - mean[..., None], 0).astype(p.dtype)


@dataclass(frozen=True)
class Cube(SumProductDomain):
    """The unit cube [0, 1]^d; its vertices are the 0/1 vectors.

    >>> Cube().softmax([0.0, 0.0])[1]
    array([0.5, 0.5])
    """

    def vertices(self, size: int) -> Array:
        """All 0/1 vectors."""
        return np.array(list(itertools.product([0.0, 1.0], repeat=size)))

    def _argmax(self, theta: Rows) -> Rows:
        return (theta > 0).astype(theta.dtype)

    def _project(self, theta: Rows) -> Rows:
        return np.clip(theta, 0, 1)

    def _contains(self, p: Rows, atol: float) -> Array:
        return (np.min(p, axis=-1) >= -atol) & (np.max(p, axis=-1) <= 1 + atol)

    def _why_outside(self, row: Array) -> str:
        return f"{super()._why_outside(row)}; entries must lie in [0, 1], so use labels 0 and 1"

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        from maxent._maps import sigmoid_map

        return sigmoid_map(theta)

    def negentropy(self, p: Rows) -> Array:
        """sum p log p + (1 - p) log(1 - p)."""
        return -row_sum(special.entr(p) + special.entr(1 - p))

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p (1 - p) v."""
        return p * (1 - p) * v

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v strictly inside the cube, 0 on its faces."""
        return np.where((p > 0) & (p < 1), v, 0).astype(p.dtype)


@dataclass(frozen=True)
class NonNegative(Domain):
    """The cone {m >= 0} of positive measures; its only vertex is 0.

    >>> NonNegative().project([-1.0, 2.0])
    array([0., 2.])
    """

    bounded = False

    def vertices(self, size: int) -> Array:
        """The apex 0 (the cone's rays are not vertices)."""
        return np.zeros((1, size))

    def _argmax(self, theta: Rows) -> Rows:
        if np.any(theta > 0):
            raise ValueError(
                "a linear function with a positive score is unbounded on the cone; regularize it "
                "(SquaredNorm(domain=NonNegative())) or use a bounded domain such as Cube()"
            )
        return np.zeros_like(theta)

    def _project(self, theta: Rows) -> Rows:
        return np.maximum(theta, 0)

    def _contains(self, p: Rows, atol: float) -> Array:
        return (np.min(p, axis=-1) >= -atol) & (np.max(p, axis=-1) < np.inf)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v where the point is positive."""
        return np.where(p > 0, v, 0).astype(p.dtype)


@dataclass(frozen=True)
class Euclidean(Domain):
    """All of R^d, for the squared loss; it has no vertices.

    >>> Euclidean().project([-1.0, 2.0])
    array([-1.,  2.])
    """

    bounded = False

    def vertices(self, size: int) -> Array:
        """None: the space is its own affine hull."""
        return np.empty((0, size))

    def _argmax(self, theta: Rows) -> Rows:
        if np.any(theta != 0):
            raise ValueError(
                "a linear function is unbounded on all of R^d; regularize it "
                "(SquaredNorm(domain=Euclidean()) is the squared loss)"
            )
        return np.zeros_like(theta)

    def _project(self, theta: Rows) -> Rows:
        if not np.isfinite(theta).all():
            raise ValueError("points of R^d must be finite, got -inf")
        return theta.copy()

    def _contains(self, p: Rows, atol: float) -> Array:
        return np.isfinite(p).all(axis=-1)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """The identity."""
        return v.copy()


@dataclass(frozen=True)
class KSubset(SumProductDomain):
    """Subsets of k out of d entries: {0 <= p <= 1, sum p = k}, vertices with k ones.

    The capped simplex {0 <= p <= 1/k, sum p = 1} is ``ScaledDomain(KSubset(k), 1 / k)``.

    >>> KSubset(2).argmax([3.0, 1.0, 2.0])
    array([1., 0., 1.])
    """

    k: int
    constant_norm: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | np.integer) or self.k < 1:
            raise ValueError(f"KSubset needs an integer k >= 1, got {self.k!r}")

    def _check(self, theta: Array) -> None:
        usable = np.sum(theta > -np.inf, axis=-1)
        if theta.size and usable.min() < self.k:
            raise ValueError(
                f"KSubset(k={self.k}) needs at least {self.k} finite scores a row, "
                f"a row has {usable.min()}"
            )

    def vertices(self, size: int) -> Array:
        """All 0/1 vectors with k ones."""
        choices = list(itertools.combinations(range(size), self.k))
        out = np.zeros((len(choices), size))
        for row, choice in zip(out, choices, strict=True):
            row[list(choice)] = 1
        return out

    def _argmax(self, theta: Rows) -> Rows:
        self._check(theta)
        out = np.zeros_like(theta)
        top = np.argpartition(theta, -self.k, axis=-1)[:, -self.k :]
        np.put_along_axis(out, top, 1, axis=-1)
        return out

    def _project(self, theta: Rows) -> Rows:
        self._check(theta)
        from maxent._maps import capped_map

        return capped_map(theta, float(self.k))

    def _contains(self, p: Rows, atol: float) -> Array:
        return (
            _sums_to(p, self.k, atol)
            & (np.min(p, axis=-1) >= -atol)
            & (np.max(p, axis=-1) <= 1 + atol)
        )

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        self._check(theta)
        from maxent._maps import subset_map

        return subset_map(theta, int(self.k))

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less its mean over the entries strictly between 0 and 1."""
        free = (p > 0) & (p < 1)
        mean = row_dot(free.astype(p.dtype), v) / np.maximum(row_sum(free), 1)
        return np.where(free, v - mean[..., None], 0).astype(p.dtype)


@dataclass(frozen=True)
class ScaledDomain(Domain):
    """``scale`` times another domain, {scale p : p in domain}.

    >>> ScaledDomain(KSubset(2), 0.5).project([9.0, 0.0, 0.0])  # capped at 1/2
    array([0.5 , 0.25, 0.25])
    """

    domain: Domain
    scale: float

    @property
    def constant_norm(self) -> bool:  # type: ignore[override]
        """Whether the vertices have one length."""
        return self.domain.constant_norm

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"ScaledDomain needs a finite scale > 0, got {self.scale!r}")
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the scaled domain is bounded."""
        return self.domain.bounded

    def vertices(self, size: int) -> Array:
        """The scaled vertices."""
        return self.scale * self.domain.vertices(size)

    def _argmax(self, theta: Rows) -> Rows:
        return self.scale * self.domain._argmax(theta)

    def _project(self, theta: Rows) -> Rows:
        return self.scale * self.domain._project(theta / self.scale)

    def _contains(self, p: Rows, atol: float) -> Array:
        return self.domain._contains(p / self.scale, atol / self.scale)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """The unscaled derivative at the unscaled point."""
        return self.domain.project_jvp(theta / self.scale, p / self.scale, v)


@dataclass(frozen=True)
class Product(SumProductDomain):
    """``copies`` rows of one domain taken as a single point, flattened.

    >>> Product(Simplex(), 2).argmax([1.0, 2.0, 4.0, 3.0])
    array([0., 1., 1., 0.])
    """

    domain: Domain
    copies: int

    @property
    def constant_norm(self) -> bool:  # type: ignore[override]
        """Whether the factor's vertices have one length."""
        return self.domain.constant_norm

    def __post_init__(self) -> None:
        if not isinstance(self.copies, int | np.integer) or self.copies < 1:
            raise ValueError(f"Product needs an integer number of copies >= 1, got {self.copies!r}")

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the factor is bounded."""
        return self.domain.bounded

    def vertices(self, size: int) -> Array:
        """Every combination of the factor's vertices."""
        self._split(np.empty((1, size)))
        each = self.domain.vertices(size // self.copies)
        return np.array([np.concatenate(c) for c in itertools.product(each, repeat=self.copies)])

    def _split(self, theta: Rows) -> Array:
        if isinstance(theta, Ragged) or theta.shape[-1] % self.copies:
            size = "ragged" if isinstance(theta, Ragged) else theta.shape[-1]
            raise ValueError(f"rows of size {size} cannot be cut into {self.copies} equal parts")
        return theta.reshape(-1, theta.shape[-1] // self.copies)

    def _argmax(self, theta: Rows) -> Rows:
        return like(self.domain.argmax(self._split(theta)), theta)

    def _project(self, theta: Rows) -> Rows:
        return like(self.domain.project(self._split(theta)), theta)

    def _contains(self, p: Rows, atol: float) -> Array:
        inside = self.domain._contains(self._split(p), atol).reshape(-1, self.copies)
        return np.asarray(inside.all(axis=-1))

    def _factor(self) -> SumProductDomain:
        if not isinstance(self.domain, SumProductDomain):
            raise TypeError(f"{self.domain} has no softmax, so neither has a product of its copies")
        return self.domain

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        log_partition, mean = self._factor().softmax(self._split(theta))
        return log_partition.reshape(-1, self.copies).sum(axis=-1), like(mean, theta)

    def negentropy(self, p: Rows) -> Array:
        """The sum over the factors, which are independent."""
        return self._factor().negentropy(self._split(p)).reshape(-1, self.copies).sum(axis=-1)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Factor by factor."""
        parts = (self._split(x) for x in (theta, p, v))
        return like(self._factor().softmax_jvp(*parts), theta)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Factor by factor."""
        parts = (self._split(x) for x in (theta, p, v))
        return like(self.domain.project_jvp(*parts), theta)


def one_hot(labels: Array, scores: Array, domain: Domain) -> Array:
    """Integer labels as vertices of the simplex, in the shape and float type of the scores."""
    size = scores.shape[-1]
    if not isinstance(domain, Simplex):
        raise ValueError(f"labels are for the simplex; {domain} needs target rows")
    if labels.dtype == bool:
        labels = labels.astype(int)
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be integers, got dtype {labels.dtype}; encode classes as 0 .. {size - 1} "
            "(scikit-learn's LabelEncoder does)"
        )
    if labels.size and not (labels.min() >= 0 and labels.max() < size):
        raise ValueError(
            f"labels must lie in 0 .. {size - 1} for {size} scores a row, "
            f"got {labels.min()} .. {labels.max()}"
        )
    target = np.zeros(scores.shape, dtype=scores.dtype)
    np.put_along_axis(target, labels[..., None], 1, axis=-1)
    return target


def _sums_to(p: Array, total: float, atol: float) -> Array:
    """Whether rows sum to ``total``; rounding grows with the root of their size."""
    return np.abs(row_sum(p) - total) <= atol * max(1.0, p.shape[-1] ** 0.5)


def _each_row(p: Rows) -> list[Array]:
    return p.rows() if isinstance(p, Ragged) else list(p)


def _central_difference(oracle: Any, theta: Rows, v: Rows) -> Rows:
    """(oracle(theta + h v) - oracle(theta - h v)) / 2h with h scaled to v."""
    largest = float(np.max(np.abs(flat(v)), initial=0.0))
    if largest == 0.0:
        return 0.0 * v
    h = _EPS / largest
    exact = theta.astype(np.float64)  # the step is lost in float32
    slope = (oracle(exact + h * v) - oracle(exact - h * v)) * (0.5 / h)
    return slope.astype(theta.dtype)
