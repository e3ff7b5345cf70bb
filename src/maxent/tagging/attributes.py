"""Attributes of tokens: names with values, numbered as they occur in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from maxent import io
from maxent._rows import Array

_LONGEST = 10_000  # characters of a name


@dataclass(frozen=True)
class Tokens:
    """The tokens of all sequences, one below the other, and the length of each sequence."""

    X: Any  # CSR (tokens, attributes)
    lengths: Array


@io.register
class Attributes:
    """Numbers of the names of attributes.

    A token is a list of names, which count 1 each, or a mapping of names to values: a number counts
    as itself, True as 1, False as nothing, and a text makes the name ``name=text``. Names that
    training did not have are left out.

    >>> names = Attributes()
    >>> tokens = names.fit([[{"word": "cats", "length": 4.0}], [["word=dogs", "capital"]]])
    >>> names.names
    ['word=cats', 'length', 'word=dogs', 'capital']
    >>> tokens.X.toarray()
    array([[1., 4., 0., 0.],
           [0., 0., 1., 1.]])
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._number = {name: i for i, name in enumerate(names)}
        if len(self._number) != len(names):
            raise ValueError("names of attributes are given twice")

    @property
    def names(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._number)

    def __len__(self) -> int:
        return len(self._number)

    def __getmodel__(self) -> dict[str, Any]:
        return {"names": self.names}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        names = state["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of attributes are a list of texts")
        self.__init__(names)  # type: ignore[misc]

    def fit(self, sequences: Iterable[Any], least: int = 1) -> Tokens:
        """Number the names that occur at least so often, and read the sequences."""
        self._number = {}
        tokens = self._read(sequences, grow=True)
        if least > 1:
            counts = np.bincount(tokens.X.indices, minlength=len(self))
            kept = np.flatnonzero(counts >= least)
            names = self.names
            self._number = {names[a]: i for i, a in enumerate(kept)}
            tokens = Tokens(sparse.csr_array(tokens.X[:, kept]), tokens.lengths)
        return tokens

    def transform(self, sequences: Iterable[Any]) -> Tokens:
        """Read sequences by the names that are known."""
        return self._read(sequences, grow=False)

    def _read(self, sequences: Iterable[Any], grow: bool) -> Tokens:
        number = self._number
        values: list[float] = []
        index: list[int] = []
        ends, lengths = [0], []
        for s, sequence in enumerate(sequences):
            count = 0
            for t, token in enumerate(sequence):
                for name, value in _entries(token, s, t):
                    a = number.setdefault(name, len(number)) if grow else number.get(name, -1)
                    if a >= 0:
                        index.append(a)
                        values.append(value)
                ends.append(len(index))
                count += 1
            if not count:
                raise ValueError(f"sequence {s} is empty: leave it out")
            lengths.append(count)
        shape = (len(ends) - 1, max(len(number), 1))
        X = sparse.csr_array((values, index, ends), shape=shape)
        X.sum_duplicates()
        return Tokens(X, np.array(lengths, np.int64))


def _entries(token: Any, s: int, t: int) -> Iterator[tuple[str, float]]:
    """Names and values of a token."""
    place = f"token {t} of sequence {s}"
    if isinstance(token, str) or not isinstance(token, Iterable):
        raise TypeError(f"{place} must be a list of names or a mapping, got {token!r}")
    if not isinstance(token, Mapping):
        for name in token:
            if not isinstance(name, str):
                raise TypeError(f"{place} has an attribute that is no text: {name!r}")
            yield _checked(name, place), 1.0
        return
    for name, value in token.items():
        if not isinstance(name, str):
            raise TypeError(f"{place} has a name that is no text: {name!r}")
        if isinstance(value, str):
            yield _checked(f"{name}={value}", place), 1.0
        elif isinstance(value, bool | np.bool_):
            if value:
                yield _checked(name, place), 1.0
        elif isinstance(value, Real):
            if not np.isfinite(value):
                raise ValueError(f"{place} has {name}={value}: impute or drop it first")
            yield _checked(name, place), float(value)
        else:
            raise TypeError(
                f"{place} has {name}={value!r}: expected a text, a number, True or False"
            )


def _checked(name: str, place: str) -> str:
    if len(name) > _LONGEST:
        raise ValueError(f"{place} has an attribute of {len(name)} characters: {name[:40]!r}...")
    return name
