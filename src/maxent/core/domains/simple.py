"""Domains with closed forms: the simplex, the cube, the cone, all of R^d, subsets of size k."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains.base import Domain, StructuredDomain, SumProductDomain
from maxent.core.prediction_maps import (
    capped_map,
    capped_softmax,
    independent_entries,
    sigmoid_map,
    softmax_map,
    subset_jvp,
    subset_map,
    tsallis_map,
)
from maxent.rows.arrays import Array, Rows, row_dot, row_sum


@io.register
@dataclass(frozen=True)
class Simplex(SumProductDomain):
    """The probability simplex `{p >= 0, sum p = 1}`; its vertices are the unit vectors.

    >>> Simplex().project([0.5, 1.5, 0.0])
    array([0., 1., 0.])
    """

    constant_norm = True
    largest_entry = 1.0

    def vertices(self, size: int) -> Array:
        """The unit vectors."""
        return np.eye(size)

    def _argmax(self, theta: Rows) -> Rows:
        out = np.zeros_like(theta)
        out[np.arange(len(out)), np.argmax(theta, axis=-1)] = 1
        return out

    def _project(self, theta: Rows) -> Rows:
        return tsallis_map(theta, 2.0)[1]

    def _contains(self, p: Rows, atol: float) -> Array:
        return (np.min(p, axis=-1) >= -atol) & _sums_to(p, 1, atol)

    def _why_outside(self, row: Array) -> str:
        reason = super()._why_outside(row)
        return f"{reason}, not to 1; divide counts by their sum" if "sums" in reason else reason

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        return softmax_map(theta)

    def negentropy(self, p: Rows) -> Array:
        """sum p log p."""
        return -row_sum(special.entr(p))

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """`p v - p <p, v>`."""
        return p * (v - row_dot(p, v)[..., None].astype(p.dtype))

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less its mean over the support, 0 off the support."""
        support = p > 0
        mean = row_dot(support.astype(p.dtype), v) / row_sum(support)
        return np.where(support, v - mean[..., None], 0).astype(p.dtype)

    def _project_kl(self, theta: Rows) -> Rows:
        return softmax_map(theta)[1]

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """As that of the softmax, which it is."""
        return self.softmax_jvp(theta, p, v)


@io.register
@dataclass(frozen=True)
class Cube(SumProductDomain):
    """The unit cube `[0, 1]^d`; its vertices are the 0/1 vectors.

    >>> Cube().softmax([0.0, 0.0])[1]
    array([0.5, 0.5])
    """

    largest_entry = 1.0

    def may_be_empty(self, size: int) -> bool:
        """Always: 0 is a vertex."""
        return True

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
        return sigmoid_map(theta)

    def negentropy(self, p: Rows) -> Array:
        """`sum p log p + (1 - p) log(1 - p)`, also where rounding has left the cube."""
        p = np.clip(p, 0, 1)
        return -row_sum(special.entr(p) + special.entr(1 - p))

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p (1 - p) v."""
        return p * (1 - p) * v

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v strictly inside the cube, 0 on its faces."""
        return np.where((p > 0) & (p < 1), v, 0).astype(p.dtype)

    def _project_kl(self, theta: Rows) -> Rows:
        return np.exp(np.minimum(theta - 1, 0))

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """p v below 1."""
        return np.where(p < 1, p * v, 0).astype(p.dtype)


@io.register
@dataclass(frozen=True)
class NonNegative(Domain):
    """The cone `{m >= 0}` of positive measures; its only vertex is 0.

    >>> NonNegative().project([-1.0, 2.0])
    array([0., 2.])
    """

    bounded = False

    def may_be_empty(self, size: int) -> bool:
        """Always: 0 is the vertex."""
        return True

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


@io.register
@dataclass(frozen=True, eq=False)
class Intervals(Domain):
    """The product of the intervals `[0, c_j]`; where `c_j` is infinite, a half-line.

    Parameters
    ----------
    upper : array (n,)
        The upper ends `c_j > 0`.

    Examples
    --------
    >>> Intervals([1.0, np.inf]).project([2.0, 2.0])
    array([1., 2.])
    """

    upper: Any

    def __post_init__(self) -> None:
        upper = np.array(self.upper, dtype=np.float64, ndmin=1)
        if upper.ndim != 1 or not upper.size or not (upper > 0).all():
            raise ValueError(f"upper must be a row of ends > 0, got {self.upper!r:.80}")
        upper.setflags(write=False)
        object.__setattr__(self, "upper", upper)

    def __repr__(self) -> str:
        return f"Intervals({self.upper.size} ends)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and np.array_equal(self.upper, other.upper)

    def __hash__(self) -> int:
        return hash((type(self), self.upper.tobytes()))

    @property
    def bounded(self) -> bool:
        """Whether every end is finite."""
        return bool(np.isfinite(self.upper).all())

    @property
    def largest_entry(self) -> float:
        """The largest end."""
        return float(self.upper.max())

    def may_be_empty(self, size: int) -> bool:
        """Always: 0 is a vertex."""
        return True

    def check_rows(self, rows: Rows) -> Rows:
        """Rows of as many entries as there are intervals."""
        rows = super().check_rows(rows)
        if rows.shape[-1] != self.upper.size:
            raise ValueError(f"{self!r} needs rows of that size, got {rows.shape[-1]} entries")
        return rows

    def vertices(self, size: int) -> Array:
        """All combinations of finite ends."""
        ends = [(0.0, c) if np.isfinite(c) else (0.0,) for c in self.upper]
        return np.array(list(itertools.product(*ends)))

    def _argmax(self, theta: Rows) -> Rows:
        if (theta[:, np.isinf(self.upper)] > 0).any():
            raise ValueError(
                "a linear function with a positive score is unbounded on a half-line; regularize it"
            )
        return np.where(theta > 0, self.upper, 0.0).astype(theta.dtype)

    def _project(self, theta: Rows) -> Rows:
        return np.clip(theta, 0, self.upper.astype(theta.dtype))

    def _contains(self, p: Rows, atol: float) -> Array:
        inside = (p >= -atol) & (p <= self.upper + atol) & (p < np.inf)
        return np.asarray(inside.all(axis=-1))

    def _why_outside(self, row: Array) -> str:
        return f"{super()._why_outside(row)}; entries must lie between 0 and their upper ends"

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v strictly inside, 0 at the ends."""
        return np.where((p > 0) & (p < self.upper), v, 0).astype(p.dtype)


@io.register
@dataclass(frozen=True)
class Euclidean(Domain):
    """All of `R^d`, for the squared loss; it has no vertices.

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


