"""StructMaxentClassifier: conditional structural maxent (structural paper, §3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxent import io
from maxent._support.checks import floats, masses
from maxent._support.progress import Progress
from maxent._support.threads import one_blas_thread
from maxent.core import bounds
from maxent.core.domains import Simplex
from maxent.core.entropies import Entropy, Relative, Shannon, Shifted
from maxent.core.potentials import Box
from maxent.core.problem import Problem, State
from maxent.core.solvers import ConvergenceWarning, steps
from maxent.density.evidence import Evidence, RecordWeights
from maxent.families import Family, Monomials, Proposal, Terms, Trees
from maxent.families.growth import Proof, family_gap
from maxent.features import Cells, Operator, Schema
from maxent.features.cells import (
    constant_columns,
    is_frame,
    missing_rows,
    not_used,
    take_rows,
)
from maxent.learn.linear.class_map import ClassMap, ClassPart, Ones
from maxent.learn.linear.class_weight import class_factors
from maxent.learn.saving import SavesFields
from maxent.learn.structural.base import (
    FEWEST,
    LEAST_CHANGE,
    PROOF_BUDGET,
    bound_complexity,
    check_not_negative,
    check_rule,
    check_searches,
    listed_families,
    price,
)
from maxent.rows.arrays import Array, row_scale
from maxent.typing import ArrayLike, ClassWeights, EntropyLike, TableLike

RULES = ("corrective", "line-search")
_TIGHTEST = 1e-10  # duality gap of a round's solve at least
_SAME = 1e-6  # share of a value within which a proposal is a chosen feature, found again


@io.register
class StructMaxentClassifier(ClassifierMixin, SavesFields, BaseEstimator):
    """Class probabilities with features from a union of families (conditional structural maxent).

    `p_w[y|x]` is proportional to `p0[y|x] exp(sum_j w_j phi_j(x) [y = y_j])`, and w minimises (14)

        `mean loss + sum_k beta_k ||w_k||_1`,      `beta_k = lam B_k + beta`

    over features `phi_j` of all sets `H_k`, those of complex ones at a higher price: multi-class
    deep boosting with the logistic loss. In every round the pair (feature, class) that violates
    optimality most comes in. Each class has a constant feature as well, a monomial of degree 0,
    whose bound `B_0` of (15) is 0: it costs beta. With two classes the features are those of the
    second, which leaves out no model, as scores count up to what all classes share.

    Parameters
    ----------
    families : list of Family, default None
        Families of features; None for ``[Monomials(2), Trees(4)]``.
    lam : float, default 0.01
        lambda, the price of complexity; 0 is ordinary l1 regularization. Noisy labels want more
        than the default, clear ones less (docs/structural.md).
    beta : float, default 0.001
        The price of every feature. With 0 the constants are free and ``gap_`` is infinite.
    rule : "corrective" or "line-search", default "corrective"
        "corrective" solves for all weights again in each round, by the core's solver; "line-search"
        takes the exact step along the worst feature, new or old, and ends at ``least_change``.
    rounds : int, default 100
        Rounds at most.
    least_change : float, default 1e-5
        A round of "line-search" that changes the objective by less ends the fit, as in the paper's
        §4; 0 goes on until nothing found violates optimality by more than ``tol``.
    per_round : int, default 1
        Features that come in each round, of as many classes.
    searches : int, default 5
        Longer searches at most, of the corrective rule where proposals bring no more; 0 is the
        paper's greedy search alone.
    proof_budget : float, default 5e8
        Visits of cells that the bounds may take, for each family; all classes share it. See
        ``StructMaxent``.
    tol : float, default 1e-4
        Largest violation at which to stop, in units of the means of the features.
    entropy : str or Entropy, default "shannon"
        "shannon" (the logistic loss), or an Entropy of the simplex for its Fenchel-Young loss;
        ``Tsallis(1.5)`` gives probabilities that are exactly 0.
    categorical : iterable of str or int, default ()
        Columns that are categories whatever their type; those of type category or string always
        are.
    prior : array (n_classes,) or callable, default None
        `p0[y|x]` of (10), what the model is closest to: probabilities of the sorted classes, all
        positive, or a function of X that gives them for every row, such as ``predict_proba`` of
        another model; None is uniform. Other entropies are relative to it (``Relative``). A model
        with a function cannot be saved.
    class_weight : dict or "balanced", default None
        Weights of the classes, {class: weight} or "balanced"; they multiply sample weights, and
        leave the m of `B_k` as it is.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    features_ : list of dict
        One dict for every feature in use: name, class, weight, family, level (k), beta; largest
        weight first.
    coef_ : dict
        Weights by (name, class).
    intercept_ : array (n_classes,)
        Weight of each class's constant.
    n_features_ : int
        Number of features in use.
    loss_ : float
        Mean loss over the samples.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap over the features that came in: how far ``objective_`` is above the smallest
        with these features, at most.
    family_gap_ : float
        The same over all features of the families, found or not, from a bound on what they may
        have; large where that is loose, infinite with ``beta=0``.
    guarantees_ : dict
        What ``family_gap_`` says of the optimum `p*` over all features of the families:
        ``mean_kl`` bounds the mean over the samples of `KL(p*[.|x] || p_w[.|x])` (Theorem 4).
    violation_ : float
        What `|E_p[phi] - E_S[phi]| - beta_k` of no feature exceeds, found or not, for any class;
        inf where Ctrl-C stopped the fit. As the objective F is convex, `F(w) - F(w*)` is at most
        ``violation_`` times `||w - w*||_1` for any weights `w*` of any features of the families.
    violation_found_ : float
        The largest that was found.
    n_rounds_ : int
        Number of rounds.
    history_ : list of dict
        One dict per round and one for the start: seconds, objective, gap, violation, features.
    schema_ : Schema
        Columns, categories and levels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array (n_features_in_,)
        Names of the columns of X, where it has any.

    Notes
    -----
    Variables are held within their ranges at the fit when predicting. A sample of weight s counts
    as s samples, also in the m of `B_k`.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0.3, "wet", "dry")
    >>> model = StructMaxentClassifier(lam=0.1).fit(X, y)
    >>> model.features_[0]["name"], bool(model.violation_found_ <= 1e-4)
    ('x0 * x1', True)
    """

    _fitted_fields = (
        *("feature_names_in_", "n_features_in_", "classes_", "schema_", "intercept_", "_parts_"),
        *("_chosen_", "n_features_", "objective_", "gap_", "violation_found_", "violation_"),
        *("family_gap_", "guarantees_", "_evidence_", "loss_", "n_rounds_", "history_"),
    )
    _optional_fields = ("feature_names_in_", "_evidence_")

    def __init__(
        self,
        families: Sequence[Family] | None = None,
        lam: float = 0.01,
        beta: float = 0.001,
        *,
        rule: str = "corrective",
        rounds: int = 100,
        least_change: float = LEAST_CHANGE,
        per_round: int = 1,
        searches: int = 5,
        proof_budget: float = PROOF_BUDGET,
        tol: float = 1e-4,
        entropy: EntropyLike = "shannon",
        categorical: Iterable[Any] = (),
        prior: ArrayLike | Callable[[Any], ArrayLike] | None = None,
        class_weight: ClassWeights = None,
        verbose: int = 0,
    ) -> None:
        self.families = families
        self.lam = lam
        self.beta = beta
        self.rule = rule
        self.rounds = rounds
        self.least_change = least_change
        self.per_round = per_round
        self.searches = searches
        self.proof_budget = proof_budget
        self.tol = tol
        self.entropy = entropy
        self.categorical = categorical
        self.prior = prior
        self.class_weight = class_weight
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StructMaxentClassifier:
        """Grow the features and fit their weights to samples X with labels y.

        After Ctrl-C the model is that of the last whole round, with its gap; ``violation_`` is inf
        if the families were still searching for what violates it.
        """
        self._check()
        families = self._families()
        given = X
        X, y = self._table(X, reset=True), self._labels(X, y)
        weight = masses("sample_weight", sample_weight, len(y))
        if not weight.any():
            raise ValueError("all sample weights are zero: give some samples a positive weight")
        used, count = weight > 0, len(y)
        X, y, weight = take_rows(X, used), y[used], weight[used]
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._check_sample(len(y))
        prior = self._prior(given, count)
        entropy = self._entropy(None if prior is None else prior[used])
        self.schema_ = Schema.from_table(X, self.categorical)
        cells = self.schema_.read(X)
        constant = constant_columns(cells, self.schema_)
        if constant:
            warnings.warn(not_used(constant), stacklevel=2)
        factors = class_factors(self.class_weight, self.classes_, labels, weight)
        growth = _ClassGrowth(self, families, entropy, cells, labels, weight, factors)
        with one_blas_thread():
            try:
                growth.run()
            except KeyboardInterrupt:
                self._finish(growth)
                raise
        self._finish(growth)
        return self

    def _finish(self, growth: _ClassGrowth) -> None:
        state = growth.reached()
        w, kept = state.w, np.flatnonzero(state.w)
        self.intercept_ = np.zeros(self.classes_.size)
        self.intercept_[growth.outputs] = w[: len(growth.outputs)]
        self._parts_ = growth.operators(w)
        self._chosen_ = [(growth.chosen[j], float(w[j])) for j in kept if growth.chosen[j].level]
        self.n_features_ = len(self._chosen_)
        last = growth.history[-1]
        self.objective_, self.gap_ = last["objective"], last["gap"]
        self.violation_found_ = last["violation"]
        self.violation_ = self.family_gap_ = np.inf
        if growth.proof is not None:
            proof = growth.proof.proof
            self.violation_ = max(self.violation_found_, proof.violation)
            self.family_gap_ = family_gap(state, proof.gauge)
        self.guarantees_ = state.problem.guarantees(self.family_gap_)
        self._evidence_ = growth.evidence(kept)
        self.loss_ = self.objective_ - state.penalty
        self.n_rounds_, self.history_ = len(growth.history) - 1, growth.history

    @property
    def features_(self) -> list[dict[str, Any]]:
        """The features in use, largest weight first."""
        check_is_fitted(self)
        rows = sorted(self._chosen_, key=lambda row: -abs(row[1]))
        labels = self.classes_.tolist()
        return [
            {
                "name": chosen.name,
                "class": labels[chosen.output],
                "weight": weight,
                "family": chosen.family,
                "level": chosen.level,
                "beta": chosen.beta,
            }
            for chosen, weight in rows
        ]

    @property
    def coef_(self) -> dict[tuple[str, Any], float]:
        """Weight of every feature in use, by its name and class."""
        return {(row["name"], row["class"]): row["weight"] for row in self.features_}

    # -- saving --------------------------------------------------------------------------------

    def __setmodel__(self, state: dict[str, Any]) -> None:
        """Compiled kernels trust the features, so a file may not bring wrong ones."""
        if "violation_" in state and {"violation_found_", "family_gap_"}.isdisjoint(state):
            found = {"violation_found_": state["violation_"]}  # a file without bounds
            state = state | found | {"violation_": np.inf, "family_gap_": np.inf}
        if "family_gap_" in state and "guarantees_" not in state:
            state = state | {"guarantees_": {"fenchel_young": state["family_gap_"]}}
        super().__setmodel__(state)
        if not hasattr(self, "_parts_"):
            return
        floats("intercept_", self.intercept_, self.classes_.size)
        for output, operator, w in self._parts_:
            floats("the weights", w, operator.n_features)
            known = isinstance(operator, Operator) and operator.matches(self.schema_)
            if not (known and output in range(self.classes_.size)):
                raise ValueError("the features are for other columns or classes than the model's")

    # -- parameters and input ------------------------------------------------------------------

    def _check(self) -> None:
        names = ("lam", "beta", "least_change", "tol", "proof_budget")
        check_not_negative(**{name: getattr(self, name) for name in names})
        check_rule(self.rule, RULES)
        check_searches(self.searches)
        if self.least_change != LEAST_CHANGE and self.rule != "line-search":
            raise ValueError(
                f"least_change={self.least_change!r} has no effect with rule={self.rule!r}, which "
                "ends at tol: leave it out"
            )
        for name in ("rounds", "per_round"):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        self._entropy()

    def _prior(self, X: Any, count: int) -> Array | None:
        """p0[.|x] of every row."""
        if self.prior is None:
            return None
        classes = self.classes_.size
        given = self.prior(X) if callable(self.prior) else self.prior
        rows = np.asarray(given, dtype=np.float64)
        if rows.shape not in ((classes,), (count, classes)):
            raise ValueError(
                f"prior must have a probability for each of {classes} classes, in one row or in "
                f"one for each of {count} samples, got shape {rows.shape}"
            )
        if not (np.isfinite(rows).all() and (rows > 0).all()):
            raise ValueError("prior must be finite and positive: a class of prior 0 is never seen")
        return np.broadcast_to(rows / rows.sum(axis=-1, keepdims=True), (count, classes))

    def _entropy(self, prior: Array | None = None) -> Entropy:
        given = self.entropy
        entropy = Shannon() if isinstance(given, str) and given == "shannon" else given
        if (
            isinstance(entropy, Entropy)
            and isinstance(entropy.domain, Simplex)
            and entropy.differentiable
        ):
            return entropy if prior is None else Relative(entropy, prior)
        raise ValueError(
            'entropy must be "shannon" or a strictly convex Entropy of the simplex such as '
            f"Tsallis(1.5), got {given!r}"
        )

    def _families(self) -> list[Family]:
        return listed_families(self.families, [Monomials(2), Trees(4)])

    def _table(self, X: Any, reset: bool) -> Any:
        """A table without missing values: frames stay frames, the rest becomes an array."""
        if is_frame(X):
            if not len(X) or not len(X.columns):
                raise ValueError(f"X is empty: {len(X)} rows, {len(X.columns)} columns")
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            text = not sparse.issparse(X) and np.asarray(X).dtype.kind in "UO" and _has_text(X)
            kind = object if text else "numeric"
            X = validate_data(self, X, reset=reset, dtype=kind, ensure_all_finite=False)
        lost = int(missing_rows(X).sum())
        if lost:
            raise ValueError(
                f"X contains missing values (NaN, None) in {lost} rows: drop or impute them, or "
                "give a category a level of its own for them"
            )
        return X

    def _labels(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError(
                "StructMaxentClassifier requires y to be passed, but the target y is None: give "
                "one label per row of X"
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        return y

    def _check_sample(self, count: int) -> None:
        if count < FEWEST:
            raise ValueError(
                f"n_samples={count}, and growing features needs at least {FEWEST} samples of "
                "positive weight: give more rows"
            )
        if self.classes_.size < 2:
            raise ValueError(
                f"every sample is of one class, {self.classes_.tolist()[0]!r}: a classifier needs "
                "samples of at least two classes"
            )

    # -- prediction ----------------------------------------------------------------------------

    def decision_function(self, X: TableLike) -> Array:
        """Scores of each class without the prior; of two classes the second's less the first's."""
        theta = self._scores(X)
        return theta[:, 1] - theta[:, 0] if self.classes_.size == 2 else theta

    def predict_proba(self, X: TableLike) -> Array:
        """Probability of each class."""
        theta = self._scores(X)
        return np.asarray(self._entropy(self._prior(X, len(theta))).conjugate(theta)[1])

    def predict(self, X: TableLike) -> Array:
        """The most probable class."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def bound(self, delta: float = 0.05) -> bounds.LossBound:
        """An upper bound on the mean log loss of new labels of the same samples, from (9).

        With probability `1 - delta` over the labels it is at most `L_S(w) + sum_j beta_j |w_j|` for
        any fitted w, `beta_j` of all sets `H_k` for all classes (``bounds.structural_beta``): the
        losses differ by `<w, E_S[Phi] - E[Phi]>`, as the samples are the same. With a prior they
        are those of `-log(p_w / p0)`. Labels must be independent given the samples, and sample
        weights set without regard to them.
        """
        check_is_fitted(self)
        if not isinstance(self._entropy(), Shannon):
            raise ValueError(f"the bound is for the log loss: entropy Shannon, not {self.entropy}")
        known: LabelEvidence | None = getattr(self, "_evidence_", None)
        if known is None:
            raise ValueError(
                "the model does not know the weights of its samples, or they are those of classes "
                "(class_weight): fit it again without"
            )
        used = self.intercept_[self.intercept_ != 0]
        w = np.concatenate([used, [weight for _, weight in self._chosen_]])
        complexity = np.concatenate([np.zeros(used.size), known.complexity])
        beta = bounds.structural_beta(complexity, known.n_sets, known.samples.effective, delta)
        return bounds.LossBound(
            self.loss_ - known.prior_loss,
            float(np.sum(beta * np.abs(w))),
            delta,
            assumes="the labels are independent given the samples",
            on="new labels of these samples",
        )

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        cells = self.schema_.read(self._table(X, reset=False))
        theta = np.repeat(self.intercept_[:, None], cells.n_cells, axis=1)
        for output, operator, w in self._parts_:
            operator.bind(cells, clamp=True).add_scores(w, theta[output])
        return np.ascontiguousarray(theta.T)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_parts_")


