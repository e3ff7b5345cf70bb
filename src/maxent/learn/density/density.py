"""MaxentDensity: generalized maximum-entropy density estimation over cells (density paper)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from sklearn.base import clone

from maxent import io
from maxent._support.threads import one_blas_thread
from maxent.core.problem import Problem
from maxent.core.solvers.base import Interrupted
from maxent.density import DensityTask, Recipe
from maxent.density.intervals import check_method
from maxent.learn.density.base import DensityEstimator
from maxent.rows.blocks.table import is_blocked
from maxent.typing import ArrayLike, EntropyLike, PotentialLike, SolverLike, TableLike


@io.register
class MaxentDensity(DensityEstimator):
    """The density over cells closest to the default one whose moments agree with the presences.

    `min_p Omega(p || q0) + V(F p - mu)`, mu the mean features of the presences: for Shannon the
    Gibbs density `p(x) = q0(x) exp(<w, f(x)>) / Z` that minimises `log loss + V*(-w)`.

    Parameters
    ----------
    features : str or list of FeatureClass, default "auto"
        "auto" (by the number of presences: linear; with 10 quadratic, with 15 hinge, with 80
        product), letters from "lqpthck" (linear, quadratic, product, threshold, hinge, categorical,
        kernel), or a list of feature classes (``[Linear(), Hinge(knots=20)]``). All but those of
        kernels are scaled to [0, 1].
        Letters mean a knot at every value, or 50 per variable where the potential is named and sets
        no weight to 0, as then every feature is in use.
    potential : str or Potential, default "box"
        "box" (l1), "ball" (l2), "quadratic" (l2 squared), "elastic", "smooth-box", "laplace",
        "equality": scaled by the preset's `beta_j`; or a Potential, taken as it is. Under every
        name but "equality" the features of a kernel carry `||w||^2 / (2 m)`, m presences: the norm
        of their function, not a sum over features that depends on their choice.
    entropy : str or Entropy, default "shannon"
        "shannon", or an Entropy (``Tsallis(1.5)`` has exact zeros on the map).
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    multiplier : float, default 1.0
        c in `V_c(r) = c V(r / c)`; maxent.jar's betamultiplier.
    preset : "maxent" or "maxnet", default None
        Knots, regularization tables and floors of that program. Both merge a presence with a
        background row of the same values, as those programs do with samples and background points;
        leave it out where every row is a cell of a grid.
    regularization : "practical" or callable, default None
        None for the `beta_j` of the preset; "practical" for `beta_j = sd_j / sqrt(m)`, the density
        paper's with ``multiplier`` as `beta_0`; or a function (kinds, mean, sd, m) -> beta of the
        letters, means and deviations of all features over the m presences.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type; those of type category or string always
        are.
    tol : float, default 1e-7
        Duality gap at which to stop.
    missing : "error" or "drop", default "error"
        What to do with rows that have a missing value.
    prevalence : float, default 0.5
        `tau` of the logistic output.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.
    intervals : "none", "laplace" or "bootstrap", default "none"
        What ``density_.intervals`` is to be made of: the curvature of the problem in the features
        in use, or 100 refits to records drawn with replacement (``DensityTask.with_refits`` has
        more of them, and draws in spatial blocks).

    Attributes
    ----------
    coef_ : dict
        Weight of every feature in use, by its name.
    density_ : FittedDensity
        The fitted density, a value that can be kept, saved and passed on without this class.
    n_features_ : int
        Number of features, in use or not.
    entropy_ : float
        Entropy of the raw output.
    gap_ : float
        Duality gap: how far the objective is above the minimum, at most.
    optimality_ : float
        Violation of the optimality conditions.
    guarantees_ : dict
        What the gap says of the distance to the optimum.
    status_ : Status or None
        Why the solver stopped.
    n_iter_ : int
        Iterations of the solver.
    history_ : list of dict
        One record per iteration.
    gain_ : float
        Gain over the default density, less the penalty.
    unregularized_gain_ : float
        Gain over the default density.
    log_partition_ : float
        `log sum exp<w, f>` over the cells.
    beta_ : array
        Penalty of every feature in use.
    n_presences_ : float
        Number of occurrences.
    n_points_ : float
        Number of points that the density is over.
    schema_ : Schema
        Columns, categories and levels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> y = np.where(np.arange(50) > 30, 1, 0)
    >>> model = MaxentDensity(features="lq").fit(X, y)
    >>> bool(model.gap_ < 1e-6), sorted(model.coef_)
    (True, ['x0'])
    >>> bool(abs(model.predict(X).sum() - 1) < 1e-12)
    True
    """

    def __init__(
        self,
        features: Any = "auto",
        potential: PotentialLike = "box",
        *,
        entropy: EntropyLike = "shannon",
        solver: SolverLike = "auto",
        multiplier: float = 1.0,
        preset: str | None = None,
        regularization: Any = None,
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        verbose: int = 0,
        checkpoint: str | None = None,
        intervals: str = "none",
    ) -> None:
        self.features = features
        self.potential = potential
        self.entropy = entropy
        self.solver = solver
        self.multiplier = multiplier
        self.preset = preset
        self.regularization = regularization
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.intervals = intervals

    def recipe(self) -> Recipe:
        """The parameters as a value that poses tasks without scikit-learn."""
        settings = self.get_params(deep=False)
        del settings["intervals"]
        return Recipe(**settings)

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> MaxentDensity:
        """Fit to cells X with y occurrences in each (0: background).

        ``sample_weight`` s counts a row s times, its mass and its occurrences; ``prior``
        multiplies the default density alone (sampling bias), and predictions leave it out. Several
        records in one row go into y: ``bound`` takes sample weights for weights of records, not for
        their number. After Ctrl-C the model is the best point so far, with its gap.
        """
        check_method(self.intervals)
        with one_blas_thread():
            task = self._told(self.task(X, y, sample_weight, prior))
            try:
                solution = task.solve()
            except Interrupted as stop:  # the model so far is there, with its gap
                self.density_ = task.density(stop.solution)
                raise
            self.density_ = task.with_intervals(task.density(solution), solution.w, self.intervals)
        return self

    def task(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> DensityTask:
        """What ``fit`` solves, before the first step: points, features and how they are penalized.

        Nothing of the estimator changes but ``n_features_in_`` and ``feature_names_in_``.
        """
        if is_blocked(X):
            return self.recipe().task_in_blocks(self._block_table(X, y, sample_weight, prior))
        return self.recipe().task(*self._table(X, y), sample_weight, prior)

    def problem(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> Problem:
        """The convex problem that ``fit`` solves: entropy, operators, potential and moments."""
        return clone(self).task(X, y, sample_weight, prior).problem

    def path(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        multipliers: Sequence[float] | None = None,
        n_multipliers: int = 20,
    ) -> list[MaxentDensity]:
        """A fitted model for every multiplier, largest first, each started from the one before.

        By default equal ratios apart, from where every weight is 0.
        """
        first = clone(self).set_params(multiplier=1.0)
        with one_blas_thread():
            task = self._told(first.task(X, y, sample_weight, prior))
            path = task.path(multipliers, n=n_multipliers, warn=True)
            return [
                clone(first).set_params(multiplier=c)._hold(density, first) for c, density in path
            ]

    @staticmethod
    def _told(task: DensityTask) -> DensityTask:
        """The task, its notes given as warnings."""
        for note in task.notes:
            warnings.warn(note, stacklevel=4)
        return task
