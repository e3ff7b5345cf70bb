"""Whether an HDF5 file, such as a netCDF-4, takes values from other files.

HDF5 has three ways to do so, and its library follows all of them: raw data in external files,
virtual datasets, and external links. Each is a record of the format with a structure that other
bytes do not have (HDF5 File Format Specification 3.0, sections IV.A.2.g, i and h).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NAME_BYTES = (1, 2, 4, 8)
_CHUNK = 1 << 24  # bytes that are looked at together


def names_others(path: Path) -> bool:
    """Whether the file is HDF5 and names files outside of it, or cannot be told."""
    held = path.stat()
    return _names_others(os.path.abspath(path), held.st_mtime_ns, held.st_size)


@lru_cache(maxsize=1024)
def _names_others(path: str, written: int, size: int) -> bool:
    with open(path, "rb") as file:
        start = file.read(64)
        if not start.startswith(_HDF5):
            return _HDF5 in start
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return (
                not _plain(start)
                or _external_data(content)
                or _virtual(content)
                or any(_external_link(content, place) for place in _links(content))
            )


def _plain(start: bytes) -> bool:
    """Whether addresses count from the first byte and have eight bytes, as libraries write them."""
    version = start[8]
    if version > 3:
        return False
    size, base = (start[13], 24 + 4 * (version == 1)) if version < 2 else (start[9], 12)
    return size == 8 and start[base : base + 8] == bytes(8)


def _found(content: mmap.mmap, word: bytes) -> Iterator[int]:
    place = content.find(word)
    while place >= 0:
        yield place
        place = content.find(word, place + 1)


def _external_data(content: mmap.mmap) -> bool:
    """A list of external files: version 1, slots, slots in use, the address of a heap of names."""
    for heap in _found(content, b"HEAP\0"):
        for place in _found(content, struct.pack("<Q", heap)):
            before = content[max(place - 8, 0) : place]
            if len(before) == 8 and before[0] == 1:
                slots, used = struct.unpack("<HH", before[4:])
                if 1 <= used <= slots:
                    return True
    return False


def _virtual(content: mmap.mmap) -> bool:
    """A layout of class 3, which is at an address in a global heap."""
    return any(
        content[max(place - 2, 0) : place] in (b"\x04\x03", b"\x05\x03")
        for heap in _found(content, b"GCOL\x01")
        for place in _found(content, struct.pack("<Q", heap))
    )


def _links(content: mmap.mmap) -> Iterator[int]:
    """Where a link may begin: version 1, flags with that of a type, and type 64."""
    for start in range(0, len(content), _CHUNK):
        part = np.frombuffer(content[start : start + _CHUNK + 2], np.uint8)
        flags = part[1:-1]
        fits = (part[:-2] == 1) & (part[2:] == 64) & (flags >= 8) & (flags < 32)
        yield from (start + np.flatnonzero(fits)).tolist()


def _external_link(content: mmap.mmap, at: int) -> bool:
    """A link of type 64 whose value is a file and an object of it, both ending in zero bytes."""
    flags = content[at + 1]
    place = at + 3 + 8 * bool(flags & 4) + bool(flags & 16)
    width = _NAME_BYTES[flags & 3]
    length = int.from_bytes(content[place : place + width], "little")
    place += width + length
    if not 0 < length < 1 << 16 or place + 2 > len(content):
        return False
    size = int.from_bytes(content[place : place + 2], "little")
    value = content[place + 2 : place + 2 + size]
    return (
        len(value) == size >= 4
        and value[0] == 0
        and value[-1] == 0
        and value.count(0, 1) == 2
        and value[1] != 0
    )
