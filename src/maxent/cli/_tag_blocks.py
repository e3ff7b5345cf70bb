"""tag train beyond one memory: blocks of the file on workers, or in a scratch folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from maxent._support.interrupts import held_back

_PER_BYTE = 100  # of memory for a byte of the file: texts, attributes, a block that is on its way
_SHARE = 0.5  # of the memory that blocks may take; the rest is for names and weights
_PROGRAM = 350 * 1000**2  # what the program takes with its compiled kernels at work
_LEAST = 50 * 1000**2
_TASKS = 4  # blocks for each worker
_SENTENCES = 1000  # that a task tags
_PACKED = 4  # times that a packed file grows, about


def check_place(dask: str | None, workers: int | None, memory: str | None) -> int | None:
    """The bytes of --memory; at most one place is given."""
    given = [("--dask", dask), ("--workers", workers), ("--memory", memory)]
    flags = [flag for flag, value in given if value is not None]
    if len(flags) > 1:
        raise typer.BadParameter(f"give {flags[0]} or {flags[1]}, not both")
    if memory is None:
        return None
    from maxent.rows.blocks.sources import in_bytes

    try:
        return in_bytes(memory)
    except ValueError as error:
        raise typer.BadParameter(f"--memory: {error}") from None


def block_size(memory: int) -> int:
    """Bytes of the file in a block."""
    room = memory - _PROGRAM
    if room < _LEAST:
        raise typer.BadParameter(
            f"--memory {memory / 1e6:.0f}MB: the program itself takes {_PROGRAM / 1e6:.0f}MB, give "
            f"at least {(_PROGRAM + _LEAST) / 1e6:.0f}MB"
        )
    return max(int(_SHARE * room / _PER_BYTE), 1)


def file_size(path: Path) -> int:
    """Bytes of a file, unpacked (about)."""
    return path.stat().st_size * (_PACKED if path.suffix == ".gz" else 1)


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """A folder that is gone afterwards, however the work ends."""
    with held_back():
        folder = Path(tempfile.mkdtemp(prefix=".maxent-", dir=beside.absolute().parent))
    try:
        yield folder
    finally:
        with held_back():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def placed(
    path: Path,
    make: Callable[[int], Sequence[Any]],
    dask: str | None,
    workers: int | None,
    memory: int | None,
    beside: Path,
) -> Iterator[tuple[Any, tuple[int, int], str]]:
    """The table of a file where it was asked for, its sequences and tokens, and what to tell.

    ``make`` cuts the file into blocks of so many bytes.
    """
    from maxent.rows.blocks.engine import FileBlocks
    from maxent.rows.blocks.table import BlockTable

    if memory is not None:
        size = block_size(memory)
        with scratch_folder(beside) as folder:
            blocks = make(size)
            said = f"{len(blocks)} blocks of the file in a scratch folder beside {beside.name}"
            yield BlockTable(FileBlocks(iter(blocks), str(folder))), _counts(blocks), said
        return
    from maxent.rows.dask.cluster import connect

    with connect(dask, workers) as client:
        from maxent.rows.dask.bags import as_blocks

        threads = sum(client.nthreads().values())
        blocks = make(-(-file_size(path) // (_TASKS * threads)))
        said = f"{len(blocks)} blocks of the file on {threads} workers"
        yield BlockTable(as_blocks(blocks)), _counts(blocks), said


def on_cluster(
    work: Callable[[Sequence[Any]], str],
    sentences: Sequence[Any],
    dask: str | None,
    workers: int | None,
) -> list[str]:
    """work(some sentences) of all of them, in order, on a cluster; nothing where none is given."""
    if dask is None and workers is None:
        return []
    from maxent.rows.dask.cluster import connect
    from maxent.rows.dask.tasks import ClusterRunner

    pieces = [sentences[i : i + _SENTENCES] for i in range(0, len(sentences), _SENTENCES)]
    with connect(dask, workers) as client:
        return list(ClusterRunner(client).in_order(work, pieces))


def _counts(blocks: Sequence[Any]) -> tuple[int, int]:
    """Sequences and tokens."""
    return sum(b.span.sequences for b in blocks), sum(b.span.tokens for b in blocks)
