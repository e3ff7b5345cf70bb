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

from maxent import evaluation, io
from maxent._support.jobs import in_threads
from maxent._support.threads import one_blas_thread
from maxent.density import DensityTask, FittedDensity, Offered, Recipe, Table
from maxent.density.blocked import Reading, count_rows
from maxent.features import Schema
from maxent.features.cells import take_rows
from maxent.learn.density.base import COLUMNS, DensityEstimator
from maxent.learn.density.density import MaxentDensity
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import BlockTable, Part, is_blocked
from maxent.typing import ArrayLike, ScoringLike, SolverLike, SplitterLike, TableLike

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


class _Rows:
    """The rows of a search in memory, and how they are split."""

    def __init__(self, search: MaxentDensityCV, table: Table, coordinates: Any, groups: Any):
        self._table, self._score, self.n_jobs = table, search._score(), search.n_jobs
        # the levels of all rows: one that the training rows lack has no effect
        self._schema = Schema.from_table(table.X, search.categorical)
        self.splits = list(search._splitter(coordinates).split(table.X, table.y, groups))

    def task(self, recipe: Recipe, split: tuple[Array, Array]) -> DensityTask:
        """The density of the training rows."""
        return recipe.task_of(recipe.points(self._table.take(split[0]), self._schema))

    def score(self, model: MaxentDensity, split: tuple[Array, Array]) -> float:
        """The score on the test rows."""
        return self._score(model, self._table.X, self._table.y, self._table.weight, split[1])

    def fitted(self, estimator: MaxentDensity) -> FittedDensity:
        """The density of all rows."""
        X, y, weight, prior = self._table[:4]
        return estimator.fit(X, y, weight, prior).density_

    def offered(self, recipe: Recipe) -> Offered:
        """What the features of a density are chosen from."""
        return recipe.offered(recipe.points(self._table, self._schema))


class _BlockRows:
    """The rows of a search in blocks: folds of the records, all others are background."""

    n_jobs = 1  # the blocks of one fit are worked on at the same time

    def __init__(self, search: MaxentDensityCV, table: BlockTable) -> None:
        splitter = search._splitter(None)
        if search.scoring != "log_loss" or not isinstance(splitter, evaluation.PresenceKFold):
            raise ValueError(
                'rows in blocks are scored by scoring="log_loss" on folds of the records: cv is a '
                f"number of folds or PresenceKFold; got scoring={search.scoring!r} and "
                f"cv={search.cv!r}"
            )
        self._table, self._rows = table, Reading(search.missing)
        counted = count_rows(table, self._rows)
        self._records = counted.all_records()
        numbers = sorted(counted.records)
        self._block = np.repeat(numbers, [len(counted.records[n].y) for n in numbers])
        folds = splitter.split(None, self._records.y > 0)
        self.splits = [held_out for _, held_out in folds]

    def task(self, recipe: Recipe, split: Array) -> DensityTask:
        """The density without the records held out."""
        block, rows = self._block[split], self._records.rows[split]
        without = {int(number): rows[block == number] for number in np.unique(block)}
        return recipe.task_in_blocks(self._table, without)

    def score(self, model: MaxentDensity, split: Array) -> float:
        """As ``log_loss_score``."""
        log_total: float = self._table.blocks.reduce(
            _log_mass, self._rows, model, merge=np.logaddexp
        )
        held_out = self._records.take(split)
        counts = held_out.y * held_out.weight
        return float(counts @ (model.score_samples(held_out.X) - log_total) / counts.sum())

    def fitted(self, estimator: MaxentDensity) -> FittedDensity:
        """The density of all rows."""
        task = estimator.recipe().task_in_blocks(self._table)
        return task.density(task.solve())

    def offered(self, recipe: Recipe) -> Offered:
        """What the features of a density are chosen from."""
        return recipe.task_in_blocks(self._table).offered


def _log_mass(part: Part, rows: Reading, model: MaxentDensity) -> float | None:
    """log sum_i weight_i p(x_i) of some rows."""
    table = rows.checked_rows(part)
    if not table.weight.any():
        return None
    log_density = model.score_samples(table.X)
    top = log_density.max()
    return float(top + np.log(table.weight @ np.exp(log_density - top)))


