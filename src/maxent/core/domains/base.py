"""Domain: a convex set reached through oracles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from scipy import special

from maxent.core.domains.active_set import Support, mixtures, support_by_argmax
from maxent.core.domains.kl_by_argmax import project_kl_jvp_row, project_kl_row
from maxent.rows.arrays import (
    Array,
    Ragged,
    Rows,
    Tied,
    as_float,
    as_rows,
    check_scores,
    flat,
    leading,
    like,
    row_dot,
    row_sum,
    same_cuts,
    uneven,
)

_EPS = 6e-6  # step of central differences: near the cube root of the rounding unit


class Domain(ABC):
    """A convex set, row by row; ``theta`` and ``p`` are batches of rows of one size (or Ragged).

    Subclasses write the hooks ``_argmax`` and ``vertices``; a projection by an active set on
    ``argmax`` alone comes for nothing, closed forms override ``_project`` and ``_contains``. What
    else is known is said by overriding the properties here, with a class attribute
    (``constant_norm = True``) where the answer is always the same.

    What the oracles return lies in the domain, whatever the scale of the scores: no entry leaves
    the range of its values at the vertices, not even by a rounding (a probability is in [0, 1]),
    and sums are right up to ``roundings`` units in the last place of their total.
    """

    @property
    def bounded(self) -> bool:
        """Whether the domain is bounded, hence the convex hull of its vertices."""
        return True

    @property
    def constant_norm(self) -> bool:
        """Whether all vertices (of rows of one size) have the same length."""
        return False

    @property
    def ragged(self) -> bool:
        """Whether rows may have different sizes."""
        return False

    @property
    def rows_alike(self) -> bool:
        """Whether some rows of a batch are a batch too: not where the domain lists their sizes."""
        return True

    @property
    def tied(self) -> bool:
        """Whether rows may end in a block that they share (``Tied``)."""
        return False

    @property
    def largest_entry(self) -> float:
        """A bound on every entry of every point, inf where none is known."""
        return np.inf

    def roundings(self, size: int) -> float:
        """How many units of rounding sums may be off, in rows of ``size`` entries: one for each."""
        return 4.0 + size

    def check_rows(self, rows: Rows) -> Rows:
        """Rows with one leading axis; refuses rows that the domain has no use for."""
        if isinstance(rows, Ragged) and not self.ragged:
            raise TypeError(f"{self} needs rows of one size, got Ragged rows; use an array")
        if isinstance(rows, Tied) and not self.tied:
            raise TypeError(f"{self} knows no tied blocks; write the rows out")
        return as_rows(rows)

    def may_be_empty(self, size: int) -> bool:
        """Whether a row of zeros of this size is a vertex, so that all its scores may be -inf."""
        return False

    def check_scores(self, theta: Any, name: str = "scores") -> Rows:
        """Scores as float rows; refuses what no vertex can do with."""
        return check_scores(theta, name, self.may_be_empty)

    def conform(self, p: Rows, template: Rows) -> Rows:
        """Points in the layout of a batch of scores, where the domain knows several."""
        return p

    def conform_scores(self, theta: Rows, template: Rows) -> Rows:
        """Scores (a cost) in the layout of others, where the domain knows several."""
        return theta

    def argmax(self, theta: Any) -> Rows:
        """One vertex v of each row that maximises `<theta, v>`."""
        theta = self.check_scores(theta)
        return like(self._argmax(self.check_rows(theta)), theta)

    def project(self, theta: Any) -> Rows:
        """The nearest point of the domain to each row, `argmin_p ||p - theta||^2`."""
        theta = self.check_scores(theta, "points to project")
        return like(self._project(self.check_rows(theta)), theta)

    def project_support(
        self, theta: Any, start: Sequence[Support] | None = None
    ) -> tuple[Rows, list[Support]]:
        """The nearest points, and for each row the vertices and weights of a mixture that is it.

        ``start`` takes the supports of similar rows, from an earlier call: a warm start.

        >>> from maxent.core.domains import KSubset
        >>> p, (support,) = KSubset(2).project_support([[1.0, 0.5, 0.0]])
        >>> p, support.weights
        (array([[1.  , 0.75, 0.25]]), array([0.75, 0.25]))
        """
        if not self.bounded:
            raise TypeError(f"{self} is not bounded, so its points are no mixtures of vertices")
        theta = self.check_scores(theta, "points to project")
        rows = self.check_rows(theta)
        if start is not None and len(start) != len(rows):
            raise ValueError(f"{len(rows)} rows need as many starts, got {len(start)}")
        supports = self._project_support(rows, start)
        return like(mixtures(supports, rows), theta), supports

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
        reason = self._why_outside(each_row(as_rows(p))[row])
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
        return mixtures(self._project_support(theta, None), theta)

    def _project_support(self, theta: Rows, start: Sequence[Support] | None) -> list[Support]:
        return support_by_argmax(self._argmax, theta, start)

    def _contains(self, p: Rows, atol: float) -> Array:
        finite = row_sum(~np.isfinite(p)) == 0
        if not finite.all():
            return finite
        distance = p - self._project(p)
        return np.sqrt(row_dot(distance, distance)) <= atol

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Derivative of ``project`` at theta along v; central differences unless overridden."""
        return central_difference(self._project, theta, v)

    @property
    def has_project_kl(self) -> bool:
        """Whether ``project_kl`` has a method of its own, and needs no search by ``argmax``."""
        return type(self)._project_kl is not Domain._project_kl

    def project_kl(self, theta: Any) -> Rows:
        """`argmax_p <theta, p> - sum p log p`: the Kullback-Leibler projection of `exp(theta)`."""
        theta = self.check_scores(theta)
        return like(self._project_kl(self.check_rows(theta)), theta)

    def _project_kl(self, theta: Rows) -> Rows:
        return self._row_by_row(lambda row: project_kl_row(self._argmax, row), theta)

    def project_kl_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Derivative of ``project_kl`` at theta along v."""
        if type(self)._project_kl is not Domain._project_kl:
            return central_difference(self._project_kl, theta, v)
        return self._row_by_row(
            lambda row, q, u: project_kl_jvp_row(self._argmax, row, q, u), theta, p, v
        )

    def _row_by_row(self, solve: Callable[..., Array], theta: Rows, *others: Rows) -> Rows:
        """What ``solve`` makes of the rows of some batches, one at a time."""
        if not (self.bounded and self.rows_alike) or isinstance(theta, Tied):
            raise TypeError(f"{self} has no Kullback-Leibler projection of such rows")
        batches = [[row.astype(np.float64) for row in each_row(x)] for x in (theta, *others)]
        points = [solve(*rows).astype(theta.dtype) for rows in zip(*batches, strict=True)]
        if isinstance(theta, Ragged):
            return Ragged.from_rows(points)
        return np.array(points, dtype=theta.dtype).reshape(theta.shape)


class _NoEnd(Exception):
    """Steps of a solver that go on and on."""


class SumProductDomain(Domain):
    """A domain whose sums over all vertices are tractable: it has a log-partition function."""

    def softmax(self, theta: Any) -> tuple[Array, Rows]:
        """`log sum_v exp<theta, v>` of each row, and the mean vertex (the marginals)."""
        theta = self.check_scores(theta)
        log_partition, mean = self._softmax(self.check_rows(theta))
        return leading(log_partition, theta), like(mean, theta)

    @abstractmethod
    def _softmax(self, theta: Rows) -> tuple[Array, Rows]: ...

    def entropy(self, theta: Any) -> Array:
        """Shannon's entropy of the vertices with probability `exp<theta, v> / Z`, row by row."""
        theta = self.check_scores(theta)
        return leading(self._entropy(self.check_rows(theta)), theta)

    def kl(self, theta: Any, other: Any) -> Array:
        """`KL(p || q) = sum_v p(v) log(p(v) / q(v)) >= 0`, p of theta and q of ``other``.

        inf where ``other`` forbids a vertex that theta does not.
        """
        theta, other = self.check_scores(theta), self.check_scores(other, "other scores")
        rows, others = self.check_rows(theta), self.check_rows(other)
        if not same_cuts(rows, others):
            raise ValueError("theta and other are batches of as many rows of the same sizes")
        return leading(self._kl(rows, others), theta)

    def cross_entropy(self, theta: Any, other: Any) -> Array:
        """`-sum_v p(v) log q(v)`: the entropy of theta's vertices and their divergence from it."""
        return np.asarray(self.entropy(theta) + self.kl(theta, other))

    def _entropy(self, theta: Rows) -> Array:
        theta = theta.astype(np.float64)  # log Z and <theta, p> may be large and close
        log_partition, mean = self._softmax(theta)
        return np.maximum(log_partition - row_dot(theta, mean), 0.0)

    def _kl(self, theta: Rows, other: Rows) -> Array:
        theta, other = theta.astype(np.float64), other.astype(np.float64)
        log_partition, mean = self._softmax(theta)
        surprise = self._softmax(other)[0] - row_dot(other, mean)
        return np.maximum(surprise - (log_partition - row_dot(theta, mean)), 0.0)

    def negentropy(self, p: Rows) -> Array:
        """`-H = max_theta <theta, p> - log Z` of the maximum-entropy distribution with mean p.

        Fenchel-Young paper, eq. (26). Solved numerically here; closed forms override.
        """
        return np.array([self._negentropy_row(row) for row in each_row(p)])

    def _negentropy_row(self, p: Array) -> float:
        # the scores of entries on their own; those of 0 and 1 are far enough out
        start = np.clip(special.logit(np.clip(p.astype(np.float64), 0.0, 1.0)), -40.0, 40.0)
        best, least, products = start, np.inf, 0

        def negative(theta: Array) -> tuple[float, Array]:
            nonlocal best, least, products
            products = 0
            log_partition, mean = self._softmax(theta[None])
            value = float(log_partition[0] - theta @ p)
            if value < least:
                best, least = theta.copy(), value
            return value, np.asarray(mean)[0] - p

        def curvature(theta: Array, direction: Array) -> Array:
            nonlocal products
            products += 1
            if products > 2 * p.size + 20:  # scipy's conjugate gradients have no end of their own
                raise _NoEnd
            _, mean = self._softmax(theta[None])
            return np.asarray(self.softmax_jvp(theta[None], mean, direction[None]))[0]

        steps = {"jac": True, "options": {"gtol": 1e-12, "maxiter": 200}}
        try:
            scipy.optimize.minimize(negative, start, hessp=curvature, method="trust-ncg", **steps)
        except _NoEnd:  # products too rough for the directions that are left
            scipy.optimize.minimize(negative, best, method="BFGS", **steps)
        return -least

    def cheap_negentropy(self, p: Rows) -> bool:
        """Whether the negentropy of such rows costs no more than a few passes over them."""
        return type(self).negentropy is not SumProductDomain.negentropy

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Derivative of the marginals at theta along v (covariance of the vertex times v)."""
        return central_difference(lambda t: self._softmax(t)[1], theta, v)


class KBestDomain(Domain):
    """A domain that can list the best of its vertices.

    Several vertices per row come as a list of batches, each of the shape of the scores.
    """

    def kbest(self, theta: Any, k: int) -> tuple[Array, list[Rows]]:
        """Scores (rows, k) of the k best vertices of each row, falling, and the k batches of them.

        Where a row has fewer than k vertices, the rest score -inf and are rows of zeros.

        >>> from maxent.core.domains import KSubset
        >>> KSubset(2).kbest([3.0, 1.0, 2.0], 2)
        (array([5., 4.]), [array([1., 0., 1.]), array([1., 1., 0.])])
        """
        theta = self.check_scores(theta)
        if not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"kbest needs an integer k >= 1, got {k!r}")
        scores, batches = self._kbest(self.check_rows(theta), int(k))
        shape = (*leading(scores[:, 0], theta).shape, int(k))
        return scores.reshape(shape), [like(batch, theta) for batch in batches]

    @abstractmethod
    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]: ...


class StructuredDomain(KBestDomain, SumProductDomain):
    """A domain of structures (paths, trees) that can also list the best ones and draw some.

    Several structures per row come as a list of batches, each of the shape of the scores.
    """

    def sample(self, theta: Any, n: int = 1, random_state: Any = None) -> list[Rows]:
        """n batches of vertices, each row drawn with probability `exp<theta, v> / Z`."""
        theta = self.check_scores(theta)
        if not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"sample needs an integer n >= 1, got {n!r}")
        rng = np.random.default_rng(random_state)
        return [like(batch, theta) for batch in self._sample(self.check_rows(theta), int(n), rng)]

    @abstractmethod
    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]: ...


def each_row(p: Rows) -> list[Array]:
    """The rows of a batch, as vectors."""
    return p.rows() if uneven(p) else list(p)


def central_difference(oracle: Callable[[Rows], Rows], theta: Rows, v: Rows) -> Rows:
    """(oracle(theta + h v) - oracle(theta - h v)) / 2h with h scaled to v."""
    largest = float(np.max(np.abs(flat(v)), initial=0.0))
    if largest == 0.0:
        return 0.0 * v
    h = _EPS / largest
    exact = theta.astype(np.float64)  # the step is lost in float32
    slope = (oracle(exact + h * v) - oracle(exact - h * v)) * (0.5 / h)
    return slope.astype(theta.dtype)
