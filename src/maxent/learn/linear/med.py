"""Maximum-entropy discrimination of classes (Jaakkola et al., 1999): the network of one node."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxent import io
from maxent._support.checks import masses
from maxent.core.entropies import Entropy, Shifted, Slack, Zero
from maxent.core.maps import SampleMap
from maxent.core.potentials import CumulantPrior, LaplacePrior, Potential, Quadratic, scaled
from maxent.core.problem import Problem
from maxent.core.solvers import Solution
from maxent.learn.parameters import positive, slack_of
from maxent.learn.solving import (
    CERTIFICATE,
    NO_SUPPORT,
    Posed,
    StructuredEstimator,
    certified,
    mean_weights,
)
from maxent.rows.arrays import Array
from maxent.typing import ArrayLike, PotentialLike, SolverLike, TableLike

_FEW = 10_000  # samples times weights that interior points are fast with


@io.register
@dataclass(eq=False, repr=False)
class MED(ClassifierMixin, StructuredEstimator):
    """A distribution of linear classifiers with expected margins, as near to a prior as they allow.

    Minimises `KL(p || p_0) + C sum_i xi_i`,
    `xi_i = max_y 1[y != y_i] - <E_p w, f(x_i, y_i) - f(x_i, y)>`, `f(x, y) = x` in the columns of
    y, and predicts with the posterior mean. With the normal prior it is the multiclass support
    vector machine of Crammer and Singer (without an intercept; append a constant column for a
    penalized one).

    Parameters
    ----------
    C : float, default 1.0
        Weight of the slacks.
    prior : "gaussian", "laplace" or Potential, default "gaussian"
        "gaussian" (variance 1), "laplace" (of parameter ``lam``), or any Potential V, whose
        `V(-eta)` is the prior's cumulant function.
    lam : float, default None
        Parameter of the "laplace" prior, where None is 1; refused with other priors.
    slack : "linear", "squared" or "kl", default "linear"
        How a slack counts, as in ``ChainClassifier``.
    slack_rate : float, default None
        Rate of the prior of "kl" slacks; None is 1.
    solver : str or Solver, default None
        How to solve the problem; see ``Problem.solve``. None is ``Smoothing``, which features far
        from 0 do not slow, and "auto" with other slacks, and with few samples where the penalty of
        the prior has kinks or an end.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array (n_classes, n_features)
        The posterior mean.
    divergence_ : float
        `KL(p || p_0)`, what ``bounds.margin_bound`` asks for.
    variance_ : array (n_classes, n_features)
        The posterior variance; None for a prior that tells none.
    multipliers_ : array (n_samples, n_classes)
        Dual variables `alpha_i(y)` of the margins (Theorem 2), those below 1e-6 of C as 0; not kept
        in files.
    support_ : array
        The samples whose multipliers are not 0.
    loss_ : float
        Mean loss over the samples.
    objective_ : float
        Objective of the mean over samples, the one above / (n C).
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MED(C=1.0, prior="laplace").fit(X, y)
    >>> model.score(X, y) > 0.9, bool(model.gap_ <= 1e-4)
    (True, True)
    """

    _unsaved_fields = ("multipliers_", "support_")
    _fitted_fields = (
        *("n_features_in_", "classes_", "coef_", "variance_", "divergence_"),
        *CERTIFICATE,
    )

    C: float = 1.0
    prior: PotentialLike = "gaussian"
    lam: float | None = None
    _: KW_ONLY
    slack: str = "linear"
    slack_rate: float | None = None
    solver: SolverLike | None = None  # type: ignore[assignment]
    tol: float = 1e-4

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.input_tags.sparse = True
        return tags

    def _potential(self) -> Potential:
        if self.lam is not None and self.prior != "laplace":
            raise ValueError(
                f"lam={self.lam!r} has no effect with prior={self.prior!r}: leave it out"
            )
        if isinstance(self.prior, Potential):
            return self.prior
        if self.prior == "gaussian":
            return Quadratic(1.0)
        if self.prior == "laplace":
            return LaplacePrior(1.0 if self.lam is None else positive("lam", self.lam))
        raise ValueError(f'prior must be "gaussian", "laplace" or a Potential, got {self.prior!r}')

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MED:
        """Learn from samples X (samples, features) and their classes y."""
        return self._fit(X, y, sample_weight)

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        prior = self._potential()
        samples, classes = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(classes)
        self.classes_, states = np.unique(classes, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0]!r}: at least two different ones are needed"
            )
        weight = masses("sample_weight", sample_weight, samples.shape[0])
        observed = np.eye(self.classes_.size)[states]
        share = 1 / (float(weight.sum()) * positive("C", self.C)) if weight.any() else 1.0
        kind, rate = slack_of(self.slack, self.slack_rate)
        hinge: Entropy = Shifted(Zero(), 1 - observed)
        problem = Problem(
            hinge if kind == "linear" else Slack(hinge, observed, kind, rate),
            SampleMap(samples, self.classes_.size),
            scaled(prior, share),
            observed=observed if kind == "linear" else 0 * observed,
            weights=mean_weights(weight, "samples"),
        )
        bent = not prior.smooth_conjugate and prior.elastic(problem.features.n_features) is None
        few = samples.shape[0] * problem.features.n_features <= _FEW
        return Posed(problem, solver="auto" if kind != "linear" or (bent and few) else "smoothing")

    def _keep(self, w: Array) -> None:
        prior, shape = self._potential(), (self.n_features_in_, self.classes_.size)
        self.coef_ = np.ascontiguousarray(w.reshape(shape).T)
        variance = _variance(prior, w)
        self.variance_ = (
            None if variance is None else np.array(variance.reshape(shape).T, order="C")
        )
        self.divergence_ = prior.conjugate(-w)

    def _keep_dual(self, problem: Problem, solution: Solution, sample_weight: Any) -> None:
        """alpha_i = C a_i p_i of the classes other than y_i."""
        entropy = problem.entropy
        right = entropy.observed if isinstance(entropy, Slack) else problem.observed
        share = np.where(right > 0, 0.0, np.asarray(solution.p) * certified(problem, solution.p))
        share[share <= NO_SUPPORT] = 0.0
        weight = masses("sample_weight", sample_weight, len(share))
        self.multipliers_ = positive("C", self.C) * weight[:, None] * share
        self.support_ = np.flatnonzero(self.multipliers_.any(axis=1))

    def decision_function(self, X: TableLike) -> Array:
        """Mean scores of each class; with two classes the second's less the first's."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(X @ self.coef_.T)
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: TableLike) -> Array:
        """The class of the largest mean score."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


def _variance(prior: Potential, w: Array) -> Array | None:
    """Posterior variances, the curvature of the cumulant function."""
    if isinstance(prior, LaplacePrior):
        return prior.posterior_variance(prior.conjugate_gradient(w))
    if isinstance(prior, CumulantPrior):
        return prior.posterior_variance(prior.conjugate_terms(-w)[1])
    hessian = prior.conjugate_hessian(-w)  # the inverse of that curvature
    return None if hessian is None or hessian.ndim > 1 else 1 / np.broadcast_to(hessian, w.shape)
