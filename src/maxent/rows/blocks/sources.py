"""Tables on disk as blocks that fit in a given memory: memory-mapped arrays, .npy and parquet."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maxent.rows.blocks.engine import SourceBlocks
from maxent.rows.blocks.table import BlockTable, Part, cut_columns

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_PROGRAM = 400 * 10**6  # bytes that the program itself takes, its compiled kernels among them
_COPIES = 10  # of a block that are in memory at a time: read, checked, by column, in bins ...
_LEAST = 10**4  # bytes of a block


def in_bytes(memory: str | int) -> int:
    """A size such as "2GB", "500 MB", "1GiB" or a number of bytes.

    >>> in_bytes("2GB"), in_bytes("0.5 g"), in_bytes("1 KiB")
    (2000000000, 500000000, 1024)
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([kmgt]?)(i?)b?\s*", str(memory).lower())
    if match is None:
        raise ValueError(f'a size of memory is a number and a unit, such as "2GB", got {memory!r}')
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit])


def block_bytes(memory: str | int) -> int:
    """How large the numbers of a block may be so that the program stays within a memory."""
    size = (in_bytes(memory) - _PROGRAM) // _COPIES
    if size < _LEAST:
        least = (_PROGRAM + _COPIES * _LEAST) / 10**6
        raise ValueError(
            f"memory={memory!r} is too little: the program itself takes {_PROGRAM / 10**6:.0f} MB, "
            f"give at least {least:.0f} MB"
        )
    return size


def open_table(
    source: Any, memory: str | int = "2GB", scratch: str | None = None, **columns: Any
) -> BlockTable:
    """A table on disk, to be fitted within a given memory.

    Parameters
    ----------
    source : array or path
        An array (a ``numpy.memmap`` above all), or the path of a .npy file, of a parquet file or of
        a folder of parquet files.
    memory : str or int, default "2GB"
        What the program may take in all, such as "2GB"; blocks are cut to fit.
    scratch : path, default None
        Folder for temporary files, about twice as large as the table; None is where temporary files
        go.
    **columns : array or str
        What belongs to the rows (y, sample_weight, prior): arrays, or names of columns of parquet
        files, which are then no features.

    Examples
    --------
    >>> table = open_table(np.arange(6.0).reshape(3, 2), y=[0, 1, 0])
    >>> table.names(), table.n_rows()
    (2, 3)
    """
    size = block_bytes(memory)
    path = None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there: give a .npy or a parquet file")
        if path.suffix == ".npy":
            source = np.load(path, mmap_mode="r")
    if isinstance(source, np.ndarray):
        return _of_array(source, size, scratch, columns)
    if path is None:
        raise TypeError(
            f"expected an array or the path of a .npy or parquet file, got {type(source).__name__}"
        )
    return _of_parquet(path, size, scratch, columns)


# -- arrays --------------------------------------------------------------------------------------


def _of_array(X: Any, size: int, scratch: str | None, columns: dict[str, Any]) -> BlockTable:
    if X.ndim != 2 or not len(X):
        raise ValueError(f"X must be a matrix (rows, features) with rows, got shape {X.shape}")
    rows = max(size // (max(X.dtype.itemsize, 4) * X.shape[1]), 1)
    starts = [*range(0, len(X), rows), len(X)]
    cut = cut_columns(columns, np.diff(starts).tolist())
    given = _mapped_file(X) or X
    readers = [
        partial(_array_part, given, number, slice(*ends), cut[number])
        for number, ends in enumerate(pairwise(starts))
    ]
    return BlockTable(SourceBlocks(readers, scratch), tuple(columns))


def _mapped_file(X: Any) -> dict[str, Any] | None:
    """How to map the file of an array again; None where it is no whole file.

    A map that stays open holds all pages that were ever read, and does not travel.
    """
    if not (isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap) and X.filename):
        return None
    order = "C" if X.flags.c_contiguous else "F"
    if not X.flags.forc:
        return None
    return {
        "filename": str(X.filename),
        "dtype": X.dtype,
        "shape": X.shape,
        "offset": X.offset,
        "order": order,
        "mode": "r",
    }


def _array_part(given: Any, number: int, rows: slice, columns: dict[str, Any]) -> Part:
    X = np.memmap(**given) if isinstance(given, dict) else given
    return Part(number, np.array(X[rows]), columns)


# -- parquet -------------------------------------------------------------------------------------


def _of_parquet(path: Path, size: int, scratch: str | None, columns: dict[str, Any]) -> BlockTable:
    parquet = _pyarrow("pyarrow.parquet")
    files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"{path} holds no .parquet file")
    named = {name: given for name, given in columns.items() if isinstance(given, str)}
    pieces: list[tuple[str, list[int], int]] = []
    for file in files:
        try:
            found = parquet.ParquetFile(file)
        except (OSError, ValueError) as error:  # pyarrow's own are among these
            raise ValueError(f"{file} is no parquet file that can be read: {error}") from error
        lost = [name for name in named.values() if name not in found.schema_arrow.names]
        if lost:
            raise ValueError(
                f"{file} has no column {lost[0]!r}; columns are "
                f"{', '.join(found.schema_arrow.names[:20])}"
            )
        pieces += _groups(str(file), found.metadata, size)
    arrays = {name: given for name, given in columns.items() if name not in named}
    cut = cut_columns(arrays, [rows for _, _, rows in pieces]) if arrays else [{}] * len(pieces)
    readers: Sequence[Callable[[], Part]] = [
        partial(_parquet_part, file, groups, number, named, cut[number])
        for number, (file, groups, _) in enumerate(pieces)
    ]
    return BlockTable(SourceBlocks(readers, scratch), tuple(columns))


def _groups(file: str, metadata: Any, size: int) -> list[tuple[str, list[int], int]]:
    """Row groups of a file put together up to a size, and their rows."""
    pieces: list[tuple[str, list[int], int]] = []
    room = 0
    for group in range(metadata.num_row_groups):
        about = metadata.row_group(group)
        if not pieces or about.total_byte_size > room:
            pieces.append((file, [], 0))
            room = size
        _, groups, rows = pieces[-1]
        pieces[-1] = (file, [*groups, group], rows + about.num_rows)
        room -= about.total_byte_size
    return pieces


def _parquet_part(
    file: str, groups: list[int], number: int, named: dict[str, str], columns: dict[str, Any]
) -> Part:
    table = _pyarrow("pyarrow.parquet").ParquetFile(file).read_row_groups(groups).to_pandas()
    taken = {name: table[column].to_numpy() for name, column in named.items()}
    return Part(number, table.drop(columns=list(named.values())), columns | taken)


def _pyarrow(name: str) -> Any:
    import importlib

    try:
        importlib.import_module("pandas")
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("parquet files need pandas and pyarrow: pip install them") from error
