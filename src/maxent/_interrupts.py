"""Ctrl-C held back while something is done that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """A Ctrl-C in here takes effect at the end, where the handler of before is called.

    Other threads are never interrupted, and a process that ignores Ctrl-C goes on doing so.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


@contextmanager
def deaf_children() -> Iterator[None]:
    """A process that starts here never hears Ctrl-C, not even while it imports.

    Nor do those that a thread starts which began here.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # whoever starts it lets the signal through afterwards, so that the next child would hear it
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