@io.register
@dataclass(frozen=True)
class KSubset(StructuredDomain):
    """Subsets of k out of d entries: `{0 <= p <= 1, sum p = k}`, vertices with k ones.

    The capped simplex `{0 <= p <= 1/k, sum p = 1}` is ``ScaledDomain(KSubset(k), 1 / k)``.

    Parameters
    ----------
    k : int
        Number of ones.

    Examples
    --------
    >>> KSubset(2).argmax([3.0, 1.0, 2.0])
    array([1., 0., 1.])
    """

    k: int
    constant_norm = True
    largest_entry = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | np.integer) or self.k < 1:
            raise ValueError(f"KSubset needs an integer k >= 1, got {self.k!r}")

    def _check(self, theta: Array) -> None:
        usable = np.sum(theta > -np.inf, axis=-1)
        if theta.size and usable.min() < self.k:
            raise ValueError(
                f"KSubset(k={self.k}) needs at least {self.k} finite scores per row, "
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
        return capped_map(theta, float(self.k))

    def _contains(self, p: Rows, atol: float) -> Array:
        return (
            _sums_to(p, self.k, atol)
            & (np.min(p, axis=-1) >= -atol)
            & (np.max(p, axis=-1) <= 1 + atol)
        )

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        self._check(theta)
        return subset_map(theta, int(self.k))

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent._support.compiling.kernels import exact
        from maxent.core.kernels.subsets import kbest_rows

        self._check(theta)
        order = np.argsort(-theta, axis=1, kind="stable")
        ranked = np.take_along_axis(theta, order, axis=1).astype(np.float64)
        scores, found = np.empty((len(theta), k)), np.empty((k, *theta.shape), theta.dtype)
        each = k * (4 * int(self.k) + theta.shape[1])
        search = exact(kbest_rows, each * len(theta))

        def work(start: int, stop: int) -> None:
            search(ranked, order, int(self.k), scores, found, start, stop)

        over_rows(work, len(theta), each)
        return scores, list(found)

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.core.kernels.subsets import sample_rows

        self._check(theta)
        found = np.empty((n, *theta.shape), theta.dtype)
        uniform = rng.random(found.shape)
        take, leave = independent_entries(theta, int(self.k))

        def work(start: int, stop: int) -> None:
            sample_rows(take, leave, int(self.k), uniform, found, start, stop)

        over_rows(work, len(theta), theta.shape[1] * (int(self.k) + n))
        return list(found)

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """The covariance of the entries of a random subset, times v."""
        return subset_jvp(theta, int(self.k), v)

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v less its mean over the entries strictly between 0 and 1."""
        free = (p > 0) & (p < 1)
        mean = row_dot(free.astype(p.dtype), v) / np.maximum(row_sum(free), 1)
        return np.where(free, v - mean[..., None], 0).astype(p.dtype)

    def _project_kl(self, theta: Rows) -> Rows:
        self._check(theta)
        return capped_softmax(theta, int(self.k))

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """`p v - p <p, v> / sum p`, on the entries below 1."""
        free = np.where(p < 1, p, 0)
        mean = row_dot(free, v) / np.maximum(row_sum(free), np.finfo(np.float64).tiny)
        return (free * (v - mean[..., None])).astype(p.dtype)


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
            f"labels must lie in 0 .. {size - 1} for {size} scores per row, "
            f"got {labels.min()} .. {labels.max()}"
        )
    target = np.zeros(scores.shape, dtype=scores.dtype)
    np.put_along_axis(target, labels[..., None], 1, axis=-1)
    return target


def _sums_to(p: Array, total: float, atol: float) -> Array:
    """Whether rows sum to ``total``; rounding grows with the root of their size."""
    return np.abs(row_sum(p) - total) <= atol * max(1.0, p.shape[-1] ** 0.5)
