"""Labels of sequences: linear-chain models under any Fenchel-Young loss and any potential."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.checks import masses
from maxent.core.domains import Simplex
from maxent.core.entropies import (
    Entropy,
    Shannon,
    Shifted,
    Slack,
    SmoothedMax,
    SquaredNorm,
    Zero,
    unwrap,
)
from maxent.core.maps import RowMap
from maxent.core.potentials import Box, Equality, Potential, Quadratic
from maxent.core.problem import Problem, State
from maxent.core.solvers import ConvergenceWarning, Solution
from maxent.core.tilt import can_tilt, equal_gap
from maxent.learn.linear.base import as_potential
from maxent.learn.parameters import as_cost, slack_of
from maxent.learn.saving import SavesFields
from maxent.learn.solving import (
    CERTIFICATE,
    SolverSettings,
    SolvesProblem,
    mean_weights,
    unless_it_fails,
)
from maxent.learn.structured.chain_rows import endless, full_map, position_costs
from maxent.learn.structured.reading import InUse, ReadsSequences, in_use, of_no_positions
from maxent.learn.structured.sequences import (
    HIDDEN,
    Labels,
    look_up,
    number_labels,
    read_labels,
    split,
)
from maxent.rows.arrays import Array, Rows, Tied, row_dot
from maxent.rows.blocks.table import is_blocked
from maxent.structured import Chain
from maxent.structured.chain.observed import TiedPaths
from maxent.tagging.attributes import Attributes
from maxent.tagging.pair_map import PairChainMap
from maxent.typing import ArrayLike, PotentialLike, SequencesLike

# loss -> entropy on paths, and whether wrong labels cost 1 each unless told otherwise
LOSSES: dict[str, tuple[Callable[..., Entropy], bool]] = {
    "crf": (Shannon, False),
    "softmax-margin": (Shannon, True),
    "hinge": (Zero, True),
    "sparsemap": (SquaredNorm, False),
}
_ROUNDS = 100  # completions of hidden labels at most
_PRODUCTS = 200  # with a Hessian that a bound without a penalty may take, or the fit's steps
Callback = Callable[[int, Any], Any]
_STILL = 1e-6  # relative change of the objective between two of them that ends the search


class SeparableWarning(UserWarning):
    """Without a penalty the weights of separable data grow for ever: the fit stopped on the way.

    Data are separable where the right labels score highest in all sequences, and in part where some
    direction of the weights lets the loss of some sequences fall and that of none rise.
    """


@dataclass(eq=False, repr=False)
class ChainSettings(SolverSettings):
    """The parameters of all chain models; see ``ChainClassifier``."""

    _: KW_ONLY
    transitions: str = "constant"
    all_pairs: bool = False
    least: int = 1
    tol: float = 1e-4
    checkpoint: str | None = None


class ChainModel(ReadsSequences, ChainSettings, SolvesProblem, SavesFields, BaseEstimator):
    """What all chain models share; a model adds its loss and its potential, see ``_recipe``."""

    _fitted_fields: ClassVar[tuple[str, ...]] = (
        *("attributes_", "n_features_in_", "classes_", "start_", "state_", "weights_"),
        *CERTIFICATE,
    )

    classes_: Array
    n_features_in_: int
    attributes_: Attributes | None
    start_: Any  # pairs of attributes and labels with a weight, see ``PairChainMap``; None for all
    state_: Any
    weights_: Array

    @abstractmethod
    def _recipe(self, total: float) -> tuple[Any, Potential]:
        """The loss, a name of LOSSES or an Entropy, and the potential beside its mean.

        ``total`` is the number of sequences, as the sample weights count them.
        """

    def _cost(self) -> Any:
        """What wrong labels cost, a matrix (classes, classes); None for the loss's own."""
        return None

    def _slack(self) -> tuple[str, float]:
        """The function of the slacks, see ``Slack``, and its rate."""
        return "linear", 1.0

    def penalties(self, total: float) -> tuple[Potential, str, float]:
        """The potential for ``total`` sequences, and the function of the slacks with its rate."""
        return (self._recipe(total)[1], *self._slack())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of sequences
        tags.target_tags.required = True
        return tags

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: SequencesLike,
        y: SequencesLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Any:
        """Learn from sequences X and their labels y, one per position; None hides a label.

        A sequence is a matrix (positions, features), dense or sparse, or a list of tokens that are
        lists of names or mappings of names to values, see ``Attributes``; or X is the ``Tokens``
        that an ``Attributes`` has read. Hidden labels are summed over by the losses with an
        entropy and maximised over by the hinge. That problem is not convex: a local optimum is
        found, whose ``gap_`` is inf.

        A dask bag of pairs (sequence, labels), or bags X and y with the same partitions, stay on
        the workers: see docs/scale.md. Labels are then all known, and the slacks of a hinge linear.

        ``callback(iteration, model)`` is called after each step, with this model as it is then, so
        that it can predict; it ends the fit by returning True.
        """
        self._check_settings()
        with unless_it_fails(self), self._watched(callback):
            for earlier in self._unsaved_fields:
                self.__dict__.pop(earlier, None)
            if is_blocked(X):
                self._learn(self._problem_in_blocks(X, y, sample_weight))
                return self
            used = in_use(X, y, sample_weight)
            labels, parts = self._pose(used.X, used.y, used.weight)
            if labels.hidden:
                self._refuse_for_series("hidden labels")
                self._complete(labels, *parts)
            else:
                problem = self._problem(labels, *parts)
                solution = self._learn(problem)
                self._keep_multipliers(problem, solution, labels, used)
        return self

    @contextmanager
    def _watched(self, callback: Callback | None) -> Iterator[None]:
        """Let a callback see the steps of a fit."""
        if callback is None:
            yield
            return
        self._watch = partial(self._show, callback)
        try:
            yield
        finally:
            del self._watch

    def _show(self, callback: Callback, iteration: int, state: State) -> Any:
        """Let a callback see the model of a state on the way."""
        self.weights_, self.n_iter_ = state.w, iteration
        self.loss_ = float(state.smooth + state.problem.observed_value)
        self.objective_ = self.loss_ + float(state.penalty)
        self.gap_, self.optimality_ = float(state.gap), float(state.optimality)
        return callback(iteration, self)

    def _keep_multipliers(
        self, problem: Problem, solution: Solution, labels: Labels, used: InUse
    ) -> None:
        """Keep what a model tells of the constraints on its margins."""

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.least, Integral) or self.least < 1:
            raise ValueError(f"least must be an integer >= 1, got {self.least!r}")
        if self.transitions not in ("constant", "input"):
            raise ValueError(f'transitions must be "constant" or "input", got {self.transitions!r}')

    def _pose(
        self, X: Any, y: Any, weight: Array
    ) -> tuple[Labels, tuple[Entropy, RowMap, Potential, Array]]:
        """The labels, and what ``_problem`` and ``_complete`` take beside them."""
        matrix, lengths = self._read(X, fit=True)
        labels = number_labels(read_labels(type(self).__name__, y, lengths))
        self.classes_ = labels.classes
        loss, potential = self._recipe(float(weight.sum()))
        if self._slack()[0] != "linear" and (loss != "hinge" or labels.hidden):
            raise ValueError(
                f'slack={self._slack()[0]!r} is for loss="hinge" and y without hidden labels'
            )
        entropy = chain_entropy(loss, Chain(len(labels.classes)))
        chains = self._training_map(matrix, labels, entropy)
        cost = self._cost_matrix(loss)
        if cost is not None:
            entropy = Shifted(entropy, position_costs(cost, labels, chains))
        return labels, (entropy, chains, potential, mean_weights(weight, "sequences"))

    def _cost_matrix(self, loss: Any) -> Array | None:
        """What a label costs where another is right; None for nothing."""
        cost = self._cost()
        if cost is None and isinstance(loss, str) and LOSSES[loss][1]:
            cost = 1 - np.eye(len(self.classes_))
        return None if cost is None else as_cost(cost, self.classes_)

    def _problem(
        self, labels: Labels, entropy: Entropy, chains: RowMap, potential: Potential, weight: Array
    ) -> Problem:
        tied = self._ties(entropy)
        chain = Chain(len(labels.classes))
        if tied and isinstance(unwrap(entropy).entropy, Shannon):
            observed: Any = TiedPaths(labels.states, labels.lengths, chain.n_states)
        else:  # other solvers read them again and again
            observed = chain.encode(labels.paths(), tied=tied)
        kind, rate = self._slack()
        if kind != "linear":
            entropy, observed = Slack(entropy, observed, kind, rate), 0 * observed
        return Problem(entropy, chains, potential, observed=observed, weights=weight)

    def _problem_in_blocks(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        from maxent.learn.structured.chain_blocks import Plan, read_in_blocks

        self._check_in_blocks(*self._recipe(1.0))
        data = read_in_blocks(type(self).__name__, X, y, sample_weight, int(self.least))
        self.attributes_, self.n_features_in_ = data.attributes, data.width
        self.classes_ = data.classes
        loss, potential = self._recipe(data.total)
        entropy = chain_entropy(loss, Chain(len(data.classes)))
        tied = self._ties(entropy)
        few = data.sparse and not self.all_pairs and tied
        self.start_, self.state_ = data.seen_pairs() if few else (None, None)
        plan = Plan(
            entropy,
            self._cost_matrix(loss),
            data.classes,
            self.transitions,
            tied,
            (self.start_, self.state_) if few else None,
            data.total,
        )
        return data.problem(plan, potential)

    def _check_in_blocks(self, loss: Any, potential: Potential) -> None:
        """Refuse what needs all sequences at once, before any is read."""
        if self._slack()[0] != "linear":
            raise ValueError(
                f"slack={self._slack()[0]!r} needs all sequences in memory: in blocks slacks are "
                "linear"
            )
        if isinstance(loss, str) and loss not in LOSSES:
            chain_entropy(loss, Chain(1))  # says which there are
        kinks = loss == "hinge" or (isinstance(loss, Entropy) and not loss.differentiable)
        if kinks and not self._has_planes(potential):
            raise ValueError(
                f"in blocks a hinge is solved by cutting planes, under Quadratic or Box, and the "
                f"potential is {potential!r}: the losses crf, softmax-margin and sparsemap take "
                "any potential; or fit sequences in memory"
            )

    def _has_planes(self, potential: Potential) -> bool:
        """Whether cutting planes solve a hinge under a potential."""
        return isinstance(potential, Quadratic | Box)

    def _learn(self, problem: Problem) -> Solution:
        solution = self._optimise(problem)
        if isinstance(problem.potential, Equality):
            self._look_for_an_optimum(problem.state(solution.w))
        return solution

    def _look_for_an_optimum(self, state: State) -> None:
        """Without a penalty: say that the optimum is at infinity, or bound the distance from it."""
        self.gap_ = min(self.gap_, state.observed_gap)
        reason = endless(state.problem, state.w)
        if reason is None:
            if can_tilt(state):
                self.gap_ = min(self.gap_, equal_gap(state, max(_PRODUCTS, self.n_iter_)))
            return
        warnings.warn(
            f"{reason} and nothing is penalized: the loss falls for ever as the weights grow, and "
            "the model is the one where the solver stopped. Give a penalty (L2CRF, potential=1e-3) "
            "for a model that is defined by the data",
            SeparableWarning,
            stacklevel=4,
        )

    def _refuse_for_series(self, what: str) -> None:
        if self.checkpoint is not None:
            raise ValueError(
                f"checkpoint= holds the steps of one problem, and {what} are a series of them: "
                "take checkpoint=None"
            )
        if self._watch is not None:
            raise ValueError(
                f"callback= watches the steps of one problem, and {what} are a series of them: "
                "leave it out"
            )

    def _optimise(self, problem: Problem, w0: Any = None) -> Solution:
        """Solve the problem, and keep weights and certificate."""
        solution = self._solve(problem, w0, stacklevel=3)
        self.weights_ = solution.w
        self._certify(problem, solution)
        return solution

    def _complete(
        self, labels: Labels, entropy: Entropy, chains: RowMap, potential: Potential, weight: Array
    ) -> None:
        """Complete the labels, learn from them, and again: the objective never rises."""
        warnings.warn(
            "some labels are hidden: the objective is not convex, a local optimum is looked for "
            "and no duality gap bounds it (gap_ is inf)",
            UserWarning,
            stacklevel=3,
        )
        w, best, start = None, np.inf, entropy
        if not unwrap(entropy).entropy.differentiable:
            start = Shannon(domain=Chain(len(labels.classes)))  # all paths tie where w is 0
        for count in range(1, _ROUNDS + 1):
            theta = chains.scores(np.zeros(chains.n_features) if w is None else w)
            _, observed = (start if w is None else entropy).conjugate(_clamp(theta, labels))
            problem = Problem(entropy, chains, potential, observed=observed, weights=weight)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the rounds decide
                solution = self._optimise(problem, w)
            w, before, state = solution.w, best, problem.state(solution.w)
            # the concave part, which the completion stands for: the known labels' own conjugate
            known, _ = entropy.conjugate(_clamp(state.theta, labels))
            self.loss_ = problem.total(state.conjugate - known)
            best, self.n_iter_ = self.loss_ + state.penalty, count
            if before - best <= _STILL * max(1.0, abs(best)):
                break
        self.objective_, self.gap_ = best, np.inf

    def _training_map(self, matrix: Any, labels: Labels, entropy: Entropy) -> RowMap:
        tied = self._ties(entropy)
        few = sparse.issparse(matrix) and not self.all_pairs and not labels.hidden
        self.start_ = self.state_ = None
        if few and tied:
            seen = PairChainMap.seen(matrix, labels.lengths, len(labels.classes), labels.states)
            self.start_, self.state_ = seen.start, seen.state
            return seen
        return self._full_map(matrix, labels.lengths, tied)

    def _ties(self, entropy: Entropy) -> bool:
        """Whether one block of transitions serves all positions: where only sums of them matter."""
        linear = self._slack()[0] == "linear"
        return linear and self.transitions == "constant" and _sums(entropy)

    def _full_map(self, matrix: Any, lengths: Array, tied: bool) -> RowMap:
        return full_map(matrix, lengths, len(self.classes_), self.transitions, tied)

    # -- predicting ----------------------------------------------------------------------------

    @property
    def coef_(self) -> Any:
        """Weights of the attributes, (classes, features); sparse ones without zeros."""
        check_is_fitted(self)
        n_states = len(self.classes_)
        if self.start_ is None:
            unary = self.n_features_in_ * n_states
            return self.weights_[:unary].reshape(-1, n_states).T
        shape = (self.n_features_in_, n_states)
        pairs = self.weights_[: self.state_.size]
        used = sparse.csr_array((pairs, self.state_, self.start_), shape=shape, copy=True)
        used.eliminate_zeros()  # of an l1 penalty
        return used.T

    @property
    def transitions_(self) -> Array:
        """Scores of two labels in a row, (from, to), whatever the input."""
        check_is_fitted(self)
        n_states = len(self.classes_)
        unary = self.n_features_in_ * n_states if self.start_ is None else self.state_.size
        return self.weights_[unary : unary + n_states**2].reshape(n_states, n_states)

    def _chains(self, X: Any) -> tuple[RowMap, Array]:
        """The map of new sequences, and their lengths."""
        check_is_fitted(self)
        matrix, lengths = self._read(X, fit=False)
        if self.start_ is None:
            return self._full_map(matrix, lengths, tied=True), lengths
        pairs = self.start_, self.state_
        return PairChainMap(matrix, lengths, len(self.classes_), *pairs), lengths

    def _scores(self, X: Any) -> tuple[Chain, Rows, Array]:
        chains, lengths = self._chains(X)
        return Chain(len(self.classes_)), chains.scores(self.weights_), lengths

    @of_no_positions(lambda model: model.classes_[:0])
    def predict(self, X: SequencesLike) -> list[Array]:
        """The best labels of each sequence (Viterbi); none of one that is empty."""
        if is_blocked(X):
            return _of_a_bag(self, "predict", X)
        chains, lengths = self._chains(X)
        if isinstance(chains, PairChainMap):
            return split(self.classes_[chains.best_paths(self.weights_)], lengths)
        chain = Chain(len(self.classes_))
        paths = chain.decode(chain.argmax(chains.scores(self.weights_)))
        return [self.classes_[path] for path in paths]

    @of_no_positions(lambda model: np.empty((0, len(model.classes_))))
    def predict_proba(self, X: SequencesLike) -> list[Array]:
        """Marginals (positions, classes) of each sequence.

        They are those of the loss's own entropy, for "sparsemap" with exact zeros; the hinge has
        none, and its scores are read as those of a conditional random field.
        """
        if is_blocked(X):
            return _of_a_bag(self, "predict_proba", X)
        chain, scores, lengths = self._scores(X)
        entropy = chain_entropy(self._recipe(1.0)[0], chain)
        if not unwrap(entropy).entropy.differentiable:
            entropy = Shannon(domain=chain)
        if isinstance(scores, Tied) and not _sums(entropy):
            scores = chain.untie(scores)
        _, p = entropy.conjugate(scores)
        k = len(self.classes_)
        rows = p.own.rows() if isinstance(p, Tied) else p.rows()
        return [row[: n * k].reshape(n, k) for row, n in zip(rows, lengths, strict=True)]

    @of_no_positions(lambda model: [(0.0, model.classes_[:0])])
    def predict_kbest(self, X: SequencesLike, k: int) -> list[list[tuple[float, Array]]]:
        """The k best paths of each sequence with their scores, best first."""
        if is_blocked(X):
            return _of_a_bag(self, "predict_kbest", X, k)
        chain, scores, _ = self._scores(X)
        values, batches = chain.kbest(scores, k)
        paths = [chain.decode(batch) for batch in batches]
        return [
            [
                (float(values[i, j]), self.classes_[paths[j][i]])
                for j in range(k)
                if np.isfinite(values[i, j])
            ]
            for i in range(len(values))
        ]

    def score(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """The share of right labels over all positions; a label unseen in training is wrong."""
        _refuse_blocks("score", X)
        predicted = self.predict(X)
        lengths = np.array([len(path) for path in predicted])
        given = read_labels(type(self).__name__, y, lengths)
        weight = np.repeat(masses("sample_weight", sample_weight, len(lengths)), lengths)
        if not weight.size:
            raise ValueError("all sequences of X are empty: there is no label to score")
        right = [
            [a == b for a, b in zip(path.tolist(), truth.tolist(), strict=True)]
            for path, truth in zip(predicted, given, strict=True)
        ]
        return float(np.average(np.concatenate(right), weights=weight))

    def log_loss(self, X: SequencesLike, y: SequencesLike) -> float:
        """Mean negative log-likelihood of the labels of a sequence, as of a CRF."""
        _refuse_blocks("log_loss", X)
        chain, scores, lengths = self._scores(X)
        paths = look_up(read_labels(type(self).__name__, y, lengths), self.classes_)
        log_partition, _ = chain.softmax(scores)
        vertices = chain.encode(paths, tied=isinstance(scores, Tied))
        return float(np.mean(log_partition - row_dot(scores, vertices)))


@dataclass(eq=False, repr=False)
class MarginSettings:
    """What the margins of a hinge are made of; see ``ChainClassifier``."""

    _: KW_ONLY
    cost: ArrayLike | None = None
    slack: str = "linear"
    slack_rate: float | None = None

    def _cost(self) -> Any:
        return self.cost

    def _slack(self) -> tuple[str, float]:
        return slack_of(self.slack, self.slack_rate)


@io.register
@dataclass(eq=False, repr=False)
class ChainClassifier(MarginSettings, ChainModel):
    """Labels of every position of a sequence, with scores of neighbouring labels.

    A path y through a sequence scores `sum_t <w, x_t (x) y_t> + sum_t T(y_t, y_{t+1})`. Minimises
    mean loss over the sequences + `V*(w)`, the Fenchel-Young loss of an entropy on ``Chain``.

    Parameters
    ----------
    loss : str or Entropy, default "crf"
        "crf" (negative log-likelihood), "hinge" (max-margin Markov network), "softmax-margin"
        (both), "sparsemap"; an Entropy on ``Chain``, or one of the simplex, which then smooths the
        recursion (``SmoothedMax``).
    potential : Potential or float, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights; a number s for ``Quadratic(s)``. C of
        a max-margin network whose slacks are summed over n sequences is the strength `1 / (n C)`.
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
    >>> X = [[["word=the"], ["word=cat"]], [["word=a"], ["word=dog"], ["word=barks"]]]
    >>> y = [["D", "N"], ["D", "N", "V"]]
    >>> tagger = ChainClassifier().fit(X, y)
    >>> tagger.predict([[["word=the"], ["word=dog"]]])
    [array(['D', 'N'], dtype='<U1')]
    """

    loss: Any = "crf"
    potential: PotentialLike = None

    def _recipe(self, total: float) -> tuple[Any, Potential]:
        return self.loss, as_potential(self.potential)


def chain_entropy(loss: Any, chain: Chain) -> Entropy:
    """The entropy on paths of a loss: a name, an entropy on chains or one of the simplex."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss][0](domain=chain)
    if not isinstance(loss, Entropy):
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, LOSSES))} or an Entropy, got {loss!r}"
        )
    if isinstance(loss.domain, Simplex):
        return SmoothedMax(loss, chain)
    if not isinstance(loss.domain, Chain):
        raise ValueError(f"{loss!r} needs domain=Chain({chain.n_states}), or the simplex")
    if loss.domain.n_states != chain.n_states:
        raise ValueError(
            f"{loss!r} has {loss.domain.n_states} states, y has {chain.n_states} labels"
        )
    return loss


def _sums(entropy: Entropy) -> bool:
    """Whether the entropy has formulas at rows with summed transitions."""
    return isinstance(unwrap(entropy).entropy, Shannon | Zero)


def _refuse_blocks(method: str, X: Any) -> None:
    if is_blocked(X):
        raise TypeError(
            f"{method} takes sequences in memory; compare predict of a bag with its labels"
        )


def _clamp(theta: Rows, labels: Labels) -> Rows:
    """Scores that leave the known labels alone."""
    theta, count = theta.copy(), len(labels.classes)
    own = theta.own if isinstance(theta, Tied) else theta
    banned = (np.arange(count) != labels.states[:, None]) & (labels.states != HIDDEN)[:, None]
    for row, mask in zip(own.rows(), split(banned, labels.lengths), strict=True):
        row[: mask.size][mask.ravel()] = -np.inf
    return theta


def _of_a_bag(model: Any, method: str, X: Any, *args: Any) -> Any:
    """Answers for a dask bag of sequences: a bag of ``model.method(sequences, *args)``."""
    check_is_fitted(model)
    if not type(X).__module__.startswith("dask.bag"):
        raise TypeError(
            f"{method} takes sequences, or a dask bag of them, got {type(X).__name__}; of other "
            "blocks, call it with the sequences of one after another"
        )
    from maxent.rows.dask.bags import answers

    return answers(X, model, method, *args)
