"""Whether an HDF5 file, such as a netCDF-4, takes values from other files.

HDF5 has three ways to do so, and its library follows all of them: raw data in external files,
virtual datasets, and external links. Each is a record of the format with a structure that other
bytes do not have (HDF5 File Format Specification 3.0, sections IV.A.2.g, i and h).
"""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path

_HDF5 = b"\x89HDF\r\n\x1a\n"
_LINK = re.compile(rb"\x01[\x08-\x1f]\x40")  # version 1, its type is said, and that is 64
_NAME_BYTES = (1, 2, 4, 8)


def names_others(path: Path) -> bool:
    """Whether the file is HDF5 and names files outside of it, or cannot be told."""
    with open(path, "rb") as file:
        start = file.read(64)
        if not start.startswith(_HDF5):
            return _HDF5 in start
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return (
                not _plain(start)
                or _external_data(content)
                or _virtual(content)
                or any(_external_link(content, m.start()) for m in _LINK.finditer(content))
            )


def _plain(start: bytes) -> bool:
    """Whether addresses count from the first byte and have eight bytes, as libraries write them."""
    version = start[8]
    if version > 3:
        return False
    size, base = (start[13], 24 + 4 * (version == 1)) if version < 2 else (start[9], 12)
    return size == 8 and start[base : base + 8] == bytes(8)


def _external_data(content: mmap.mmap) -> bool:
    """A list of external files: version 1, slots, slots in use, the address of a heap of names."""
    for heap in re.finditer(rb"HEAP\x00", content):
        address = re.escape(struct.pack("<Q", heap.start()))
        for found in re.finditer(rb"\x01...(..)(..)" + address, content, re.DOTALL):
            slots, used = (int.from_bytes(part, "little") for part in found.groups())
            if 1 <= used <= slots:
                return True
    return False


def _virtual(content: mmap.mmap) -> bool:
    """A layout of class 3, which is at an address in a global heap."""
    return any(
        re.search(rb"[\x04\x05]\x03" + re.escape(struct.pack("<Q", heap.start())), content)
        for heap in re.finditer(rb"GCOL\x01", content)
    )


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
