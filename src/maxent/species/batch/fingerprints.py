"""Fingerprints: digests of files and values, by which a run knows what an earlier one was given."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxent.species.input.files import raster_parts

_WHOLE = 1 << 26  # bytes up to which a file is read from end to end
_END = 1 << 20  # bytes read at either end of a larger one


def of_values(*values: Any) -> str:
    """The digest of arrays, tables and anything with an exact ``repr``.

    >>> of_values(1.0, np.zeros(2)) == of_values(1.0, np.zeros(2)) != of_values(1.0, np.zeros(3))
    True
    """
    digest = hashlib.sha256()
    for value in values:
        for part in _parts(value):
            digest.update(f"{len(part)}:".encode())
            digest.update(part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterable[bytes]:
    if hasattr(value, "columns"):
        yield repr(list(value.columns)).encode()
        for name in value.columns:
            yield from _parts(value[name].to_numpy())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
    else:
        yield repr(value.tolist() if isinstance(value, np.ndarray) else value).encode()


def of_file(path: str | os.PathLike[str]) -> str:
    """The digest of a file: of all it holds, or of size, time and both ends where it is large."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        if about.st_size <= _WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest()
        start = file.read(_END)
        file.seek(-_END, os.SEEK_END)
        return of_values(about.st_size, about.st_mtime_ns, start, file.read())


def of_rasters(sources: Iterable[str]) -> str:
    """The digest of rasters and all that belongs to them."""
    return of_values([(path, of_file(path)) for path in sorted(raster_parts(sources))])
