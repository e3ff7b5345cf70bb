"""Locks on files, which the kernel gives back when those who hold them end, however they end."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_WITHOUT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # of file systems that have no locks


def acquired(path: Path, without: Callable[[], object]) -> int | None:
    """The open file, None where another process holds its lock.

    ``without`` is called where the file system has no locks; the file counts as locked then.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _lock(descriptor, without):
                os.close(descriptor)
                return None
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the run that had it has deleted it since


def release(descriptor: int, path: Path) -> None:
    """Delete the file, then give the lock back: nobody waits for a file that is gone."""
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)


def _lock(descriptor: int, without: Callable[[], object]) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _WITHOUT:
            return False
        without()
    return True
