"""Linear and kernel models under a Fenchel-Young loss: what their estimators share.

The design of a linear model is X with a column of ones for the intercept, which no potential
penalizes; that of a kernel model a root L of the Gram matrix, K = L L'.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from maxent._support.checks import positive
from maxent._support.threads import one_blas_thread
from maxent.core.domains import Cube, KSubset, NonNegative, Simplex
from maxent.core.entropies import Entropy, Scaled, Shannon, Tsallis
from maxent.core.maps import Features, kernel_root, pivot_coefficients
from maxent.core.potentials import Equality, Families, Potential, Quadratic
from maxent.core.problem import Problem, State
from maxent.core.solvers import ConvergenceWarning, Interrupted, Solution, Status, choose
from maxent.learn.linear.design import column_means, sample_map, scores, with_ones
from maxent.learn.linear.intercept import InterceptProblem
from maxent.learn.saving import SavesFields
from maxent.learn.solving import SolverSettings
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.structured import Permutahedron
from maxent.typing import KernelLike, PotentialLike, RandomState

DEFAULT = Quadratic(1e-3)
SPARSE, FLOATS = ["csc", "csr"], [np.float64, np.float32]  # of tables that are read
KERNELS = ("linear", "rbf", "poly", "precomputed")


class Layout(NamedTuple):
    """The potential of the weights (columns, outputs), the columns being taken in ``order``."""

    potential: Potential
    order: Array | None


def as_potential(given: Any) -> Potential:
    """A Potential; for a number the quadratic of that strength, for 0 none, for None the default.

    >>> as_potential(0.5)
    Quadratic(strength=0.5)
    """
    if given is None:
        return DEFAULT
    if isinstance(given, Real) and not isinstance(given, bool) and 0 <= float(given) < np.inf:
        return Quadratic(float(given)) if given else Equality()
    if isinstance(given, Potential):
        return given
    raise ValueError(
        "potential must be a Potential such as Quadratic(0.01), a number >= 0 (the strength of a "
        f"Quadratic) or a dict of them by columns, got {given!r}"
    )


def laid_out(given: Any, n_columns: int, n_outputs: int, names: Any = None) -> Layout:
    """The potential of n_columns x n_outputs weights; a dict gives one for each group."""
    if not isinstance(given, Mapping):
        potential = as_potential(given)
        _check_size(potential, n_columns, n_outputs)
        return Layout(potential, None)
    groups = [_columns(key, n_columns, names) for key in given]
    order = np.concatenate([np.zeros(0, dtype=int), *groups])
    counts = np.bincount(order, minlength=n_columns)
    for what, wrong in (("in no group", counts == 0), ("in several groups", counts > 1)):
        if wrong.any():
            raise ValueError(
                f"potential: every column belongs to one group, and columns "
                f"{np.flatnonzero(wrong)[:5].tolist()} are {what}"
            )
    parts = [as_potential(part) for part in given.values()]
    for part, group in zip(parts, groups, strict=True):
        _check_size(part, len(group), n_outputs)
    return Layout(Families(parts, [len(group) * n_outputs for group in groups]), order)


def _check_size(potential: Potential, n_columns: int, n_outputs: int) -> None:
    try:
        potential.check_size(n_columns * n_outputs)
    except ValueError as error:
        raise ValueError(
            f"the potential does not fit the weights: {error} ({n_columns} columns x {n_outputs} "
            "outputs, those of a column side by side; two classes have one output). Give it one "
            "number, or one per weight"
        ) from error


def _columns(key: Any, n_columns: int, names: Any) -> Array:
    members = list(key) if isinstance(key, tuple) else [key]
    known = {} if names is None else {name: i for i, name in enumerate(names)}
    columns = []
    for member in members:
        column = known.get(member, member)
        if isinstance(column, bool) or not isinstance(column, Integral):
            raise ValueError(
                f"potential: a group is a column or a tuple of columns, by position or name, and "
                f"{member!r} is none of {n_columns} columns"
                + (": X has no names, fit a DataFrame" if names is None else "")
            )
        if not -n_columns <= int(column) < n_columns:
            raise ValueError(f"potential: column {column} of a group, and X has {n_columns}")
        columns.append(int(column) % n_columns)
    if not columns:
        raise ValueError("potential: an empty group of columns; leave it out")
    return np.array(columns)


def simplex_entropy(given: Any, alpha: float) -> Entropy:
    """The entropy that a name or an Entropy of the simplex stands for."""
    if isinstance(given, str) and given in ("tsallis", "shannon"):
        return Tsallis(alpha) if given == "tsallis" else Shannon()
    if isinstance(given, Entropy) and isinstance(given.domain, Simplex):
        return given
    raise ValueError(
        'entropy must be "tsallis", "shannon" or an Entropy of the simplex such as '
        f'SquaredNorm(1.5), got {given!r}; 1.5-entmax and sparsemax are "tsallis" with alpha=1.5 '
        "and alpha=2"
    )


# -- the problem ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearFit(ABC):
    """A linear model's problem: how weights and intercepts lie in w, and the certificate.

    With a free intercept the columns of a dense design may be shifted: it is solved about their
    means, where rounding and curvature do not depend on how far from 0 they lie.
    """

    entropy: Entropy
    potential: Potential
    intercept: bool

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Columns of the design without ones, and outputs."""

    @property
    @abstractmethod
    def center(self) -> Array:
        """What is taken off the columns."""

    @property
    @abstractmethod
    def observed_mean(self) -> Array:
        """The weighted mean of the observed rows."""

    @abstractmethod
    def problem(self) -> Problem:
        """mean loss + V*(weights), with a free intercept for each output."""

    @abstractmethod
    def prediction(self, solution: Solution) -> Array | None:
        """p of a solution; None where the rows stay in blocks."""

    @abstractmethod
    def gap(self, state: State, p: Array | None) -> float:
        """The duality gap at p, which is moved to the observed mean where an intercept asks it."""

    def _problem(self, features: Features, **rows: Any) -> Problem:
        """Of a map that has the column of ones where there is an intercept."""
        if not self.intercept:
            return Problem(self.entropy, features, self.potential, **rows)
        columns, outputs = self.shape
        potential = Families([self.potential, Equality()], [columns * outputs, outputs])
        return InterceptProblem(self.entropy, features, potential, **rows)

    def pack(self, coef: Array, intercept: Array) -> Array:
        """w of weights (columns, outputs) and intercepts."""
        free = intercept + self.center @ coef if self.intercept else []
        return np.concatenate([coef.ravel(), free])

    def unpack(self, w: Array) -> tuple[Array, Array]:
        """Weights (columns, outputs) and intercepts of w."""
        outputs = self.shape[1]
        cut = w.size - (outputs if self.intercept else 0)
        coef = w[:cut].reshape(-1, outputs)
        rest = w[cut:] if self.intercept else np.zeros(outputs)
        return coef, rest - self.center @ coef


