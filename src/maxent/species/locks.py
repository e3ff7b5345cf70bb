"""A lock on a file, which the kernel gives back when those who hold it end, however they end."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
import warnings
from contextlib import suppress
from multiprocessing import reduction
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PATIENCE = 10.0  # seconds that the workers of a killed run get to end
_WITHOUT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # of file systems that have no locks


class Lock:
    """A lock that is held; processes that it is sent to when they start hold it as well."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> Any:
        return _inherited, (reduction.DupFd(self._descriptor),)

    def release(self, path: Path) -> None:
        """Delete the file, then give the lock back: nobody waits for a file that is gone."""
        with suppress(OSError):
            path.unlink()
        os.close(self._descriptor)


def _inherited(descriptor: Any) -> Lock:
    return Lock(descriptor.detach())


def take(path: Path, what: str) -> Lock:
    """The lock of a file, with ``what`` it stands for in the message of a refusal."""
    deadline = time.monotonic() + _PATIENCE
    while (descriptor := _acquired(path)) is None:
        host, process = _holder(path)
        ended = host == socket.gethostname() and not _alive(process)
        if not ended or time.monotonic() > deadline:
            raise FileExistsError(
                f"another run (process {process or 'unknown'} on {host or 'unknown'}) is writing "
                f"to {what}; wait for it or give another folder"
            )
        time.sleep(0.05)  # killed: its workers are about to notice
    with suppress(OSError):  # on a full disk the lock has no name, and holds all the same
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{socket.gethostname()} {os.getpid()}".encode())
    return Lock(descriptor)


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of a file."""
    if not path.exists():
        return True
    descriptor = _acquired(path)
    if descriptor is not None:
        Lock(descriptor).release(path)
    return descriptor is not None


def _acquired(path: Path) -> int | None:
    """The open file, None where another process holds its lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _lock(descriptor):
                os.close(descriptor)
                return None
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the run that had it has deleted it since


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _WITHOUT:
            return False
        warnings.warn(
            "this file system has no locks: see to it that no other run writes to the same folder",
            stacklevel=2,
        )
    return True


def _holder(path: Path) -> tuple[str, str]:
    try:
        host, _, process = path.read_text().partition(" ")
    except OSError:
        return "", ""
    return host, process


def _alive(process: str) -> bool:
    if not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
