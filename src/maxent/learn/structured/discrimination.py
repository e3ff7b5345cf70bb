"""The models of the discrimination paper by the names people know them by.

Each is one loss and one potential of ``ChainClassifier``, with the constants of the literature:
losses are summed over the sequences, so that C, c1 and c2 mean what they do there.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse, special
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent.core.potentials import (
    Box,
    DualBall,
    Equality,
    LaplacePrior,
    Potential,
    Quadratic,
    ScaledPotential,
)
from maxent.core.problem import Problem
from maxent.core.solvers import Solution
from maxent.learn.parameters import positive
from maxent.learn.solving import NO_SUPPORT, certified
from maxent.learn.structured.chain import ChainModel, MarginSettings
from maxent.learn.structured.reading import InUse
from maxent.learn.structured.sequences import Labels
from maxent.rows.arrays import Array, Tied


@io.register
@dataclass(eq=False, repr=False)
class CRF(ChainModel):
    """Conditional random field without a penalty: maximum likelihood (Lafferty et al., 2001).

    Minimises  `sum_i -log p(y_i | x_i)`.  The model is a ``ChainClassifier``. Labels that are
    separable, if only those of some sequences, have no best weights: a SeparableWarning tells, and
    the model is finite.

    Parameters
    ----------
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
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
        Number of attributes.

    Examples
    --------
    >>> model = CRF().fit([[["a"]], [["a"]], [["a"]]], [[0], [1], [1]])
    >>> model.predict_proba([[["a"]]])[0].round(3)
    array([[0.333, 0.667]])
    """

    def _recipe(self, total: float) -> tuple[str, Potential]:
        return "crf", Equality()


@io.register
@dataclass(eq=False, repr=False)
class L2CRF(ChainModel):
    """Conditional random field with a squared penalty; c2 as in CRFsuite.

    Minimises  `sum_i -log p(y_i | x_i) + c2 ||w||^2`.  The model is a ``ChainClassifier``.

    Parameters
    ----------
    c2 : float, default 1.0
        Factor of `||w||^2`.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
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
        Number of attributes.

    Examples
    --------
    >>> model = L2CRF(c2=0.1).fit([[["a"], ["b"]], [["a"], ["a"]]], [[0, 1], [0, 0]])
    >>> model.predict([[["a"], ["b"]]])
    [array([0, 1])]
    """

    c2: float = 1.0

    def _recipe(self, total: float) -> tuple[str, Potential]:
        return "crf", Quadratic(2 * positive("c2", self.c2) / total)


@io.register
@dataclass(eq=False, repr=False)
class L1CRF(ChainModel):
    """Conditional random field with few weights other than 0; c1 as in CRFsuite.

    Minimises  `sum_i -log p(y_i | x_i) + c1 ||w||_1`.  The model is a ``ChainClassifier``.

    Parameters
    ----------
    c1 : float, default 1.0
        Factor of `||w||_1`.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
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
        Number of attributes.

    Examples
    --------
    >>> model = L1CRF(c1=0.1).fit([[["a"], ["b"]], [["a"], ["a"]]], [[0, 1], [0, 0]])
    >>> model.predict([[["a"], ["b"]]]), int((model.weights_ != 0).sum()) < model.weights_.size
    ([array([0, 1])], True)
    """

    c1: float = 1.0

    def _recipe(self, total: float) -> tuple[str, Potential]:
        return "crf", Box(positive("c1", self.c1) / total)


class MaxMarginModel(ChainModel):
    """A network that also tells the multipliers of its margins."""

    _unsaved_fields: ClassVar[tuple[str, ...]] = ("multipliers_", "support_")
    C: float | None
    multipliers_: Any
    support_: Array

    def _keep_multipliers(
        self, problem: Problem, solution: Solution, labels: Labels, used: InUse
    ) -> None:
        """alpha_i = C a_i p_i on the paths other than y_i, as marginals of single labels."""
        count, p = len(labels.classes), solution.p
        rows = (p.own if isinstance(p, Tied) else p).rows()
        pairs = zip(rows, labels.lengths, strict=True)
        share = np.concatenate([row[: n * count] for row, n in pairs]).reshape(-1, count)
        share[np.arange(len(share)), labels.states] = 0.0
        share *= self._pull(problem, p)
        share[share <= NO_SUPPORT] = 0.0
        each = np.repeat((1.0 if self.C is None else float(self.C)) * used.weight, labels.lengths)
        found = sparse.coo_array(each[:, None] * share)
        place, shape = (used.positions[found.row], found.col), (used.n_positions, count)
        self.multipliers_ = sparse.csr_array((found.data, place), shape=shape)
        self.support_ = np.unique(np.repeat(used.rows, labels.lengths)[found.row])

    def _pull(self, problem: Problem, p: Any) -> float:
        return certified(problem, p)


@io.register
@dataclass(eq=False, repr=False)
class M3N(MaxMarginModel):
    """Max-margin Markov network: the Gaussian maximum-entropy discrimination network (Theorem 3).

    Minimises `1/2 ||w||^2 + C sum_i xi_i`,
    `xi_i = max_y cost(y_i, y) - <w, f(x_i, y_i) - f(x_i, y)>` with 1 for every wrong label (problem
    P0). The model is a ``ChainClassifier``.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the slacks.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
    variance_ : array
        The posterior variance of every weight.
    multipliers_ : sparse array (n_positions, n_classes)
        Dual variables (Theorem 2), summed over the paths with a wrong label at a position, for the
        positions of all sequences one after another; not kept in files, nor known of hidden labels
        and blocks.
    support_ : array
        The sequences whose multipliers are not 0, or above 1e-6 of C.
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
        Number of attributes.

    Examples
    --------
    >>> model = M3N(C=10).fit([[["a"], ["b"]], [["a"], ["a"]]], [[0, 1], [0, 0]])
    >>> model.predict([[["a"], ["b"]]]), bool(model.gap_ <= 1e-4)
    ([array([0, 1])], True)
    """

    C: float = 1.0

    def _recipe(self, total: float) -> tuple[str, Potential]:
        return "hinge", Quadratic(1 / (total * positive("C", self.C)))

    @property
    def variance_(self) -> Array:
        """That of the prior, 1 for every weight (Theorem 3)."""
        check_is_fitted(self)
        return np.ones_like(self.weights_)


@io.register
@dataclass(eq=False, repr=False)
class L1M3N(MaxMarginModel):
    """Max-margin Markov network with few weights other than 0 (appendix A of the paper).

    Minimises  `1/2 ||w||_1 + C sum_i xi_i`,  see ``M3N``; with a ``radius`` instead of C the slacks
    alone, under `||w||_1 <= radius`. The model is a ``ChainClassifier``.

    Parameters
    ----------
    C : float or None, default 1.0
        Weight of the slacks; None with a ``radius``.
    radius : float, default None
        Largest `||w||_1`, instead of C.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        All weights w in one vector: those of the attributes, then T, then what depends on the
        input.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
    multipliers_ : sparse array (n_positions, n_classes)
        Dual variables (Theorem 2), summed over the paths with a wrong label at a position, for the
        positions of all sequences one after another; not kept in files, nor known of hidden labels
        and blocks.
    support_ : array
        The sequences whose multipliers are not 0, or above 1e-6 of C.
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
        Number of attributes.

    Examples
    --------
    >>> model = L1M3N(C=10).fit([[["a"], ["b"]], [["a"], ["a"]]], [[0, 1], [0, 0]])
    >>> model.predict([[["a"], ["b"]]])
    [array([0, 1])]
    """

    C: float | None = 1.0
    radius: float | None = None

    def _recipe(self, total: float) -> tuple[str, Potential]:
        if self.radius is None:
            return "hinge", Box(1 / (2 * total * positive("C", self.C)))
        if self.C not in (None, 1.0):
            raise ValueError(
                f"a radius of {self.radius!r} bounds the weights by itself, so C={self.C!r} has no "
                "effect: give one of them, C=None with a radius"
            )
        return "hinge", DualBall(positive("radius", self.radius), 1)


@io.register
@dataclass(eq=False, repr=False)
class LaplaceMEDN(MarginSettings, MaxMarginModel):
    """Maximum-entropy discrimination Markov network with a Laplace prior.

    Learns a distribution p(w) of weights near the prior
    `p_0(w) = prod sqrt(lam)/2 e^{-sqrt(lam) |w_k|}`: minimises `KL(p || p_0) + C sum_i xi_i` under
    expected margins (problem P1) and predicts with the posterior mean (eq. 2).

    method="exact" solves the convex problem of Corollary 6 for the mean, with a duality gap.
    method="variational" is the paper's Algorithm 1, ``rounds`` of it (the paper takes 3): a normal
    posterior from a series of M3Ns. Run to its end it is the exact model with 2 C and 4 lam, see
    docs/differences.md.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the slacks.
    lam : float, default 1.0
        Parameter of the prior, of variance 2 / lam: the larger, the closer to 0.
    method : "exact" or "variational", default "exact"
        See above.
    rounds : int, default None
        Rounds of "variational"; refused with "exact", where it is of no use.
    cost : array (n_classes, n_classes), default None
        What it costs in training to label a position j where i is right, in the order of
        ``classes_``. None is 1 for any wrong label with "hinge" and "softmax-margin", else 0.
    slack : "linear", "squared" or "kl", default "linear"
        How a slack xi of "hinge" counts: "linear", "squared" (`xi^2 / 2`), or "kl", the price of
        uncertain slacks with an exponential prior of rate ``slack_rate``; see ``Slack``.
    slack_rate : float, default None
        Rate of the prior of "kl" slacks; None is 1.
    transitions : "constant" or "input", default "constant"
        "input" has scores of two labels that depend on the features of the second's position as
        well.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.
    checkpoint : path, default None
        File that holds weights and history after each step, from which a fit goes on.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array or sparse array (n_classes, n_features)
        Weights of the attributes.
    transitions_ : array (n_classes, n_classes)
        T, scores of two labels in a row.
    attributes_ : Attributes
        Names of the attributes, where X has names.
    weights_ : array
        The posterior mean, in the order of ``ChainClassifier``.
    start_ : array
        Where the labels of each attribute start in ``state_``; None if every pair has a weight.
    state_ : array
        Labels that each attribute has a weight for; None if every pair has one.
    kl_norm_ : float
        `KL(p || p_0)`, for "exact" `sqrt(lam) ||w||_KL` of Corollary 6 up to its constant, for
        "variational" that of the normal posterior.
    variance_ : array
        The posterior variance of every weight.
    multipliers_ : sparse array (n_positions, n_classes)
        Dual variables (Theorem 2), summed over the paths with a wrong label at a position, for the
        positions of all sequences one after another; not kept in files, nor known of hidden labels
        and blocks.
    support_ : array
        The sequences whose multipliers are not 0, or above 1e-6 of C.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum; with "variational" that
        of the last M3N.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of attributes.

    Examples
    --------
    >>> model = LaplaceMEDN(C=10, lam=4).fit([[["a"], ["b"]], [["a"], ["a"]]], [[0, 1], [0, 0]])
    >>> model.predict([[["a"], ["b"]]]), bool(model.gap_ <= 1e-4)
    ([array([0, 1])], True)
    """

    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *ChainModel._fitted_fields,
        "variance_",
        "kl_norm_",
    )

    C: float = 1.0
    lam: float = 1.0
    method: str = "exact"
    rounds: int | None = None

    def _recipe(self, total: float) -> tuple[str, Potential]:
        if self.method not in ("exact", "variational"):
            raise ValueError(f'method must be "exact" or "variational", got {self.method!r}')
        if self.method == "exact" and self.rounds is not None:
            raise ValueError(
                f'rounds={self.rounds!r} has no effect with method="exact": leave it out'
            )
        whole = isinstance(self.rounds, Integral) and self.rounds >= 1
        if self.rounds is not None and not whole:
            raise ValueError(f"rounds must be an integer >= 1, got {self.rounds!r}")
        prior = LaplacePrior(positive("lam", self.lam))
        return "hinge", ScaledPotential(prior, 1 / (total * positive("C", self.C)))

    def _has_planes(self, potential: Potential) -> bool:
        return self.method == "variational"  # a series of M3Ns

    def _pull(self, problem: Problem, p: Any) -> float:
        return 1.0 if self.method == "variational" else super()._pull(problem, p)

    def _optimise(self, problem: Problem, w0: Any = None) -> Solution:
        potential = problem.potential
        assert isinstance(potential, ScaledPotential)
        assert isinstance(potential.potential, LaplacePrior)
        prior = potential.potential
        if self.method == "variational":
            self._refuse_for_series("the rounds of Algorithm 1")
            solution, variance = self._algorithm_1(problem, potential.multiplier)
            self.variance_ = variance
            self.kl_norm_ = _kl_of_normal(solution.w, variance, float(prior.lam))
            return solution
        solution = super()._optimise(problem, w0)
        eta = prior.conjugate_gradient(solution.w)
        self.variance_ = prior.posterior_variance(eta)
        self.kl_norm_ = prior.conjugate(solution.w)
        return solution

    def _algorithm_1(self, problem: Problem, share: float) -> tuple[Solution, Array]:
        """Algorithm 1: an M3N with covariance Sigma (eq. 10), then a new Sigma (eq. 11)."""
        lam = float(self.lam)
        covariance = np.ones(problem.features.n_features)
        w = None
        rounds = 3 if self.rounds is None else int(self.rounds)
        for _ in range(rounds):
            network = problem.with_potential(Quadratic(share / covariance))
            solution = self._solve(network, w, stacklevel=4)
            w, used = solution.w, covariance
            covariance = np.sqrt((covariance + w**2) / lam)
        self.weights_ = solution.w
        self._certify(network, solution)
        return solution, used

    def shrinkage(self, eta: Any) -> Array:
        """The posterior mean as a function of eta (Corollary 7, Fig. 1): `2 eta / (lam - eta^2)`.

        >>> LaplaceMEDN(lam=4.0).shrinkage(1.0)
        array(0.66666667)
        """
        eta = np.asarray(eta, dtype=np.float64)
        lam = positive("lam", self.lam)
        if not (eta**2 < lam).all():
            raise ValueError(f"the posterior mean exists for eta^2 < lam = {lam:g}, got {eta!r}")
        return np.asarray(LaplacePrior(lam).grad(eta))

    def sparsity(self, threshold: float = 1e-3) -> float:
        """The share of posterior means below a threshold; none is exactly 0."""
        check_is_fitted(self)
        return float(np.mean(np.abs(self.weights_) < threshold))


def _kl_of_normal(mean: Array, variance: Array, lam: float) -> float:
    """KL(N(mean, variance) || p_0) of the Laplace prior, summed over the weights.

    For each weight -H = -1/2 log(2 pi e variance), -E log p_0 = sqrt(lam) E|w| - log(sqrt(lam)/2).
    Algorithm 1 lowers a bound of it, with the root of E w^2 in place of E|w| (section 5).
    """
    sd = np.sqrt(variance)
    z = mean / (np.sqrt(2) * sd)
    size = sd * np.sqrt(2 / np.pi) * np.exp(-(z**2)) + mean * special.erf(z)
    negentropy = -0.5 * (1 + np.log(2 * np.pi * variance))
    return float(np.sum(negentropy + np.sqrt(lam) * size - np.log(np.sqrt(lam) / 2)))