@dataclass(frozen=True, eq=False)
class Fit(LinearFit):
    """Rows in memory.

    ``X`` is the design without ones; ``observed`` are rows of the entropy's domain; ``pivots`` are
    those of a design that is the root of a kernel.
    """

    X: Any
    observed: Array
    weight: Array
    pivots: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the design without ones, and outputs."""
        return self.X.shape[1], self.observed.shape[1]

    @property
    def observed_mean(self) -> Array:
        """The weighted mean of the observed rows."""
        return self.weight @ self.observed

    @cached_property
    def center(self) -> Array:
        """What is taken off the columns."""
        if not self.intercept or sparse.issparse(self.X):
            return np.zeros(self.X.shape[1])
        return column_means(self.X, self.weight)

    def problem(self) -> Problem:
        """mean loss + V*(weights), with a free intercept for each output."""
        X = with_ones(self.X, self.center) if self.intercept else self.X
        features = sample_map(X, self.shape[1])
        return self._problem(features, observed=self.observed, weights=self.weight)

    def prediction(self, solution: Solution) -> Array:
        """p of a solution."""
        return np.asarray(solution.p)

    def gap(self, state: State, p: Array | None) -> float:
        """The duality gap at p, which is moved to the observed mean where an intercept asks it."""
        problem = state.problem
        assert p is not None
        if not isinstance(problem, InterceptProblem):
            return state.gap_at(p)
        return problem.gap_near(state, p, problem.moments(p) - problem.target)


# -- kernels -------------------------------------------------------------------------------------


def gram(kernel: Any, X: Any, Z: Any, gamma: float, degree: float, coef0: float) -> Array:
    """K(x, z) of all rows of X and Z."""
    from sklearn.metrics import pairwise  # slow to load: only where it is used

    if kernel == "linear":
        K = pairwise.linear_kernel(X, Z)
    elif kernel == "rbf":
        K = pairwise.rbf_kernel(X, Z, gamma=gamma)
    elif kernel == "poly":
        K = pairwise.polynomial_kernel(X, Z, degree=degree, gamma=gamma, coef0=coef0)
    else:
        K = kernel(X, Z)
    K = np.asarray(K.toarray() if sparse.issparse(K) else K, dtype=np.float64)
    if K.shape != (X.shape[0], Z.shape[0]):
        raise ValueError(
            f"the kernel must give a matrix (rows of X, rows of Z) = {(X.shape[0], Z.shape[0])}, "
            f"got shape {K.shape}"
        )
    if not np.isfinite(K).all():
        raise ValueError("the kernel gives NaN or infinity: scale X, or give a smaller gamma")
    return K


def representer(L: Array, pivots: Array, used: Array, W: Array) -> Array:
    """A (rows used, outputs) with L_used' A = W, or nearest to it (representer theorem).

    At the optimum W = L'A with A = weight (observed - p) / strength, so the rows that are predicted
    exactly have none of it, and W lies in the span of the others. Solving for A in that span moves
    W no further from the optimum, while reading A off p would amplify what is left of the gap.
    Of several A the shortest is taken.
    """
    if used.all() and pivots.size == used.size:  # there is one A alone
        return pivot_coefficients(L, pivots, W)
    return np.asarray(linalg.lstsq(L[used].T, W, lapack_driver="gelsy")[0])


def probabilities(entropy: Entropy, theta: Array, temperature: float) -> Array:
    """p(theta / T)."""
    if temperature != 1:
        entropy = Scaled(entropy, positive("temperature", temperature))
    return np.asarray(entropy.conjugate(theta)[1])


# -- the estimators' bases -------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class FenchelYoungSettings(SolverSettings):
    """The parameters of models that are fitted, and of those that are chosen."""

    _: KW_ONLY
    fit_intercept: bool = True
    temperature: float = 1.0
    random_state: RandomState = None


@dataclass(eq=False, repr=False)
class FittedSettings(FenchelYoungSettings):
    """The parameters of models that are fitted."""

    _: KW_ONLY
    kernel: KernelLike = None
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 0.0
    warm_start: bool = False
    checkpoint: str | None = None


class FenchelYoungBase(FenchelYoungSettings, SavesFields, BaseEstimator):
    """The tables of models that are fitted, and of those that are chosen."""

    potential: PotentialLike
    kernel: KernelLike = None
    checkpoint: str | None = None

    @abstractmethod
    def _scores(self, X: Any) -> Array:
        """Scores (rows, outputs)."""

    @abstractmethod
    def _probabilities(self, theta: Array) -> Array:
        """p(theta / T)."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "entropy_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check(self) -> None:
        positive("temperature", self.temperature)
        self._check_settings()
        kernel = self.kernel
        if not (kernel is None or callable(kernel) or kernel in KERNELS):
            raise ValueError(
                f"kernel must be None, a function (X, Z) -> matrix or one of "
                f"{', '.join(KERNELS)}, got {kernel!r}"
            )
        if kernel is not None and not self._has_one_strength():
            raise ValueError(
                "a kernel model has one weight per feature of the kernel's space, and its penalty "
                f"is Quadratic(strength) with one number > 0, got {self.potential!r}"
            )

    def _has_one_strength(self) -> bool:
        potential = as_potential(self.potential)
        return isinstance(potential, Quadratic) and potential.strength.ndim == 0

    def _table(self, X: Any, reset: bool) -> Any:
        if is_blocked(X):
            raise TypeError(
                f"{type(self).__name__} takes tables in memory here, got {type(X).__name__}: give "
                "X.compute(), or rows of it that fit in memory"
            )
        if self._precomputed and sparse.issparse(X):
            raise TypeError(
                'a sparse X with kernel="precomputed": the matrix of the kernel must be dense; '
                "give X.toarray()"
            )
        single = self.kernel is None and not sparse.issparse(X)  # float32 stays float32
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=SPARSE,
            dtype=FLOATS if single else np.float64,
            estimator=self,
        )
        if reset and self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f'with kernel="precomputed" X is the kernel between the training rows, square, got '
                f"shape {X.shape}"
            )
        return X