@io.register
class MaxentDensityCV(DensityEstimator):
    """A MaxentDensity whose settings are chosen by (spatially blocked) cross-validation.

    Every combination of ``features``, ``potentials`` and ``entropies`` is fitted on the training
    rows of every split, along all ``multipliers`` with warm starts; the best mean held-out score
    wins and is fitted to all rows.

    Parameters
    ----------
    features : sequence, default ("l", "lq", "lqh", "lqph")
        Features to choose from, each as in ``MaxentDensity``.
    potentials : sequence of str or Potential, default ("box",)
        Potentials to choose from.
    entropies : sequence of str or Entropy, default ("shannon",)
        Entropies to choose from.
    multipliers : sequence of float, default (0.5, 1.0, 2.0, 4.0, 8.0)
        Multipliers to choose from.
    cv : int, splitter or list of splits, default None
        Splitter over the rows (``PresenceKFold``, ``SpatialBlocks``, ``Checkerboard``,
        ``BufferedLeaveOneOut`` or scikit-learn's) or the number of folds. None is 5 folds of the
        presences, or 4 spatial blocks where ``fit`` is given coordinates.
    scoring : str or callable, default "log_loss"
        "log_loss" (held-out log density over all rows), "auc", or a function (model, X, y, test
        rows) -> score, larger is better.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
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
    n_jobs : int, default None
        Threads.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    best_params_ : dict
        The features, potential, entropy and multiplier chosen.
    best_score_ : float
        Their mean held-out score.
    cv_results_ : dict
        Columns features, potential, entropy, multiplier, mean_score, sd_score, n_splits, scores.
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
        cv: SplitterLike = None,
        scoring: ScoringLike = "log_loss",
        solver: SolverLike = "auto",
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
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        coordinates: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> MaxentDensityCV:
        """Choose the settings, then fit them to all rows.

        ``coordinates`` (rows, 2) make spatial blocks where no ``cv`` is given; ``groups`` go to
        the splitter.
        """
        rows: _Rows | _BlockRows
        if is_blocked(X):
            if coordinates is not None or groups is not None:
                raise ValueError(
                    "coordinates and groups of rows in blocks are not supported: the folds are of "
                    "the records, give cv as their number or as PresenceKFold"
                )
            rows = _BlockRows(self, self._block_table(X, y, sample_weight, prior))
        else:
            table = Table.from_rows(*self._table(X, y), sample_weight, prior, self.missing)
            rows = _Rows(self, table, table.aligned(coordinates), table.aligned(groups))
        candidates = self._candidates()
        multipliers = sorted(map(float, self.multipliers), reverse=True)
        jobs = list(product(candidates, rows.splits))

        def held_out(job: tuple[dict[str, Any], Any]) -> list[float]:
            return self._held_out(job[0], multipliers, rows, job[1])

        with one_blas_thread():
            scores = in_threads(
                "MaxentDensityCV", held_out, jobs, rows.n_jobs, self.verbose, "paths"
            )
        shape = len(candidates), len(rows.splits), len(multipliers)
        self._choose(candidates, multipliers, np.array(scores).reshape(shape))
        best = self._estimator(self.best_params_)
        self.density_ = replace(rows.fitted(best), origin=self._offered(rows.offered))
        return self

    def _offered(self, offered: Callable[[Recipe], Offered]) -> Offered:
        """The features of all candidates: the search looked at the occurrences, too."""
        recipes = [self._estimator({"features": each}).recipe() for each in self.features]
        return reduce(Offered.together, map(offered, recipes))

    def path(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        **settings: Any,
    ) -> list[MaxentDensity]:
        """The path of the chosen model; see ``MaxentDensity.path``."""
        chosen = self._estimator(self.best_params_)
        models = chosen.path(X, y, sample_weight, prior, **settings)
        if is_blocked(X):
            blocks = chosen._block_table(X, y, sample_weight, prior)
            offered = self._offered(lambda recipe: recipe.task_in_blocks(blocks).offered)
        else:
            table = Table.from_rows(*chosen._table(X, y), sample_weight, prior, self.missing)
            schema = Schema.from_table(table.X, self.categorical)
            offered = self._offered(lambda recipe: recipe.offered(recipe.points(table, schema)))
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
        from sklearn.model_selection import check_cv  # slow to load: only where it is used

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
        rows: _Rows | _BlockRows,
        split: Any,
    ) -> list[float]:
        """The score of every multiplier on one split, along one warm-started path."""
        estimator = self._estimator(candidate)
        path = rows.task(estimator.recipe(), split).path(multipliers)
        models = (
            clone(estimator).set_params(multiplier=c)._hold(density, self) for c, density in path
        )
        return [rows.score(model, split) for model in models]

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
