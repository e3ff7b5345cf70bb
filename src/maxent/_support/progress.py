"""Progress of long work: one line on standard error, only once it has taken a few seconds."""

from __future__ import annotations

import json
import os
import sys
import time
from time import perf_counter
from typing import Any

from maxent._support.terminal import printable

EVENTS = "MAXENT_EVENTS"  # names a file that gets a line of JSON for each step of a run
LIFELINE = "MAXENT_LIFELINE"  # the number of a pipe that closes when who started the run is gone
_PATIENCE = 3.0  # seconds of silence first
_TERMINAL_PAUSE, _LOG_PAUSE = 0.5, 10.0
_EVENT_PAUSE = 1.0


def tell_event(kind: str, **facts: Any) -> None:
    """One line of JSON for a program that watches the run, where there is one."""
    path = os.environ.get(EVENTS)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "at": time.time(), **facts}) + "\n")


class Progress:
    """``update(text)`` as often as you like; a terminal line is rewritten, a log gets new ones."""

    def __init__(self, name: str, verbose: int = 1) -> None:
        self.name, self.verbose = name, verbose
        self.begin = self.last = self.told = perf_counter()
        self.shown = False

    def update(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show ``text`` if it is time to; who watches is told how much is done."""
        now = perf_counter()
        if done is not None and now - self.told >= _EVENT_PAUSE:
            tell_event("progress", stage=self.name, done=done, total=total)
            self.told = now
        if sys.stderr is None:  # closed by the caller
            return
        terminal = sys.stderr.isatty()
        pause = _TERMINAL_PAUSE if terminal else _LOG_PAUSE
        if not self.verbose or now - self.begin < _PATIENCE or now - self.last < pause:
            return
        end = "" if terminal else "\n"
        start = "\r\x1b[K" if terminal else ""
        sys.stderr.write(f"{start}{self.name}: {printable(text)}, {now - self.begin:.0f} s{end}")
        sys.stderr.flush()
        self.last, self.shown = now, True

    def close(self) -> None:
        """End the line."""
        if self.shown and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
