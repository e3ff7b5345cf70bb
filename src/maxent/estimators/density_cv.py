"""MaxentDensityCV: features, potential, entropy and multiplier chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from maxent import evaluation, io
from maxent._jobs import in_threads
from maxent._rows import Array
from maxent._threads import one_blas_thread
from maxent.density import Offered, Table
from maxent.estimators._density import COLUMNS, DensityEstimator
from maxent.estimators.density import MaxentDensity
from maxent.features import Schema
from maxent.features.cells import take_rows

Score = Callable[[MaxentDensity, Any, Array, Array, Array], float]


def log_loss_score(model: MaxentDensity, X: Any, y: Array, weight: Array, test: Array) -> float:
    """Mean log density of the held-out occurrences, normalised over all rows of X."""
    log_density = model.score_samples(X)
    counts = np.zeros(len(y))
    counts[test] = (y * weight)[test]
    top = log_density.max()
    total = top + np.log(weight @ np.exp(log_density - top))
    present = counts > 0
    return float(counts[present] @ (log_density[present] - total) / counts.sum())


def auc_score(model: MaxentDensity, X: Any, y: Array, weight: Array, test: Array) -> float:
    """AUC of the held-out occurrences against the background rows of the test set."""
    scores = model.score_samples(take_rows(X, test))
    present, weights = y[test] > 0, weight[test]
    if present.all():
        raise ValueError('scoring="auc" needs background rows in every test set')
    return evaluation.auc(
        scores[present],
        scores[~present],
        presence_weights=(y[test] * weights)[present],
        background_weights=weights[~present],
    )


_SCORES: dict[str, Score] = {"log_loss": log_loss_score, "auc": auc_score}


@io.register
class MaxentDensityCV(DensityEstimator):
    """A MaxentDensity whose settings are chosen by (spatially blocked) cross-validation.

    Every combination of ``features``, ``potentials`` and ``entropies`` is fitted on the training
    rows of every split, along all ``multipliers`` with warm starts; the best mean held-out score
    wins and is fitted to all rows.

    Parameters
    ----------
    features, potentials, entropies, multipliers : what to choose from; see ``MaxentDensity``.
    cv : a splitter over the rows (``PresenceKFold``, ``SpatialBlocks``, ``Checkerboard``,
        ``BufferedLeaveOneOut`` or scikit-learn's) or the number of folds. By default 5 folds of the
        presences, or 4 spatial blocks where ``fit`` is given coordinates.
    scoring : "log_loss" (held-out log density over all rows), "auc", or a function
        (model, X, y, test rows) -> score, larger is better.
    n_jobs : threads.
    Others as for ``MaxentDensity``.

    Attributes
    ----------
    best_params_, best_score_; cv_results_ : a dict of columns (features, potential, entropy,
        multiplier, mean_score, sd_score, n_splits, scores); and all of ``MaxentDensity``.

    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.where(np.arange(60) % 4 == 0, np.arange(60) > 30, 0)
    >>> model = MaxentDensityCV(features=["l", "lq"], multipliers=[1.0, 10.0], cv=3).fit(X, y)
    >>> sorted(model.best_params_), bool(model.gap_ < 1e-6)
    (['entropy', 'features', 'multiplier', 'potential'], True)
    """

    def __init__(
        self,
        features: Sequence[Any] = ("l", "lq", "lqh", "lqph"),
        potentials: Sequence[Any] = ("box",),
        *,
        entropies: Sequence[Any] = ("shannon",),
        multipliers: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
        cv: Any = None,
        scoring: Any = "log_loss",
        solver: Any = "auto",
        preset: str | None = None,
        regularization: Any = None,
        categorical: Iterable[Any] = (),
        tol: float = 1e-7,
        missing: str = "error",
        prevalence: float = 0.5,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.potentials = potentials
        self.entropies = entropies
        self.multipliers = multipliers
        self.cv = cv
        self.scoring = scoring
        self.solver = solver
        self.preset = preset
        self.regularization = regularization
        self.categorical = categorical
        self.tol = tol
        self.missing = missing
        self.prevalence = prevalence
        self.n_jobs = n_jobs
        self.verbose = verbose

    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *COLUMNS,
        *("best_params_", "best_score_", "cv_results_", "density_"),
    )

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        prior: Any = None,
        *,
        coordinates: Any = None,
        groups: Any = None,
    ) -> MaxentDensityCV:
        """Choose the settings, then fit them to all rows.

        ``coordinates`` (rows, 2) make spatial blocks where no ``cv`` is given; ``groups`` go to
        the splitter.
        """
        table = Table.of(*self._table(X, y), sample_weight, prior, self.missing)
        splitter = self._splitter(table.aligned(coordinates))
        splits = list(splitter.split(table.X, table.y, table.aligned(groups)))
        candidates = self._candidates()
        multipliers = sorted(map(float, self.multipliers), reverse=True)
        schema = Schema.of(table.X, self.categorical)
        jobs = [(candidate, *split) for candidate in candidates for split in splits]

        def held_out(job: tuple[dict[str, Any], Array, Array]) -> list[float]:
            return self._held_out(job[0], multipliers, table, schema, *job[1:])

        with one_blas_thread():
            scores = in_threads(
                "MaxentDensityCV", held_out, jobs, self.n_jobs, self.verbose, "paths"
            )
        shape = len(candidates), len(splits), len(multipliers)
        self._choose(candidates, multipliers, np.array(scores).reshape(shape))
        best = self._estimator(self.best_params_)
        density = best.fit(table.X, table.y, table.weight, table.prior).density_
        self.density_ = replace(density, origin=self._offered(table, schema))
        return self

    def _offered(self, table: Table, schema: Schema) -> Offered:
        """The features of all candidates: the search looked at the occurrences, too."""
        recipes = [self._estimator({"features": each}).recipe() for each in self.features]
        points = recipes[0].points(table, schema)
        return reduce(Offered.together, (recipe.offered(points) for recipe in recipes))

    def path(
        self, X: Any, y: Any, sample_weight: Any = None, prior: Any = None, **settings: Any
    ) -> list[MaxentDensity]:
        """The path of the chosen model; see ``MaxentDensity.path``."""
        chosen = self._estimator(self.best_params_)
        models = chosen.path(X, y, sample_weight, prior, **settings)
        table = Table.of(*chosen._table(X, y), sample_weight, prior, self.missing)
        offered = self._offered(table, Schema.of(table.X, self.categorical))
        for model in models:
            model.density_ = replace(model.density_, origin=offered)
        return models

    def _candidates(self) -> list[dict[str, Any]]:
        names = {"features": "features", "potential": "potentials", "entropy": "entropies"}
        grids = {name: getattr(self, parameter) for name, parameter in names.items()}
        for name, grid in grids.items():
            if isinstance(grid, str) or not isinstance(grid, Sequence) or not len(grid):
                raise ValueError(f"{names[name]}: give a list of choices, got {grid!r}")
        if not len(self.multipliers):
            raise ValueError("multipliers is empty: give at least one")
        return [dict(zip(grids, values, strict=True)) for values in product(*grids.values())]

    def _estimator(self, params: dict[str, Any]) -> MaxentDensity:
        shared = (
            *("solver", "preset", "regularization", "categorical", "tol", "missing", "prevalence"),
            "verbose",
        )
        return MaxentDensity(**{name: getattr(self, name) for name in shared}, **params)

    def _splitter(self, coordinates: Any) -> Any:
        if self.cv is None and coordinates is not None:
            return evaluation.SpatialBlocks(coordinates)
        if self.cv is None or isinstance(self.cv, Integral):
            return evaluation.PresenceKFold(5 if self.cv is None else int(self.cv))
        if isinstance(self.cv, str) or not (hasattr(self.cv, "split") or np.iterable(self.cv)):
            raise ValueError(
                f"cv must be a splitter, a number of folds or a list of splits, got {self.cv!r}"
            )
        return check_cv(self.cv)

    def _score(self) -> Score:
        scoring = self.scoring
        if callable(scoring):
            return lambda model, X, y, weight, test: float(scoring(model, X, y, test))
        if self.scoring not in _SCORES:
            raise ValueError(
                f"scoring must be a function or one of {', '.join(_SCORES)}, got {self.scoring!r}"
            )
        return _SCORES[self.scoring]

    def _held_out(
        self,
        candidate: dict[str, Any],
        multipliers: Sequence[float],
        table: Table,
        schema: Schema,
        train: Array,
        test: Array,
    ) -> list[float]:
        """The score of every multiplier on one split, along one warm-started path."""
        estimator, score = self._estimator(candidate), self._score()
        recipe = estimator.recipe()
        # the levels of all rows: one that the training rows lack has no effect
        path = recipe.task_of(recipe.points(table.take(train), schema)).path(multipliers)
        models = (
            clone(estimator).set_params(multiplier=c)._hold(density, self) for c, density in path
        )
        return [score(model, table.X, table.y, table.weight, test) for model in models]

    def _choose(
        self, candidates: list[dict[str, Any]], multipliers: Sequence[float], scores: Array
    ) -> None:
        with np.errstate(invalid="ignore"):  # infinite losses
            mean, sd = scores.mean(axis=1), scores.std(axis=1)
        usable = np.where(np.isfinite(mean), mean, -np.inf)
        if not np.isfinite(usable).any():
            raise ValueError(
                f"no candidate has a finite held-out {self.scoring}: an entropy with exact zeros "
                'has infinite log loss there; use scoring="auc"'
            )
        which, at = map(int, np.unravel_index(int(np.argmax(usable)), usable.shape))
        self.best_params_ = {**candidates[which], "multiplier": multipliers[at]}
        self.best_score_ = float(mean[which, at])
        rows = [(i, j) for i in range(len(candidates)) for j in range(len(multipliers))]
        self.cv_results_ = {
            **{name: [candidates[i][name] for i, _ in rows] for name in candidates[0]},
            "multiplier": [multipliers[j] for _, j in rows],
            "mean_score": mean.ravel(),
            "sd_score": sd.ravel(),
            "n_splits": [scores.shape[1]] * len(rows),
            "scores": scores.transpose(0, 2, 1).reshape(len(rows), -1),
        }
