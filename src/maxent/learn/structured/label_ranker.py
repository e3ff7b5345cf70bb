"""Label ranking: an order of all labels for each sample, by losses of the permutahedron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils import check_array, check_consistent_length

from maxent import io
from maxent._support.checks import masses
from maxent.core.entropies import Entropy, MeanEntropy, SquaredNorm
from maxent.learn.linear.base import FenchelYoungModel
from maxent.rows.arrays import Array
from maxent.structured import Permutahedron, kendall_tau
from maxent.typing import (
    ArrayLike,
    EntropyLike,
    PotentialLike,
    TableLike,
)


@io.register
@dataclass(eq=False, repr=False)
class LabelRanker(MultiOutputMixin, FenchelYoungModel):
    """Rankings of k labels from features (Fenchel-Young paper, §7.3).

    Minimises  `mean loss + V*(W)`  with the Fenchel-Young loss of an entropy on the permutahedron:
    the label in place j of a ranking is worth the points `w_j`, and the scores `theta = W x + b`
    predict points between all permutations of w.

    Parameters
    ----------
    entropy : str or Entropy, default "l2"
        "l2", half the squared norm of the points, "kl", their entropy ``MeanEntropy``, or an
        Entropy on a ``Permutahedron``.
    weights : array (n_labels,), default None
        w, the points of the places, which do not increase; None is k, ..., 1. Zeros at the end make
        a ranking of the first places alone.
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

    Notes
    -----
    ``score`` is Kendall's tau of the predicted and the given rankings, on average.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> ranks = np.where(X > 0, [[1, 2, 3]], [[3, 2, 1]])  # of three labels, 1 is the best
    >>> model = LabelRanker().fit(X, ranks)
    >>> model.predict([[-0.9], [0.9]])
    array([[3, 2, 1],
           [1, 2, 3]])
    >>> round(model.score(X, ranks), 2), bool(model.gap_ < 1e-5)
    (1.0, True)
    """

    entropy: EntropyLike = "l2"
    weights: Any = None
    potential: PotentialLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.single_output = False
        return tags

    def _entropy(self, n_labels: int) -> Entropy:
        given = self.entropy
        if isinstance(given, Entropy) and isinstance(given.domain, Permutahedron):
            if self.weights is not None:
                raise ValueError("weights are for the entropies by name: this one brings its own")
            size, entropy = given.domain.size, given
        elif isinstance(given, str) and given in ("l2", "kl"):
            weights = np.arange(n_labels, 0, -1) if self.weights is None else self.weights
            domain = Permutahedron(weights)
            size = domain.size
            kind = SquaredNorm if given == "l2" else MeanEntropy
            entropy = kind(domain=domain)
        else:
            raise ValueError(
                'entropy must be "l2", "kl" or an Entropy on a Permutahedron such as '
                f"SquaredNorm(domain=Permutahedron([3, 2, 1])), got {given!r}"
            )
        if size != n_labels:
            raise ValueError(f"{size} weights, and y ranks {n_labels} labels: give one per place")
        return entropy

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LabelRanker:
        """Fit the weights to samples X and their rankings y (samples, labels), 1 being the best.

        Any numbers rank the labels, the smallest first; labels with the same number share their
        places.
        """
        self._check()
        X = self._table(X, reset=True)
        ranks = self._ranks(X, y)
        entropy = self._entropy(ranks.shape[1])
        weight = masses("sample_weight", sample_weight, len(ranks))
        X, rows = self._in_use(X, weight)
        assert isinstance(entropy.domain, Permutahedron)
        points = entropy.domain.points(-ranks[rows])
        self._solve(X, points, weight[rows], entropy, rows)
        return self

    def _ranks(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a "
                "row of ranks for each row of X"
            )
        ranks = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        check_consistent_length(X, ranks)
        if ranks.ndim != 2 or ranks.shape[1] < 2:
            raise ValueError(
                "y must be a matrix (samples, labels) of ranks of two labels or more, got shape "
                f"{ranks.shape}"
            )
        return np.asarray(ranks)

    def decision_function(self, X: TableLike) -> Array:
        """Scores of each label, the largest of the best."""
        return self._scores(X)

    def predict_points(self, X: TableLike) -> Array:
        """The points of each label, between all permutations of the weights."""
        return self._probabilities(self._scores(X))

    def predict(self, X: TableLike) -> Array:
        """Ranks of the labels by their scores, 1 for the best; ties in the order of the labels."""
        order = np.argsort(-self._scores(X), axis=1, kind="stable")
        return np.argsort(order, axis=1, kind="stable") + 1

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Kendall's tau of the predicted rankings and y, on average over the samples."""
        theta = self._scores(X)
        tau = kendall_tau(-theta, self._ranks(X, y))
        return float(np.average(tau, weights=masses("sample_weight", sample_weight, len(tau))))
