"""Learned alignments: which elements of two sequences belong together, from aligned examples."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.checks import masses
from maxent.core.domains import Simplex
from maxent.core.entropies import DistributionEntropy, Entropy, Shannon, Shifted, SquaredNorm, Zero
from maxent.core.maps import RaggedMap
from maxent.core.problem import Problem
from maxent.evaluation import alignment_overlap
from maxent.learn.linear.base import as_potential
from maxent.learn.solving import CERTIFICATE, Posed, StructuredEstimator, mean_weights
from maxent.learn.structured.pair_features import check_kinds, pair_features
from maxent.rows.arrays import Array, Ragged
from maxent.structured import Alignment
from maxent.typing import ArrayLike, PotentialLike, SequencesLike

ENTROPIES = {"shannon": Shannon, "squared-norm": SquaredNorm, "zero": Zero}


@io.register
@dataclass(eq=False, repr=False)
class Aligner(StructuredEstimator):
    """Monotone alignments of pairs of sequences, with a metric learned from aligned pairs.

    Elements i and j of a pair score `<w, phi(x_i, y_j)>`; a path through (i, j) from the first to
    the last of both scores the sum. Minimises  `mean loss + V*(w)`,  the Fenchel-Young loss of an
    entropy on ``Alignment``: with given features and w it is dynamic time warping, and here w is
    learned.

    Parameters
    ----------
    features : str, sequence of str or callable, default ("squared", "slopes", "diagonal", "length")
        phi, some of "squared" and "absolute" (minus the difference of each channel), "slopes"
        (minus the squared difference of each channel's slope), "diagonal" (minus the squared
        distance from the diagonal), "length" (1 for each pair: longer or shorter paths); or a
        function (first, second) -> (n, m, features).
    entropy : "shannon", "squared-norm", "zero" or Entropy, default "shannon"
        "shannon" (conditional random field), "squared-norm" (SparseMAP), "zero" (perceptron, with a
        cost the structured hinge); or an Entropy of the simplex such as ``Tsallis(2.0)``, taken of
        the distribution over alignments (``DistributionEntropy``).
    potential : Potential or float, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights of the features, each divided by
        ``scale_``; a number s for ``Quadratic(s)``.
    cost : float, default 0.0
        Added to the scores of wrong pairs, and taken off those of right ones, in training.
    band : int, default None
        How far a path may leave the diagonal, see ``Alignment``; None for no limit.
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
    coef_ : array (n_weights,)
        Weights of the features, in the order of ``features``, channel by channel.
    scale_ : array (n_weights,)
        Root mean square of each feature over the training pairs.
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
        Number of channels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.arange(6.0), rng.normal(size=6)])  # a signal and a nuisance
    >>> y = np.column_stack([[0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0], rng.normal(size=7)])
    >>> path = [(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    >>> model = Aligner("squared").fit([(x, y)], [path])
    >>> model.score([(x, y)], [path]), bool(model.coef_[0] > abs(model.coef_[1]))
    (1.0, True)
    """

    _fitted_fields = (
        *("n_features_in_", "scale_", "coef_"),
        *CERTIFICATE,
    )

    features: Any = ("squared", "slopes", "diagonal", "length")
    entropy: str | Entropy = "shannon"
    potential: PotentialLike = None
    _: KW_ONLY
    cost: float = 0.0
    band: int | None = None

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> Aligner:
        """Learn from pairs X of sequences (n, channels), (m, channels) and their alignments y.

        A sequence of one channel may be a vector. An alignment is a path, a list of pairs (i, j)
        from (0, 0) to (n-1, m-1), or a matrix (n, m) with ones on such a path.
        """
        return self._fit(X, y, sample_weight)

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        pairs = self._pairs(X)
        domain = self._domain(pairs)
        weight = masses("sample_weight", sample_weight, len(pairs))
        observed = self._observed(pairs, y)
        blocks = [pair_features(self.features, *pair) for pair in pairs]
        if len({block.shape[1] for block in blocks}) > 1:
            raise ValueError("the function of features gives a different number for some pairs")
        weight = mean_weights(weight, "pairs")
        scale = _scale(blocks, weight)
        entropy = self._entropy(domain)
        if self.cost:
            entropy = Shifted(entropy, self.cost * (1 - 2 * observed))
        features = RaggedMap([block / scale for block in blocks])
        self.n_features_in_, self.scale_ = pairs[0][0].shape[1], scale
        potential = as_potential(self.potential)
        return Posed(Problem(entropy, features, potential, observed=observed, weights=weight))

    def _entropy(self, domain: Alignment) -> Entropy:
        if isinstance(self.entropy, Entropy):
            return DistributionEntropy(self.entropy, domain)
        chosen: Entropy = ENTROPIES[self.entropy](domain=domain)
        return chosen

    def _keep(self, w: Array) -> None:
        self.coef_ = w / self.scale_

    def _check_settings(self) -> None:
        super()._check_settings()
        own = isinstance(self.entropy, Entropy) and isinstance(self.entropy.domain, Simplex)
        if not own and not (isinstance(self.entropy, str) and self.entropy in ENTROPIES):
            raise ValueError(
                f"entropy must be one of {', '.join(map(repr, ENTROPIES))} or an Entropy of the "
                f"simplex, got {self.entropy!r}"
            )
        if not (isinstance(self.cost, Real) and 0 <= self.cost < np.inf):
            raise ValueError(f"cost must be a number >= 0, got {self.cost!r}")
        if self.entropy == "zero" and not self.cost:
            raise ValueError(
                'entropy="zero" without a cost is the perceptron loss, which weights of 0 minimise '
                "together with any penalty: give a cost > 0"
            )
        if not callable(self.features):
            check_kinds(self.features)

    def _pairs(self, X: Any, channels: int | None = None) -> list[tuple[Array, Array]]:
        """Pairs of finite matrices (elements, channels)."""
        pairs = []
        for i, pair in enumerate(X):
            if len(pair) != 2:
                raise ValueError(
                    f"X is a list of pairs of sequences, and entry {i} has {len(pair)} parts"
                )
            first, second = (_sequence(i, sequence) for sequence in pair)
            channels = first.shape[1] if channels is None else channels
            for sequence in (first, second):
                if sequence.shape[1] != channels:
                    raise ValueError(
                        f"pair {i} has a sequence of {sequence.shape[1]} channels, expected "
                        f"{channels}: all sequences have the same channels"
                    )
            pairs.append((first, second))
        if not pairs:
            raise ValueError("X has no pairs of sequences: give at least one")
        return pairs

    def _domain(self, pairs: list[tuple[Array, Array]]) -> Alignment:
        first, second = zip(*pairs, strict=True)
        return Alignment(tuple(map(len, first)), tuple(map(len, second)), self.band)

    def _observed(self, pairs: list[tuple[Array, Array]], y: Any) -> Ragged:
        """The alignments as vertices."""
        self._check_outputs(y, pairs, names=("pairs of sequences", "alignments"))
        rows = []
        for i, (pair, given) in enumerate(zip(pairs, y, strict=True)):
            n, m = map(len, pair)
            matrix = _matrix(i, given, n, m)
            if not Alignment(n, m).contains(matrix.ravel()):
                raise ValueError(
                    f"alignment {i} must go from (0, 0) to {(n - 1, m - 1)} by steps (1, 0), "
                    "(0, 1) or (1, 1)"
                )
            if not Alignment(n, m, self.band).contains(matrix.ravel()):
                raise ValueError(
                    f"alignment {i} leaves the band of {self.band}: give a wider band, or None"
                )
            rows.append(matrix.ravel())
        return Ragged.from_rows(rows)

    # -- predicting ----------------------------------------------------------------------------

    def decision_function(self, X: SequencesLike) -> list[Array]:
        """Scores (n, m) of the elements of each pair."""
        check_is_fitted(self)
        return [
            (pair_features(self.features, *pair) @ self.coef_).reshape(len(pair[0]), len(pair[1]))
            for pair in self._pairs(X, self.n_features_in_)
        ]

    def predict(self, X: SequencesLike) -> list[Array]:
        """The path of each pair, (length, 2): the pairs (i, j) of aligned elements.

        It is the path with the smallest expected number of pairs that differ under the prediction
        p, argmax <2 p - 1, .>; where p is itself a path (entropy "zero"), that one. The path of
        highest score is no good summary of a distribution over so many.
        """
        domain, theta = self._rows(X)
        return domain.path(domain.argmax(2 * self._prediction(domain, theta) - 1))

    def predict_marginals(self, X: SequencesLike) -> list[Array]:
        """The prediction p of the entropy, (n, m): how much i and j are aligned, from 0 to 1."""
        domain, theta = self._rows(X)
        rows = self._prediction(domain, theta).rows()
        return [row.reshape(domain.shape(i)) for i, row in enumerate(rows)]

    def _prediction(self, domain: Alignment, theta: Ragged) -> Ragged:
        return self._entropy(domain).conjugate(theta)[1]

    def _rows(self, X: Any) -> tuple[Alignment, Ragged]:
        tables = self.decision_function(X)
        first, second = zip(*(table.shape for table in tables), strict=True)
        theta = Ragged.from_rows([table.ravel() for table in tables])
        return Alignment(tuple(first), tuple(second), self.band), theta

    def score(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """The mean overlap of predicted and true alignments, see ``alignment_overlap``."""
        check_is_fitted(self)
        pairs = self._pairs(X, self.n_features_in_)
        true = self._domain(pairs).path(self._observed(pairs, y))
        found = self.predict(X)
        weight = masses("sample_weight", sample_weight, len(pairs))
        overlaps = [alignment_overlap(a, b) for a, b in zip(true, found, strict=True)]
        return float(np.average(overlaps, weights=weight))


def _sequence(pair: int, given: Any) -> Array:
    sequence = np.asarray(given)
    if sequence.ndim == 1:
        sequence = sequence[:, None]
    if sequence.ndim != 2 or 0 in sequence.shape or sequence.dtype.kind not in "biuf":
        raise ValueError(
            f"pair {pair} needs sequences of numbers, (elements, channels) or a vector, got shape "
            f"{np.shape(given)} and dtype {sequence.dtype}"
        )
    if not np.isfinite(sequence).all():
        raise ValueError(f"pair {pair} contains NaN or infinity; impute or drop those elements")
    return sequence.astype(np.float64)


def _matrix(row: int, given: Any, n: int, m: int) -> Array:
    """An alignment as a matrix: every path begins at (0, 0), every matrix has a one there."""
    alignment = np.asarray(given)
    if alignment.shape == (n, m) and alignment[0, 0] != 0:
        return alignment.astype(np.float64)
    whole = alignment.ndim == 2 and alignment.shape[1] == 2 and alignment.dtype.kind in "iu"
    if not whole or alignment.min() < 0 or (alignment >= [n, m]).any():
        raise ValueError(
            f"alignment {row} must be a path, pairs (i, j) with i < {n} and j < {m}, or a matrix "
            f"of shape {(n, m)} that marks one, got shape {alignment.shape}"
        )
    matrix = np.zeros((n, m))
    matrix[tuple(alignment.T)] = 1
    return matrix


def _scale(blocks: list[Array], weight: Array) -> Array:
    """Root mean square of each feature over the cells of all pairs; 1 where it is always 0."""
    squares = [w * np.mean(block**2, axis=0) for w, block in zip(weight, blocks, strict=True)]
    scale = np.sqrt(np.sum(squares, axis=0))
    return np.where(scale > 0, scale, 1.0)
