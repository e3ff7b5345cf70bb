"""Independent jobs as tasks of a cluster: what they share is sent to each worker once.

A worker that is lost takes down no job: dask runs it again elsewhere, and gives up a job whose
workers were lost several times (``distributed.scheduler.allowed-failures``).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, WorkerPlugin, as_completed, get_worker
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps, loads

from maxent._support.threads import one_blas_thread
from maxent.rows.dask.cluster import on_workers

_AHEAD = 2  # jobs for each thread of a worker, so that none waits for the next one
_PAUSE, _LOOK, _LONELY = (
    0.01,
    5.0,
    120.0,
)  # seconds: between looks at tasks, at workers; without any
_one_at_a_time = threading.Lock()


class Lost:
    """What there is of a job whose workers were lost again and again."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __str__(self) -> str:
        return (
            f"the {self.times} workers that ran it were killed, perhaps for lack of memory; run it "
            "again with fewer workers, or with more memory for each"
        )


def in_workers(
    client: Client, work: Callable[..., Any], queue: Sequence[Any], common: Sequence[Any] = ()
) -> Generator[tuple[Any, Any], None, None]:
    """(job, ``work(job, *common)``) of every job as it ends; a :class:`Lost` where nothing came.

    A process works on one of them at a time, in the folder of this process: what is done there may
    read relative paths, record warnings and draw.

    Parameters
    ----------
    client : Client
        The client.
    work : callable
        What to do with a job.
    queue : sequence
        The jobs.
    common : sequence, default ()
        Further arguments of all jobs.
    """
    with _handed_over(client, work, common, alone=True) as submit:
        for job, future in _as_they_end(client, submit, queue):
            yield job, _answer(future)


class ClusterRunner:
    """For ``jobs.elsewhere``: what would run in threads here runs on the cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def as_they_end(
        self, work: Callable[[Any], Any], jobs: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """The place of each job and ``work(job)``, of pure computations."""
        with _handed_over(self.client, work, (), alone=False) as submit:
            numbered = list(enumerate(jobs))
            ended = _as_they_end(self.client, lambda item: submit(item[1]), numbered)
            for (place, _), future in ended:
                yield place, _certain(future)

    def in_order(
        self, work: Callable[[Any], Any], jobs: Iterable[Any]
    ) -> Generator[Any, None, None]:
        """``work(job)`` of every job, in order, never more than a few jobs ahead."""
        waiting: deque[Future] = deque()
        with _handed_over(self.client, work, (), alone=True) as submit:
            for job in jobs:
                waiting.append(submit(job))
                if len(waiting) >= _most(self.client):
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)

    def _next(self, waiting: deque[Future]) -> Any:
        future = waiting.popleft()
        _wait(self.client, future.done)
        return _certain(future)


# -- tasks ----------------------------------------------------------------------------------------


class _Work(WorkerPlugin):
    """What all jobs of a run have in common, kept by each worker."""

    def __init__(self, work: Callable[..., Any], common: Sequence[Any], alone: bool) -> None:
        self.work, self.common, self.alone = work, tuple(common), alone
        self.folder = os.getcwd()

    def run(self, job: Any) -> Any:
        with one_blas_thread(), in_folder(self.folder) if self.alone else nullcontext():
            return self.work(job, *self.common)


@contextmanager
def in_folder(folder: str) -> Iterator[None]:
    """Work in a folder, where it is there; no other thread of the process does so meanwhile."""
    with _one_at_a_time:
        before = os.getcwd()
        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _task(name: str, job: bytes) -> bytes:
    """Bytes in and out: arrays that dask sends by itself arrive read-only."""
    work = get_worker().plugins[name]
    assert isinstance(work, _Work)
    return dumps(work.run(loads(job)))


@contextmanager
def _handed_over(
    client: Client, work: Callable[..., Any], common: Sequence[Any], *, alone: bool
) -> Iterator[Callable[[Any], Future]]:
    """Send the work; a function that makes a task of a job."""

    def submit(job: Any) -> Future:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return client.submit(_task, name, dumps(job), pure=False)  # few at a time

    with on_workers(client, _Work(work, common, alone)) as name:
        yield submit


def _as_they_end(
    client: Client, submit: Callable[[Any], Future], queue: Sequence[Any]
) -> Iterator[tuple[Any, Future]]:
    """Every job with its future, which has ended; few of them are under way at a time."""
    waiting = deque(queue)
    jobs: dict[Any, Any] = {}
    ended = as_completed(loop=client.loop)
    while waiting or jobs:
        for _ in range(min(len(waiting), _most(client) - len(jobs))):
            future = submit(waiting[0])
            jobs[future.key] = waiting.popleft()
            ended.add(future)
        _wait(client, ended.has_ready)
        for future in ended.next_batch():
            yield jobs.pop(future.key), future


def _wait(client: Client, ready: Callable[[], bool]) -> None:
    """Until ``ready()`` says so; an error where there is nobody left who could see to it."""
    worked = looked = time.monotonic()
    while not ready():
        if client.status != "running":  # it has given up all tasks, also if it finds its way back
            raise CommClosedError("the connection was closed")
        time.sleep(_PAUSE)
        now = time.monotonic()
        if now - looked > _LOOK:
            looked = now
            worked = now if client.nthreads() else worked
            if now - worked > _LONELY:
                raise CommClosedError(f"no worker was left, and none came in {_LONELY:.0f} s")


def _most(client: Client) -> int:
    return _AHEAD * max(1, sum(client.nthreads().values()))


def _answer(future: Future) -> Any:
    if future.status == "error":
        error = future.exception()
        if isinstance(error, KilledWorker):
            return Lost(error.allowed_failures + 1)
    return loads(future.result())


def _certain(future: Future) -> Any:
    answer = _answer(future)
    if isinstance(answer, Lost):
        raise RuntimeError(f"a part of the work came to nothing: {answer}")
    return answer
