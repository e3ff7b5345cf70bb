"""Linear and kernel models under Fenchel-Young losses: classes, proportions, sets of labels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from maxent import io
from maxent._support.checks import masses
from maxent.core.domains import Cube, KSubset, NonNegative
from maxent.core.entropies import BinaryGini, Entropy, FermiDirac, SquaredNorm
from maxent.learn.linear.base import (
    SOLVED_FIELDS,
    TABLE_FIELDS,
    FenchelYoungBase,
    FenchelYoungModel,
    simplex_entropy,
)
from maxent.learn.linear.blocks import (
    SetSizes,
    fit_classes,
    fit_labels,
    fit_proportions,
    over_blocks,
)
from maxent.learn.linear.class_weight import class_factors, label_factors
from maxent.learn.linear.two_classes import class_rows
from maxent.learn.parameters import as_cost
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.typing import (
    ArrayLike,
    ClassWeights,
    EntropyLike,
    PotentialLike,
    TableLike,
)

KINDS = ("one-vs-all", "sparse", "cube", "cone", "k-subsets")
_SUM = 1e-6  # by which proportions may miss 1


class Classifies(ClassifierMixin, FenchelYoungBase):
    """Labels, costs and predictions of a classifier with a score for each class."""

    cost: Any
    classes_: Array

    def _labels(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give "
                "one label per row of X"
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        return y

    def _cost(self) -> Array | None:
        if self.cost is None:
            return None
        return as_cost(self.cost, self.classes_)

    @over_blocks
    def decision_function(self, X: TableLike) -> Array:
        """Scores of each class; with two classes the second's less the first's."""
        theta = self._scores(X)
        return theta[:, 0] if self.classes_.size == 2 else theta

    @over_blocks
    def predict_proba(self, X: TableLike) -> Array:
        """Probability of each class, exactly 0 where the entropy makes it so."""
        theta = self._scores(X)
        if self.classes_.size == 2:
            theta = np.hstack([np.zeros_like(theta), theta])
        return self._probabilities(theta)

    @over_blocks
    def predict_log_proba(self, X: TableLike) -> Array:
        """The logarithms, -inf where the probability is exactly 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @over_blocks
    def predict(self, X: TableLike) -> Array:
        """The class of the largest score."""
        theta = self._scores(X)
        best = theta[:, 0] > 0 if self.classes_.size == 2 else np.argmax(theta, axis=1)
        return self.classes_[best.astype(np.intp)]