def _has_text(X: Any) -> bool:
    return any(isinstance(value, str) for value in np.ravel(np.asarray(X, dtype=object)))


@io.register
@dataclass(frozen=True)
class ChosenFeature:
    """A feature that came in: its name, family, k (0 for a constant), class and penalty."""

    name: str
    family: str
    level: int
    output: int
    beta: float


@io.register
@dataclass(frozen=True, eq=False)
class LabelEvidence:
    """What a bound knows: the samples, sets of features for all classes, and the prior's loss.

    ``complexity`` is `B_k` of each feature in use.
    """

    samples: Evidence
    n_sets: int
    complexity: Array
    prior_loss: float


class _Candidate(NamedTuple):
    """A proposal for a class, with its penalty and by how much it violates optimality."""

    family: int
    output: int
    proposal: Proposal
    beta: float
    violation: float


class _ClassProof(NamedTuple):
    """What no feature exceeds, for any class, and the features that the proof came across."""

    proof: Proof
    found: list[_Candidate]


def _worst_first(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    return sorted(candidates, key=lambda c: -c.violation)


class _ClassGrowth:
    """Chosen features with their weights, growing round by round.

    ``reached`` gives the state after the last whole round, ``history[-1]`` is its record: an
    interrupt leaves them as they are, whatever it leaves half done of the features and weights.
    """

    def __init__(
        self,
        model: StructMaxentClassifier,
        families: Sequence[Family],
        entropy: Entropy,
        cells: Cells,
        labels: Array,
        weight: Array,
        factors: Array,
    ) -> None:
        self.model, self.families, schema = model, families, model.schema_
        self.searches = [family.search(cells, schema) for family in families]
        self.entropy, self._samples, self._factors = entropy, weight, factors
        n_classes = model.classes_.size
        self.observed = np.eye(n_classes)[labels]
        self.weight = weight * factors / (weight @ factors)
        m = max(round(float(weight.sum())), 1)
        complexity = bound_complexity(families, schema, m)
        self.price = price(model.lam, model.beta, complexity)
        self.prices = [
            np.array([self.price(f, level) for level in range(1, family.max_level + 1)])
            for f, family in enumerate(families)
        ]
        self.proof: _ClassProof | None = None  # at the weights
        self._longer = int(model.searches)  # longer searches that are left
        # the scores of one class are enough to tell two: they count up to what both share
        self.outputs = [1] if n_classes == 2 else list(range(n_classes))
        beta = float(model.beta)
        self.chosen = [ChosenFeature("1", "constant", 0, y, beta) for y in self.outputs]
        self._sets: list[tuple[int, int]] = [(-1, 0)] * len(self.outputs)  # family and k
        self.w = np.zeros(len(self.outputs))
        self._terms: dict[tuple[int, int], tuple[Terms, list[int]]] = {}  # by family and class
        self.history: list[dict[str, float]] = []
        self._reached: State
        self._begin = perf_counter()
        # Omega(y) of the samples, which the dual leaves out of the loss
        self._constant = float(self.weight @ self.entropy.value(self.observed))

    # -- what there is -------------------------------------------------------------------------

    def features(self) -> ClassMap:
        """The feature map of what was chosen."""
        parts = [ClassPart(Ones(), y, np.array([j])) for j, y in enumerate(self.outputs)]
        parts += [ClassPart(t, y, np.array(j)) for (_, y), (t, j) in self._terms.items()]
        return ClassMap(parts, *self.observed.shape)

    def state(self) -> State:
        """The problem of the chosen features, (14) and its dual, at the weights."""
        return self._posed(self.entropy, self.features(), self.beta).state(self.w)

    def _posed(self, entropy: Entropy, features: ClassMap, beta: Array) -> Problem:
        return Problem(entropy, features, Box(beta), weights=self.weight, observed=self.observed)

    @property
    def beta(self) -> Array:
        """The penalty of every feature."""
        return np.array([chosen.beta for chosen in self.chosen])

    def operators(self, w: Array) -> list[tuple[int, Any, Array]]:
        """Class, features in use as one operator, and their weights, family by family."""
        parts = []
        for (_, output), (terms, index) in self._terms.items():
            mine = w[[j for j in index if j < w.size]]  # less what an interrupted round added
            used = np.flatnonzero(mine)
            operator = terms.operator()
            if used.size and operator is not None:
                parts.append((output, operator.restrict(used), mine[used]))
        return parts

    def evidence(self, kept: Array) -> LabelEvidence | None:
        """What (9) needs to know of the features in use; None where classes have weights."""
        if np.ptp(self._factors):
            return None
        records = RecordWeights.from_counts(np.ones(self._samples.size), self._samples)
        families, schema = self.families, self.model.schema_
        sets = [self._sets[j] for j in kept if self.chosen[j].level]
        known = {
            (f, k): records.complexity(partial(families[f].complexity_of, k, schema))
            for f, k in set(sets)
        }
        return LabelEvidence(
            records.evidence(),
            len(self.outputs) * (1 + sum(family.max_level for family in families)),
            np.array([known[one] for one in sets]),
            self._constant,
        )

    # -- how it grows --------------------------------------------------------------------------

    def run(self) -> None:
        """Rounds until no feature found violates optimality, or they are used up."""
        rounds = int(self.model.rounds)
        progress = Progress("StructMaxentClassifier", self.model.verbose)
        try:
            if self.model.rule == "corrective":
                self._solve(np.arange(self.w.size))
            for count in range(rounds + 1):
                state = self._reach()
                candidates = self._candidates(state)
                old = np.abs(steps.violation(state.w, state.gradient, self.beta))
                self._found(old, candidates)
                violation = self.history[-1]["violation"]
                progress.update(f"round {count}, violation {violation:.1e}")
                if count == rounds:
                    break
                if not (self._step(candidates, old) or self._searched_longer(state, old)):
                    break
            self.proof = self.proof or self._proof(state)
            self._found(old, self.proof.found)
        finally:
            progress.close()
        if self.w.size == len(self.outputs) and not candidates:
            warnings.warn(
                "the families propose no feature: the model has constants alone", stacklevel=3
            )
        if self.model.rule == "corrective" and old.max() > self.model.tol:
            warnings.warn(
                f"the weights of the chosen features violate optimality by {old.max():.1e}, more "
                f"than tol={self.model.tol:g}, and the solver gets no further: raise tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _found(self, old: Array, candidates: Sequence[_Candidate]) -> None:
        """Record the largest violation found, of chosen features and of others."""
        known = self.history[-1]["violation"]
        known = 0.0 if known == np.inf else known
        largest = max([known, old.max(), *(c.violation for c in candidates)])
        self.history[-1]["violation"] = float(largest)

    def _searched_longer(self, state: State, old: Array) -> bool:
        """A round with what longer searches find, or else the proof; False without any."""
        if self.model.rule != "corrective" or not self._longer:
            return False
        self._longer -= 1
        residual = self._residual(state)
        refined = self._best_of_each(
            (y, family, search.refine(residual[y], self.prices[family], self._in_use(family, y)))
            for y in self.outputs
            for family, search in enumerate(self.searches)
        )
        self._found(old, refined)
        if self._step(refined, old, len(refined)):
            return True
        self.proof = self._proof(state)
        found = _worst_first(self.proof.found)
        if self._step(found, old, len(found)):
            self.proof = None
            return True
        return False

    def _proof(self, state: State) -> _ClassProof:
        """What no feature exceeds for any class, at the weights of a state."""
        residual, budget = self._residual(state), self.model.proof_budget / len(self.outputs)
        most: list[Array] = []
        prices: list[Array] = []
        found: list[_Candidate] = []
        for y in self.outputs:
            for family, search in enumerate(self.searches):
                ceiling = search.ceiling(residual[y], self.prices[family], budget)
                most.append(np.asarray(ceiling.at_most, dtype=np.float64))
                prices.append(self.prices[family])
                found += [self._candidate(family, y, one) for one in ceiling.proposals]
        return _ClassProof(Proof(most, prices, []), found)

    def _residual(self, state: State) -> Array:
        """The cell weights p - observed of every class, (classes, samples)."""
        return np.ascontiguousarray(row_scale(state.p - self.observed, self.weight).T)

    def _in_use(self, family: int, output: int) -> list[Operator]:
        """The chosen features of a family and class that have a weight."""
        if (family, output) not in self._terms:
            return []
        terms, index = self._terms[family, output]
        operator, used = terms.operator(), np.flatnonzero(self.w[index])
        return [] if operator is None or not used.size else [operator.restrict(used)]

    def _reach(self) -> State:
        """The state at the weights, recorded; what violates it is not known yet."""
        state = self.state()
        record = {
            "seconds": perf_counter() - self._begin,
            "objective": state.dual + self._constant,
            "gap": state.gap,
            "violation": np.inf,
            "features": float(np.count_nonzero(state.w[len(self.outputs) :])),
        }
        # at once: no interrupt comes between the two
        self._reached, self.history = state, [*self.history, record]
        return state

    def reached(self) -> State:
        """The state after the last whole round; without any, of constants with weight 0."""
        return self._reached if self.history else self._reach()

    def _candidates(self, state: State) -> list[_Candidate]:
        """The best proposal for every class, the worst violation first."""
        residual = self._residual(state)
        return self._best_of_each(
            (y, family, search.propose(residual[y]))
            for y in self.outputs
            for family, search in enumerate(self.searches)
        )

    def _best_of_each(
        self, proposed: Iterable[tuple[int, int, Sequence[Proposal]]]
    ) -> list[_Candidate]:
        """The best of the proposals for each class, which come with it and their family."""
        best: dict[int, _Candidate] = {}
        for y, family, proposals in proposed:
            for candidate in (self._candidate(family, y, one) for one in proposals):
                if y not in best or candidate.violation > best[y].violation:
                    best[y] = candidate
        return _worst_first(best.values())

    def _candidate(self, family: int, output: int, proposal: Proposal) -> _Candidate:
        beta = self.price(family, proposal.level)
        return _Candidate(family, output, proposal, beta, abs(proposal.value) - beta)

    def _step(self, candidates: Sequence[_Candidate], old: Array, most: int | None = None) -> bool:
        """One round with ``most`` features, by default ``per_round``; False without any to take."""
        model = self.model
        if model.rule == "line-search" and self._settled():
            return False
        # a chosen feature that is proposed again violates no less than its proposal
        least = max(model.tol, float(old.max()))
        new = [c for c in candidates if c.violation > least + _SAME * abs(c.proposal.value)]
        index = [self._add(candidate) for candidate in new[: most or model.per_round]]
        if model.rule == "corrective":
            if index:
                self._solve(np.arange(self.w.size))
            return bool(index)
        if not index and old.max() > model.tol:
            index = [int(np.argmax(old))]
        for j in index:
            self._solve(np.array([j]))
        return bool(index)

    def _settled(self) -> bool:
        objective = [record["objective"] for record in self.history[-2:]]
        return len(objective) == 2 and objective[0] - objective[1] < self.model.least_change

    def _add(self, candidate: _Candidate) -> int:
        """Take a feature in with weight 0; its number."""
        family, output, proposal = candidate.family, candidate.output, candidate.proposal
        key = (family, output)
        if key not in self._terms:
            self._terms[key] = self.searches[family].terms(), []
        terms, index = self._terms[key]
        terms.append(proposal.operator)
        index.append(self.w.size)
        (name,) = proposal.operator.names()
        kind = type(self.families[family]).__name__
        self.chosen.append(ChosenFeature(name, kind, proposal.level, output, candidate.beta))
        self._sets.append((family, proposal.level))
        self.w = np.append(self.w, 0.0)
        return index[-1]

    def _solve(self, index: Array) -> None:
        """Minimise (14) over the weights ``index``: the others' scores are a shift."""
        rest = self.w.copy()
        rest[index] = 0.0
        features = self.features()
        entropy = Shifted(self.entropy, features.scores(rest)) if rest.any() else self.entropy
        problem = self._posed(entropy, features.restrict(index), self.beta[index])
        # a violation v is worth v^2 / 2 or more where the smoothness is at most 1: all below tol
        tol = max(self.model.tol**2 / 4, _TIGHTEST)
        # ``run`` looks at what violations are left
        rest[index] = problem.run("auto", self.w[index], tol=tol, verbose=0).w
        self.w = rest  # a new array: states keep their weights
