"""Features of cells as a matrix, for the models of others and for classifiers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent.features import Cells, FeatureClass, Operator, Schema, bind, joined
from maxent.features.letters import ALL, LETTERS
from maxent.learn.saving import SavesFields
from maxent.learn.tables import checked_table
from maxent.rows.arrays import Array
from maxent.typing import TableLike

_KNOTS = 50  # of a variable, as every feature becomes a column


@io.register
class FeatureTransformer(SavesFields, TransformerMixin, BaseEstimator):
    """Features of a table as the columns of a matrix: a kernel, hinges ... before any classifier.

    `transform(X)[i, j] = f_j(x_i)`, the features that ``MaxentDensity`` has. Those of a kernel have
    `<phi(x), phi(z)> ~ k(x, z)`: a linear model becomes one of the kernel's functions, and its
    quadratic penalty their squared norm.

    Parameters
    ----------
    features : str or list of FeatureClass, default "k"
        Letters from "lqpthck" (linear, quadratic, product, threshold, hinge, categorical, kernel),
        with 50 knots per variable, or feature classes such as ``[Kernel(landmarks=100)]``.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type; those of type category or string always
        are.
    clamp : bool, default True
        Whether variables are held in their ranges at the fit.

    Attributes
    ----------
    operators_ : tuple of Operator
        The fitted features.
    range_ : array (2, n_continuous)
        Least and largest value of every continuous column.
    schema_ : Schema
        Columns, which are categorical, and their levels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Their names, where X has names.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from maxent import FenchelYoungClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.hypot(*X.T) > 1  # inside or outside of a circle
    >>> model = make_pipeline(FeatureTransformer("k"), FenchelYoungClassifier())
    >>> plain = FenchelYoungClassifier().fit(X, y)
    >>> bool(model.fit(X, y).score(X, y) > 0.95), bool(plain.score(X, y) < 0.7)
    (True, True)
    """

    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *("feature_names_in_", "n_features_in_"),
        *("schema_", "operators_", "range_"),
    )
    schema_: Schema
    operators_: tuple[Operator, ...]
    range_: Array
    n_features_in_: int

    def __init__(
        self, features: Any = "k", *, categorical: Iterable[Any] = (), clamp: bool = True
    ) -> None:
        self.features = features
        self.categorical = categorical
        self.clamp = clamp

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: TableLike, y: Any = None) -> Self:
        """Knots, ranges and landmarks of the rows of X; y is not looked at."""
        classes = self._classes()
        table = checked_table(self, X, reset=True)
        schema = Schema.from_table(table, self.categorical)
        cells = schema.read(table)
        rows = np.arange(cells.n_cells)
        operators = joined([o for kind in classes for o in kind.fit(cells, schema, rows)])
        if not operators:
            raise ValueError(
                f"no feature of {self.features!r} varies over X, which has {cells.n_cells} "
                f"sample{'s' * (cells.n_cells != 1)}: give rows that differ"
            )
        self.schema_, self.operators_ = schema, tuple(operators)
        self.range_ = np.array(cells.ranges())
        return self

    def transform(self, X: TableLike) -> Array:
        """The features of the rows of X, (n_rows, n_features_out)."""
        check_is_fitted(self)
        cells = self.schema_.read(checked_table(self, X, reset=False))
        if self.clamp:
            low, high = self.range_.astype(cells.values.dtype)[:, :, None]
            cells = Cells(np.clip(cells.values, low, high), cells.codes)
        return bind(self.operators_, cells, self.clamp).columns()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """A readable name for each column."""
        check_is_fitted(self)
        names = [name for operator in self.operators_ for name in operator.names()]
        return np.array(names, dtype=object)

    def _classes(self) -> list[FeatureClass]:
        letters = self.features
        if not isinstance(letters, str):
            listed = [letters] if isinstance(letters, FeatureClass) else list(letters)
            if listed and all(isinstance(kind, FeatureClass) for kind in listed):
                return listed
        elif letters and not set(letters) - set(ALL):
            return [LETTERS[letter].make(_KNOTS, False) for letter in dict.fromkeys(letters)]
        raise ValueError(
            f'features must be letters from "{ALL}" or a list of feature classes such as '
            f"Kernel(), got {letters!r}"
        )
