"""Entropies made from entropies: a cost, a base measure, a temperature; and no entropy at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent.core.domains import Domain, Simplex
from maxent.core.entropies.base import Entropy, MeasuredEntropy, double, positive, same_type
from maxent.rows.arrays import Array, Rows, as_float, as_rows, n_rows, parts, row_dot, uneven


@io.register
@dataclass(frozen=True)
class Zero(Entropy):
    """`Omega = 0` on the domain: its map is the argmax, its loss the (structured) perceptron.

    Parameters
    ----------
    domain : Domain, default Simplex()
        Where p lies.

    Examples
    --------
    >>> Zero().conjugate([1.0, 3.0])
    (array(3.), array([0., 1.]))
    """

    domain: Domain = Simplex()
    differentiable = False
    has_prox = True
    _checks_scores = True

    def _value(self, p: Rows) -> Array:
        return np.zeros(n_rows(p))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        vertex = self.domain.argmax(theta)
        return row_dot(theta, vertex), vertex

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return self.domain.project(eta)


class Wrapper(Entropy):
    """What a wrapped entropy inherits from the one inside."""

    entropy: Entropy

    @property
    def domain(self) -> Domain:
        """Domain of the wrapped entropy."""
        return self.entropy.domain

    @property
    def smoothness(self) -> float:
        """Smoothness of the wrapped entropy."""
        return self.entropy.smoothness

    @property
    def differentiable(self) -> bool:
        """As the wrapped entropy."""
        return self.entropy.differentiable

    @property
    def convex(self) -> bool:
        """As the wrapped entropy."""
        return self.entropy.convex

    @property
    def has_curvature(self) -> bool:
        """As the wrapped entropy."""
        return self.entropy.has_curvature

    @property
    def largest_score(self) -> float:
        """As the wrapped entropy."""
        return self.entropy.largest_score

    def cheap_value(self, p: Rows) -> bool:
        """As the wrapped entropy."""
        return self.entropy.cheap_value(p)


@io.register
@dataclass(frozen=True, eq=False)
class Shifted(Wrapper):
    """`Omega(p) - <c, p>`, so that `Omega*(theta + c)`: a cost-sensitive loss (§3.4).

    With c the cost of each answer ``Shifted(Zero(), c)`` is the hinge, ``Shifted(Shannon(), c)``
    softmax-margin, ``Shifted(Tsallis(2), c)`` the cost-augmented sparsemax.

    Parameters
    ----------
    entropy : Entropy
        `Omega`.
    cost : array
        c, one row for all, or a row for each row of the batch.

    Examples
    --------
    >>> hinge = Shifted(Zero(), [1.0, 1.0, 0.0])  # 0/1 cost, the right class is the last
    >>> float(hinge.conjugate([0.0, 0.5, 1.0])[0] - 1.0)
    0.5
    """

    entropy: Entropy
    cost: Any

    def __post_init__(self) -> None:
        cost = as_float(self.cost)
        if not uneven(cost):
            if cost.ndim == 0:
                raise ValueError("the cost must be a row or rows, got a single number")
            cost = cost if cost.ndim == 1 else as_rows(cost)
        if not all(np.isfinite(values).all() for values in parts(cost)):
            raise ValueError("the cost must be finite; use -inf in the scores to exclude an entry")
        object.__setattr__(self, "cost", cost)

    @property
    def has_prox(self) -> bool:
        """As the wrapped entropy."""
        return self.entropy.has_prox

    @property
    def largest_score(self) -> float:
        """That of the wrapped entropy, less the largest cost."""
        return self.entropy.largest_score - max(float(part.max()) for part in parts(self.cost))

    def _shift(self, theta: Rows) -> Rows:
        shape = getattr(theta, "shape", None)
        if shape is not None and np.shape(self.cost) not in {(shape[-1],), shape, (1, shape[-1])}:
            raise ValueError(
                f"scores of shape {shape} (rows, size) do not fit a cost of shape "
                f"{np.shape(self.cost)}: give one row, or a row for each row of scores"
            )
        return double(theta) + self.domain.conform_scores(self.cost, theta)

    def _value(self, p: Rows) -> Array:
        cost = (
            self.domain.conform_scores(self.cost, p)
            if uneven(p)
            else np.broadcast_to(self.cost, p.shape)
        )
        return self.entropy._value(p) - row_dot(cost, p)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, p = self.entropy._conjugate(self._shift(theta))
        return values, same_type(p, theta)

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return same_type(self.entropy._hvp(self._shift(theta), p, v), theta)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """The wrapped entropy's at the shifted scores."""
        return self.entropy.curvature(self._shift(theta), p)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return same_type(
            self.entropy._prox(double(eta) + tau * self.domain.conform_scores(self.cost, eta), tau),
            eta,
        )


