"""Labels of sequences: conditional random fields and max-margin Markov networks on chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._checks import masses
from maxent._rows import Array, Rows, Tied, row_dot
from maxent.entropies import Entropy, Shannon, Shifted, SquaredNorm, Zero
from maxent.estimators._linear import as_potential
from maxent.estimators._saving import SavesFields
from maxent.maps import ChainMap, RowMap
from maxent.problem import Problem
from maxent.solvers import choose
from maxent.structured import Chain
from maxent.tagging import Attributes, PairChainMap, Tokens

# loss -> entropy on paths, and whether wrong labels cost 1 each
LOSSES: dict[str, tuple[type[Entropy], bool]] = {
    "crf": (Shannon, False),
    "softmax-margin": (Shannon, True),
    "hinge": (Zero, True),
    "sparsemap": (SquaredNorm, False),
}


@io.register
class ChainClassifier(SavesFields, BaseEstimator):
    """Labels of every position of a sequence, with scores of neighbouring labels.

    A path y through a sequence scores sum_t <w, x_t (x) y_t> + sum_t T(y_t, y_t+1). Minimises  mean
    loss over the sequences + V*(w),  the Fenchel-Young loss of an entropy on ``Chain``.

    Parameters
    ----------
    loss : "crf" (negative log-likelihood), "hinge" (max-margin Markov network, Hamming cost),
        "softmax-margin" (both), "sparsemap", or an Entropy on ``Chain``.
    potential : V, whose conjugate V* is the penalty on the weights; a number s for
        ``Quadratic(s)``. ``Quadratic(1e-3)`` by default. C of a max-margin network whose slacks are
        summed over n sequences is the strength 1 / (n C).
    all_pairs : whether attributes have a weight for every label. By default those of sparse data
        have weights for the labels they occur with in training; dense ones for all.
    least : attributes that occur less often in training are left out.
    solver, tol, max_iter : see ``Problem.solve``; solvers stop at a duality gap of tol.
    verbose : 1 shows a progress line.

    Attributes
    ----------
    classes_ : the labels. transitions_ : T, (classes, classes). coef_ : weights of the attributes,
    (classes, features). attributes_ : the names, where X had names.
    loss_, objective_ : mean loss, and with the penalty; gap_ : ``objective_`` is at most that far
    above the smallest there is; optimality_; n_iter_; n_features_in_.

    >>> X = [[["word=the"], ["word=cat"]], [["word=a"], ["word=dog"], ["word=barks"]]]
    >>> y = [["D", "N"], ["D", "N", "V"]]
    >>> tagger = ChainClassifier().fit(X, y)
    >>> tagger.predict([[["word=the"], ["word=dog"]]])
    [array(['D', 'N'], dtype='<U1')]
    """

    _fitted_fields = (
        *("attributes_", "n_features_in_", "classes_", "start_", "state_", "weights_"),
        *("loss_", "objective_", "gap_", "optimality_", "n_iter_"),
    )

    def __init__(
        self,
        loss: Any = "crf",
        potential: Any = None,
        *,
        all_pairs: bool = False,
        least: int = 1,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.potential = potential
        self.all_pairs = all_pairs
        self.least = least
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of sequences
        tags.target_tags.required = True
        return tags

    # -- fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ChainClassifier:
        """Learn from sequences X and their labels y, one per position.

        A sequence is a matrix (positions, features), dense or sparse, or a list of tokens that are
        lists of names or mappings of names to values, see ``Attributes``; or X is the ``Tokens``
        that an ``Attributes`` has read.
        """
        self._check()
        matrix, lengths = self._read(X, fit=True)
        labels = _labels(y, lengths)
        self.classes_, states = np.unique(np.concatenate(labels), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all labels are {self.classes_[0]!r}: at least two different ones are needed"
            )
        weight = masses("sample_weight", sample_weight, len(lengths))
        if not weight.any():
            raise ValueError("all sample weights are zero: give some sequences a positive weight")
        chains = self._map(matrix, lengths, states)
        paths = np.split(states, np.cumsum(lengths)[:-1])
        problem = self._problem(chains, paths, weight / weight.sum())
        settings = {} if self.max_iter is None else {"max_iter": int(self.max_iter)}
        solver = choose(self.solver, problem, tol=self.tol, verbose=self.verbose, **settings)
        solution = solver.run(problem)
        solver.warn_unless_converged(solution, stacklevel=2)
        state = problem.state(solution.w)
        self.weights_ = solution.w
        self.loss_ = state.smooth + problem.total(problem.entropy.value_inside(problem.observed))
        self.objective_ = self.loss_ + state.penalty
        self.gap_, self.optimality_ = solution.gap, solution.optimality
        self.n_iter_ = solution.n_iter
        return self

    def _check(self) -> None:
        named = isinstance(self.loss, str) and self.loss in LOSSES
        if not (named or isinstance(self.loss, Entropy)):
            raise ValueError(
                f"loss must be one of {', '.join(map(repr, LOSSES))} or an Entropy on a Chain, "
                f"got {self.loss!r}"
            )
        if isinstance(self.loss, Entropy) and not isinstance(self.loss.domain, Chain):
            raise ValueError(f"{self.loss!r} needs domain=Chain(n_labels)")
        if not isinstance(self.least, Integral) or self.least < 1:
            raise ValueError(f"least must be an integer >= 1, got {self.least!r}")
        if not (isinstance(self.tol, Real) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}")
        if self.max_iter is not None and not (
            isinstance(self.max_iter, Integral) and int(self.max_iter) >= 1
        ):
            raise ValueError(f"max_iter must be an integer >= 1 or None, got {self.max_iter!r}")

    def _read(self, X: Any, fit: bool) -> tuple[Any, Array]:
        """The positions of all sequences, one below the other, and the lengths."""
        if isinstance(X, Tokens):
            if fit:
                self.attributes_: Attributes | None = X.attributes
                self.n_features_in_ = X.X.shape[1]
            return self._checked(X.X), X.lengths
        sequences = list(X)
        if not sequences:
            raise ValueError("X has no sequences: give at least one")
        named = not (sparse.issparse(sequences[0]) or _is_matrix(sequences[0]))
        if fit:
            self.attributes_ = Attributes() if named else None
        elif named != (self.attributes_ is not None):
            kinds = ("matrices", "lists of tokens")
            raise ValueError(f"X holds {kinds[named]}, the model was fitted to {kinds[not named]}")
        if named:
            assert self.attributes_ is not None
            read = (
                self.attributes_.fit(sequences, int(self.least))
                if fit
                else self.attributes_.transform(sequences)
            )
            matrix, lengths = read.X, read.lengths
            if fit and not len(self.attributes_):
                raise ValueError(f"no attribute occurs {self.least} times: lower least")
        else:
            whole = ChainMap(sequences, 1)
            matrix, lengths = whole.X, whole.lengths
        if fit:
            self.n_features_in_ = matrix.shape[1]
        return self._checked(matrix), lengths

    def _checked(self, matrix: Any) -> Any:
        if matrix.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {matrix.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return matrix

    def _map(self, matrix: Any, lengths: Array, states: Array | None) -> RowMap:
        """The map of training (with the labels), or that of the fitted weights."""
        n_states = len(self.classes_)
        if states is not None:
            few = sparse.issparse(matrix) and not self.all_pairs and self.loss != "sparsemap"
            seen = PairChainMap.seen(matrix, lengths, n_states, states) if few else None
            self.start_ = None if seen is None else seen.start
            self.state_ = None if seen is None else seen.state
            if seen is not None:
                return seen
        elif self.start_ is not None:
            return PairChainMap(matrix, lengths, n_states, self.start_, self.state_)
        tied = self.loss != "sparsemap"
        return ChainMap(_split(matrix, lengths), n_states, tied=tied)

    def _problem(self, chains: RowMap, paths: list[Array], weight: Array) -> Problem:
        chain = Chain(len(self.classes_))
        tied = self.loss != "sparsemap"
        observed = chain.encode(paths, tied=tied)
        if isinstance(self.loss, Entropy):
            entropy: Entropy = self.loss
            if entropy.domain.n_states != chain.n_states:  # type: ignore[attr-defined]
                raise ValueError(
                    f"{self.loss!r} has {entropy.domain.n_states} states, y has "  # type: ignore[attr-defined]
                    f"{chain.n_states} labels"
                )
        else:
            kind, costly = LOSSES[self.loss]
            entropy = kind(domain=chain)
            if costly:
                entropy = Shifted(entropy, _hamming(observed))
        return Problem(
            entropy, chains, as_potential(self.potential), observed=observed, weights=weight
        )

    # -- predicting ----------------------------------------------------------------------------

    @property
    def coef_(self) -> Any:
        """Weights of the attributes, (classes, features); sparse where pairs have none."""
        check_is_fitted(self)
        n_states = len(self.classes_)
        if self.start_ is None:
            return self.weights_[: -(n_states**2)].reshape(-1, n_states).T
        shape = (self.n_features_in_, n_states)
        pairs = self.weights_[: self.state_.size]
        return sparse.csr_array((pairs, self.state_, self.start_), shape=shape).T

    @property
    def transitions_(self) -> Array:
        """Scores of two labels in a row, (from, to)."""
        check_is_fitted(self)
        n_states = len(self.classes_)
        return self.weights_[-(n_states**2) :].reshape(n_states, n_states)

    def _scores(self, X: Any) -> tuple[Chain, Rows, Array]:
        check_is_fitted(self)
        matrix, lengths = self._read(X, fit=False)
        chains = self._map(matrix, lengths, None)
        return Chain(len(self.classes_)), chains.scores(self.weights_), lengths

    def predict(self, X: Any) -> list[Array]:
        """The best labels of each sequence (Viterbi)."""
        check_is_fitted(self)
        matrix, lengths = self._read(X, fit=False)
        chains = self._map(matrix, lengths, None)
        if isinstance(chains, PairChainMap):
            labels = self.classes_[chains.best_paths(self.weights_)]
            ends = [0, *np.cumsum(lengths).tolist()]
            return [labels[a:b] for a, b in pairwise(ends)]
        chain = Chain(len(self.classes_))
        scores = chains.scores(self.weights_)
        return [self.classes_[path] for path in chain.decode(chain.argmax(scores))]

    def predict_proba(self, X: Any) -> list[Array]:
        """Marginals (positions, classes) of the conditional random field with these scores."""
        chain, scores, lengths = self._scores(X)
        _, p = chain.softmax(scores)
        k = len(self.classes_)
        rows = p.own.rows() if isinstance(p, Tied) else p.rows()
        return [row[: n * k].reshape(n, k) for row, n in zip(rows, lengths, strict=True)]

    def predict_kbest(self, X: Any, k: int) -> list[list[tuple[float, Array]]]:
        """The k best paths of each sequence with their scores, best first."""
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

    def score(self, X: Any, y: Any) -> float:
        """The share of right labels over all positions."""
        predicted = self.predict(X)
        given = _labels(y, np.array([len(path) for path in predicted]))
        return float(np.mean(np.concatenate(predicted) == np.concatenate(given)))

    def log_loss(self, X: Any, y: Any) -> float:
        """Mean negative log-likelihood of the labels of a sequence, as of a CRF."""
        chain, scores, lengths = self._scores(X)
        given = _labels(y, lengths)
        order = {label: i for i, label in enumerate(self.classes_.tolist())}
        unknown = sorted({str(v) for path in given for v in path.tolist() if v not in order})
        if unknown:
            raise ValueError(f"y has labels that training did not have: {', '.join(unknown[:5])}")
        paths = [np.array([order[v] for v in path.tolist()]) for path in given]
        log_partition, _ = chain.softmax(scores)
        vertices = chain.encode(paths, tied=isinstance(scores, Tied))
        return float(np.mean(log_partition - row_dot(scores, vertices)))


def _is_matrix(sequence: Any) -> bool:
    """Whether a sequence is an array, or nested numbers, rather than a list of tokens."""
    if isinstance(sequence, np.ndarray):
        return True
    first = next(iter(sequence), None) if isinstance(sequence, Sequence) else None
    return isinstance(first, np.ndarray | list | tuple) and all(
        isinstance(value, Real) for value in first
    )


def _split(matrix: Any, lengths: Array) -> list[Any]:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return [matrix[a:b] for a, b in pairwise(ends)]


def _labels(y: Any, lengths: Array) -> list[Array]:
    """The labels of each sequence, as many as it has positions."""
    if y is None:
        raise ValueError(
            "ChainClassifier requires y to be passed, but the target y is None: give the labels "
            "of each sequence"
        )
    labels = [np.asarray(sequence) for sequence in y]
    if len(labels) != len(lengths):
        raise ValueError(
            f"{len(lengths)} sequences need as many sequences of labels: {len(labels)}"
        )
    for i, (row, length) in enumerate(zip(labels, lengths, strict=True)):
        if row.shape != (length,):
            raise ValueError(
                f"sequence {i} has {length} positions, but labels of shape {row.shape}"
            )
        if row.dtype.kind not in "biuUO":
            raise ValueError(f"labels of sequence {i} are {row.dtype}: expected texts or integers")
    return labels


def _hamming(observed: Rows) -> Rows:
    """1 for each position with another label."""
    if isinstance(observed, Tied):
        return Tied(1 - observed.own, np.zeros((1, observed.tied.shape[1])))
    raise TypeError("a cost of labels needs tied transitions")
