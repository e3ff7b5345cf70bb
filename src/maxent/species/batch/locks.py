"""A folder that one run at a time writes to, by a lock on a file."""

from __future__ import annotations

import os
import socket
import time
import warnings
from contextlib import suppress
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from maxent._support import locks

_PATIENCE = 10.0  # seconds that the workers of a killed run get to end


class Lock:
    """A lock that is held; processes that it is sent to when they start hold it as well."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> Any:
        return _inherited, (reduction.DupFd(self._descriptor),)

    def release(self, path: Path) -> None:
        """Delete the file, then give the lock back."""
        locks.release(self._descriptor, path)


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
    return locks.acquired(path, _without)


def _without() -> None:
    warnings.warn(
        "this file system has no locks: see to it that no other run writes to the same folder",
        stacklevel=5,
    )


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
