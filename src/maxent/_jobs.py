"""Many fits in threads, with one line of progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from maxent._progress import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_threads(
    name: str,
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    n_jobs: int | None,
    verbose: int,
    unit: str = "",
) -> list[Result]:
    """``work`` on every job; progress says how many of them are done, in ``unit``."""
    from joblib import Parallel, delayed

    progress = Progress(name, verbose)
    done = 0

    def run(job: Job) -> Result:
        nonlocal done
        result = work(job)
        done += 1
        progress.update(f"{done} of {len(jobs)} {unit}".rstrip())
        return result

    try:
        return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(run)(job) for job in jobs))
    finally:
        progress.close()
