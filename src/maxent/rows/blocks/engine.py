"""Blocks: parts of a table that stay where they are. Functions go to them, merged answers return.

The boundary is w: what travels to a block is a vector of weights, what comes back are sums. Where
the blocks live (memory, files, the workers of a cluster) is the business of the engine alone.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from maxent.rows.merging import merged

Merge = Callable[[Any, Any], Any]
Work = str | Callable[..., Any]  # the name of a method of the blocks, or a function of a block


class Blocks(ABC):
    """A table in blocks, in order. A block is any object with the methods that are asked for."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of blocks."""

    @abstractmethod
    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """work(block, *args) of every block, merged.

        ``work`` is a method's name or a function; ``merge`` must be associative, and commutative
        unless ``ordered`` asks for the order of the blocks. An error names the block that it comes
        from.
        """

    @abstractmethod
    def map(self, work: Work, *args: Any) -> Blocks:
        """The blocks work(block, *args), which stay where the old ones are."""

    @abstractmethod
    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> Blocks:
        """The blocks function(block, other), one of ``others`` for each block."""


class BlockError(ValueError):
    """What is wrong with the rows of one block."""


def call(block: Any, number: int, work: Work, args: Sequence[Any]) -> Any:
    """work(block, *args); an error about the rows names the block."""
    try:
        return getattr(block, work)(*args) if isinstance(work, str) else work(block, *args)
    except BlockError:
        raise
    except ValueError as error:
        raise BlockError(f"block {number}: {error}") from error


class MemoryBlocks(Blocks):
    """Blocks in the memory of this process.

    Parameters
    ----------
    blocks : sequence
        The blocks.

    Examples
    --------
    >>> class Part(list):
    ...     def total(self, factor):
    ...         return factor * sum(self)
    >>> MemoryBlocks([Part([1, 2]), Part([3])]).reduce("total", 10, merge=lambda a, b: a + b)
    60
    """

    def __init__(self, blocks: Sequence[Any]) -> None:
        self._blocks = list(blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One block after the other."""
        return merged((call(b, i, work, args) for i, b in enumerate(self._blocks)), merge)

    def map(self, work: Work, *args: Any) -> MemoryBlocks:
        """New blocks in memory."""
        return MemoryBlocks([call(b, i, work, args) for i, b in enumerate(self._blocks)])

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> MemoryBlocks:
        """New blocks in memory."""
        pairs = zip(self._blocks, others, strict=True)
        return MemoryBlocks([call(b, i, function, (o,)) for i, (b, o) in enumerate(pairs)])


class FileBlocks(Blocks):
    """Blocks in files of a scratch folder of their own: one of them is in memory at a time.

    The folder lives as long as this object.

    Parameters
    ----------
    make : iterable
        Gives the blocks one after another.
    scratch : path, default None
        Where the folder is made; None is where temporary files go.
    """

    def __init__(self, make: Iterable[Any], scratch: str | None = None) -> None:
        self._scratch = scratch
        folder = Path(tempfile.mkdtemp(prefix="maxent-blocks-", dir=scratch))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._files: list[Path] = []
        for number, block in enumerate(make):
            self._files.append(folder / f"{number}.block")
            _dump(block, self._files[-1])

    def __len__(self) -> int:
        return len(self._files)

    def _read(self) -> Iterator[tuple[int, Any]]:
        return ((number, _load(path)) for number, path in enumerate(self._files))

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One block after the other, each read from its file."""
        return merged((call(b, i, work, args) for i, b in self._read()), merge)

    def map(self, work: Work, *args: Any) -> FileBlocks:
        """New files in a folder of their own."""
        return FileBlocks((call(b, i, work, args) for i, b in self._read()), self._scratch)

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> FileBlocks:
        """New files in a folder of their own."""
        return FileBlocks(
            (call(b, i, function, (others[i],)) for i, b in self._read()), self._scratch
        )


def _dump(block: Any, path: Path) -> None:
    import joblib

    joblib.dump(block, path)


def _load(path: Path) -> Any:
    import joblib

    return joblib.load(path)


class SourceBlocks(Blocks):
    """Blocks that are read anew at each pass over them, by functions without arguments.

    What ``map`` makes of them is kept in a scratch folder; see :class:`FileBlocks`.

    Parameters
    ----------
    readers : sequence of callable
        Functions that read the blocks.
    scratch : path, default None
        Folder for what ``map`` makes; None is where temporary files go.
    """

    def __init__(self, readers: Sequence[Callable[[], Any]], scratch: str | None = None) -> None:
        self.readers, self._scratch = list(readers), scratch

    def __len__(self) -> int:
        return len(self.readers)

    def _read(self) -> Iterator[tuple[int, Any]]:
        return ((number, read()) for number, read in enumerate(self.readers))

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One block after the other."""
        return merged((call(b, i, work, args) for i, b in self._read()), merge)

    def map(self, work: Work, *args: Any) -> FileBlocks:
        """Files in a scratch folder."""
        return FileBlocks((call(b, i, work, args) for i, b in self._read()), self._scratch)

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> SourceBlocks:
        """Blocks that are read and changed anew at each pass."""
        pairs = zip(self.readers, others, strict=True)
        changed = [partial(_changed, r, i, function, o) for i, (r, o) in enumerate(pairs)]
        return SourceBlocks(changed, self._scratch)


def _changed(read: Callable[[], Any], number: int, function: Callable[..., Any], other: Any) -> Any:
    return call(read(), number, function, (other,))
