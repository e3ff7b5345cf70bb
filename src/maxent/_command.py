"""The entry of the ``maxent`` command: Ctrl-C leaves no traceback, not even while it imports."""

from __future__ import annotations

import os
import signal
from types import FrameType


def run() -> None:
    """Import the command, then run it."""
    signal.signal(signal.SIGINT, _leave)
    from maxent.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the interpreter may be left at once


def _leave(number: int, frame: FrameType | None) -> None:
    """At once: an exception in the middle of an import may come out as another one."""
    os.write(2, b"error: interrupted\n")
    os._exit(130)
