"""Entropies made from losses: "Fenchel-Youngization" (Fenchel-Young paper, App. A.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from maxent import io
from maxent.core.entropies._cutting_plane import Loss, Search, check_tangents
from maxent.core.entropies.base import Entropy, same_type
from maxent.core.entropies.norms import NormEntropy
from maxent.rows.arrays import Array, Rows

_MARGINS: dict[str, Callable[[int], float]] = {
    "hinge": lambda d: float(d),
    "smooth": lambda d: d - 0.5,
    "squared": lambda d: d * d / 2.0,
}


@io.register
@dataclass(frozen=True)
class PairwiseHinge(Entropy):
    """The three hinge entropies of Prop. 10 on d classes, with `tau(p) = 1 - max p`.

    - ``"hinge"``: `H = d tau(p)`
    - ``"smooth"``: `H = d tau(p) - tau(p)^2/2 sum_j 1/(1 - p_j)`
    - ``"squared"``: `H = d^2/2 / sum_j 1/(1 - p_j)`

    All three are `Omega(p) = min_t t^2/2 sum_j 1/(1 - p_j) - d t` (without the square for
    ``hinge``, with `t <= tau(p)` but for ``squared``), which gives the conjugate by two nested
    one-dimensional equations (docs, "Differences from the papers").

    Parameters
    ----------
    kind : "hinge", "smooth" or "squared"
        Which of the three.
    n_classes : int
        Number of classes d.

    Examples
    --------
    >>> PairwiseHinge("squared", 3).conjugate([0.0, 0.0, 0.0])[1].round(6)
    array([0.333333, 0.333333, 0.333333])
    """

    kind: str
    n_classes: int
    has_prox = True

    def __post_init__(self) -> None:
        if self.kind not in _MARGINS:
            raise ValueError(f"kind must be one of {sorted(_MARGINS)}, got {self.kind!r}")
        if not isinstance(self.n_classes, int | np.integer) or self.n_classes < 2:
            raise ValueError(f"n_classes must be an integer >= 2, got {self.n_classes!r}")

    @property
    def margin(self) -> float:
        """`sup_p H(p)/(1 - max p)`, eq. (22): d, d - 1/2 and `d^2/2`."""
        return _MARGINS[self.kind](self.n_classes)

    @property
    def differentiable(self) -> bool:
        """False for the plain hinge."""
        return self.kind != "hinge"

    def _check(self, rows: Rows) -> None:
        if rows.shape[-1] != self.n_classes:
            raise ValueError(
                f"PairwiseHinge was made for {self.n_classes} classes, rows have {rows.shape[-1]}"
            )

    def _value(self, p: Rows) -> Array:
        self._check(p)
        d = self.n_classes
        rest = 1 - np.asarray(p, dtype=np.float64)
        tau = rest.min(axis=1)
        if self.kind == "hinge":
            return -d * tau
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind == "smooth":  # tau^2/(1-p) is tau for the largest p, also at a vertex
                terms = np.where(rest > 0, tau[:, None] ** 2 / rest, 0.0)
                return 0.5 * terms.sum(axis=1) - d * tau
            return np.where(tau > 0, -0.5 * d**2 / np.sum(1 / rest, axis=1), 0.0)

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        self._check(theta)
        if self.kind == "hinge":  # d (max p - 1) is a norm entropy at temperature d
            value, p = NormEntropy(np.inf)._conjugate(theta / self.n_classes)
            return self.n_classes * value, p
        from maxent.core.kernels.pairwise_hinge import hinge_rows

        x = theta.astype(np.float64)
        p, value = np.empty_like(x), np.empty(len(x))
        hinge_rows(x, self.kind == "smooth", self.margin, p, value)
        return value, same_type(p, theta)

    def _prox(self, eta: Rows, tau: float) -> Rows:
        if self.kind == "hinge":
            return NormEntropy(np.inf)._prox(eta, tau * self.n_classes)
        return super()._prox(eta, tau)


@dataclass(frozen=True, eq=False)
class Youngized(Entropy):
    """The entropy `H(p) = inf_theta sum_i p_i loss_i(theta)` of a convex loss, eq. (34).

    Made by :func:`fenchel_youngize`. Both H and the conjugate
    `max_p <theta, p> + H(p) = min_s max_i (loss_i(s) + theta_i)` are solved by cutting planes
    with a linear programme (HiGHS): small numbers of classes only.

    Parameters
    ----------
    loss : callable
        The convex loss: theta -> (values, jacobian), see :func:`fenchel_youngize`.
    n_classes : int
        Number of classes d.
    radius : float, default 50.0
        Bound on `|theta_j|` at the start of the inner search, which widens it as long as that
        lowers the loss.
    tolerance : float, default 1e-9
        Relative accuracy of the cutting planes.
    """

    loss: Loss = field(repr=False)
    n_classes: int
    radius: float = 50.0
    tolerance: float = 1e-9
    differentiable = False
    __unsaved__ = (
        "it holds a Python function (the loss), and a model file holds numbers only; save the "
        "other parts and make the entropy again with fenchel_youngize"
    )

    @property
    def _search(self) -> Search:
        return Search(self.loss, self.n_classes, self.radius, self.tolerance)

    def _value(self, p: Rows) -> Array:
        return np.array([-self._search.best_response(row) for row in p.astype(np.float64)])

    def _conjugate(self, theta: Rows) -> tuple[Array, Rows]:
        pairs = [self._search.minimax(row) for row in theta.astype(np.float64)]
        p = np.array([pair[1] for pair in pairs]).reshape(theta.shape)
        return np.array([pair[0] for pair in pairs]), same_type(p, theta)


def fenchel_youngize(loss: Loss, n_classes: int, radius: float = 50.0) -> Youngized:
    """The Fenchel-Young entropy of any convex classification loss (App. A.2).

    A loss with a tangent above it, at some of a few dozen points, is refused: it is not convex.

    Parameters
    ----------
    loss : callable
        theta -> (values, jacobian): the d numbers `loss(theta; e_i)` and their (d, d) matrix of
        (sub)gradients.
    n_classes : int
        Number of classes d.
    radius : float, default 50.0
        Bound on `|theta_j|` at the start of the inner search, which widens it as long as that
        lowers the loss.

    Examples
    --------
    >>> import numpy as np
    >>> zero_one_hinge = lambda t: (np.maximum(0, 1 - t), -np.diag((t < 1) * 1.0))
    >>> omega = fenchel_youngize(zero_one_hinge, 2)
    >>> omega.domain.contains([0.5, 0.5])
    array(True)
    """
    if not isinstance(n_classes, int | np.integer) or n_classes < 2:
        raise ValueError(f"n_classes must be an integer >= 2, got {n_classes!r}")
    values, jacobian = (np.asarray(x) for x in loss(np.zeros(n_classes)))
    if values.shape != (n_classes,) or jacobian.shape != (n_classes, n_classes):
        raise ValueError(
            f"loss(theta) must return {n_classes} values and a {n_classes} x {n_classes} jacobian, "
            f"got shapes {values.shape} and {jacobian.shape}"
        )
    check_tangents(loss, n_classes, radius)
    return Youngized(loss, n_classes, radius)
