"""Jobs: ``maxent`` commands that run in processes of their own, with all of their state on disk.

A server that stops leaves them running, and the next one finds them again.
"""

from __future__ import annotations

import json
import re
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

from maxent._support.terminal import INTERRUPTED, PARTLY, printable
from maxent.app import runner
from maxent.app.aside import Aside
from maxent.app.folders import Folders
from maxent.app.models import JobEvent, JobFacts
from maxent.app.processes import OWN_GROUP, interrupt, started_at
from maxent.app.schema import DamagedError, read
from maxent.io import write_atomically

_KEPT = 50  # jobs whose story is kept
_PID = "pid"
_STOP = "stop"  # a file that says that its end was asked for
_UNKNOWN = "unknown"  # when a process began, where the system does not say it
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_READ = 4 << 20  # bytes of a story that are read


class BusyError(RuntimeError):
    """Another job is running."""


@dataclass(frozen=True)
class Job:
    """One command: its folder holds its words, its events and, at the end, its exit code."""

    folder: Path
    facts: JobFacts

    @classmethod
    def from_folder(cls, folder: Path) -> Job:
        """The job of a folder; an error says why it cannot be read."""
        return cls(folder, read(JobFacts, (folder / runner.JOB).read_bytes()))

    @property
    def number(self) -> int:
        """Jobs are counted."""
        return int(self.folder.name)

    @property
    def status(self) -> str:
        """ "running", "done", "stopped", "failed" or "lost" (killed from outside)."""
        with suppress(OSError, ValueError):
            code = int(_end_of(self.folder / runner.EXIT))
            if code in (0, PARTLY):
                return "done"
            by_signal = code in (INTERRUPTED, -signal.SIGINT)
            return "stopped" if by_signal or self._asked_to_stop() else "failed"
        if self._recorded_process()[1] == _UNKNOWN:
            return "failed"
        if self._alive():
            return "running"
        return "stopped" if self._asked_to_stop() else "lost"

    def _asked_to_stop(self) -> bool:
        """A process stopped while Python starts writes no exit code, or that of an error."""
        return (self.folder / _STOP).is_file()

    def _alive(self) -> bool:
        if not (self.folder / _PID).is_file():
            return time.time() - self.folder.stat().st_mtime < 5  # it is being started
        return self._process() is not None

    def _recorded_process(self) -> tuple[str, str]:
        """The number of its process and when that began, as they were written down."""
        with suppress(OSError, ValueError):
            pid, _, started = _end_of(self.folder / _PID).decode().strip().partition("\n")
            return pid, started
        return "", ""

    def _process(self) -> int | None:
        """Its process, as long as that is the one that was started: numbers are used again."""
        pid, started = self._recorded_process()
        with suppress(ValueError):
            if started and started == started_at(int(pid)):
                return int(pid)
        return None

    def stop(self) -> None:
        """Ctrl-C for the command, which then leaves things as they were."""
        process = self._process()
        if process is not None:
            with suppress(OSError):  # a full disk keeps nothing running
                write_atomically(self.folder / _STOP, b"")
            interrupt(process)

    def error(self) -> str:
        """The last line of what the command complained of."""
        pid, started = self._recorded_process()
        if started == _UNKNOWN and not (self.folder / runner.EXIT).is_file():
            return (
                f"This system does not tell when a process began, so that process {printable(pid)} "
                "cannot be told from one of another program: Stop ends nothing. Wait for it, or "
                "end it yourself, and fit again."
            )
        with suppress(OSError):
            lines = _end_of(self.folder / runner.ERRORS).decode("utf-8", errors="replace")
            return printable(_complaint(lines))
        return ""

    def events(self) -> list[dict[str, Any]]:
        """What it has told so far; a damaged line is left out."""
        try:
            whole, _, _ = _end_of(self.folder / runner.EVENTS).rpartition(b"\n")
        except OSError:
            return []
        told = []
        for line in whole.splitlines():
            with suppress(ValueError):
                told.append(read(JobEvent, line).model_dump(exclude_none=True))
        return _summed(told)

    def story(self) -> dict[str, Any]:
        """All that the page shows of a job."""
        facts, status = self.facts, self.status
        return {
            "number": self.number,
            "kind": facts.argv[0],
            "command": shlex.join(["maxent", *facts.argv]),
            "out": facts.out,
            "started": facts.started,
            "status": status,
            "error": self.error() if status == "failed" else "",
            "events": self.events(),
        }


