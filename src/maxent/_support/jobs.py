"""Many fits in threads, or wherever a block says, with one line of progress."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from maxent._support.progress import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


class Runner(Protocol):
    """Somewhere else to work."""

    def as_they_end(
        self, work: Callable[[Any], Any], jobs: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """The place of each job and ``work(job)``; pure computations."""

    def in_order(
        self, work: Callable[[Any], Any], jobs: Iterable[Any]
    ) -> Generator[Any, None, None]:
        """``work(job)`` of each; it may read files."""


_runner: ContextVar[Runner | None] = ContextVar("maxent-jobs", default=None)


def current_runner() -> Runner | None:
    """What :func:`elsewhere` says, None for this process."""
    return _runner.get()


@contextmanager
def elsewhere(runner: Runner | None) -> Iterator[None]:
    """Let ``runner`` do what would run in threads of this process; None: let these do it."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


def in_threads(
    name: str,
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    n_jobs: int | None,
    verbose: int,
    unit: str = "",
) -> list[Result]:
    """``work`` on every job; progress says how many of them are done, in ``unit``.

    In threads, ``n_jobs`` of them, or where :func:`elsewhere` says.
    """
    progress = Progress(name, verbose)
    runner = current_runner()
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress.update(f"{done} of {len(jobs)} {unit}".rstrip(), done, len(jobs))

    try:
        if runner is None or len(jobs) < 2:
            return _threads(work, jobs, n_jobs, count)
        found: dict[int, Result] = {}
        with closing(runner.as_they_end(work, jobs)) as results:
            for place, result in results:
                found[place] = result
                count()
        return [found[place] for place in range(len(jobs))]
    finally:
        progress.close()


def _threads(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    n_jobs: int | None,
    count: Callable[[], None],
) -> list[Result]:
    from joblib import Parallel, delayed

    def run(job: Job) -> Result:
        result = work(job)
        count()
        return result

    return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(run)(job) for job in jobs))
