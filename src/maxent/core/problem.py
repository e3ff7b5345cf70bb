"""The one convex problem, its dual and its certificate. The only file that knows the signs.

    primal   min_p   Omega(p) + V(F p - mu)
    dual     min_w   Omega*(F'w) - <w, mu> + V*(-w),      p_w = grad Omega*(F'w)
    gap      [Omega(p) + Omega*(F'w) - <p, F'w>] + [V(r) + V*(-w) + <r, w>],   r = F p - mu

With rows i of weight a_i: Omega(p) = sum a_i Omega(p_i) and F p = sum a_i F_i p_i.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent import io
from maxent.core.domains import Simplex
from maxent.core.entropies import Entropy, Relative, Shannon, Tsallis, unwrap
from maxent.core.maps import RowMap, make_map
from maxent.core.nearby import mixed_with_a_vertex, within_limits
from maxent.core.potentials import Potential
from maxent.core.row_factors import largest
from maxent.core.tilt import can_tilt, curvature_sizes, tilted
from maxent.rows.arrays import Array, Rows, as_float, row_dot, row_scale
from maxent.rows.evaluator import Evaluation, Evaluator, Line, Point, above_rounding

if TYPE_CHECKING:
    from maxent.core.solvers.base import Solution, Solver

_INSIDE = 0.99  # how far a point is pulled into an open domain
_PULLS = 4  # programmes for the factors of rows
_SINGLED_OUT = 500  # features beyond their limits that rows have factors for; one serves the rest
_MANY_ENTRIES = 1_000_000  # of moments of single rows, beyond which their factors cost seconds
_OUT_OF_REACH = 1e-8  # by how much moments must miss the domain of V, in units of the scores


@io.register
@dataclass(frozen=True, eq=False)
class Problem:
    """An entropy, a feature map, a potential and observed moments.

    Parameters
    ----------
    entropy : Entropy
        `Omega`.
    features : FeatureMap, array or sparse matrix
        A feature map, or a matrix of the features of the cells.
    potential : Potential
        V, on the residual F p - mu.
    target : array (n_features,), default None
        The observed moments mu. Leave it out where ``observed`` is given.
    weights : array (n_rows,), default None
        `a_i`, one per row; None is 1/rows (1 for a single row).
    observed : array, default None
        The observed distribution (labels as one-hot rows, the empirical distribution over cells)
        whose moments are mu. It gives a finite duality gap where V is an indicator.

    Examples
    --------
    >>> import numpy as np
    >>> from maxent.core.entropies import Shannon
    >>> from maxent.core.potentials import Box
    >>> cells = np.arange(5.0)[:, None]
    >>> solution = Problem(Shannon(), cells, Box(0.1), observed=[0, 0, 0, 0.5, 0.5]).solve()
    >>> bool(solution.gap < 1e-8), round(float(solution.p @ cells[:, 0]), 3)
    (True, 3.4)
    """

    entropy: Entropy
    features: Any
    potential: Potential
    target: Any = None
    weights: Any = None
    observed: Any = None
    rows: Evaluator = field(init=False, repr=False)
    _unit: float | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        for part, kind in ((self.entropy, Entropy), (self.potential, Potential)):
            if not isinstance(part, kind):
                raise TypeError(
                    f"expected an instance of {kind.__name__}, got {reprlib.repr(part)}; the order "
                    "is Problem(entropy, features, potential, target)"
                )
        features: Any = make_map(self.features)
        weights = self._checked_weights(features.n_rows)
        if (self.target is None) == (self.observed is None):
            raise ValueError("give either the target moments or the observed distribution")
        rows = features.evaluator(self.entropy.domain, weights, self.observed)
        self._set("rows", rows)
        for name in ("features", "weights", "observed"):
            self._set(name, getattr(rows, name))
        features = self.features
        if self.observed is not None:
            self._set("target", rows.moments(self.observed))
        target = np.asarray(self.target, dtype=np.float64)
        if target.shape != (features.n_features,):
            raise ValueError(
                f"the target needs one moment per feature, shape ({features.n_features},), "
                f"got {target.shape}"
            )
        if not np.isfinite(target).all():
            raise ValueError("the target moments must be finite")
        self._set("target", target)
        self.potential.check_size(features.n_features)

    def __repr__(self) -> str:
        return f"Problem({self.entropy!r}, {self.features!r}, {self.potential!r})"

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getmodel__(self) -> dict[str, Any]:
        """The target follows from the observed distribution, where there is one."""
        names = ["entropy", "features", "potential", "weights"]
        names.append("target" if self.observed is None else "observed")
        return {name: getattr(self, name) for name in names}

    def _checked_weights(self, rows: int | None) -> Array | None:
        if self.weights is None:
            return None if rows is None else np.full(rows, 1 / rows)
        weights = np.asarray(self.weights, dtype=np.float64)
        if rows is None or weights.shape != (rows,):
            raise ValueError(
                f"weights must have one entry per row, shape ({rows},), got {weights.shape}"
                if rows is not None
                else "weights are for problems with several rows; this map has a single row"
            )
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise ValueError("weights must be finite, non-negative and not all zero")
        return weights

    # -- the two sides -------------------------------------------------------------------------

    def moments(self, p: Rows) -> Array:
        """`F p = sum a_i F_i p_i`."""
        return self.rows.moments(p)

    def total(self, values: Array) -> float:
        """`sum a_i values_i`."""
        return float(np.sum(values) if self.weights is None else values @ self.weights)

    @property
    def unit(self) -> float:
        """The size of the moments, observed and at `w = 0`: what a residual is measured against."""
        return self._measured_unit if self._unit is None else self._unit

    @cached_property
    def _measured_unit(self) -> float:
        return self.origin().moment_size

    def with_unit(self, unit: float) -> Problem:
        """The same problem whose ``unit`` is known."""
        other = copy(self)
        other._set("_unit", unit)
        return other

    def origin(self) -> State:
        """The state at `w = 0`; its problem is this one with the unit that the state gives."""
        state = self.state(np.zeros(self.features.n_features))
        problem = self if self._unit is not None else self.with_unit(state.moment_size)
        return replace(state, problem=problem)

    def state(self, w: Any, theta: Rows | None = None) -> State:
        """Everything known at w; ``theta`` = F'w where it is at hand already."""
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.features.n_features,):
            raise ValueError(
                f"w must be a vector of shape ({self.features.n_features},), got shape {w.shape}"
            )
        return State(self, w, self.evaluate(w, theta))

    def evaluate(self, w: Array, theta: Rows | None = None) -> Evaluation:
        """What the rows say at w; ``theta`` = F'w where it is at hand already."""
        return self.rows.evaluate(self.entropy, w, theta)

    def scored(self, w: Array) -> Evaluation:
        """What rows in memory say at w, their scores written out."""
        return self.evaluate(w, self.features.scores(w))

    def smooth(self, w: Array) -> tuple[float, Array]:
        """`Omega*(F'w) - <w, mu>` and its gradient `F p_w - mu`."""
        state = self.state(w)
        return state.smooth, state.gradient

    def penalty(self, w: Array) -> float:
        """`V*(-w)`."""
        return self.potential.conjugate(-w)

    def prox(self, w: Array, step: float) -> Array:
        """`argmin_x 1/2 ||x - w||^2 + step V*(-x)`."""
        return -self.potential.prox_conjugate(-w, step)

    def dual(self, w: Array) -> float:
        """The objective that solvers minimise."""
        return self.state(w).dual

    def primal(self, p: Any) -> float:
        """`Omega(p) + V(F p - mu)`; minus the dual at the optimum."""
        p = as_float(p)
        return self.total(self.entropy.value(p)) + self.potential.value(
            self.moments(p) - self.target
        )

    def gap(self, w: Array, p: Any = None) -> float:
        """Duality gap of (p, w); without p, that at `p_w` pulled into the domain of V."""
        state = self.state(w)
        if p is None:
            return state.gap
        p = as_float(p)
        return state.gap_at(p) if np.all(self.entropy.domain.contains(p)) else np.inf

    def certificate(self, state: State) -> float:
        """The gap that solvers stop on: at `p_w` pulled into the domain of V."""
        return state.pulled_gap(state.p if state.evaluation.written else None, state.gradient)

    @cached_property
    def observed_value(self) -> float:
        """`Omega` of the observed distribution."""
        return self.rows.observed_value(self.entropy)

    @cached_property
    def observes_vertices(self) -> bool:
        """Whether p~ is one structure in each row, and p_w a Gibbs distribution of structures."""
        inside = unwrap(self.entropy)
        if self.observed is None or not isinstance(inside.entropy, Shannon):
            return False
        values = inside.entropy.value_inside(self.observed)
        return inside.temperature == 1.0 and not np.any(values)

    def optimality(self, w: Array) -> float:
        """Relative violation of the optimality conditions, also where no finite gap exists."""
        return self.state(w).optimality

    def solve(self, solver: Solver | str = "auto", w0: Any = None, **settings: Any) -> Solution:
        """Minimise the dual; ``solver`` is a Solver, a name or "auto".

        ``settings`` replace the solver's own: ``problem.solve(tol=1e-6, verbose=0)``. A
        ConvergenceWarning tells of a solution that missed its tolerance.
        """
        from maxent.core.solvers import choose

        chosen = choose(solver, self, **settings)
        solution = chosen.run(self, w0)
        chosen.warn_unless_converged(solution, stacklevel=2)
        return solution

    def run(self, solver: Solver | str = "auto", w0: Any = None, **settings: Any) -> Solution:
        """As ``solve``, without a ConvergenceWarning: the caller reads the solution's status."""
        from maxent.core.solvers import choose

        return choose(solver, self, **settings).run(self, w0)

    def with_potential(self, potential: Potential) -> Problem:
        """The same problem under another potential."""
        potential.check_size(self.features.n_features)
        other = copy(self)
        other._set("potential", potential)
        return other

    def restrict(self, index: Array, potential: Potential) -> Problem:
        """The problem of the features ``index``, the others having weight 0."""
        return Problem(
            self.entropy,
            self.features.restrict(index),
            potential,
            target=self.target[index],
            weights=self.weights,
        )

    def ray(self, state: State, step: Array) -> Ray:
        """The states along a step."""
        return Ray(state, step, state.evaluation.along(step))

    def guarantees(self, gap: float) -> dict[str, float]:
        """What a duality gap says of the distance between `p_w` and the optimum `p*`.

        `L_Omega(F'w; p*) <= gap`; so `KL(p* || p_w) <= gap` and, by Pinsker, the 1-norm distance
        `<= sqrt(2 gap)` for Shannon on the simplex (structural paper, Theorem 1), and the 2-norm
        distance `<= sqrt(2 L gap)` for an entropy with smoothness L. With several rows these are
        the weighted sum of the rows' divergences and the root of that of their squared distances,
        named ``mean_kl`` and ``rms_l2``.
        """
        known = {"fenchel_young": gap}
        inner = self.entropy.entropy if isinstance(self.entropy, Relative) else self.entropy
        shannon = isinstance(inner, Shannon) or (isinstance(inner, Tsallis) and inner.alpha == 1)
        if shannon and isinstance(self.entropy.domain, Simplex):
            known["kl" if self.features.one_row else "mean_kl"] = gap
            if self.features.one_row:
                known["l1"] = float(np.sqrt(2 * gap))
        if np.isfinite(self.entropy.smoothness):
            distance = float(np.sqrt(2 * self.entropy.smoothness * gap))
            known["l2" if self.features.one_row else "rms_l2"] = distance
        return known


