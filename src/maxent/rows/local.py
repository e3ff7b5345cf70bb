"""Rows in memory: scores and distributions are arrays that a feature map reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent.core.domains import Domain, one_hot
from maxent.rows.arrays import (
    Array,
    Rows,
    as_float,
    flat,
    n_rows,
    row_dot,
    row_scale,
    same_cuts,
    uneven,
)
from maxent.rows.certificate_moves import Moved
from maxent.rows.evaluator import Evaluation, Evaluator, Line, Point, above_rounding

if TYPE_CHECKING:
    from maxent.core.entropies import Entropy
    from maxent.core.maps import FeatureMap
    from maxent.rows.products import Product, SampleProducts


class LocalEvaluator(Evaluator):
    """The rows of a feature map; ``weights`` is None for a single row of weight 1."""

    def __init__(
        self, features: FeatureMap, weights: Array | None = None, observed: Rows | None = None
    ) -> None:
        self.features, self.weights, self.observed = features, weights, observed

    def evaluate(
        self,
        entropy: Entropy,
        w: Array,
        theta: Rows | None = None,
        image: tuple[Array, Rows] | None = None,
        moments: Array | None = None,
    ) -> LocalEvaluation:
        """At w; ``theta`` = F'w, its ``image`` under the entropy and F p_w where at hand."""
        return LocalEvaluation(self, entropy, w, theta, image, moments)

    def moments(self, p: Rows) -> Array:
        """F p = sum a_i F_i p_i."""
        if self.weights is None:
            return self.features.moments(p)
        return self.features.weighted_moments(p, self.weights)

    def sum_up(self, values: Array) -> float:
        """sum a_i values_i."""
        return float(np.sum(values) if self.weights is None else values @ self.weights)

    def observed_value(self, entropy: Entropy) -> float:
        """sum a_i Omega(observed_i)."""
        return self.sum_up(entropy.value_inside(self.observed))

    @cached_property
    def products(self) -> SampleProducts | None:
        """Fast products with Hessians, where rows are samples of one matrix."""
        return None if self.weights is None else self.features.sample_products(self.weights)

    def column_gram(self) -> Array | None:
        """X' diag(a) X of samples; None where rows are no samples of one matrix."""
        return None if self.products is None else self.products.column_gram()

    def holds_everywhere(
        self, test: Callable[[LocalEvaluation], bool], entropy: Entropy, w: Array
    ) -> bool:
        """Whether a statement holds of all rows, which are one piece."""
        return test(self.evaluate(entropy, w))


def checked_rows(observed: Any, features: FeatureMap, domain: Domain) -> Rows:
    """An observed distribution in the shape of the scores; labels become one-hot rows."""
    expected = features.scores(np.zeros(features.n_features))
    several = not uneven(expected) and expected.ndim > 1
    if several and np.shape(observed) == expected.shape[:-1]:
        observed = one_hot(np.asarray(observed), expected, domain)
    observed = domain.conform(as_float(observed), expected)
    if not same_cuts(observed, expected):
        raise ValueError(
            f"the observed distribution must have the shape of the scores "
            f"{_shape_in_words(expected)}, got {_shape_in_words(observed)}"
        )
    domain.require(observed, "observed distribution")
    return observed


def _shape_in_words(rows: Rows) -> str:
    return f"{type(rows).__name__}, {n_rows(rows)} rows" if uneven(rows) else str(np.shape(rows))


