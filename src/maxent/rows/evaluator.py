"""Evaluator: where the rows of a problem are. Evaluation: what they say at some weights.

The boundary is w: a solver sends weights and receives sums. What is asked of them is here once, for
arrays in memory as for rows in files, on a cluster or on a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent.rows.arrays import Array, Rows
from maxent.rows.certificate_moves import Moved

if TYPE_CHECKING:
    from maxent.core.entropies import Entropy
    from maxent.rows.products import SampleProducts

_ROUNDINGS = 8  # of a sum over rows

Point = Rows | Moved
"""Distributions of all rows: written out, or p_w with a change that is the same for all of them."""


class Evaluator(ABC):
    """The rows of a problem with their features, their weights a_i and what was observed."""

    features: Any
    observed: Any = None
    weights: Array | None = None

    @abstractmethod
    def evaluate(self, entropy: Entropy, w: Array, theta: Rows | None = None) -> Evaluation:
        """What the rows say at the weights w; each sum is computed when it is asked for.

        ``theta`` = F'w of rows in memory, where it is at hand already.
        """

    @abstractmethod
    def moments(self, p: Rows) -> Array:
        """F p = sum a_i F_i p_i."""

    @abstractmethod
    def observed_value(self, entropy: Entropy) -> float:
        """sum a_i Omega(observed_i)."""

    @abstractmethod
    def holds_everywhere(self, test: Callable[[Any], bool], entropy: Entropy, w: Array) -> bool:
        """Whether a statement about rows in memory holds of all rows, piece by piece."""

    @property
    def products(self) -> SampleProducts | None:
        """Fast products with Hessians of samples in memory; None where there is no short way."""
        return None

    def column_gram(self) -> Array | None:
        """X' diag(a) X of samples, for a preconditioner; None where there is no short way."""
        return None


class Evaluation(ABC):
    """Sums over rows at the weights ``w``."""

    w: Array

    @property
    def theta(self) -> Rows:
        """F'w."""
        raise rows_out_of_reach()

    @property
    def p(self) -> Rows:
        """p_w = grad Omega*(theta)."""
        raise rows_out_of_reach()

    @property
    def jacobians(self) -> tuple[Array, Array | None]:
        """(d, u) of the rows, without their weights: J_i = diag(d_i) - u_i u_i'."""
        raise rows_out_of_reach()

    @property
    def written(self) -> bool:
        """Whether p_w is written out, or would be for any of the sums."""
        return False

    @property
    @abstractmethod
    def conjugate(self) -> Array:
        """Omega*(theta) of each row, or of all together."""

    @property
    @abstractmethod
    def total(self) -> float:
        """sum a_i Omega*(theta_i)."""

    @property
    def total_size(self) -> float:
        """sum a_i |Omega*(theta_i)|, by which rounding is measured."""
        return abs(self.total)

    @property
    @abstractmethod
    def moments(self) -> Array:
        """F p_w."""

    @property
    def answer_value(self) -> tuple[float, float]:
        """sum a_i Omega(p_i) of p_w, and what rounding may have taken from it.

        From sums over rows it is <w, F p_w> - sum a_i Omega*(theta_i), of which little is left
        where w is large.
        """
        value = float(self.w @ self.moments) - self.total
        size = float(np.abs(self.w) @ np.abs(self.moments)) + self.total_size
        return value, _ROUNDINGS * float(np.finfo(np.float64).eps) * size

    @property
    @abstractmethod
    def largest_score(self) -> float:
        """The largest `|theta|`."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Number of rows (of cells where there is a single row), and of all scores."""

    @abstractmethod
    def hessian(self, every: int = 1) -> Array:
        """F J F', J the Jacobian of the map theta -> p, from one of ``every`` rows or cells."""

    @abstractmethod
    def hessian_product(self, v: Array) -> Array:
        """F J F'v."""

    def mean_jacobian(self) -> Array | None:
        """sum a_i J_i of rows of one size, where ``Evaluator.column_gram`` is known."""
        return None

    @abstractmethod
    def entropy_gap(self, point: Point) -> float:
        """Omega(x) + Omega*(theta) - <theta, x> >= 0 at x = point."""

    @abstractmethod
    def mixture_gap(self, s: float, point: Point | None) -> float | None:
        """That at s x + (1 - s) observed; None is p_w.

        None where it is dear: convexity bounds it by what is known at p_w and at observed.
        """

    @abstractmethod
    def stretched(self, factor: float) -> Evaluation:
        """At ``factor`` times the weights."""

    @abstractmethod
    def handed_to(self, rows: Evaluator, w: Array, moments: Array | None) -> Evaluation:
        """The evaluation by rows with other features, whose scores at w are the same.

        ``moments`` are those of the other features, where they are known.
        """

    @abstractmethod
    def along(self, step: Array) -> Line:
        """The evaluations at w + length step."""


class Line(ABC):
    """The points w + length step."""

    @abstractmethod
    def evaluate(self, length: float) -> Evaluation:
        """The evaluation at a length."""

    @abstractmethod
    def slope(self, evaluation: Evaluation) -> float:
        """The derivative of sum a_i Omega*(theta_i) along the step at one of its points."""

    @abstractmethod
    def moves_scores_by(self, room: float) -> bool:
        """Whether some score moves by ``room`` or more."""


def rows_out_of_reach() -> TypeError:
    """The error where single rows are asked for that stay in their blocks."""
    return TypeError(
        "the scores and probabilities of a table in blocks stay with its blocks; use predict, "
        "whose answer has the chunks of its input"
    )


def above_rounding(difference: float, size: float) -> float:
    """A difference that is >= 0 in exact arithmetic, never reported below its own rounding."""
    rounding = float(np.finfo(np.float64).eps) * size if np.isfinite(size) else 0.0
    return max(float(difference), rounding)
