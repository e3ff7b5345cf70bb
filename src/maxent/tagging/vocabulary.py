"""Names and their numbers, without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np

from maxent._rows import Array
from maxent._threads import over_rows

_FULL = 0.7  # share of the slots in use at most
_COST = 64  # entries of an elementwise pass that a name counts as
_GAP = "\n"


class Names:
    """A batch of names as the kernels read them: their bytes and where each begins.

    >>> Names(["of", "a"]).starts
    array([0, 3, 5])
    """

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.text = np.frombuffer(_GAP.join(names).encode(), np.uint8)

    @cached_property
    def starts(self) -> Array:
        """Where each name begins, and where a next one would."""
        from maxent._kernels.names import cut_names

        starts = np.zeros(len(self._names) + 1, np.int64)
        if self._names and not cut_names(self.text, ord(_GAP), starts):
            np.cumsum([len(name.encode()) + 1 for name in self._names], out=starts[1:])
        return starts

    def __len__(self) -> int:
        return len(self._names)

    def check_lengths(self, most: int) -> None:
        """Refuse a name of more bytes."""
        sizes = np.diff(self.starts) - 1
        if sizes.size and sizes.max() > most:
            name = self._names[int(sizes.argmax())]
            raise ValueError(
                f"an attribute has {sizes.max()} bytes, at most {most} are allowed: "
                f"{name[:40]!r}..."
            )

    def hashes(self, bits: int) -> Array:
        """Numbers below 2^bits, the same on every machine and in every run."""
        from maxent._kernels.names import hashes_of

        out = np.empty(len(self), np.int32)
        mask = np.uint64((1 << bits) - 1)
        over_rows(lambda a, b: hashes_of(self.text, self.starts, mask, out, a, b), len(out), _COST)
        return out


class Vocabulary:
    """Numbers of names in the order in which they were added.

    >>> names = Vocabulary()
    >>> names.add(Names(["a", "b", "a"]))
    array([0, 1, 0], dtype=int32)
    >>> names.find(Names(["b", "c"]))
    array([ 1, -1], dtype=int32)
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._count = 0
        self._known = np.zeros(64, np.uint8)
        self._starts = np.zeros(17, np.int64)
        self._slots = np.zeros((64, 2), np.uint64)
        self.add(Names(list(names)))

    def __len__(self) -> int:
        return self._count

    def names(self) -> list[str]:
        """In the order of their numbers."""
        text = self._known.tobytes()
        return [text[a:b].decode() for a, b in pairwise(self._starts[: self._count + 1].tolist())]

    def add(self, batch: Names) -> Array:
        """The number of each name; names that are not known get the next ones."""
        from maxent._kernels.names import add_names, move_slots

        most = self._count + len(batch)
        self._known = _room(self._known, int(self._starts[self._count]) + batch.text.size)
        self._starts = _room(self._starts, most + 1)
        if most > _FULL * len(self._slots):
            old = self._slots
            self._slots = np.zeros((1 << int(most / _FULL).bit_length(), 2), np.uint64)
            move_slots(old, self._slots)
        out = np.empty(len(batch), np.int32)
        tables = self._slots, self._known, self._starts
        self._count = add_names(batch.text, batch.starts, *tables, self._count, out)
        return out

    def find(self, batch: Names) -> Array:
        """The number of each name, -1 for names that are not known."""
        from maxent._kernels.names import find_names

        out = np.empty(len(batch), np.int32)

        def work(first: int, last: int) -> None:
            find_names(batch.text, batch.starts, self._slots, out, first, last)

        over_rows(work, len(out), _COST)
        return out


def _room(x: Array, size: int) -> Array:
    """The array with room for ``size`` entries."""
    if size <= x.size:
        return x
    larger = np.zeros(max(size, x.size + x.size // 2), x.dtype)
    larger[: x.size] = x
    return larger