@io.register
@dataclass(eq=False, repr=False)
class FenchelYoungClassifier(Classifies, FenchelYoungModel):
    """Logistic regression's family: class probabilities from any entropy of the simplex.

    Minimises  `mean loss + V*(W)`,  the mean weighted by the samples', with the Fenchel-Young loss
    of an entropy on scores `theta = W x + b`. Scaling all sample weights changes nothing.

    X may be a dask array or dataframe, whose rows stay in their blocks: the model and its
    certificate are those of the same rows in memory, and predictions are lazy arrays with the
    chunks of X. Not so for kernels, and for entropies whose loss has kinks.

    Parameters
    ----------
    entropy : str or Entropy, default "tsallis"
        "tsallis", "shannon" or an Entropy of the simplex.
    alpha : float, default 1.5
        Index of "tsallis", > 0: 1 is logistic regression, 2 sparsemax; over 1 probabilities can be
        exactly 0, below 1 they fall slowly.
    potential : Potential, float or dict, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights: any Potential; a number s for
        ``Quadratic(s)``, `s/2 ||W||^2`, 0 for no penalty; a dict {columns: potential} for groups of
        columns (a position, a name or a tuple of them). In terms of scikit-learn's C,
        `s = 1 / (C n)`. Potentials with one number per weight take W (features, classes) row by
        row; two classes have one weight per feature, the second's.
    cost : array (n_classes, n_classes), default None
        What it costs to answer column j where row i is true, in the order of ``classes_``: not
        negative, 0 on the diagonal. Scores are raised by it in training, never in prediction
        (Fenchel-Young paper, §3.4). ``Zero()`` with 1 - identity is Crammer and Singer's hinge.
    fit_intercept : bool, default True
        Whether each class has a free constant, which is not penalized.
    kernel : str or callable, default None
        None for a linear model; "linear", "rbf", "poly", a function (X, Z) -> matrix, or
        "precomputed" where X is the matrix of the kernel. The penalty is then s/2 times the squared
        norm in the space of the kernel.
    gamma : float, "scale" or "auto", default "scale"
        Factor in "rbf" and "poly", as in ``SVC``.
    degree : float, default 3
        Degree of "poly".
    coef0 : float, default 0.0
        Constant in "poly".
    class_weight : dict or "balanced", default None
        Weights of the classes, {class: weight} or "balanced"; they multiply sample weights.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-6
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    warm_start : bool, default False
        Whether to start at the weights of the last fit, where they have the right shape (linear
        models).
    temperature : float, default 1.0
        T of predictions `p(theta / T)`: towards the most probable class as it falls, towards equal
        probabilities as it grows. Training is not affected.
    random_state : int or RandomState, default None
        Seed of solvers that draw samples.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
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
        Duality gap: ``objective_`` is at most this far above the minimum. It holds with an
        intercept too: it is taken at the prediction with its surplus moved, so that its mean is
        exactly that of y.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    dual_coef_ : array (n_outputs, n_kept)
        Kernel models: coefficients of the training rows kept.
    support_ : array (n_kept,)
        Kernel models: which training rows are kept. Rows that are predicted exactly are not, as a
        sparse entropy does with easy rows.
    X_fit_ : array (n_kept, n_features)
        Kernel models: the training rows kept.
    gamma_ : float
        Kernel models: the value of ``gamma`` in use.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FenchelYoungClassifier(alpha=2).fit(X, y)
    >>> model.predict_proba(X[:2]), bool(model.gap_ < 1e-5)
    (array([[1., 0., 0.],
           [1., 0., 0.]]), True)
    """

    _fitted_fields = (*TABLE_FIELDS, "classes_", *SOLVED_FIELDS)

    entropy: EntropyLike = "tsallis"
    alpha: float = 1.5
    potential: PotentialLike = None
    _: KW_ONLY
    cost: ArrayLike | None = None
    class_weight: ClassWeights = None

    def _entropy(self) -> Entropy:
        return simplex_entropy(self.entropy, self.alpha)

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> FenchelYoungClassifier:
        """Fit the weights to samples X (dense, scipy-sparse, or of dask) with labels y.

        y and sample_weight of a dask X are in memory, or of dask in the same blocks.

        After Ctrl-C the model is that of the solver's last step, with its gap.
        """
        self._check()
        if is_blocked(X):
            fit_classes(self, X, y, sample_weight)
            return self
        entropy = self._entropy()
        X = self._table(X, reset=True)
        y = self._labels(X, y)
        weight = masses("sample_weight", sample_weight, len(y))
        X, rows = self._in_use(X, weight)
        weight, y = weight[rows], y[rows]
        classes, labels = np.unique(y, return_inverse=True)
        self._know(classes)
        weight = weight * class_factors(self.class_weight, classes, labels, weight)
        trained, observed = class_rows(entropy, self._cost(), labels, classes.size)
        self._solve(X, observed, weight, entropy, rows, trained)
        return self

    def _know(self, classes: Array) -> None:
        if classes.size < 2:
            raise ValueError(
                f"every sample is of one class, {classes.tolist()[0]!r}: a classifier needs "
                "samples of at least two classes"
            )
        if not np.array_equal(classes, getattr(self, "classes_", classes)):
            self._forget("coef_")  # weights of other classes are no start
        self.classes_ = classes


