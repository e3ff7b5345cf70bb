"""Worker processes: each has one job at a time, and one that is killed takes down that job alone.

They end with the process that started them, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from maxent._support.interrupts import deaf_children, held_back


def in_processes(
    work: Callable[..., Any], queue: Sequence[Any], common: Sequence[Any], processes: int
) -> Generator[tuple[Any, Any], None, None]:
    """(job, ``work(job, *common)``) of every job as it ends; a :class:`Killed` where nothing came.

    ``common`` is sent to each process once, when it starts.
    """
    waiting = deque(queue)
    started: list[_Worker] = []
    idle: list[_Worker] = []
    busy: dict[Any, tuple[_Worker, Any]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < processes:
                if not idle:
                    with held_back():  # else it could be half started, and nobody would know of it
                        started.append(_Worker(work, common))
                        idle.append(started[-1])
                worker = idle.pop()
                if worker.give(waiting[0]):
                    busy[worker.line] = worker, waiting.popleft()
            for line in wait(list(busy)):
                worker, job = busy.pop(line)
                answer = worker.answer()
                if not isinstance(answer, Killed):
                    idle.append(worker)
                yield job, answer
    except BaseException:  # Ctrl-C: what is under way is given up
        with held_back():
            for worker in started:
                worker.process.terminate()
        raise
    finally:
        with held_back():
            for worker in started:
                worker.end()


class Killed:
    """What there is of a job whose process came to an end."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def __str__(self) -> str:
        name = f"exit code {self.code}"
        if self.code is not None and self.code < 0:
            name = signal.Signals(-self.code).name
        return (
            f"its process was killed ({name}), perhaps for lack of memory; fit it again with "
            "--resume and fewer species at a time (-j)"
        )


class _Worker:
    def __init__(self, work: Callable[..., Any], common: Sequence[Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, work, common), daemon=True)
        with deaf_children():
            self.process.start()
        other.close()

    def give(self, job: Any) -> bool:
        """Hand a job over; False where the process came to an end while it was idle."""
        try:
            self.line.send(job)
        except OSError:
            self.end()
            return False
        return True

    def answer(self) -> Any:
        try:
            return self.line.recv()
        except (EOFError, OSError):
            self.end()
            return Killed(self.process.exitcode)

    def end(self) -> None:
        """It stops when its line is closed."""
        self.line.close()
        self.process.join()


def _serve(line: Connection[Any, Any], work: Callable[..., Any], common: Sequence[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["MAXENT_NUM_THREADS"] = "1"
    while True:
        try:
            job = line.recv()
        except EOFError:
            return
        line.send(work(job, *common))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