@dataclass(frozen=True, eq=False)
class State:
    """A point w of the dual with what follows from it, each computed once and when asked for.

    Parameters
    ----------
    problem : Problem
        The problem.
    w : array (n_features,)
        The weights.
    evaluation : Evaluation
        Value, gradient and prediction at w.
    """

    problem: Problem
    w: Array
    evaluation: Evaluation = field(repr=False)

    def transfer(self, problem: Problem, w: Array, moments: Array | None = None) -> State:
        """The state of another problem at the same scores; what is known already is kept."""
        return State(problem, w, self.evaluation.handed_to(problem.rows, w, moments))

    @property
    def theta(self) -> Rows:
        """F'w."""
        return self.evaluation.theta

    @property
    def conjugate(self) -> Array:
        """`Omega*(theta)` of each row, or of all rows together where they are in blocks."""
        return self.evaluation.conjugate

    @property
    def p(self) -> Rows:
        """`p_w = grad Omega*(theta)`."""
        return self.evaluation.p

    @property
    def prediction(self) -> Rows:
        """The primal point to report: `p_w`, unless a solver knows a better one."""
        return self.p

    @property
    def prediction_when_asked(self) -> Rows | Callable[[], Rows]:
        """The prediction, or what writes it out where no step of a solver did."""
        return self.prediction if self.evaluation.written else lambda: self.prediction

    @cached_property
    def smooth(self) -> float:
        """`Omega*(F'w) - <w, mu>`."""
        return self.evaluation.total - float(self.w @ self.problem.target)

    @cached_property
    def penalty(self) -> float:
        """`V*(-w)`."""
        return self.problem.penalty(self.w)

    @property
    def dual(self) -> float:
        """The dual objective."""
        return self.smooth + self.penalty

    @cached_property
    def gradient(self) -> Array:
        """`F p_w - mu`, the gradient of the smooth part and the residual of `p_w`."""
        return self.evaluation.moments - self.problem.target

    @property
    def moment_size(self) -> float:
        """The largest moment, observed or of `p_w`; 1 where all are 0."""
        target = self.problem.target
        both = np.maximum(np.abs(target), np.abs(self.gradient + target))
        return float(np.max(both, initial=0.0)) or 1.0

    def _violation(self, gradient: Array) -> Array:
        """|w - prox(w - t gradient)| / t, with a step t that suits the size of w and gradient.

        With t = 1, features in tiny or huge units would leave nothing but rounding.
        """
        slope = float(np.max(np.abs(gradient), initial=0.0))
        step = min((1 + np.max(np.abs(self.w), initial=0.0)) / slope, 1e300) if slope else 1.0
        return np.abs(self.w - self.problem.prox(self.w - step * gradient, step)) / step

    def relative_violation(self, gradient: Array) -> float:
        """The largest violation with this (sub)gradient, in units of the moments."""
        return float(np.max(self._violation(gradient), initial=0.0)) / self.problem.unit

    @cached_property
    def violation(self) -> Array:
        """How far each weight is from its optimality condition."""
        return self._violation(self.gradient)

    @cached_property
    def optimality(self) -> float:
        """The largest violation in units of the moments: 0 at the optimum, no gap needed."""
        return float(np.max(self.violation, initial=0.0)) / self.problem.unit

    @property
    def largest_score(self) -> float:
        """The largest `|theta|`."""
        return self.evaluation.largest_score

    def falls_along_w(self, depth: float) -> bool:
        """Whether the dual falls below -depth along the ray of w, by far more than rounding.

        Where some p has moments in the domain of V, weak duality gives `dual >= -primal(p)`: a dual
        without a bound shows that none has.
        """
        size = self.largest_score + float(np.abs(self.w) @ np.abs(self.problem.target))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            length = depth / (_OUT_OF_REACH * np.float64(size))
            w = length * self.w
            if not (np.isfinite(w).all() and np.isfinite(length * self.largest_score)):
                return False
            return State(self.problem, w, self.evaluation.stretched(length)).dual < -depth

    @cached_property
    def gap(self) -> float:
        """The problem's certificate."""
        return self.problem.certificate(self)

    def pulled_gap(self, p: Point | None, residual: Array) -> float:
        """The gap at `p_s = s p + (1 - s) p~`, `p~` the observed rows, with `s r(p)` in dom V.

        None stands for `p_w` where it is not written out.
        """
        potential = self.problem.potential
        gauge = potential.gauge(residual)
        if gauge <= 1:
            gap = self._gap(p, residual)
            if np.isfinite(gap) or gauge < 1:
                return gap
        if self.problem.observed is None or not np.isfinite(gauge):
            return np.inf
        s = 1 / gauge
        if potential.open_domain and not np.isfinite(potential.value(s * residual)):
            s *= _INSIDE
        return self._mixture_entropy_gap(s, p) + self._potential_gap(s * residual)

    def tightened(self, tol: float = 0.0, products: int = 0, steps: int = 0) -> State:
        """The state with the least gap of its own and the dearer ones.

        That of predictions nearby takes so many ``steps`` of a solver, and without any it is
        ``row_gap``; the tilted one takes as many ``products`` with the Hessian. The latter is left
        out where the others are at most ``tol``.
        """
        gap = min(self.gap, self.nearby_gap(steps) if steps else np.inf)
        if gap > tol and products:
            gap = min(gap, self.tilted_gap(products))
        if gap == self.gap:
            gap = min(gap, self.row_gap)
        return self.with_gap(gap)

    def with_gap(self, gap: float) -> State:
        """The state with a smaller gap that is known."""
        other = copy(self)
        vars(other)["gap"] = gap
        return other

    @cached_property
    def row_gap(self) -> float:
        """The gap at `s_i p_{w,i} + (1 - s_i) p~_i`, with a factor for each row; inf where unknown.

        For the box of an l1 penalty, over maps that know the moments of single rows. Rows whose
        features keep to their limits have `s_i = 1`; the entropy's part is that of the mixtures, or
        by convexity at most `sum_i a_i (1 - s_i) L_i`, `L_i` the loss of the observed row.
        """
        if not self._row_by_row:
            return np.inf
        terms = self.problem.potential.elastic(self.w.size)
        assert terms is not None
        if not (np.abs(self.gradient) > _limits(terms)).any():
            return self.gap  # no row needs a factor, and p_w need not be written out
        pulled = self._row_factors(self.p, np.zeros(self.problem.weights.size), self.gradient)
        if pulled is None:
            return np.inf
        s, residual = pulled
        return self._rows_entropy_gap(s) + self._potential_gap(residual)

    def tilted_gap(self, products: int) -> float:
        """As ``row_gap``, of rows near `p_w` that keep to most limits: see ``_tilt``.

        ``products`` : with the Hessian, at most. For Shannon's entropy, else inf.
        """
        if not (self._row_by_row and can_tilt(self)):
            return np.inf
        terms = self.problem.potential.elastic(self.w.size)
        assert terms is not None
        if np.isinf(_limits(terms)).all():
            return np.inf  # without limits the gap at p_w is of second order already
        q = tilted(self, *terms, products)
        pulled = self._row_factors(q.p, q.cost, q.residual)
        if pulled is None:
            return np.inf
        s, residual = pulled
        entropy = self.problem.total(s * q.cost + (1 - s) * self._observed_losses)
        size = 2 * self.problem.total(np.abs(self.conjugate))
        return above_rounding(entropy, size) + self._potential_gap(residual)

    def nearby_gap(self, steps: int) -> float:
        """As ``row_gap``, of the predictions at weights nearby that keep to most limits.

        ``steps`` : of the search for them, at most. See ``nearby``.
        """
        terms = self.problem.potential.elastic(self.w.size)
        if terms is None or not self._row_by_row:
            return np.inf
        limit = _limits(terms)
        if not limit.all():
            return np.inf  # some moments must be equal, which no step makes them
        if not (np.abs(self.gradient) > limit).any():
            return self.gap
        near = within_limits(self, limit, curvature_sizes(self), steps)
        return self._gap_near(self.problem.state(near.w, self.problem.features.scores(near.w)))

    def _gap_near(self, near: State) -> float:
        """The gap at the rows of a state nearby, each with a factor towards its observed one."""
        problem = self.problem
        moved = row_dot(near.theta - self.theta, near.p)
        rise = near.conjugate - self.conjugate
        size = 2 * problem.total(np.abs(self.conjugate) + np.abs(near.conjugate))
        cost = np.maximum(moved - rise, 0.0)
        pulled = self._row_factors(near.p, cost, near.gradient)
        if pulled is None:
            return np.inf
        s, residual = pulled
        entropy = problem.total(s * cost + (1 - s) * self._observed_losses)
        if problem.observes_vertices:
            drift = s * moved + (1 - s) * row_dot(near.theta - self.theta, problem.observed) - rise
            exact = problem.total(mixed_with_a_vertex(s, near._observed_losses) + drift)
            entropy = min(entropy, exact)
        return above_rounding(entropy, size) + self._potential_gap(residual)

    @property
    def _row_by_row(self) -> bool:
        """Whether each row can have a factor of its own."""
        problem = self.problem
        features = problem.features
        if problem.weights is None or problem.observed is None:
            return False
        if problem.potential.elastic(features.n_features) is None:
            return False
        if not (isinstance(features, RowMap) and problem.entropy.differentiable):
            return False
        return features.row_moments(problem.observed, np.empty(0, np.int64)) is not None

    def _row_factors(self, q: Rows, cost: Array, residual: Array) -> tuple[Array, Array] | None:
        """Factors s of the rows q towards p~ with which the residual is in the box, and that.

        ``cost`` : the entropy's part of each q_i. None where moments must be equal and are not.
        """
        problem = self.problem
        weights, features = problem.weights, problem.features
        terms = problem.potential.elastic(features.n_features)
        assert terms is not None
        limit = _limits(terms)
        even = max(problem.potential.gauge(residual), 1.0)  # one factor for all, which may be best
        whole, start = _room_for_most(np.abs(residual), limit), residual
        apart = row_scale(q - problem.observed, whole * weights)
        gains = whole * weights * (self._observed_losses - cost) - row_dot(self.theta, apart)
        s, residual, known = np.ones(weights.size), whole * residual, np.empty(0, np.int64)
        for _ in range(_PULLS):  # features that were inside may grow with what others lose
            over = np.flatnonzero(np.abs(residual) > limit)
            if not over.size or known.size + over.size > 2 * _SINGLED_OUT:
                break
            known = np.union1d(known, over)
            R = features.row_moments(apart, known)
            if R.nnz > _MANY_ENTRIES:  # features that most rows have: one factor does as well
                break
            s = largest(R, limit[known], gains)
            residual = features.moments(row_scale(apart, s))
        gauge = max(problem.potential.gauge(residual), 1.0)
        if not np.isfinite(gauge):
            return None
        if gains.sum() / (whole * even) > float(gains @ s) / gauge:
            return np.full_like(s, 1 / even), start / even
        return whole * s / gauge, residual / gauge

    @property
    def observed_gap(self) -> float:
        """The gap at the observed rows themselves: the dual less `-Omega(p~)`.

        Finite under every potential, also where moments must be equal. Without a penalty the dual
        of separable data falls to `-Omega(p~)`, and this is how far it has to go.
        """
        if self.problem.observed is None:
            return np.inf
        return self._mixed_entropy_gaps(0.0) + self._potential_gap(np.zeros_like(self.w))

    def _rows_entropy_gap(self, s: Array) -> float:
        """The entropy's part with a factor for each row; where its value is dear, a bound."""
        problem, observed = self.problem, self.problem.observed
        if problem.entropy.cheap_value(self.p):
            return self.entropy_gap(row_scale(self.p, s) + row_scale(observed, 1 - s))
        size = 2 * problem.total(np.abs(self.conjugate))
        losses = self._observed_losses
        exact = problem.observes_vertices
        parts = mixed_with_a_vertex(s, losses) if exact else (1 - s) * losses
        return above_rounding(problem.total(parts), size)

    @cached_property
    def _observed_losses(self) -> Array:
        """Omega(p~_i) + Omega*(theta_i) - <theta_i, p~_i> of each row."""
        observed = self.problem.observed
        value = self.problem.entropy.value_inside(observed)
        return np.maximum(value + self.conjugate - row_dot(self.theta, observed), 0.0)

    def _mixture_entropy_gap(self, s: float, p: Point | None) -> float:
        """The entropy's part at s p + (1 - s) p~; where that is dear, a bound by convexity."""
        gap = self.evaluation.mixture_gap(s, p)
        return self._mixed_entropy_gaps(s) if gap is None else gap

    def mixture_gap(self, s: float) -> float:
        """The gap at `s p_w + (1 - s) p~`, `p~` the observed rows."""
        return self._mixture_entropy_gap(s, None) + self._potential_gap(s * self.gradient)

    def _mixed_entropy_gaps(self, s: float) -> float:
        """The bound from what is known at p_w and at p~: <theta, p~> = <w, mu>."""
        value, conjugate = self.problem.observed_value, self.evaluation.total
        score = float(self.w @ self.problem.target)
        size = abs(value) + abs(conjugate) + abs(score)
        observed = above_rounding(value + conjugate - score, size)
        return s * self.entropy_gap(None) + (1 - s) * observed

    def gap_at(self, p: Rows) -> float:
        """The gap with any p of the domain."""
        return self._gap(p, self.problem.moments(p) - self.problem.target)

    def entropy_gap(self, p: Point | None) -> float:
        """`Omega(p) + Omega*(theta) - <theta, p>`, >= 0 up to rounding, which is all for `p_w`."""
        if p is None:
            return above_rounding(0.0, 2 * self.evaluation.total_size)
        return self.evaluation.entropy_gap(p)

    def _gap(self, p: Point | None, residual: Array) -> float:
        return self.entropy_gap(p) + self._potential_gap(residual)

    def _potential_gap(self, residual: Array) -> float:
        """V(r) + V*(-w) + <r, w>, >= 0 up to rounding."""
        value, slope = self.problem.potential.value(residual), float(residual @ self.w)
        size = abs(value) + abs(self.penalty) + abs(slope)
        return above_rounding(value + self.penalty + slope, size)


