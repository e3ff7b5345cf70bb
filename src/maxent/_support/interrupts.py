"""Ctrl-C that is heard, and held back while something is done that must not be left half done."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Insistent:
    """A handler of Ctrl-C that asks again every ``seconds`` until its command has heard it.

    Callbacks of foreign code drop exceptions, and imports may let out another one in their place.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.came = False
        self._timer: threading.Timer | None = None

    def __call__(self, number: int, frame: FrameType | None) -> NoReturn:
        self.came = True
        self.ask_in(self.seconds)
        raise KeyboardInterrupt

    def ask_in(self, seconds: float) -> None:
        """Press Ctrl-C after a while, instead of any time set before."""
        self.heard()
        self._timer = threading.Timer(seconds, _press)
        self._timer.daemon = True
        self._timer.start()

    def heard(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()


def insisted() -> bool:
    """Whether a Ctrl-C has come that the command is to hear; from then on it asks no more."""
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, Insistent):
        return False
    handler.heard()
    return handler.came


def _press() -> None:
    if hasattr(signal, "pthread_kill"):  # it ends a wait within the system, too
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


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
    from multiprocessing import resource_tracker

    # whoever starts it lets the signal through afterwards, so that the next child would hear it
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
