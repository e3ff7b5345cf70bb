"""Text files with one token per line, as they are or packed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def opened(path: Path) -> Any:
    """The file, unpacked as it is read."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Say in words that a file is not what its name says."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no gzip file, or cut short: {error}") from error


def read_bytes(path: Path) -> bytes:
    """All of a file, unpacked."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        with unpacking(path):
            content = gzip.decompress(content)
    return content


def packed(content: bytes, path: Path) -> bytes:
    """What to write to a file: packed where its name says so."""
    return gzip.compress(content, mtime=0) if path.suffix == ".gz" else content


def is_blank(line: str) -> bool:
    """Whether nothing stands in a line; other white space than of ASCII may be a word."""
    return not line.strip(" \t\r\n")


def is_blank_bytes(line: bytes) -> bool:
    """The same of a line that is not decoded yet."""
    return not line.strip(b" \t\r\n")


def ends_in_crlf(path: Path) -> bool:
    """Whether the first line of a file ends as on Windows; of a pipe nobody knows."""
    if not path.is_file():
        return False
    with unpacking(path), opened(path) as file:
        return bool(file.readline().endswith(b"\r\n"))


def decoded(content: bytes, path: Path, first: int = 1) -> list[str]:
    """The lines of a text that begins at line ``first`` of a file."""
    try:
        return content.decode("utf-8-sig" if first == 1 else "utf-8").split("\n")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + first
        raise ValueError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error
