"""Learned matchings between two sets of feature vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent._support.checks import masses
from maxent.core.entropies import Entropy, MeanEntropy, SquaredNorm
from maxent.core.maps import RaggedMap
from maxent.core.problem import Problem
from maxent.learn.linear.base import as_potential
from maxent.learn.solving import CERTIFICATE, Posed, StructuredEstimator, mean_weights
from maxent.rows.arrays import Array, Ragged
from maxent.structured import Birkhoff
from maxent.typing import ArrayLike, EntropyLike, PotentialLike, SequencesLike

NAMES = ("pairs of sets", "matchings")
_ENTROPIES = {"l2": SquaredNorm, "kl": MeanEntropy}


def _squared_difference(A: Array, B: Array) -> Array:
    return -np.square(A[:, None] - B)


def _product(A: Array, B: Array) -> Array:
    return A[:, None] * B


_PAIR_FEATURES: dict[str, Callable[[Array, Array], Array]] = {
    "squared_difference": _squared_difference,
    "product": _product,
}


@io.register
@dataclass(eq=False, repr=False)
class Matcher(StructuredEstimator):
    """Matchings of two sets of n vectors each, from scores that are linear in features of pairs.

    Minimises  `mean loss + V*(w)`  with the Fenchel-Young loss of an entropy on ``Birkhoff()``: i
    and j score `theta_ij = <w, f(a_i, b_j)>`, and the prediction is the best assignment.

    Parameters
    ----------
    entropy : str or Entropy, default "l2"
        "l2", half the squared norm of the doubly stochastic matrix (a loss with a margin and sparse
        soft matchings), "kl", its entropy ``MeanEntropy`` (Sinkhorn), or an Entropy on
        ``Birkhoff()``.
    pair_features : str or callable, default "squared_difference"
        What w weighs: "squared_difference", `-(a_i - b_j)^2` of each feature; "product", `a_i b_j`
        of each; a function (A, B) -> (n, n, features); or "precomputed", where X holds such arrays
        instead of pairs of sets.
    potential : Potential or float, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights; a number s for ``Quadratic(s)``,
        `s/2 ||w||^2`.
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
    coef_ : array (n_features,)
        Weights.
    entropy_ : Entropy
        The entropy in use.
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
        Number of features of a pair.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(20, 5, 3))
    >>> y = np.array([rng.permutation(5) for _ in A])
    >>> B = np.array([a[np.argsort(order)] for a, order in zip(A, y)])  # b_y(i) = a_i, and noise
    >>> B[:, :, 0] = rng.normal(size=(20, 5))  # in the first feature
    >>> model = Matcher().fit(list(zip(A, B)), y)
    >>> model.score(list(zip(A, B)), y), bool(model.gap_ < 1e-5)
    (1.0, True)
    """

    _fitted_fields = (
        *("entropy_", "n_features_in_", "coef_"),
        *CERTIFICATE,
    )

    entropy: EntropyLike = "l2"
    pair_features: Any = "squared_difference"
    potential: PotentialLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def fit(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> Matcher:
        """Fit the weights to pairs of sets X and their matchings y, the partner in B of each of A.

        X is a sequence of pairs (A, B) of arrays (n, features), where n may differ from pair to
        pair; y a sequence of permutations of 0 .. n - 1.
        """
        return self._fit(X, y, sample_weight)

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        entropy = self._entropy()
        blocks = self._blocks(X)
        observed = self._observed(blocks, y)
        weight = masses("sample_weight", sample_weight, len(blocks))
        weight = mean_weights(weight, NAMES[0])
        features = RaggedMap([block.reshape(-1, block.shape[-1]) for block in blocks])
        potential = as_potential(self.potential)
        self.entropy_, self.n_features_in_ = entropy, features.n_features
        return Posed(Problem(entropy, features, potential, observed=observed, weights=weight))

    def _keep(self, w: Array) -> None:
        self.coef_ = w

    def decision_function(self, X: SequencesLike) -> list[Array]:
        """The scores (n, n) of each pair of sets."""
        check_is_fitted(self)
        blocks = self._blocks(X)
        if blocks[0].shape[-1] != self.n_features_in_:
            raise ValueError(
                f"X has {blocks[0].shape[-1]} features of pairs, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input"
            )
        return [block @ self.coef_ for block in blocks]

    def predict_proba(self, X: SequencesLike) -> list[Array]:
        """The soft matching (n, n) of each pair of sets, doubly stochastic."""
        scores = self.decision_function(X)
        rows = Ragged.from_rows([theta.ravel() for theta in scores])
        soft = self.entropy_.conjugate(rows)[1].rows()
        return [p.reshape(theta.shape) for p, theta in zip(soft, scores, strict=True)]

    def predict(self, X: SequencesLike) -> list[Array]:
        """The best matching of each pair of sets: the partner in B of each of A."""
        rows = Ragged.from_rows([theta.ravel() for theta in self.decision_function(X)])
        return Birkhoff().decode(rows)

    def score(
        self, X: SequencesLike, y: SequencesLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """The share of partners that are right, on average over the pairs of sets."""
        found = self.predict(X)
        true = Birkhoff().decode(self._observed(found, y))
        right = [np.mean(p == q) for p, q in zip(found, true, strict=True)]
        return float(np.average(right, weights=masses("sample_weight", sample_weight, len(right))))

    def _entropy(self) -> Entropy:
        if isinstance(self.entropy, str) and self.entropy in _ENTROPIES:
            return _ENTROPIES[self.entropy](domain=Birkhoff())
        if isinstance(self.entropy, Entropy) and isinstance(self.entropy.domain, Birkhoff):
            return self.entropy
        raise ValueError(
            'entropy must be "l2", "kl" or an Entropy on Birkhoff() such as '
            f"SquaredNorm(domain=Birkhoff()), got {self.entropy!r}"
        )

    def _blocks(self, X: Any) -> list[Array]:
        """Features (n, n, features) of the pairs of each two sets."""
        try:
            count = len(X)
        except TypeError:
            count = 0
        if not count:
            raise ValueError("X must be a sequence of pairs (A, B) of sets of vectors, one or more")
        blocks = [self._block(x, i) for i, x in enumerate(X)]
        widths = {block.shape[-1] for block in blocks}
        if len(widths) > 1:
            raise ValueError(f"pairs of sets have different numbers of features: {sorted(widths)}")
        return blocks

    def _block(self, x: Any, i: int) -> Array:
        if isinstance(self.pair_features, str) and self.pair_features == "precomputed":
            block = np.asarray(x, dtype=np.float64)
        else:
            chosen = self.pair_features
            features = _PAIR_FEATURES.get(chosen) if isinstance(chosen, str) else chosen
            if not callable(features):
                raise ValueError(
                    'pair_features must be "squared_difference", "product", "precomputed" or a '
                    f"function, got {chosen!r}"
                )
            if len(x) != 2:
                raise ValueError(f"entry {i} of X must be a pair (A, B) of sets, got {len(x)}")
            A, B = (np.asarray(part, dtype=np.float64) for part in x)
            if A.ndim != 2 or B.ndim != 2 or len(A) != len(B):
                raise ValueError(
                    f"pair {i} of X must have two sets of n vectors, (n, features) each, got "
                    f"shapes {A.shape} and {B.shape}; fill the smaller set up with vectors that "
                    "stand for no partner"
                )
            if isinstance(chosen, str) and A.shape != B.shape:
                raise ValueError(
                    f"pair {i} of X has vectors of {A.shape[1]} and of {B.shape[1]} features: "
                    f"{chosen!r} compares feature by feature, so both sets need the same ones; "
                    "give a function as pair_features where they differ"
                )
            block = np.asarray(features(A, B), dtype=np.float64)
        if block.ndim != 3 or block.shape[0] != block.shape[1] or 0 in block.shape:
            raise ValueError(
                f"the features of pair {i} must have the shape (n, n, features), got {block.shape}"
            )
        if not np.isfinite(block).all():
            raise ValueError(
                f"pair {i} of X contains NaN or infinity; impute or drop those vectors first"
            )
        return block

    def _observed(self, blocks: list[Array], y: Any) -> Ragged:
        """The matchings as vertices, each of as many partners as its sets have members."""
        self._check_outputs(y, blocks, names=NAMES)
        vertices = Birkhoff().encode(list(y))
        assert isinstance(vertices, Ragged)
        for i, (vertex, block) in enumerate(zip(vertices.rows(), blocks, strict=True)):
            if vertex.size != len(block) ** 2:
                raise ValueError(
                    f"matching {i} of y has {round(vertex.size**0.5)} partners, and its sets "
                    f"{len(block)} members"
                )
        return vertices