@io.register
@dataclass(frozen=True, eq=False)
class Relative(Wrapper):
    """`Omega(p) = sum_i q_i phi(p_i / q_i)`: the entropy against a default distribution q0.

    For Shannon `KL(p || q0)`, the prior of density estimation; for Tsallis
    `p_i = q_i [1 + (alpha-1)(theta_i - tau)]_+^(1/(alpha-1))`. Scores 0 give back q0 and splitting
    a cell into two halves changes nothing, for every entropy.

    Parameters
    ----------
    entropy : Entropy
        The entropy, such as ``Shannon()`` or ``Tsallis(1.5)``.
    q0 : array (n_cells,)
        Default distribution; it is normalised to sum to 1.

    Examples
    --------
    >>> from maxent.core.entropies.simplex import Tsallis
    >>> Relative(Tsallis(1.5), [0.5, 0.25, 0.25]).conjugate([0.0, 0.0, 0.0])[1]
    array([0.5 , 0.25, 0.25])
    """

    entropy: Entropy
    q0: Any
    _measure: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        measured = isinstance(self.entropy, MeasuredEntropy)
        if not (measured and isinstance(self.entropy.domain, Simplex)):
            raise TypeError(
                "Relative needs a MeasuredEntropy of the simplex (Shannon, Tsallis, NormEntropy, "
                f"SquaredNorm, Renyi), got {self.entropy!r}"
            )
        q = np.asarray(self.q0, dtype=np.float64)
        if q.ndim not in (1, 2) or q.size == 0:
            raise ValueError(f"q0 must be a row or rows of masses, got shape {q.shape}")
        if not np.isfinite(q).all() or (q < 0).any():
            raise ValueError("q0 must be finite and non-negative")
        total = q.sum(axis=-1, keepdims=True)
        if (total <= 0).any():
            raise ValueError("q0 has no mass; at least one entry must be positive")
        if np.abs(total - 1).max() > 1e-15 * q.shape[-1]:  # do not touch what is normalised
            q = q / total
        object.__setattr__(self, "q0", q)
        object.__setattr__(self, "_measure", np.atleast_2d(q))

    def __repr__(self) -> str:  # q0 has an entry per cell
        return f"Relative({self.entropy!r}, q0 of shape {np.shape(self.q0)})"

    @property
    def _measured(self) -> MeasuredEntropy:
        assert isinstance(self.entropy, MeasuredEntropy)
        return self.entropy

    def _fits(self, rows: Rows) -> Array:
        if uneven(rows) or self._measure.shape[-1] != rows.shape[-1]:
            raise ValueError(
                f"q0 has {self._measure.shape[-1]} entries, the rows have "
                f"{'different sizes' if uneven(rows) else rows.shape[-1]}"
            )
        return self._measure

    @property
    def smoothness(self) -> float:
        """At most that of the entropy inside: `phi''(p/q)/q >= phi''(p/q)`, as `q <= 1`."""
        return self.entropy.smoothness

    @property
    def link_power(self) -> float | None:
        """As the wrapped entropy."""
        return self.entropy.link_power

    def link_slope(self, p: Array, q: Array) -> float | None:
        """As the wrapped entropy."""
        return self.entropy.link_slope(p, q)

    def _value(self, p: Rows) -> Array:
        return self._measured._value(p, self._fits(p))

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        return self._measured._conjugate(theta, self._fits(theta))

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        return self._measured._hvp(theta, p, v, self._fits(p))

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """The wrapped entropy's under the base measure."""
        return self._measured.curvature(theta, p, self._fits(p))

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return self._measured._prox(eta, tau, self._fits(eta))


@io.register
@dataclass(frozen=True)
class Scaled(Wrapper):
    """`t Omega(p)`, a temperature: `(t Omega)*(theta) = t Omega*(theta / t)`.

    Parameters
    ----------
    entropy : Entropy
        `Omega`.
    temperature : float
        t, > 0.

    Examples
    --------
    >>> from maxent.core.entropies.simplex import Shannon
    >>> Scaled(Shannon(), 0.01).conjugate([1.0, 0.0])[1].round(6)
    array([1., 0.])
    """

    entropy: Entropy
    temperature: float

    def __post_init__(self) -> None:
        positive("the temperature", self.temperature)

    @property
    def margin(self) -> float | None:
        """t times the margin."""
        inside = self.entropy.margin
        return None if inside is None else self.temperature * inside

    @property
    def largest_score(self) -> float:
        """t times that of the wrapped entropy."""
        return self.temperature * self.entropy.largest_score

    @property
    def smoothness(self) -> float:
        """1/t times the smoothness."""
        return self.entropy.smoothness / self.temperature

    @property
    def has_prox(self) -> bool:
        """As the wrapped entropy."""
        return self.entropy.has_prox

    def _value(self, p: Rows) -> Array:
        return self.temperature * self.entropy._value(p)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        values, p = self.entropy._conjugate(double(theta) / self.temperature)
        return self.temperature * values, same_type(p, theta)

    def _hvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        inside = self.entropy._hvp(double(theta) / self.temperature, p, v)
        return same_type(inside / self.temperature, theta)

    def curvature(self, theta: Rows, p: Rows) -> tuple[Array, Array | None]:
        """The wrapped entropy's, divided by t."""
        diagonal, spike = self.entropy.curvature(double(theta) / self.temperature, p)
        root = self.temperature**0.5
        return diagonal / self.temperature, None if spike is None else spike / root

    def _prox(self, eta: Rows, tau: float) -> Rows:
        return self.entropy._prox(eta, tau * self.temperature)


class Unwrapped(NamedTuple):
    """temperature Omega(p) - <cost, p>."""

    entropy: Entropy
    temperature: float
    cost: Rows | None


def unwrap(entropy: Entropy) -> Unwrapped:
    """The entropy inside costs and temperatures."""
    if isinstance(entropy, Shifted):
        inside = unwrap(entropy.entropy)
        cost = entropy.cost if inside.cost is None else inside.cost + entropy.cost
        return inside._replace(cost=cost)
    if isinstance(entropy, Scaled):
        inside = unwrap(entropy.entropy)
        cost = None if inside.cost is None else entropy.temperature * inside.cost
        return Unwrapped(inside.entropy, entropy.temperature * inside.temperature, cost)
    return Unwrapped(entropy, 1.0, None)
