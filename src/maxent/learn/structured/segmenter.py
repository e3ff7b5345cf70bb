"""Labelled segments of sequences: semi-Markov conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.checks import masses
from maxent.core.entropies import Shannon
from maxent.core.problem import Problem
from maxent.learn.linear.base import as_potential
from maxent.learn.solving import CERTIFICATE, Posed, StructuredEstimator, mean_weights
from maxent.learn.structured.reading import ReadsSequences, in_use, of_no_positions
from maxent.learn.structured.sequences import check_classes, read_labels, sorted_classes
from maxent.rows.arrays import Array, Tied
from maxent.structured import SegmentMap, SemiMarkov
from maxent.structured.segments.feature_map import PART_NAMES
from maxent.tagging.conll import are_phrase_tags, phrases
from maxent.typing import ArrayLike, PotentialLike, SequencesLike

_OUTSIDE = "O"
Named = tuple[int, int, Any]


@io.register
@dataclass(eq=False, repr=False)
class SegmentClassifier(ReadsSequences, StructuredEstimator):
    """Segments of sequences and their labels: a semi-Markov conditional random field.

    Minimises  `mean loss + V*(w)`  with the Fenchel-Young loss of ``Shannon(domain=SemiMarkov)``.
    The segment of label c from position s up to, not including, e after one with label a scores
    `sum_t <w_c, x_t> + <u_c, x_s> + D[e - s, c] + T[a, c]`: features of all its positions, of its
    first one, its length and the label before it. A chain model sees neither lengths nor that a
    phrase is one thing.

    Labels are one per position. Phrase tags (B-NP, I-NP, O; see ``maxent.tagging.phrases``) name
    segments, with O a segment of one position; of other labels each run of equal ones is a segment.
    Phrase tags of any scheme are read, IOB1 and IOBES too, and those of ``predict`` are B-, I- and
    O.

    Parameters
    ----------
    longest : int, default None
        Length of the longest segment; None is that of training.
    parts : sequence of str, default ("inside", "first")
        Which positions of a segment have their features weighed: all ("inside"), "first", "last".
    potential : Potential or float, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights; a number s for ``Quadratic(s)``,
        `s/2 ||w||^2`.
    all_pairs : bool, default False
        Whether attributes have a weight for every label. By default those of sparse data have
        weights for the labels they occur with in training; dense ones for all.
    least : int, default 1
        Attributes that occur less often in training are left out.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-6
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    classes_ : array (n_labels,)
        The labels of segments, sorted.
    longest_ : int
        Length of the longest segment.
    phrases_ : bool
        Whether labels of positions are phrase tags.
    durations_ : array (longest, n_labels)
        Weights of the lengths 1, 2, ...
    transitions_ : array (n_labels, n_labels)
        Weights of two labels in a row.
    weights_ : array
        All weights w in one vector, see ``SegmentMap``.
    kept_ : array
        Places in the table of attributes that have a weight; None for all.
    attributes_ : Attributes
        Names of the attributes, where X has names.
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
    >>> X = [[["word=the"], ["word=cat"], ["word=sat"]], [["word=a"], ["word=dog"]]]
    >>> y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"]]
    >>> model = SegmentClassifier().fit(X, y)
    >>> model.predict([[["word=sat"], ["word=the"], ["word=dog"]]])
    [array(['O', 'B-NP', 'I-NP'], dtype='<U4')]
    >>> model.predict_segments([[["word=sat"], ["word=the"], ["word=dog"]]])
    [[(0, 1, 'O'), (1, 3, 'NP')]]
    """

    _fitted_fields = (
        *("attributes_", "n_features_in_", "phrases_", "classes_", "longest_"),
        *("kept_", "weights_"),
        *CERTIFICATE,
    )

    longest: int | None = None
    parts: tuple[str, ...] = ("inside", "first")
    potential: PotentialLike = None
    all_pairs: bool = False
    least: int = 1

    def fit(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> SegmentClassifier:
        """Learn from sequences X and their labels y, one per position.

        A sequence is a matrix (positions, features), dense or sparse, or a list of tokens that are
        lists of names or mappings of names to values, see ``Attributes``.
        """
        return self._fit(X, y, sample_weight)

    def _check_settings(self) -> None:
        super()._check_settings()
        for name in ("longest", "least"):
            value = getattr(self, name)
            if value is None and name == "longest":
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        parts = tuple(self.parts)
        if not parts or not set(parts) <= set(PART_NAMES) or len(set(parts)) < len(parts):
            raise ValueError(
                f"parts are some of {', '.join(map(repr, PART_NAMES))}, each once, got "
                f"{self.parts!r}"
            )

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        X, y, weight, *_ = in_use(X, y, sample_weight)
        matrix, lengths = self._read(X, fit=True)
        labels = read_labels(type(self).__name__, y, lengths)
        if any(value is None for row in labels for value in row.tolist()):
            raise ValueError("a label is None: SegmentClassifier needs the label of every position")
        self.phrases_ = _are_phrases(labels)
        named = [segments_of(row, self.phrases_) for row in labels]
        if self.phrases_ and any(tag[1:] == "-O" for row in labels for tag in row.tolist()):
            raise ValueError("a phrase has the type O, which is the label of what is no phrase")
        kinds = np.array([label for segments in named for _, _, label in segments])
        self.classes_, numbers = sorted_classes(kinds)
        check_classes(self.classes_)
        longest = max(end - start for segments in named for start, end, _ in segments)
        self.longest_ = longest if self.longest is None else int(self.longest)
        if longest > self.longest_:
            raise ValueError(
                f"y has a segment of {longest} positions, and longest is {self.longest_}: raise it"
            )
        own = iter(numbers.tolist())
        cut = [[(start, end, next(own)) for start, end, _ in segments] for segments in named]
        weight = mean_weights(weight, "sequences")
        domain = SemiMarkov(len(self.classes_), self.longest_)
        observed = domain.encode(cut, tied=True)
        self.kept_ = None
        if sparse.issparse(matrix) and not self.all_pairs:
            self.kept_ = self._seen(matrix, lengths, observed)
        potential = as_potential(self.potential)
        features = self._map(matrix, lengths)
        return Posed(
            Problem(Shannon(domain=domain), features, potential, observed=observed, weights=weight)
        )

    def _seen(self, matrix: Any, lengths: Array, observed: Tied) -> Array:
        """Places in the table of weights whose attribute occurs with the label in training."""
        whole = SegmentMap.of_positions(
            matrix, lengths, len(self.classes_), self.longest_, tuple(self.parts)
        )
        places = whole.n_features - whole.n_labels * (whole.longest + whole.n_labels)
        return np.flatnonzero(whole.moments(observed)[:places])

    def _map(self, matrix: Any, lengths: Array) -> SegmentMap:
        count, parts = len(self.classes_), tuple(self.parts)
        return SegmentMap.of_positions(matrix, lengths, count, self.longest_, parts, self.kept_)

    def _keep(self, w: Array) -> None:
        self.weights_ = w

    @property
    def _tables(self) -> Array:
        check_is_fitted(self)
        count = len(self.classes_)
        return self.weights_[self.weights_.size - count * (self.longest_ + count) :]

    @property
    def durations_(self) -> Array:
        """Weights of the lengths."""
        count = len(self.classes_)
        return self._tables[: self.longest_ * count].reshape(-1, count)

    @property
    def transitions_(self) -> Array:
        """Weights of two labels in a row."""
        count = len(self.classes_)
        return self._tables[self.longest_ * count :].reshape(count, count)

    def decision_function(self, X: SequencesLike) -> Tied:
        """The scores of each sequence, tied rows for ``SemiMarkov``."""
        check_is_fitted(self)
        matrix, lengths = self._read(X, fit=False)
        return self._map(matrix, lengths).scores(self.weights_)

    def _domain(self) -> SemiMarkov:
        return SemiMarkov(len(self.classes_), self.longest_)

    @of_no_positions(lambda model: [])
    def predict_segments(self, X: SequencesLike) -> list[list[Named]]:
        """The best segments (first, end, label) of each sequence."""
        theta, domain = self.decision_function(X), self._domain()
        return [
            [(start, end, self.classes_[label].item()) for start, end, label in segments]
            for segments in domain.decode(domain.argmax(theta))
        ]

    def predict(self, X: SequencesLike) -> list[Array]:
        """The labels of the positions of each sequence, by its best segments."""
        return [
            labels_of(segments, self.phrases_) if segments else self.classes_[:0]
            for segments in self.predict_segments(X)
        ]

    @of_no_positions(lambda model: np.empty((0, len(model.classes_))))
    def predict_proba(self, X: SequencesLike) -> list[Array]:
        """Probabilities (positions, classes) that a position is in a segment of each label."""
        theta, domain = self.decision_function(X), self._domain()
        return domain.label_marginals(domain.softmax(theta)[1])

    def score(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """The share of positions whose label is right; sequences count by their weights.

        Phrase tags of another scheme count as what they are in B-, I- and O.
        """
        found = self.predict(X)
        true = read_labels(type(self).__name__, y, np.array([len(x) for x in found]))
        if self.phrases_ and _are_phrases(true):
            true = [labels_of(segments_of(row, True), True) for row in true]
        weight = masses("sample_weight", sample_weight, len(found))
        right = [np.sum(a == b) for a, b in zip(found, true, strict=True)]
        total = weight @ [len(x) for x in found]
        if not total:
            raise ValueError("all sequences of X are empty: there is no label to score")
        return float(weight @ right / total)


def _are_phrases(labels: list[Array]) -> bool:
    different = {label for row in labels for label in row.tolist()}
    return all(isinstance(label, str) for label in different) and are_phrase_tags(different)


def segments_of(labels: Array, tags: bool) -> list[Named]:
    """The segments (first, end, label) of the labels of a sequence.

    >>> segments_of(np.array(["O", "B-NP", "I-NP"]), tags=True)
    [(0, 1, 'O'), (1, 3, 'NP')]
    >>> segments_of(np.array([2, 2, 1]), tags=False)
    [(0, 2, 2), (2, 3, 1)]
    """
    if not tags:
        cuts = [0, *(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
        return [(a, b, labels.tolist()[a]) for a, b in pairwise(cuts)]
    found: list[Named] = []
    for start, end, kind in phrases(labels.tolist()):
        found += [(t, t + 1, _OUTSIDE) for t in range(found[-1][1] if found else 0, start)]
        found.append((start, end, kind))
    return found + [(t, t + 1, _OUTSIDE) for t in range(found[-1][1] if found else 0, len(labels))]


def labels_of(segments: list[Named], tags: bool) -> Array:
    """The labels of the positions of a sequence.

    >>> labels_of([(0, 1, "O"), (1, 3, "NP")], tags=True)
    array(['O', 'B-NP', 'I-NP'], dtype='<U4')
    """
    out: list[Any] = []
    for start, end, label in segments:
        if not tags or label == _OUTSIDE:
            out += [label] * (end - start)
        else:
            out += [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return np.array(out)
