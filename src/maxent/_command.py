"""The entry of the ``maxent`` command: Ctrl-C ends it with code 130 and no traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

from maxent._support.interrupts import Insistent

_INTERRUPTED = 130
_GRACE = 30.0  # seconds to end by itself


def run() -> None:
    """Import the command, then run it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; packages expect one as they are imported
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the end
    signal.signal(signal.SIGINT, _leave)
    if sys.platform == "win32":  # what reaches a command of the app
        signal.signal(signal.SIGBREAK, lambda number, frame: signal.raise_signal(signal.SIGINT))
    # the interpreter's own end cannot be interrupted: the command has ended, with its own code
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    warnings.showwarning = _note
    _follow_parent()
    from maxent.cli.command import main
    from maxent.species.input.file_access import own_process

    own_process()
    insistent = Insistent()
    sys.unraisablehook = partial(_ask_again, insistent)
    try:
        signal.signal(signal.SIGINT, insistent)
        main()
    except KeyboardInterrupt:  # a second one, while the first was told of
        _leave()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _end_here()
        raise
    finally:
        insistent.heard()
        signal.signal(signal.SIGINT, _leave)  # threads that are waited for
        # Python notes a Ctrl-C within exec(text) as unhandled, even if it is handled further out,
        # and python -m would end by the signal, not by our code; the next text clears the note
        exec("")


def _follow_parent() -> None:
    """End as by Ctrl-C when whoever started the command is gone, killed or not."""
    from maxent._support.progress import LIFELINE

    held = os.environ.pop(LIFELINE, "")
    if not held.isdecimal():
        return

    def wait() -> None:
        with suppress(OSError):
            os.read(int(held), 1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_GRACE)
        os._exit(_INTERRUPTED)

    threading.Thread(target=wait, daemon=True).start()


def _ask_again(insistent: Insistent, unraisable: sys.UnraisableHookArgs) -> None:
    """A Ctrl-C that fell into a callback of the compiler, which drops exceptions, comes again."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        # not at once: it would come out of this hook, and be dropped again
        insistent.ask_in(0.05)
    else:
        sys.__unraisablehook__(unraisable)


def _note(message: Any, *where: Any, **more: Any) -> None:
    """A warning in a line of its own, without the line of code that it came from."""
    with suppress(OSError, ValueError):  # a closed standard error
        print(f"note: {message}", file=sys.stderr)


def _leave(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """At once: an exception in the middle of an import may come out as another one."""
    with suppress(OSError):  # a closed standard error
        os.write(2, b"error: interrupted\n")
    os._exit(_INTERRUPTED)


def _end_here() -> None:
    """Without the interpreter's last steps: threads of compiled code that are still at work when
    their library is unloaded would abort the process, and the code would be theirs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(_INTERRUPTED)