def _room_for_most(size: Array, limit: Array) -> float:
    """A factor with which all but ``_SINGLED_OUT`` features keep to their limits."""
    if size.size <= _SINGLED_OUT:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(size > limit, size / limit, 0.0)
    place = size.size - _SINGLED_OUT - 1
    largest_left = float(np.partition(shares, place)[place])
    return 1 / max(largest_left, 1.0)


@dataclass(frozen=True, eq=False)
class Ray:
    """The points w + length step."""

    start: State
    step: Array
    line: Line = field(repr=False)

    def state(self, length: float) -> State:
        """The state at a length."""
        evaluation = self.line.evaluate(length)
        return State(self.start.problem, evaluation.w, evaluation)

    def slope(self, state: State) -> float:
        """Derivative of Omega*(F'w) - <w, mu> at a state along the step."""
        return self.line.slope(state.evaluation) - float(state.problem.target @ self.step)

    def moves_scores_by(self, limit: float) -> bool:
        """Whether some score moves by ``limit`` or more, in multiples of 1 + the largest one."""
        return self.line.moves_scores_by(limit * (1 + self.start.largest_score))


def _limits(elastic: tuple[Array, Array]) -> Array:
    """How large residuals may be under l1 |w| + l2 w^2 / 2: without bound where l2 > 0."""
    l1, l2 = elastic
    return np.where(l2 > 0, np.inf, l1)
