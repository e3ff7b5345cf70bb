"""Names and their numbers, without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, pairwise

import numpy as np

from maxent.rows.arrays import Array

_FULL = 0.7  # share of the slots in use at most
_GAP = "\n"


class Names:
    """A batch of names as the kernels read them: their bytes and where each begins.

    The names come in groups, those of a token, so that no list of all of them is needed.

    >>> Names([["of"], [], ["a"]]).starts
    array([0, 3, 5])
    """

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = groups
        self._count = sum(map(len, groups))
        self.text = np.frombuffer(
            _GAP.join(map(_GAP.join, filter(None, groups))).encode(), np.uint8
        )

    @cached_property
    def _cut(self) -> tuple[Array, Array]:
        from maxent._support.compiling.kernels import exact
        from maxent.tagging.kernels.name_table import hash_between, hash_names

        starts = np.zeros(len(self) + 1, np.int64)
        codes = np.empty(len(self), np.uint64)
        cut = exact(hash_names, self.text.size, calls=1)
        if len(self) and not cut(self.text, ord(_GAP), starts, codes):
            np.cumsum([len(name.encode()) + 1 for name in self], out=starts[1:])
            exact(hash_between, self.text.size, calls=1)(self.text, starts, codes)
        return starts, codes

    @property
    def starts(self) -> Array:
        """Where each name begins, and where a next one would."""
        return self._cut[0]

    @property
    def codes(self) -> Array:
        """64-bit hashes, the same on every machine and in every run."""
        return self._cut[1]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._groups)

    def check_lengths(self, most: int) -> None:
        """Refuse a name of more bytes."""
        sizes = np.diff(self.starts) - 1
        if sizes.size and sizes.max() > most:
            name = next(islice(self, int(sizes.argmax()), None))
            raise ValueError(
                f"an attribute has {sizes.max()} bytes, at most {most} are allowed: "
                f"{name[:40]!r}..."
            )


class Vocabulary:
    """Numbers of names in the order in which they were added.

    >>> names = Vocabulary()
    >>> names.add(Names([["a", "b", "a"]]))
    array([0, 1, 0], dtype=int32)
    >>> names.find(Names([["b", "c"]]))
    array([ 1, -1], dtype=int32)
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._count = 0
        self._known = np.zeros(64, np.uint8)
        self._starts = np.zeros(17, np.int64)
        self._slots = np.zeros((64, 2), np.uint64)
        self.add(Names([list(names)]))

    def __len__(self) -> int:
        return self._count

    def names(self) -> list[str]:
        """In the order of their numbers."""
        text = self._known.tobytes()
        return [text[a:b].decode() for a, b in pairwise(self._starts[: self._count + 1].tolist())]

    def add(self, batch: Names) -> Array:
        """The number of each name; names that are not known get the next ones."""
        from maxent._support.compiling.kernels import exact
        from maxent.tagging.kernels.name_table import add_names, move_slots

        most = self._count + len(batch)
        self._known = _room(self._known, int(self._starts[self._count]) + batch.text.size)
        self._starts = _room(self._starts, most + 1)
        if most > _FULL * len(self._slots):
            old = self._slots
            self._slots = np.zeros((1 << int(most / _FULL).bit_length(), 2), np.uint64)
            exact(move_slots, len(old), calls=1)(old, self._slots)
        out = np.empty(len(batch), np.int32)
        tables = self._slots, self._known, self._starts
        add = exact(add_names, batch.text.size, calls=1)
        self._count = int(add(batch.text, batch.starts, batch.codes, *tables, self._count, out))
        return out

    def find(self, batch: Names) -> Array:
        """The number of each name, -1 for names that are not known."""
        from maxent._support.compiling.kernels import exact
        from maxent.tagging.kernels.name_table import find_names

        out = np.empty(len(batch), np.int32)
        exact(find_names, len(batch), calls=1)(batch.codes, self._slots, out)
        return out


def _room(x: Array, size: int) -> Array:
    """The array with room for ``size`` entries."""
    if size <= x.size:
        return x
    larger = np.zeros(max(size, x.size + x.size // 2), x.dtype)
    larger[: x.size] = x
    return larger