class Jobs:
    """The jobs of a folder, one of them at a time running."""

    def __init__(self, folders: Folders, aside: Aside | None = None) -> None:
        self.folders, self.aside = folders, aside or Aside(folders)
        self.folder = folders.state / "jobs"
        self._starting = threading.Lock()

    def all(self) -> list[Job]:
        """The latest first."""
        if not self.folder.is_dir():
            return []
        found = []
        for folder in self.folder.iterdir():
            if not _NUMBER.fullmatch(folder.name) or not (folder / runner.JOB).is_file():
                continue
            if not self.folders.holds(folder / runner.JOB):  # a link that leads out
                continue
            try:
                found.append(Job.from_folder(folder))
            except OSError:  # forgotten meanwhile
                continue
            except DamagedError as error:
                self.aside.put(folder, str(error))
        return sorted(found, key=lambda job: -job.number)

    def find(self, number: int) -> Job:
        """By its number."""
        found = next((job for job in self.all() if job.number == number), None)
        if found is None:
            raise FileNotFoundError(f"no job {number}")
        return found

    def running(self) -> Job | None:
        """The one that runs, if any."""
        return next((job for job in self.all() if job.status == "running"), None)

    def start(self, argv: Sequence[str], out: str, draft: Mapping[str, Any] | None = None) -> Job:
        """Begin a command in the first folder; refused while another one runs.

        ``draft`` are the choices that it was made from.
        """
        with self._starting:
            return self._start(argv, out, draft)

    def _start(self, argv: Sequence[str], out: str, draft: Mapping[str, Any] | None) -> Job:
        busy = self.running()
        if busy is not None:
            raise BusyError(f"a {busy.facts.argv[0]} is running; wait for it, or stop it")
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
            **OWN_GROUP,
        )
        started = started_at(process.pid) or ("" if process.poll() is not None else _UNKNOWN)
        threading.Thread(target=process.wait, daemon=True).start()  # so that its end is noticed
        write_atomically(folder / _PID, f"{process.pid}\n{started}\n".encode())
        self._forget()
        return Job.from_folder(folder)

    def _forget(self) -> None:
        for job in self.all()[_KEPT:]:
            shutil.rmtree(job.folder, ignore_errors=True)


def _summed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One event for each candidate of the species at work, and the latest of any progress."""
    kept: list[dict[str, Any]] = []
    counted: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in events:
        if event["kind"] == "stage":
            counted = {}
        if event["kind"] not in ("candidate", "progress"):
            kept.append(event)
            continue
        key = tuple(event.get(k) for k in ("kind", "stage", "features", "potential", "multiplier"))
        before = counted.get(key)
        if before is not None and event["kind"] == "candidate":
            event["done"] = before.get("done", 0) + event.get("done", 0)
        counted[key] = event
    return [*kept, *counted.values()]


def _complaint(lines: str) -> str:
    """What a command complained of at last: a line of its own, or what a frame holds.

    >>> _complaint("╭─ Error ──╮\\n│ Invalid value: --buffer has │\\n│ no effect │\\n╰──────────╯")
    '--buffer has no effect'
    """
    told = [line.strip() for line in lines.splitlines() if line.strip()]
    wrong = [line.removeprefix("error:") for line in told if line.startswith("error:")]
    framed = [line.strip("│ ") for line in told if line.startswith("│")]
    usage = " ".join(framed).removeprefix("Invalid value: ")
    return next((said.strip() for said in (*wrong[-1:], usage, *told[-1:]) if said), "")


def _end_of(path: Path) -> bytes:
    """The last of a file: a crafted one may be larger than memory."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _READ))
        return file.read(_READ)
