"""Who fits the species of a run: this process, processes of this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxent._support.jobs import elsewhere
from maxent.species.batch.locks import Lock
from maxent.species.batch.workers import in_processes
from maxent.species.fitting.options import ALWAYS, option


@dataclass(frozen=True)
class ClusterSettings:
    """Who does the work: this process, a dask cluster at an address, or workers to start here.

    Parameters
    ----------
    dask : str, default None
        Address of the scheduler of a dask cluster, such as "tcp://host:8786".
    workers : int, default None
        Processes to start here, as a cluster.
    memory : str, default None
        What this process, or each worker that is started here, may take, such as "2GB"; with it a
        background of all cells is read in windows.
    dashboard : bool, default False
        Whether workers started here have dask's pages on the work, which everyone on this machine
        can read.

    Examples
    --------
    >>> ClusterSettings(dask="tcp://10.0.0.1:8786", workers=4)
    Traceback (most recent call last):
    ValueError: dask and --workers name two clusters; give one of them
    """

    dask: str | None = option(
        None, "Work on the cluster of this scheduler, such as tcp://host:8786.", with_swd=ALWAYS
    )
    workers: int | None = option(
        None, "Start this many processes here, and work on them as a cluster.", with_swd=ALWAYS
    )
    memory: str | None = option(
        None,
        "With --background all: read the layers in windows that fit into this much memory, such "
        "as 2GB; with --workers, of each worker.",
    )
    dashboard: bool = option(
        False,
        "With --workers: show dask's pages on the work, which everyone on this machine can read.",
        with_swd=ALWAYS,
    )

    def __post_init__(self) -> None:
        if self.dask is not None and self.workers is not None:
            raise ValueError("dask and --workers name two clusters; give one of them")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        if self.memory is not None:
            self._check_memory(self.memory)
        if self.dashboard and self.workers is None:
            raise ValueError("dashboard is that of workers that are started here (--workers)")

    def _check_memory(self, memory: str) -> None:
        from maxent.rows.blocks.sources import block_bytes, in_bytes

        try:
            in_bytes(memory)
        except ValueError:
            raise ValueError(f"memory is a number and a unit, as 2GB, got {memory!r}") from None
        block_bytes(memory)
        if self.dask is not None:
            raise ValueError(
                "memory is that of this process, or of workers that are started here; those of "
                "--dask have limits of their own, which are kept"
            )

    @property
    def named(self) -> str | None:
        """The option that was given, None for no cluster."""
        if self.dask is not None:
            return "--dask"
        return None if self.workers is None else "--workers"

    def _told(self, client: Any) -> str:
        """What there is to work with."""
        threads = client.nthreads().values()
        told = "1 worker" if len(threads) == 1 else f"{len(threads)} workers"
        if self.dashboard:
            return f"{told}, dashboard at {client.dashboard_link}"
        if self.workers is not None:
            return f"{told} of this machine"
        told = f"{told} at {self.dask}"
        if max(threads) == 1:
            return told
        return (
            f"{told} with up to {max(threads)} threads each, which take one species or window at a "
            "time: start workers with --nthreads 1, and as many as there are cores"
        )

    @contextmanager
    def connected(self, tell: Callable[[str], None], advice: str = "") -> Iterator[Any]:
        """A client of the cluster, None where there is none; tells who is there.

        ``advice`` is what to do where it is lost on the way.
        """
        if self.named is None:
            yield None
            return
        from maxent.rows.dask.cluster import SchedulerLost, connect

        try:
            with connect(
                self.dask,
                self.workers,
                memory_limit=self.memory or "auto",
                dashboard=self.dashboard,
            ) as client:
                tell(self._told(client))
                yield client
        except SchedulerLost as error:
            raise SchedulerLost(f"{error}{advice and '; '}{advice}") from error


def check_files(client: Any, out: Path | None, read: Iterable[str | Path]) -> None:
    """Refuse a cluster whose workers do not see the files that are read, and the folder ``out``.

    None is no cluster; and ``out``, where workers write nothing.
    """
    if client is not None:
        from maxent.rows.dask.cluster import check_shared

        check_shared(client, out, read)


@contextmanager
def spread(client: Any) -> Iterator[None]:
    """Folds, candidates and the like are tasks of the cluster; None: threads of this process."""
    if client is None:
        yield
        return
    from maxent.rows.dask.tasks import ClusterRunner

    with elsewhere(ClusterRunner(client)):
        yield


@dataclass(frozen=True)
class Crew:
    """Processes to start, or the client of a cluster.

    Species are handed out, one task each, where there are as many as workers. Fewer are fitted here
    one after the other, with their folds and other refits as tasks of the cluster.
    """

    jobs: int
    client: Any
    lock: Lock

    def __post_init__(self) -> None:
        if self.jobs > 1 and self.client is not None:
            raise ValueError(f"jobs={self.jobs} and a cluster both fit the species; give one")

    def hands_out(self, species: int) -> bool:
        """Whether that many species are fitted elsewhere."""
        if self.client is not None:
            return species >= max(2, len(self.client.nthreads()))
        return self.jobs > 1 and species > 1

    def work(
        self, work: Callable[..., Any], queue: Sequence[Any], common: Any
    ) -> Generator[tuple[Any, Any], None, None]:
        """(job, ``work(job, common, lock)``) as they end; something else where nothing came."""
        if self.client is None:
            yield from in_processes(work, queue, (common, self.lock), self.jobs)
            return
        from maxent.rows.dask.tasks import in_workers

        # the lock cannot leave this machine: it is held here until all have ended
        yield from in_workers(self.client, work, queue, (common, None))
