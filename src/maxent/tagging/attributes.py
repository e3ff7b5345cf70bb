"""Attributes of tokens: names with values, numbered as they occur in training or hashed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from maxent import io
from maxent._support.threads import in_background, num_threads
from maxent.rows.arrays import Array
from maxent.tagging.vocabulary import Names, Vocabulary

_LONGEST = 10_000  # bytes of a name
_TOGETHER = 64  # sequences whose names are numbered together
_MOST_BITS = 30

_Batch: TypeAlias = tuple[Array, Array | None, Array, Array]


@dataclass(frozen=True)
class Tokens:
    """The tokens of all sequences, one below the other, and the length of each sequence.

    Attributes
    ----------
    X : sparse array (n_tokens, n_attributes)
        CSR, int8 where every attribute counts 1.
    lengths : array (n_sequences,)
        Length of each sequence.
    attributes : Attributes
        Attributes whose numbers the columns are.
    """

    X: Any
    lengths: Array
    attributes: Attributes = field(repr=False)


@io.register
class Attributes:
    """Numbers of the names of attributes.

    A token is a list of names, which count 1 each, or a mapping of names to values: a number counts
    as itself, True as 1, False as nothing, and a text makes the name ``name=text``. Names that
    training did not have are left out.

    Parameters
    ----------
    names : sequence of str, default ()
        Names known already, in the order of their numbers.
    hash_bits : int, default None
        ``2**hash_bits`` numbers are given by a hash of the name instead, and no name is kept. The
        model is smaller and reads faster; names that share a number share a weight (of 300,000
        names, one in four does so at 20 bits, one in fifty at 24).

    Examples
    --------
    >>> names = Attributes()
    >>> tokens = names.fit([[{"word": "cats", "length": 4.0}], [["word=dogs", "capital"]]])
    >>> names.names
    ['word=cats', 'length', 'word=dogs', 'capital']
    >>> tokens.X.toarray()
    array([[1., 4., 0., 0.],
           [0., 0., 1., 1.]])
    >>> Attributes(hash_bits=10).fit([[["word=cats"]]]).X.shape
    (1, 1024)
    """

    def __init__(self, names: Sequence[str] = (), *, hash_bits: int | None = None) -> None:
        if hash_bits is not None:
            if not isinstance(hash_bits, Integral) or not 1 <= hash_bits <= _MOST_BITS:
                raise ValueError(
                    f"hash_bits must be None or an integer from 1 to {_MOST_BITS}, "
                    f"got {hash_bits!r}"
                )
            if len(names):
                raise ValueError("hashed attributes have no names: leave out names or hash_bits")
        self.hash_bits = None if hash_bits is None else int(hash_bits)
        self._vocabulary = Vocabulary(names)
        if len(self._vocabulary) != len(names):
            raise ValueError("names of attributes are given twice")

    @property
    def names(self) -> list[str]:
        """In the order of their numbers; none where they are hashed."""
        return self._vocabulary.names()

    def __len__(self) -> int:
        return len(self._vocabulary) if self.hash_bits is None else 1 << self.hash_bits

    def __repr__(self) -> str:
        hashed = self.hash_bits is not None
        return f"Attributes(hash_bits={self.hash_bits})" if hashed else f"Attributes({len(self)})"

    def __getmodel__(self) -> dict[str, Any]:
        names = self.names if self.hash_bits is None else []
        return {"names": names, "hash_bits": self.hash_bits}

    def __setmodel__(self, state: dict[str, Any]) -> None:
        names = state.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of attributes are a list of texts")
        self.__init__(names, hash_bits=state.get("hash_bits"))  # type: ignore[misc]

    def fit(self, sequences: Iterable[Any], least: int = 1) -> Tokens:
        """Number the names that occur at least so often, and read the sequences.

        Hashed attributes that occur less often than ``least`` are left out of the tokens alone.
        """
        self._vocabulary = Vocabulary()
        tokens = self._read(sequences, grow=True)
        if least > 1:
            counts = np.bincount(tokens.X.indices, minlength=len(self))
            rare = counts < least
            kept = np.flatnonzero(~rare)
            if self.hash_bits is None:
                names = self.names
                self._vocabulary = Vocabulary(names[a] for a in kept)
                X = sparse.csr_array(tokens.X[:, kept])
            else:
                X = tokens.X.multiply(~rare[None, :]).tocsr().astype(tokens.X.dtype)
                X.eliminate_zeros()
            tokens = Tokens(X, tokens.lengths, self)
        return tokens

    def transform(self, sequences: Iterable[Any]) -> Tokens:
        """Read sequences by the names that are known."""
        return self._read(sequences, grow=False)

    def _read(self, sequences: Iterable[Any], grow: bool) -> Tokens:
        index: list[Array] = []
        values: list[Array | None] = []
        sizes: list[Array] = []
        lengths: list[Array] = []
        for numbers, amounts, counts, size in self._batches(sequences, grow):
            known = numbers >= 0
            if not known.all():
                before = np.concatenate([[0], np.cumsum(known)])
                counts = np.diff(before[np.concatenate([[0], np.cumsum(counts)])])
                numbers = numbers[known]
                amounts = None if amounts is None else amounts[known]
            index.append(numbers)
            values.append(amounts)
            sizes.append(counts)
            lengths.append(size)
        X = _matrix(index, values, sizes, max(len(self), 1))
        return Tokens(X, np.concatenate([*lengths, np.empty(0, np.int64)]), self)

    def _batches(self, sequences: Iterable[Any], grow: bool) -> Iterator[_Batch]:
        """Numbers, values, sizes of tokens and lengths of sequences.

        Batches are numbered while Python joins the names of the next: one at a time where new
        names get the next numbers.
        """
        rest, done = iter(sequences), 0
        waiting: deque[Callable[[], _Batch]] = deque()
        most = 1 if grow else num_threads()
        while batch := [_as_list(sequence) for sequence in islice(rest, _TOGETHER)]:
            lengths = np.fromiter(map(len, batch), np.int64, len(batch))
            if not lengths.all():
                empty = done + int(np.argmin(lengths))
                raise ValueError(f"sequence {empty} is empty: leave it out")
            names, amounts, counts = _flatten(batch, done)
            if len(waiting) == most:
                yield waiting.popleft()()
            numbers = in_background(self._numbers, names, grow)
            waiting.append(partial(_numbered, numbers, amounts, counts, lengths))
            done += len(batch)
        for batch_read in waiting:
            yield batch_read()

    def _numbers(self, names: Names, grow: bool) -> Array:
        names.check_lengths(_LONGEST)
        if self.hash_bits is not None:
            return (names.codes & np.uint64(len(self) - 1)).astype(np.int32)
        return self._vocabulary.add(names) if grow else self._vocabulary.find(names)


def _numbered(
    numbers: Callable[[], Array], values: Array | None, counts: Array, lengths: Array
) -> _Batch:
    return numbers(), values, counts, lengths


def _as_list(sequence: Any) -> Any:
    return sequence if isinstance(sequence, list | tuple) else list(sequence)


def _flatten(batch: list[Any], first: int) -> tuple[Names, Array | None, Array]:
    """Names of all tokens, their values (None where all are 1), and how many each token has."""
    tokens = list(chain.from_iterable(batch))
    if set(map(type, tokens)) <= {list, tuple}:
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
        with suppress(TypeError):  # a name that is no text: what follows says where
            return Names(tokens), None, counts
    pairs = [
        list(_entries(token, s, t))
        for s, sequence in enumerate(batch, start=first)
        for t, token in enumerate(sequence)
    ]
    counts = np.fromiter(map(len, pairs), np.int64, len(pairs))
    flat = list(chain.from_iterable(pairs))
    values = np.array([value for _, value in flat], np.float64)
    return Names([[name for name, _ in flat]]), None if (values == 1).all() else values, counts


def _matrix(index: list[Array], values: list[Array | None], sizes: list[Array], width: int) -> Any:
    from maxent._support.compiling.kernels import exact
    from maxent.tagging.kernels.name_table import any_twice

    counts = np.concatenate([*sizes, np.empty(0, np.int64)])
    indices = np.concatenate([*index, np.empty(0, np.int32)])
    ends = np.concatenate([[0], np.cumsum(counts)])
    indptr = ends.astype(np.int32 if ends[-1] < np.iinfo(np.int32).max else np.int64)
    seen = np.full(width, -1, np.int64)
    twice = exact(any_twice, indices.size, calls=1)(indices, indptr, seen)
    if not twice and all(part is None for part in values):
        data = np.ones(indices.size, np.int8)
    else:
        ones = (np.ones(i.size) if v is None else v for i, v in zip(index, values, strict=True))
        data = np.concatenate([*ones, np.empty(0)])
    X = sparse.csr_array((data, indices, indptr), shape=(counts.size, width))
    if twice:
        X.sum_duplicates()
    return X


def _entries(token: Any, s: int, t: int) -> Iterator[tuple[str, float]]:
    """Names and values of a token."""
    place = f"token {t} of sequence {s}"
    if isinstance(token, str) or not isinstance(token, Iterable):
        raise TypeError(f"{place} must be a list of names or a mapping, got {token!r}")
    if not isinstance(token, Mapping):
        for name in token:
            if not isinstance(name, str):
                raise TypeError(f"{place} has an attribute that is no text: {name!r}")
            yield name, 1.0
        return
    for name, value in token.items():
        if not isinstance(name, str):
            raise TypeError(f"{place} has a name that is no text: {name!r}")
        if isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, bool | np.bool_):
            if value:
                yield name, 1.0
        elif isinstance(value, Real):
            number = float(value)
            if not np.isfinite(number):
                raise ValueError(f"{place} has {name}={value}: impute or drop it first")
            yield name, number
        else:
            raise TypeError(
                f"{place} has {name}={value!r}: expected a text, a number, True or False"
            )
