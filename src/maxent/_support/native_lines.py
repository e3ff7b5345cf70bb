"""Lines that native libraries write to standard error by themselves, held back for a while."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# of libtiff and GDAL, which say so for each block that they cannot write
_LINE = re.compile(rb"(?:_tiff\w+|TIFF\w+|ERROR \d+): [^\n]*\n")
_BEGUN = re.compile(rb"(?:_(?:\Z|t)|T(?:\Z|I(?:\Z|F))|E(?:\Z|R(?:\Z|R)))[^\n]*\Z")
_PATIENCE = 5.0  # seconds that the last lines get to pass


class _Filter:
    """Standard error without such lines, as long as anybody asks for it."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0

    def begin(self) -> None:
        with self._lock:
            if not self._users:
                self._real = os.dup(2)
                source, sink = os.pipe()
                os.dup2(sink, 2)
                os.close(sink)
                pipes = source, os.dup(self._real)
                self._thread = threading.Thread(target=_pass_on, args=pipes, daemon=True)
                self._thread.start()
            self._users += 1

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(self._real, 2)  # the pipe has no other end now, so the thread ends as well
            os.close(self._real)
            self._thread.join(_PATIENCE)


_FILTER = _Filter()


@contextmanager
def native_lines_held_back() -> Iterator[None]:
    """Keep what libtiff and GDAL write to standard error off it; all else passes.

    What goes wrong in them is raised as an exception besides.
    """
    try:
        _FILTER.begin()
    except OSError:  # closed by the caller
        yield
        return
    try:
        yield
    finally:
        _FILTER.end()


def _pass_on(source: int, target: int) -> None:
    with open(source, "rb", buffering=0) as lines, open(target, "wb", buffering=0) as passed:
        held = b""
        while data := lines.read(1 << 16):
            text = _LINE.sub(b"", held + data)
            begun = _BEGUN.search(text)
            cut = len(text) if begun is None else begun.start()
            held = text[cut:]
            with suppress(OSError):
                passed.write(text[:cut])
        with suppress(OSError):
            passed.write(_LINE.sub(b"", held + b"\n")[:-1])
