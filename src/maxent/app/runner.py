"""A command in a process of its own: ``python -m maxent.app.runner FOLDER`` runs that of job.json.

It stands between server and command so that the exit code is on disk whoever is left to ask.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from maxent._support.progress import EVENTS as PROGRESS
from maxent._support.progress import LIFELINE
from maxent.io import write_atomically

JOB, EXIT, EVENTS, ERRORS, OUTPUT = "job.json", "exit", "events.jsonl", "errors.txt", "output.txt"

_OWN_FOLDER = ("evaluate", "sites", "overlap")  # whose folder was made for them, empty


def run(folder: Path) -> int:
    """Run the command of a job's folder to its end and write its exit code there."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    for name in ("SIGINT", "SIGBREAK"):  # for the command alone; Windows has both
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # wrong usage is told in a frame, in which no name is to be broken
    environment = {**os.environ, PROGRESS: str(folder / EVENTS), "TERMINAL_WIDTH": "1000"}
    held: tuple[int, ...] = ()
    if os.name == "posix":  # the command sees our end close however we end, and ends too
        held = (os.pipe()[0],)
        environment[LIFELINE] = str(held[0])
    with _open(folder / ERRORS) as errors, _open(folder / OUTPUT) as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "maxent.cli", *job["argv"]],
            cwd=job["home"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=held,
            preexec_fn=_hear if os.name == "posix" else None,
        )
        code = command.wait()
    if code and job["argv"][0] in _OWN_FOLDER:
        with suppress(OSError):  # not empty, or not there
            os.rmdir(os.path.join(job["home"], job["out"]))
    write_atomically(folder / EXIT, f"{code}\n".encode())
    return code


def _hear() -> None:
    """Ctrl-C reaches the command, though the runner ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _open(path: Path) -> IO[bytes]:
    return open(path, "wb")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