TABLE_FIELDS = ("feature_names_in_", "n_features_in_")  # what a fit sets first, and what then
SOLVED_FIELDS = (
    *("gamma_", "intercept_", "coef_", "dual_coef_", "support_", "X_fit_", "gap_", "optimality_"),
    *("loss_", "objective_", "n_iter_", "entropy_"),
)


class FenchelYoungModel(FittedSettings, FenchelYoungBase):
    """Fitting and scores of linear and kernel models; subclasses read y and make predictions."""

    entropy_: Entropy
    coef_: Array
    intercept_: Array
    dual_coef_: Array

    _fitted_fields: ClassVar[tuple[str, ...]] = (*TABLE_FIELDS, *SOLVED_FIELDS)
    _optional_fields = ("feature_names_in_", "gamma_", "coef_", "dual_coef_", "support_", "X_fit_")

    @classmethod
    def _lacking(cls, own: Mapping[str, Any]) -> list[str]:
        lacking = super()._lacking(own)
        if own.get("coef_") is not None:
            return lacking
        of_kernels = ["dual_coef_", "support_"]
        if own.get("kernel") != "precomputed":
            of_kernels += ["gamma_", "X_fit_"]
        of_this = ["coef_"] if own.get("kernel") is None else of_kernels
        return lacking + [name for name in of_this if own.get(name) is None]

    # -- fitting -------------------------------------------------------------------------------

    def _in_use(self, X: Any, weight: Array) -> tuple[Any, Array]:
        """X without the rows of weight 0, and the numbers of the others."""
        if not weight.any():
            raise ValueError("all sample weights are zero: give some rows a positive weight")
        rows = np.flatnonzero(weight)
        if rows.size == weight.size:
            return X, rows
        X = sparse.csr_array(X)[rows] if sparse.issparse(X) else X[rows]
        return X[:, rows] if self._precomputed else X, rows

    def _solve(
        self,
        X: Any,
        observed: Array,
        weight: Array,
        entropy: Entropy,
        rows: Array,
        trained: Entropy | None = None,
    ) -> None:
        """Fit the weights to rows of positive weight; ``trained`` is the entropy with a cost, or
        that of one output for two classes.

        ``rows`` are the numbers of the rows in what the user gave.
        """
        trained = entropy if trained is None else trained
        self._check_kinks(entropy)
        weight = weight / weight.sum()
        if self.kernel is None:
            potential, order = self._laid_out(X.shape[1], observed.shape[1])
            design, pivots = X if order is None else X[:, order], None
        else:
            potential, order = as_potential(self.potential), None
            design, pivots = kernel_root(self._gram(X, weight))
        intercept = bool(self.fit_intercept)
        fit = Fit(trained, potential, intercept, design, observed, weight, pivots)
        self._descend(fit, entropy, order, X, rows)

    def _check_kinks(self, entropy: Entropy) -> None:
        if self.fit_intercept and not entropy.differentiable:
            raise ValueError(
                f"{entropy!r} gives a loss with kinks, whose solvers need a penalty on every "
                "weight: set fit_intercept=False (a constant column of X is a penalized intercept)"
            )

    def _laid_out(self, n_columns: int, n_outputs: int) -> Layout:
        names = getattr(self, "feature_names_in_", None)
        return laid_out(self.potential, n_columns, n_outputs, names)

    def _descend(
        self,
        fit: LinearFit,
        entropy: Entropy,
        order: Array | None,
        X: Any = None,
        rows: Array | None = None,
    ) -> None:
        """Solve the problem and keep its solution; X and ``rows`` are for a kernel."""
        problem, warm = fit.problem(), self._warm(*fit.shape)
        start = None
        if warm is not None:
            coef, intercept = warm
            start = fit.pack(coef if order is None else coef[order], intercept)
        elif fit.intercept and isinstance(entropy.domain, Cube | NonNegative):
            # scores of 0 lie on an edge of the cone, where a projection has no curvature to use
            start = fit.pack(np.zeros(fit.shape), fit.observed_mean)
        try:
            solution = self._run(problem, start)
        except Interrupted as stop:
            self._finish(fit, problem, stop.solution, order, X, entropy, rows)
            raise
        self._finish(fit, problem, solution, order, X, entropy, rows)

    def _run(self, problem: Problem, start: Array | None) -> Solution:
        solver = choose(self.solver, problem)
        wanted: dict[str, Any] = {"tol": self.tol, "verbose": self.verbose}
        if self.checkpoint is not None:
            wanted["checkpoint"] = self.checkpoint
        if self.max_iter is not None:
            wanted["max_iter"] = int(self.max_iter)
        draws = "random_state" in {field.name for field in fields(solver)}
        if draws and self.random_state is not None:
            wanted["random_state"] = int(check_random_state(self.random_state).randint(2**31))
        solver = replace(solver, **wanted)
        solution = solver.run(problem, start)
        solver.warn_unless_converged(solution, stacklevel=5)  # the line that called ``fit``
        return solution

    def _forget(self, name: str) -> None:
        """Leave nothing of an earlier fit that this one does not set."""
        if hasattr(self, name):
            delattr(self, name)

    def _warm(self, n_columns: int, n_outputs: int) -> tuple[Array, Array] | None:
        """The last weights, where ``warm_start`` asks for them and they fit."""
        if not self.warm_start or self.kernel is not None or not hasattr(self, "coef_"):
            return None
        fits = self.coef_.shape == (n_outputs, n_columns)
        return (self.coef_.T, self.intercept_) if fits else None

    def _finish(
        self,
        fit: LinearFit,
        problem: Problem,
        solution: Solution,
        order: Array | None,
        X: Any,
        entropy: Entropy,
        rows: Array | None,
    ) -> None:
        coef, self.intercept_ = fit.unpack(solution.w)
        if isinstance(fit.entropy.domain, Simplex | KSubset | Permutahedron):
            self.intercept_ -= self.intercept_.mean()  # scores count up to what all share
        p, w = fit.prediction(solution), solution.w
        for name in ("coef_", "dual_coef_", "support_", "X_fit_"):
            self._forget(name)
        pivots = fit.pivots if isinstance(fit, Fit) else None
        if pivots is None:
            self.coef_ = np.empty(coef.T.shape)
            self.coef_[:, slice(None) if order is None else order] = coef.T + 0.0  # no -0
        else:
            assert isinstance(fit, Fit)
            assert p is not None
            assert rows is not None
            used = (p != fit.observed).any(axis=1)
            used[0] |= not used.any()
            with one_blas_thread():
                dual = representer(fit.X, pivots, used, coef)
            self.dual_coef_ = np.ascontiguousarray(dual.T)
            self.support_ = rows[used]
            if not self._precomputed:
                self.X_fit_ = X[used] if not sparse.issparse(X) else sparse.csc_array(X)[used]
            w = fit.pack(fit.X[used].T @ dual, self.intercept_)
        state = problem.state(w)
        other = solution.gap if self.kernel is None else fit.gap(state, np.asarray(state.p))
        self.gap_ = min(fit.gap(state, p), other)
        self.optimality_ = state.optimality
        self.loss_ = state.smooth + problem.observed_value
        self.objective_ = self.loss_ + state.penalty
        self.n_iter_ = solution.n_iter
        self.entropy_ = entropy
        worse = pivots is not None and max(self.tol, self.objective_) < self.gap_ < np.inf
        if solution.status is Status.CONVERGED and worse:
            warnings.warn(
                f"the fit meets tol, but with one coefficient per row its duality gap is "
                f"{self.gap_:.3g}, larger than the objective {self.objective_:.3g}, and certifies "
                "nothing: the kernel's matrix is nearly singular; give a stronger potential",
                ConvergenceWarning,
                stacklevel=5,
            )

    # -- kernels -------------------------------------------------------------------------------

    def _gram(self, X: Any, weight: Array) -> Array:
        """The kernel between training rows; ``gamma_`` is fixed here."""
        if self._precomputed:
            return np.asarray(X)
        self.gamma_ = self._scale(X, weight)
        return gram(self.kernel, X, X, self.gamma_, self.degree, self.coef0)

    def _scale(self, X: Any, weight: Array) -> float:
        if isinstance(self.gamma, str) and self.gamma == "scale":
            mean = float(np.mean(weight @ X))
            square = float(np.mean(weight @ (X.multiply(X) if sparse.issparse(X) else X**2)))
            spread = square - mean**2
            return 1 / (X.shape[1] * spread) if spread > 1e-15 * square else 1.0
        if isinstance(self.gamma, str) and self.gamma == "auto":
            return 1.0 / X.shape[1]
        if isinstance(self.gamma, str):
            raise ValueError(
                f'gamma must be "scale", "auto" or a positive number, got {self.gamma!r}'
            )
        return positive("gamma", self.gamma)

    # -- scores --------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._table_scores(self._table(X, reset=False))

    def _table_scores(self, X: Any) -> Array:
        """Scores (rows, outputs) of a table that was read."""
        if hasattr(self, "coef_"):
            theta = scores(X, self.coef_.T)
        elif hasattr(self, "X_fit_"):
            K = gram(self.kernel, X, self.X_fit_, self.gamma_, self.degree, self.coef0)
            theta = K @ self.dual_coef_.T
        else:
            theta = X[:, self.support_] @ self.dual_coef_.T
        return np.asarray(theta) + self.intercept_

    def _probabilities(self, theta: Array) -> Array:
        return probabilities(self.entropy_, theta, self.temperature)
