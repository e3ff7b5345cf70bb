"""FenchelYoungClassifierCV: the entropy's index and the strength by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.checks import masses, positive_grid
from maxent._support.progress import Progress
from maxent._support.threads import one_blas_thread
from maxent.core.entropies import Entropy
from maxent.core.potentials import Quadratic, scaled
from maxent.learn.delegated import Delegated
from maxent.learn.linear.base import as_potential, probabilities
from maxent.learn.linear.fenchel_young import Classifies, FenchelYoungClassifier
from maxent.rows.arrays import Array
from maxent.typing import (
    ArrayLike,
    ClassWeights,
    PotentialLike,
    ScoringLike,
    SplitterLike,
    TableLike,
)

ALPHAS = (1.0, 1.25, 1.5, 1.75, 2.0)
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SHARED = (
    *("fit_intercept", "class_weight", "solver", "tol", "max_iter", "temperature"),
    *("random_state", "verbose"),
)
_OF_BOTH = ("feature_names_in_", "n_features_in_", "classes_")
# fields of the best estimator in files written before it was held as one
_OLDER = tuple(x for x in FenchelYoungClassifier._fitted_fields if x not in _OF_BOTH)
Score = Callable[[FenchelYoungClassifier, Any, Array, Array], tuple[float, ...]]


@io.register
@dataclass(eq=False, repr=False)
class FenchelYoungClassifierCV(Classifies):
    """A ``FenchelYoungClassifier`` whose alpha and strength come from cross-validation.

    The losses of two entropies are on different scales and cannot be compared. By default
    the best accuracy wins, and of equally accurate ones the smallest Brier score, the squared error
    of the probabilities, which is proper and finite where probabilities are 0; then the largest
    strength. In each fold and for each alpha the strengths are a warm-started path, largest first.

    Parameters
    ----------
    alphas : sequence of float, default (1.0, 1.25, 1.5, 1.75, 2.0)
        Indices of the Tsallis entropy to try.
    strengths : sequence of float, default (1e-5, 1e-4, 0.001, 0.01, 0.1, 1.0)
        Multipliers c of the potential, `c V*`, to try.
    potential : Potential, float or dict, default Quadratic(1)
        V at multiplier 1; with the default c is the strength.
    cv : int, splitter or list of splits, default 5 folds
        Stratified folds, a splitter or a list of splits.
    scoring : str or callable, default None
        None for accuracy and Brier score as above, or a scikit-learn scorer by name or function,
        largest best.
    cost : array (n_classes, n_classes), default None
        What it costs in training to answer column j where row i is true, as for
        ``FenchelYoungClassifier``.
    fit_intercept : bool, default True
        Whether each class has a free constant, which is not penalized.
    class_weight : dict or "balanced", default None
        Weights of the classes, {class: weight} or "balanced"; they multiply sample weights.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-6
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    temperature : float, default 1.0
        T of predictions `p(theta / T)`: towards the best answer as it falls, towards a uniform one
        as it grows. Training is not affected.
    n_jobs : int, default None
        Threads over folds and alphas.
    random_state : int or RandomState, default None
        Seed of solvers that draw samples.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    best_estimator_ : FenchelYoungClassifier
        The ``FenchelYoungClassifier`` fitted to all samples with the best parameters.
    best_params_ : dict
        The alpha and strength chosen.
    best_score_ : float
        Their mean held-out accuracy (or score).
    cv_results_ : dict
        A row for each alpha and strength: their values, mean and sd over the splits of accuracy and
        brier (or of score), and those of every split.
    coef_ : array (n_classes, n_features)
        Weights; with two classes (1, n_features), the second's.
    intercept_ : array (n_classes,)
        Constants; with two classes (1,), the second's.
    entropy_ : Entropy
        The entropy in use.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Notes
    -----
    For kernels use ``GridSearchCV`` with ``FenchelYoungClassifier``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FenchelYoungClassifierCV([1, 2], [0.001, 1.0], cv=3).fit(X, y)
    >>> model.best_params_["strength"], len(model.cv_results_["mean_accuracy"])
    (0.001, 4)
    """

    _fitted_fields = (
        *("feature_names_in_", "n_features_in_", "classes_", "best_params_", "best_score_"),
        *("cv_results_", "best_estimator_"),
    )

    alphas: Sequence[float] = ALPHAS
    strengths: Sequence[float] = STRENGTHS
    potential: PotentialLike = None
    _: KW_ONLY
    cv: SplitterLike = None
    scoring: ScoringLike = None
    cost: ArrayLike | None = None
    class_weight: ClassWeights = None
    n_jobs: int | None = None

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> FenchelYoungClassifierCV:
        """Choose alpha and strength, then fit them to all samples."""
        alphas, strengths = (
            positive_grid("alphas", self.alphas),
            positive_grid("strengths", self.strengths),
        )
        self._check()
        table = self._table(X, reset=True)
        y = self._labels(table, y)
        weight = masses("sample_weight", sample_weight, len(y))
        if not weight.any():
            raise ValueError("all sample weights are zero: give some rows a positive weight")
        self.classes_ = np.unique(y[weight > 0])
        self._cost()
        from sklearn.model_selection import check_cv  # slow to load: only where it is used

        splits = list(check_cv(self.cv, y, classifier=True).split(table, y))
        measure, names = self._measure()
        progress, done = Progress(type(self).__name__, self.verbose), 0

        def run(alpha: float, train: Array, test: Array) -> list[tuple[float, ...]]:
            nonlocal done
            scores = self._path(alpha, strengths, table, y, weight, train, test, measure)
            done += 1
            progress.update(f"{done} of {len(alphas) * len(splits)} paths")
            return scores

        jobs = (delayed(run)(alpha, *split) for alpha in alphas for split in splits)
        with one_blas_thread():  # the whole process's, so it is set here and not in the threads
            try:
                measured = Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
            finally:
                progress.close()
        shape = (len(alphas), len(splits), len(strengths), len(names))
        by_name = np.array(measured).reshape(shape).transpose(3, 0, 2, 1)
        scores = np.ascontiguousarray(by_name).reshape(len(names), -1, len(splits))
        grid = [(alpha, strength) for alpha in alphas for strength in strengths]
        self._choose(grid, dict(zip(names, scores, strict=True)))
        self.best_estimator_ = self._best().fit(X, y, weight)
        return self

    # -- the fit to all samples ----------------------------------------------------------------

    coef_ = Delegated[Array](
        "best_estimator_.coef_",
        "Weights (classes, features); with two classes (1, features), the second's.",
    )
    intercept_ = Delegated[Array]("best_estimator_.intercept_", "Constants (classes,) or (1,).")
    entropy_ = Delegated[Entropy]("best_estimator_.entropy_", "The entropy in use.")
    loss_ = Delegated[float]("best_estimator_.loss_", "Mean loss on the training rows.")
    objective_ = Delegated[float]("best_estimator_.objective_", "The loss with the penalty.")
    gap_ = Delegated[float]("best_estimator_.gap_", "Duality gap.")
    optimality_ = Delegated[float](
        "best_estimator_.optimality_", "Violation of the optimality conditions."
    )
    n_iter_ = Delegated[int]("best_estimator_.n_iter_", "Iterations of the solver.")

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.best_estimator_._table_scores(self._table(X, reset=False))

    def _probabilities(self, theta: Array) -> Array:
        return probabilities(self.entropy_, theta, self.temperature)

    def __setmodel__(self, state: dict[str, Any]) -> None:
        older = {name: state[name] for name in _OLDER if name in state}
        rest = {name: state[name] for name in state if name not in older}
        super().__setmodel__(rest | {"best_estimator_": None} if older else rest)
        if older:
            best = self._best()
            of_both = {name: state[name] for name in _OF_BOTH if name in state}
            best.__setmodel__({**best.get_params(deep=False), **of_both, **older})
            self.best_estimator_ = best

    # -- the choice ----------------------------------------------------------------------------

    def _best(self) -> FenchelYoungClassifier:
        """The model of the best parameters, not fitted."""
        return self._estimator(**self.best_params_).set_params(cost=self.cost)

    def _estimator(self, alpha: float, strength: float) -> FenchelYoungClassifier:
        base = Quadratic(1.0) if self.potential is None else self.potential
        shared = {name: getattr(self, name) for name in _SHARED}
        if isinstance(base, dict):
            potential: Any = {k: scaled(as_potential(v), strength) for k, v in base.items()}
        else:
            potential = scaled(as_potential(base), strength)
        return FenchelYoungClassifier("tsallis", alpha, potential, **shared)

    def _path(
        self,
        alpha: float,
        strengths: list[float],
        X: Any,
        y: Array,
        weight: Array,
        train: Array,
        test: Array,
        measure: Score,
    ) -> list[tuple[float, ...]]:
        """The measures of every strength on one split."""
        model = clone(self._estimator(alpha, strengths[0])).set_params(warm_start=True)
        if self.cost is not None:  # of the classes that the fold has
            here = np.isin(self.classes_, y[train][weight[train] > 0])
            model.set_params(cost=np.asarray(self.cost)[np.ix_(here, here)])
        inside, outside = _safe_indexing(X, train), _safe_indexing(X, test)
        scores = []
        for strength in strengths:
            potential = self._estimator(alpha, strength).potential
            model.set_params(potential=potential).fit(inside, y[train], weight[train])
            scores.append(measure(model, outside, y[test], weight[test]))
        return scores

    def _measure(self) -> tuple[Score, list[str]]:
        if self.scoring is None:
            return _accuracy_and_brier, ["accuracy", "brier"]
        from sklearn.metrics import check_scoring

        scorer = check_scoring(FenchelYoungClassifier(), self.scoring)
        return lambda model, X, y, weight: (float(scorer(model, X, y)),), ["score"]

    def _choose(self, grid: list[tuple[float, float]], scores: dict[str, Array]) -> None:
        mean = {name: values.mean(axis=1) for name, values in scores.items()}
        first, *rest = mean
        # rounding must not decide between equal accuracies; strengths come largest first
        keys = [-np.round(mean[first], 12), *(np.round(mean[name], 12) for name in rest)]
        order = np.lexsort([np.array([-c for _, c in grid]), *reversed(keys)])
        best = int(order[0])
        if not np.isfinite(mean[first][best]):
            raise ValueError(f"no alpha and strength has a finite held-out {first}")
        self.best_params_ = dict(zip(("alpha", "strength"), grid[best], strict=True))
        self.best_score_ = float(mean[first][best])
        self.cv_results_ = {
            "alpha": [alpha for alpha, _ in grid],
            "strength": [strength for _, strength in grid],
            **{f"mean_{name}": values for name, values in mean.items()},
            **{f"sd_{name}": values.std(axis=1) for name, values in scores.items()},
            **{name: values.copy() for name, values in scores.items()},
        }


def _accuracy_and_brier(
    model: FenchelYoungClassifier, X: Any, y: Array, weight: Array
) -> tuple[float, float]:
    p, known = model.predict_proba(X), model.classes_
    weight = weight / weight.sum() if weight.any() else np.full(len(y), 1 / len(y))
    right = weight @ (model.predict(X) == y)
    truth = y[:, None] == known
    # a class that the fold has no sample of is missed by all of its probability
    missed = ~truth.any(axis=1)
    return float(right), float(weight @ (np.sum((p - truth) ** 2, axis=1) + missed))
