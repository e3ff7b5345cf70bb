"""Jobs: ``maxent`` commands that run in processes of their own, with all of their state on disk.

A server that stops leaves them running, and the next one finds them again.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent._terminal import INTERRUPTED, PARTLY, printable
from maxent.app import runner
from maxent.app.folders import Folders
from maxent.io import write_atomically

_KEPT = 50  # jobs whose story is kept
_PID = "pid"


class BusyError(RuntimeError):
    """Another job is running."""


@dataclass(frozen=True)
class Job:
    """One command: its folder holds its words, its events and, at the end, its exit code."""

    folder: Path

    @property
    def number(self) -> int:
        """Jobs are counted."""
        return int(self.folder.name)

    @property
    def facts(self) -> dict[str, Any]:
        """What was written when it began."""
        loaded: dict[str, Any] = json.loads((self.folder / runner.JOB).read_text(encoding="utf-8"))
        return loaded

    @property
    def status(self) -> str:
        """ "running", "done", "stopped", "failed" or "lost" (killed from outside)."""
        with suppress(OSError, ValueError):
            code = int((self.folder / runner.EXIT).read_text())
            if code in (0, PARTLY):
                return "done"
            return "stopped" if code in (INTERRUPTED, -signal.SIGINT) else "failed"
        return "running" if self._alive() else "lost"

    def _alive(self) -> bool:
        try:
            pid = int((self.folder / _PID).read_text())
        except (OSError, ValueError):
            return time.time() - self.folder.stat().st_mtime < 5  # it is being started
        return _runs(pid)

    def stop(self) -> None:
        """Ctrl-C for the command, which then leaves things as they were."""
        with suppress(OSError, ValueError, ProcessLookupError):
            os.killpg(int((self.folder / _PID).read_text()), signal.SIGINT)

    def error(self) -> str:
        """The last line of what the command complained of."""
        with suppress(OSError):
            lines = (self.folder / runner.ERRORS).read_text(encoding="utf-8", errors="replace")
            told = [line for line in lines.splitlines() if line.strip()]
            wrong = [line for line in told if line.startswith("error:")] or told[-1:]
            return printable(wrong[-1].removeprefix("error:").strip()) if wrong else ""
        return ""

    def events(self, after: int = 0) -> tuple[list[dict[str, Any]], int]:
        """What happened since a place in the file of events, and the place reached."""
        path = self.folder / runner.EVENTS
        if not path.exists():
            return [], after
        with open(path, "rb") as file:
            file.seek(after)
            whole, _, _ = file.read().rpartition(b"\n")
        told = [json.loads(line) for line in whole.splitlines() if line]
        return told, after + len(whole) + (1 if whole else 0)

    def story(self) -> dict[str, Any]:
        """All that the page shows of a job."""
        facts, status = self.facts, self.status
        events, place = self.events()
        return {
            "number": self.number,
            "kind": facts["argv"][0],
            "command": shlex.join(["maxent", *facts["argv"]]),
            "out": facts["out"],
            "started": facts["started"],
            "status": status,
            "error": self.error() if status == "failed" else "",
            "events": events,
            "place": place,
        }


class Jobs:
    """The jobs of a folder, one of them at a time running."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.folder = folders.state / "jobs"

    def all(self) -> list[Job]:
        """The latest first."""
        if not self.folder.is_dir():
            return []
        found = [Job(p) for p in self.folder.iterdir() if p.name.isdecimal()]
        whole = [job for job in found if (job.folder / runner.JOB).is_file()]
        return sorted(whole, key=lambda job: -job.number)

    def find(self, number: int) -> Job:
        """By its number."""
        job = Job(self.folder / str(number))
        if not (job.folder / runner.JOB).is_file():
            raise FileNotFoundError(f"no job {number}")
        return job

    def running(self) -> Job | None:
        """The one that runs, if any."""
        return next((job for job in self.all() if job.status == "running"), None)

    def start(self, argv: Sequence[str], out: str, draft: Mapping[str, Any] | None = None) -> Job:
        """Begin a command in the first folder; refused while another one runs.

        ``draft`` are the choices that it was made from.
        """
        busy = self.running()
        if busy is not None:
            raise BusyError(f"a {busy.facts['argv'][0]} is running; wait for it, or stop it")
        number = 1 + max((job.number for job in self.all()), default=0)
        folder = self.folder / str(number)
        folder.mkdir(parents=True)
        facts = {
            "argv": list(argv),
            "home": str(self.folders.home),
            "out": out,
            "started": time.time(),
            "draft": draft,
        }
        write_atomically(folder / runner.JOB, (json.dumps(facts, indent=1) + "\n").encode())
        process = subprocess.Popen(
            [sys.executable, "-m", "maxent.app.runner", str(folder)],
            cwd=self.folders.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the server is not for it
        )
        threading.Thread(target=process.wait, daemon=True).start()  # so that its end is noticed
        write_atomically(folder / _PID, f"{process.pid}\n".encode())
        self._forget()
        return Job(folder)

    def _forget(self) -> None:
        for job in self.all()[_KEPT:]:
            shutil.rmtree(job.folder, ignore_errors=True)


def _runs(pid: int) -> bool:
    """Whether a process is alive: one that has ended but was not waited for is not."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    with suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return True
