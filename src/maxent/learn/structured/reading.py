"""How models of sequences read them: matrices, or lists of tokens with named attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxent.learn.structured.sequences import is_matrix, stack
from maxent.rows.arrays import Array
from maxent.rows.blocks.table import is_blocked
from maxent.tagging.attributes import Attributes, Tokens

Method = TypeVar("Method", bound=Callable[..., Any])


def of_no_positions(nothing: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Let a method that answers for sequences answer ``nothing(model)`` for those without any."""

    def decorate(method: Method) -> Method:
        @wraps(method)
        def answer(self: Any, X: Any, *args: Any, **settings: Any) -> Any:
            if isinstance(X, Tokens) or is_blocked(X):
                return method(self, X, *args, **settings)
            sequences = list(X)
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
        sequences = list(X)
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