@io.register
@dataclass(eq=False, repr=False)
class FenchelYoungRegressor(RegressorMixin, MultiOutputMixin, FenchelYoungModel):
    """Label proportions: rows of the simplex from features, zeros included (Fenchel-Young §9.1).

    Minimises  `mean loss + V*(W)`  over targets Y whose rows are proportions: not negative, of
    sum 1. Predictions are such rows. X and Y may be dask's, as for ``FenchelYoungClassifier``.

    ``score`` is the mean coefficient of determination of the columns.

    Parameters
    ----------
    entropy : str or Entropy, default "tsallis"
        "tsallis", "shannon" or an Entropy of the simplex.
    alpha : float, default 1.5
        Index of "tsallis", > 0: 1 is logistic regression, 2 sparsemax; over 1 proportions can be
        exactly 0, below 1 they fall slowly.
    potential : Potential, float or dict, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights, as for ``FenchelYoungClassifier``.
        Potentials with one number per weight take W (features, columns of Y) row by row.
    fit_intercept : bool, default True
        Whether each output has a free constant, which is not penalized.
    kernel : str or callable, default None
        None for a linear model; "linear", "rbf", "poly", a function (X, Z) -> matrix, or
        "precomputed" where X is the matrix of the kernel. The penalty is then s/2 times the squared
        norm in the space of the kernel.
    gamma : float, "scale" or "auto", default "scale"
        Factor in "rbf" and "poly", as in ``SVC``.
    degree : float, default 3
        Degree of "poly".
    coef0 : float, default 0.0
        Constant in "poly".
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-6
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    warm_start : bool, default False
        Whether to start at the weights of the last fit, where they have the right shape (linear
        models).
    temperature : float, default 1.0
        T of predictions `p(theta / T)`: towards the best answer as it falls, towards a uniform one
        as it grows. Training is not affected.
    random_state : int or RandomState, default None
        Seed of solvers that draw samples.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    coef_ : array (n_outputs, n_features)
        Weights, a row for each column of Y.
    intercept_ : array (n_outputs,)
        Constants.
    entropy_ : Entropy
        The entropy in use.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum. It holds with an
        intercept too: it is taken at the prediction with its surplus moved, so that its mean is
        exactly that of y.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    dual_coef_ : array (n_outputs, n_kept)
        Kernel models: coefficients of the training rows kept.
    support_ : array (n_kept,)
        Kernel models: which training rows are kept. Rows that are predicted exactly are not, as a
        sparse entropy does with easy rows.
    X_fit_ : array (n_kept, n_features)
        Kernel models: the training rows kept.
    gamma_ : float
        Kernel models: the value of ``gamma`` in use.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Examples
    --------
    >>> X = np.linspace(-2, 2, 50)[:, None]
    >>> Y = np.column_stack([np.clip(X, 0, 1), 1 - np.clip(X, 0, 1)])
    >>> model = FenchelYoungRegressor(alpha=2, potential=1e-4).fit(X, Y)
    >>> model.predict([[-3.0], [3.0]])
    array([[0., 1.],
           [1., 0.]])
    """

    entropy: EntropyLike = "tsallis"
    alpha: float = 1.5
    potential: PotentialLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        return tags

    def _entropy(self) -> Entropy:
        return simplex_entropy(self.entropy, self.alpha)

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> FenchelYoungRegressor:
        """Fit the weights to samples X and their proportions y (rows, labels)."""
        self._check()
        if is_blocked(X):
            fit_proportions(self, X, y, sample_weight)
            return self
        entropy = self._entropy()
        X = self._table(X, reset=True)
        Y = self._proportions(X, y)
        weight = masses("sample_weight", sample_weight, len(Y))
        X, rows = self._in_use(X, weight)
        weight, Y = weight[rows], Y[rows]
        self._solve(X, Y, weight, entropy, rows)
        return self

    def _proportions(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a "
                "row of proportions for each row of X"
            )
        y = y.toarray() if sparse.issparse(y) else y
        Y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        check_consistent_length(X, Y)
        if Y.ndim != 2 or Y.shape[1] < 2:
            raise ValueError(
                "y must be a matrix (rows, labels) of proportions with two labels or more, got "
                f"shape {Y.shape}; for class labels use FenchelYoungClassifier"
            )
        total = Y.sum(axis=1)
        wrong = np.flatnonzero((Y < 0).any(axis=1) | (np.abs(total - 1) > _SUM))
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"rows of y must be proportions, not negative and of sum 1, and {wrong.size} are "
                f"not: row {row} has smallest entry {Y[row].min():g} and sum {total[row]:g}. "
                "Divide counts by their sums, and leave out rows without any"
            )
        return np.asarray(Y / total[:, None])

    @over_blocks
    def predict(self, X: TableLike) -> Array:
        """Proportions of the labels, exactly 0 where the entropy makes them so."""
        return self._probabilities(self._scores(X))


