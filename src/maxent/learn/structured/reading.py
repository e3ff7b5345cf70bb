"""How models of sequences read them: matrices, or lists of tokens with named attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxent._support.checks import masses
from maxent.learn.structured.sequences import check_count, is_matrix, stack
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.tagging.attributes import Attributes, Tokens

NO_WEIGHT = "all sample weights are zero (0 everywhere): give some sequences a positive weight"
Method = TypeVar("Method", bound=Callable[..., Any])


def of_no_positions(nothing: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Let a method that answers for sequences answer ``nothing(model)`` for those without any."""

    def decorate(method: Method) -> Method:
        @wraps(method)
        def answer(self: Any, X: Any, *args: Any, **settings: Any) -> Any:
            if isinstance(X, Tokens) or is_blocked(X):
                return method(self, X, *args, **settings)
            sequences = list_of_sequences(X)
            some = [i for i, sequence in enumerate(sequences) if not _is_empty(sequence)]
            if len(some) == len(sequences):
                return method(self, sequences, *args, **settings)
            check_is_fitted(self)
            answers = [nothing(self) for _ in sequences]
            if some:
                given = method(self, [sequences[i] for i in some], *args, **settings)
                for i, one in zip(some, given, strict=True):
                    answers[i] = one
            return answers

        return cast(Method, answer)

    return decorate


def _is_empty(sequence: Any) -> bool:
    shape = getattr(sequence, "shape", None)
    if shape:
        return bool(shape[0] == 0)
    return hasattr(sequence, "__len__") and not len(sequence)


def list_of_sequences(X: Any) -> list[Any]:
    """X as a list; refuses what holds no sequences."""
    try:
        return list(X)
    except TypeError as error:
        raise TypeError(
            f"X is {type(X).__name__}: expected a list of sequences, each a matrix (positions, "
            "features) or a list of tokens"
        ) from error


class InUse(NamedTuple):
    """The sequences of positive weight: those of weight 0 leave no trace in a model."""

    X: Any
    y: Any
    weight: Array
    rows: Array  # their numbers among all
    positions: Array  # the same of their positions
    n_positions: int  # of all


def in_use(X: Any, y: Any, sample_weight: Any) -> InUse:
    """Leave out sequences of weight 0, with their labels."""
    if isinstance(X, Tokens):
        lengths = X.lengths
    else:
        X = [x if hasattr(x, "__len__") else list(x) for x in list_of_sequences(X)]
        lengths = np.array([_length(x) for x in X], np.int64)
    weight = masses("sample_weight", sample_weight, len(lengths))
    kept = weight > 0
    place = np.repeat(kept, lengths)
    rows, positions = np.flatnonzero(kept), np.flatnonzero(place)
    if weight.size and not rows.size:
        raise ValueError(NO_WEIGHT)
    if rows.size < weight.size and y is not None:
        y = list(y)
        check_count(y, len(lengths))
        y = [y[i] for i in rows]
        if isinstance(X, Tokens):
            X = Tokens(X.X[positions], X.lengths[rows], X.attributes)
        else:
            X = [X[i] for i in rows]
    return InUse(X, y, weight[rows], rows, positions, place.size)


def _length(sequence: Any) -> int:
    """Positions of a sequence."""
    shape = getattr(sequence, "shape", None)
    return int(shape[0]) if shape else len(sequence)


class ReadsSequences:
    """Reads X of a fit or of a prediction; ``least`` is how often an attribute must occur."""

    n_features_in_: int
    attributes_: Attributes | None
    least: int

    def _read(self, X: Any, fit: bool) -> tuple[Any, Array]:
        """The positions of all sequences, one below the other, and the lengths."""
        if isinstance(X, Tokens):
            if fit:
                self.attributes_, self.n_features_in_ = X.attributes, X.X.shape[1]
            return self._checked(X.X), X.lengths
        sequences = list_of_sequences(X)
        if not sequences:
            raise ValueError("X has no sequences: give at least one")
        named = not (sparse.issparse(sequences[0]) or is_matrix(sequences[0]))
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
            matrix, lengths = stack(sequences)
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