class LocalEvaluation(Evaluation):
    """Arrays of scores and distributions, each computed once."""

    def __init__(
        self,
        rows: LocalEvaluator,
        entropy: Entropy,
        w: Array,
        theta: Rows | None = None,
        image: tuple[Array, Rows] | None = None,
        moments: Array | None = None,
    ) -> None:
        self.rows, self.entropy, self.w = rows, entropy, w
        known = vars(self)
        if theta is not None:
            known["theta"] = theta
        if image is not None:
            known["image"] = image
        if moments is not None:
            known["moments"] = moments
        if theta is not None or image is not None:
            known["_sums"] = None

    @cached_property
    def theta(self) -> Rows:
        """F'w."""
        return self.rows.features.scores(self.w)

    @cached_property
    def _sums(self) -> tuple[Array, Array] | None:
        """Omega*(theta) of each row and F p_w where the map has a short cut, which writes no p_w.

        None where it has none, or where the scores or their image are at hand.
        """
        rows = self.rows
        return rows.features.conjugate_and_moments(self.entropy, self.w, rows.weights)

    @cached_property
    def image(self) -> tuple[Array, Rows]:
        """Omega*(theta) of each row and p_w, which one call of the entropy gives."""
        return self.entropy.conjugate(self.theta)

    @property
    def p(self) -> Rows:
        """p_w = grad Omega*(theta)."""
        return self.image[1]

    @property
    def written(self) -> bool:
        """Whether no short cut of the map saves writing p_w out."""
        return self._sums is None

    @property
    def conjugate(self) -> Array:
        """Omega*(theta) of each row."""
        return self.image[0] if self._sums is None else self._sums[0]

    @cached_property
    def total(self) -> float:
        """sum a_i Omega*(theta_i)."""
        return self.rows.sum_up(self.conjugate)

    @property
    def total_size(self) -> float:
        """sum a_i |Omega*(theta_i)|, by which rounding is measured."""
        return self.rows.sum_up(np.abs(self.conjugate))

    @cached_property
    def moments(self) -> Array:
        """F p_w."""
        return self.rows.moments(self.p) if self._sums is None else self._sums[1]

    @property
    def largest_score(self) -> float:
        """The largest `|theta|`."""
        return float(np.max(np.abs(flat(self.theta)), initial=0.0))

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows (of cells where there is a single row), and of all scores."""
        scores = flat(self.theta).size
        return self.rows.features.n_rows or scores, scores

    # -- second order --------------------------------------------------------------------------

    @cached_property
    def jacobians(self) -> tuple[Array, Array | None]:
        """(d, u) of the rows, without their weights: J_i = diag(d_i) - u_i u_i'."""
        return self.entropy.curvature(np.atleast_2d(self.theta), np.atleast_2d(self.p))

    def hessian(self, every: int = 1) -> Array:
        """F J F'; see ``ColumnMap.gram``."""
        (diagonal, spike), weights = self.jacobians, self.rows.weights
        if weights is None:
            first = None if spike is None else spike[0]
            return self.rows.features.gram(diagonal[0], first, every)
        scaled = None if spike is None else row_scale(spike, np.sqrt(weights))
        return self.rows.features.gram(row_scale(diagonal, weights), scaled, every)

    @cached_property
    def _product(self) -> Product | None:
        if not self.entropy.has_curvature or self.rows.products is None:
            return None
        return self.rows.products.product(*self.jacobians)

    def hessian_product(self, v: Array) -> Array:
        """F J F'v."""
        if self._product is not None:
            return self._product(v)
        scores = self.rows.features.scores(v)
        return self.rows.moments(self.entropy.hvp(self.theta, self.p, scores))

    def mean_jacobian(self) -> Array | None:
        """sum a_i J_i of samples."""
        products = self.rows.products
        return None if products is None else products.mean_jacobian(*self.jacobians)

    @property
    def answer_value(self) -> tuple[float, float]:
        """From p_w where that is at hand: no difference of large numbers."""
        if not (self.written and self.entropy.cheap_value(self.p)):
            return super().answer_value
        return self.rows.sum_up(self.entropy.value_inside(self.p)), 0.0

    # -- certificates --------------------------------------------------------------------------

    def entropy_gap(self, point: Point) -> float:
        """Omega(x) + Omega*(theta) - <theta, x> at x = point."""
        p = point.applied(self.p, self.rows.observed) if isinstance(point, Moved) else point
        score = row_dot(self.theta, p)
        if "image" in vars(self) and p is self.p and not self.entropy.cheap_value(p):
            value = score - self.conjugate  # what p_w makes it
        else:
            value = self.entropy.value_inside(p)
        size = np.abs(value) + np.abs(self.conjugate) + np.abs(score)
        total = self.rows.sum_up
        return above_rounding(total(value + self.conjugate - score), total(size))

    def mixture_gap(self, s: float, point: Point | None) -> float | None:
        """That at s x + (1 - s) observed; None is p_w, which no short cut writes out."""
        if point is None and not self.written:
            return None
        p = self.p if point is None else point
        if isinstance(p, Moved):
            p = p._replace(s=1.0).applied(self.p, self.rows.observed)
        observed = self.rows.observed
        if self.entropy.cheap_value(p):
            return self.entropy_gap(s * p + (1 - s) * observed)
        return s * self.entropy_gap(p) + (1 - s) * self.entropy_gap(observed)

    # -- other weights -------------------------------------------------------------------------

    def stretched(self, factor: float) -> LocalEvaluation:
        """At ``factor`` times the weights: scores are linear."""
        return self.rows.evaluate(self.entropy, factor * self.w, factor * self.theta)

    def handed_to(self, rows: Evaluator, w: Array, moments: Array | None) -> LocalEvaluation:
        """The evaluation by rows with other features, whose scores at w are the same."""
        assert isinstance(rows, LocalEvaluator)
        return rows.evaluate(self.entropy, w, self.theta, self.image, moments)

    def along(self, step: Array) -> LocalLine:
        """The evaluations at w + length step."""
        return LocalLine(self, step)


class LocalLine(Line):
    """Scores are linear along a step, so that a trial costs no product."""

    def __init__(self, start: LocalEvaluation, step: Array) -> None:
        self._start, self._step = start, step
        self._direction = start.rows.features.scores(step)

    def evaluate(self, length: float) -> LocalEvaluation:
        """The evaluation at a length."""
        start = self._start
        w, theta = start.w + length * self._step, start.theta + length * self._direction
        return start.rows.evaluate(start.entropy, w, theta)

    def slope(self, evaluation: Evaluation) -> float:
        """sum a_i <p_i, F_i'step>."""
        return self._start.rows.sum_up(row_dot(evaluation.p, self._direction))

    def moves_scores_by(self, room: float) -> bool:
        """Whether some score moves by ``room`` or more."""
        return not float(np.abs(flat(self._direction)).max()) < room
