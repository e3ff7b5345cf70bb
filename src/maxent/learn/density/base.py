"""What the estimators of densities share: checked tables, prediction, and what a fit says."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_array, check_is_fitted

from maxent._support.checks import masses
from maxent.core.bounds import LossBound
from maxent.core.solvers.base import Status
from maxent.density import Explanation, FittedDensity, Profile
from maxent.density.points import check_missing
from maxent.density.version1 import density_of_version_1, is_version_1
from maxent.features import Schema
from maxent.features.cells import is_frame, take_rows
from maxent.learn.delegated import Delegated
from maxent.learn.saving import SavesFields
from maxent.learn.tables import checked_table
from maxent.rows.arrays import Array
from maxent.rows.blocks.lazy import lazy_rows
from maxent.rows.blocks.table import BlockTable, block_table, is_blocked
from maxent.typing import ArrayLike, TableLike

COLUMNS = ("feature_names_in_", "n_features_in_")  # what is kept of the table of a fit


class TableEstimator(SavesFields, DensityMixin, BaseEstimator):
    """An estimator of densities over the rows of a table, numbers and categories."""

    missing: str
    n_features_in_: int
    feature_names_in_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing == "drop"
        return tags

    def _checked(self, X: Any, reset: bool) -> Any:
        """A table of the right shape: frames stay frames, the rest becomes an array."""
        check_missing(self.missing)
        return checked_table(self, X, reset)

    def _prepared(self, rows: Callable[[Any], Array], none: Array, head: Any) -> tuple[Any, Array]:
        """A function of the rows of a table in blocks, once its columns are those of the fit."""
        from sklearn.utils.validation import _check_feature_names, _check_n_features

        _check_feature_names(self, head, reset=False)
        _check_n_features(self, head, reset=False)
        return rows, none


class DensityEstimator(TableEstimator):
    """An estimator that holds a ``density_``, a FittedDensity, after ``fit``."""

    prevalence: float
    density_: FittedDensity
    _fitted_fields: ClassVar[tuple[str, ...]] = (*COLUMNS, "density_")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "density_")

    def _hold(self, density: FittedDensity, fitted: DensityEstimator) -> Self:
        """Take a density, for the columns that another estimator was fitted to."""
        self.density_, self.n_features_in_ = density, fitted.n_features_in_
        if hasattr(fitted, "feature_names_in_"):
            self.feature_names_in_ = fitted.feature_names_in_
        return self

    # -- the input -----------------------------------------------------------------------------

    def _table(self, X: Any, y: Any) -> tuple[Any, Array]:
        X = self._checked(X, reset=True)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: the "
                "number of occurrences in each row of X, 0 for background"
            )
        y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected",
                DataConversionWarning,
                stacklevel=3,
            )
            y = y[:, 0]
        if y.shape != (len(X),):
            raise ValueError(
                f"y must have one count per row of X, shape ({len(X)},), got {y.shape}: "
                "inconsistent numbers of samples"
            )
        return X, y.astype(np.float64)

    def _block_table(self, X: Any, y: Any, sample_weight: Any, prior: Any) -> BlockTable:
        """A table in blocks with what belongs to its rows."""
        check_missing(self.missing)
        if y is None and not (isinstance(X, BlockTable) and "y" in X.columns):
            self._table(np.zeros((1, 1)), y)  # says what y is
        table = block_table(X, y=y, sample_weight=sample_weight, prior=prior)
        names = table.names()
        self.n_features_in_ = names if isinstance(names, int) else len(names)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if not isinstance(names, int):
            self.feature_names_in_ = np.array(names, dtype=object)
        return table

    # -- prediction ----------------------------------------------------------------------------

    def predict(self, X: TableLike, output: str = "raw", *, clamp: bool = True) -> Array:
        """The density at the rows of X.

        ``output``: "raw" sums to 1 over the cells of the fit; "logistic" and "cloglog" are
        tau v / (1 - tau + tau v) and 1 - exp(-v) with v = raw exp(entropy_); "cumulative" is 100
        times the mass of the cells whose raw value is at most this one; "log" is log raw.
        ``clamp`` holds variables and features within their ranges at the fit. Rows with a missing
        value give NaN with ``missing="drop"``, else an error. A table in blocks (of dask, or a
        ``BlockTable``) gives a lazy array with the same chunks.
        """
        check_is_fitted(self)
        settings: dict[str, Any] = {"output": output, "clamp": clamp, "missing": self.missing}
        if is_blocked(X):
            rows = partial(_predicted, self.density_, prevalence=self.prevalence, **settings)
            return lazy_rows(X, partial(self._prepared, rows, np.empty(0)))
        table = self._checked(X, reset=False)
        return _predicted(self.density_, table, prevalence=self.prevalence, **settings)

    def score_samples(self, X: TableLike) -> Array:
        """Log density at each row."""
        return self.predict(X, output="log")

    def log_loss(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """-sum y log p(x) / sum y, p normalised over the cells of the fit."""
        records, rows = np.asarray(y, dtype=np.float64), _n_rows(X)
        counts = records * masses("sample_weight", sample_weight, len(records))
        if counts.shape != (rows,) or (counts < 0).any() or not counts.sum() > 0:
            raise ValueError(
                f"y must hold one count per row of X ({rows} rows), none negative and one positive"
            )
        present = counts > 0
        log_density = self.score_samples(take_rows(X if is_frame(X) else np.asarray(X), present))
        return float(-(counts[present] @ log_density) / counts.sum())

    def score(
        self, X: TableLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log density of the occurrences y in the rows of X; of all rows without y."""
        check_is_fitted(self)
        return -self.log_loss(X, np.ones(_n_rows(X)) if y is None else y, sample_weight)

    # -- what the fit says ---------------------------------------------------------------------

    def _fitted(self) -> FittedDensity:
        check_is_fitted(self)
        return self.density_

    def profile(self, variable: str | int, n: int = 200) -> Profile:
        """The additive part of the exponent in one variable; see ``FittedDensity.profile``."""
        return self._fitted().profile(variable, n)

    def explain(self, X: TableLike, *, clamp: bool = True) -> Explanation:
        """Each variable's share of the exponent at each row; see ``FittedDensity.explain``."""
        density = self._fitted()
        return density.explain(self._checked(X, reset=False), clamp=clamp)

    def bound(self, delta: float = 0.05) -> LossBound:
        """A bound on the log loss on new occurrences; see ``FittedDensity.bound``."""
        return self._fitted().bound(delta)

    def summary(self) -> str:
        """The fit in a few lines: data, features in use, gain, certificate and guarantee."""
        return self._fitted().summary()

    # Attributes that the density holds, and those that its certificate does.
    schema_ = Delegated[Schema]("density_.schema", "Columns, categories and levels.")
    coef_ = Delegated[dict[str, float]](
        "density_.coef", "Weight of every feature in use, by its name."
    )
    beta_ = Delegated[Array]("density_.beta", "Penalty of every feature in use.")
    n_features_ = Delegated[int]("density_.n_features", "Number of features, in use or not.")
    n_presences_ = Delegated[float]("density_.n_presences", "Number of occurrences.")
    n_points_ = Delegated[float]("density_.n_points", "Number of points that the density is over.")
    log_partition_ = Delegated[float]("density_.log_partition", "log sum exp<w, f> over the cells.")
    entropy_ = Delegated[float]("density_.raw_entropy", "Entropy of the raw output.")
    gap_ = Delegated[float]("density_.certificate.gap", "Duality gap.")
    optimality_ = Delegated[float](
        "density_.certificate.optimality", "Violation of the optimality conditions."
    )
    gain_ = Delegated[float](
        "density_.certificate.gain", "Gain over the default density, less the penalty."
    )
    unregularized_gain_ = Delegated[float](
        "density_.certificate.unregularized_gain", "Gain over the default density."
    )
    guarantees_ = Delegated[dict[str, float]](
        "density_.certificate.guarantees", "What the gap says of the distance to the optimum."
    )
    n_iter_ = Delegated[int]("density_.certificate.n_iter", "Iterations of the solver.")
    status_ = Delegated[Status | None]("density_.certificate.status", "Why the solver stopped.")
    history_ = Delegated[list[dict[str, float]]](
        "density_.certificate.history", "One record per iteration."
    )

    # -- saving --------------------------------------------------------------------------------

    def __setmodel__(self, state: dict[str, Any]) -> None:
        super().__setmodel__(self._from_version_1(state) if is_version_1(state) else state)
        if hasattr(self, "density_") and not isinstance(self.density_, FittedDensity):
            raise ValueError(f"density_ is {self.density_!r:.60}, expected a FittedDensity")

    def _from_version_1(self, state: dict[str, Any]) -> dict[str, Any]:
        """The fields of today from the attributes that version 1 wrote."""
        known = (*self._parameters(), *self._fitted_fields)
        fields = {name: state[name] for name in known if name in state}
        if "feature_names_in_" in fields:
            fields["feature_names_in_"] = [fields["feature_names_in_"], "|O"]
        return fields | {"density_": density_of_version_1(state)}


def _predicted(
    density: FittedDensity, X: Any, *, output: str, clamp: bool, missing: str, prevalence: float
) -> Array:
    return density.output(density.scores(X, clamp=clamp, missing=missing), output, prevalence)


def _n_rows(X: Any) -> int:
    return len(X)