@io.register
@dataclass(eq=False, repr=False)
class FenchelYoungMultilabel(ClassifierMixin, MultiOutputMixin, FenchelYoungModel):
    """Several labels per sample: losses of the cube, the cone and of sets of k labels (§6, §7.3).

    Minimises  `mean loss + V*(W)`  over 0/1 targets Y (samples, labels). X and Y may be dask's, as
    for ``FenchelYoungClassifier``.

    Parameters
    ----------
    kind : str or Entropy, default "one-vs-all"
        How the labels hang together, and what ``predict_proba`` is of the scores theta:

        - "one-vs-all": the sigmoid, a logistic regression for each label;
        - "sparse": the sparse sigmoid, `clip((1 + theta)/2, 0, 1)`, with zeros and ones;
        - "cube": `clip(theta, 0, 1)`, the projection on the cube;
        - "cone": `max(theta, 0)`, memberships that may pass 1;
        - "k-subsets": the projection on `{0 <= p <= 1, sum p = k}`, for sets of exactly k labels;
        - an Entropy of one of these domains, such as ``OneVsAll(Tsallis(1.5))``.
    k : int, default None
        Labels per sample for "k-subsets"; None takes it from Y.
    potential : Potential, float or dict, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights, as for ``FenchelYoungClassifier``.
        Potentials with one number per weight take W (features, labels) row by row.
    fit_intercept : bool, default True
        Whether each output has a free constant, which is not penalized.
    kernel : str or callable, default None
        None for a linear model; "linear", "rbf", "poly", a function (X, Z) -> matrix, or
        "precomputed" where X is the matrix of the kernel. The penalty is then s/2 times the squared
        norm in the space of the kernel.
    gamma : float, "scale" or "auto", default "scale"
        Factor in "rbf" and "poly", as in ``SVC``.
    degree : float, default 3
        Degree of "poly".
    coef0 : float, default 0.0
        Constant in "poly".
    class_weight : dict, list of dict or "balanced", default None
        Weights of the classes of each label: {0: weight, 1: weight}, a list of one dict per label,
        or "balanced". A sample is multiplied by the factors of all its labels, as scikit-learn has
        it for several outputs.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-6
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    warm_start : bool, default False
        Whether to start at the weights of the last fit, where they have the right shape (linear
        models).
    temperature : float, default 1.0
        T of predictions `p(theta / T)`: towards the best answer as it falls, towards a uniform one
        as it grows. Training is not affected.
    random_state : int or RandomState, default None
        Seed of solvers that draw samples.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_labels,)
        The labels, numbered from 0.
    coef_ : array (n_labels, n_features)
        Weights.
    intercept_ : array (n_labels,)
        Constants.
    entropy_ : Entropy
        The entropy in use.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum. It holds with an
        intercept too: it is taken at the prediction with its surplus moved, so that its mean is
        exactly that of y.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    dual_coef_ : array (n_outputs, n_kept)
        Kernel models: coefficients of the training rows kept.
    support_ : array (n_kept,)
        Kernel models: which training rows are kept. Rows that are predicted exactly are not, as a
        sparse entropy does with easy rows.
    X_fit_ : array (n_kept, n_features)
        Kernel models: the training rows kept.
    gamma_ : float
        Kernel models: the value of ``gamma`` in use.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Examples
    --------
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> Y = np.hstack([X > 0, X > -1])
    >>> model = FenchelYoungMultilabel("sparse").fit(X, Y)
    >>> model.predict([[-2.0], [-0.5], [2.0]])
    array([[0, 0],
           [0, 1],
           [1, 1]])
    """

    _fitted_fields = (*TABLE_FIELDS, "classes_", *SOLVED_FIELDS)
    _retired_fields = ("_size",)  # the k of the sets, which ``entropy_`` knows

    kind: Any = "one-vs-all"
    k: int | None = None
    potential: PotentialLike = None
    _: KW_ONLY
    class_weight: ClassWeights = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _entropy(self, sizes: SetSizes) -> Entropy:
        plain: dict[str, Entropy] = {
            "one-vs-all": FermiDirac(),
            "sparse": BinaryGini(),
            "cube": SquaredNorm(domain=Cube()),
            "cone": SquaredNorm(domain=NonNegative()),
        }
        kind = self.kind
        if isinstance(kind, str) and kind in plain:
            return plain[kind]
        if isinstance(kind, str) and kind == "k-subsets":
            return SquaredNorm(domain=KSubset(self._set_size(sizes)))
        if isinstance(kind, Entropy) and isinstance(kind.domain, Cube | NonNegative | KSubset):
            return kind
        raise ValueError(
            f"kind must be one of {', '.join(KINDS)} or an Entropy of the cube, the cone or of "
            f"k-subsets, got {kind!r}"
        )

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> FenchelYoungMultilabel:
        """Fit the weights to samples X and their labels y (samples, labels), 0 or 1."""
        self._check()
        if is_blocked(X):
            fit_labels(self, X, y, sample_weight)
            return self
        X = self._table(X, reset=True)
        Y = self._indicators(X, y)
        weight = masses("sample_weight", sample_weight, len(Y))
        X, rows = self._in_use(X, weight)
        weight, Y = weight[rows], Y[rows]
        weight = weight * label_factors(self.class_weight, Y, weight)
        entropy = self._entropy(SetSizes.from_rows(Y))
        entropy.domain.require(Y, "y")
        self.classes_ = np.arange(Y.shape[1])
        self._solve(X, Y, weight, entropy, rows)
        return self

    def _indicators(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a "
                "row of 0 and 1 for each row of X"
            )
        y = y.toarray() if sparse.issparse(y) else y
        Y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        check_consistent_length(X, Y)
        if Y.ndim != 2:
            raise ValueError(
                "y must be a matrix (samples, labels) of 0 and 1, got shape "
                f"{Y.shape}; for one class per sample use FenchelYoungClassifier"
            )
        other = np.setdiff1d(Y, [0.0, 1.0])
        if other.size:
            raise ValueError(
                f"y must hold 0 and 1 only, got {other[:5].tolist()}; make it with "
                "sklearn.preprocessing.MultiLabelBinarizer"
            )
        return np.asarray(Y)

    def _set_size(self, sizes: SetSizes) -> int:
        least, most, where, n_labels = sizes
        k = least if self.k is None else self.k
        if self.k is None and least == 0:
            raise ValueError(
                f"kind='k-subsets' has the same number of labels in every sample, and "
                f"{where} of Y has none; leave such rows out or take another kind"
            )
        if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= n_labels:
            raise ValueError(
                f"k must be an integer from 1 to the number of labels, {n_labels}, got {k!r}"
            )
        if not least == most == k:
            raise ValueError(
                f'kind="k-subsets" is for samples with exactly k labels each, and y has {least} to '
                f"{most} per sample where k is {self.k!r}; use another kind, or leave samples out"
            )
        return int(k)

    @over_blocks
    def decision_function(self, X: TableLike) -> Array:
        """Scores of each label."""
        return self._scores(X)

    @over_blocks
    def predict_proba(self, X: TableLike) -> Array:
        """The membership of each sample in each label."""
        return self._probabilities(self._scores(X))

    @over_blocks
    def predict(self, X: TableLike) -> Array:
        """0/1 labels: those over one half, or the best set of k."""
        theta = self._scores(X)
        if isinstance(self.entropy_.domain, KSubset):
            labels = np.asarray(self.entropy_.domain.argmax(theta))
        else:
            labels = self._probabilities(theta) > 0.5
        return labels.astype(np.int64)
