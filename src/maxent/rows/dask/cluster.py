"""Connections to a cluster: a scheduler that is running somewhere, or workers of this machine."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import socket
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from maxent._support import limits
from maxent._support.interrupts import deaf_children, held_back
from maxent._version import __version__

try:
    import dask
    from distributed import CancelledError, Client, LocalCluster, Security, WorkerPlugin
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
    from distributed.utils import silence_logging_cmgr
except ImportError as error:
    raise ImportError("a cluster needs dask.distributed: pip install maxent[dask]") from error

_PATIENCE = 8.0  # seconds until a scheduler that does not answer is given up
_HERE = "127.0.0.1"
_DASHBOARD = 8787  # where people look for it
_PAGES = "distributed.{}.http.routes"  # what a scheduler or worker shows in a browser
_SHOWN = 3  # workers that a message names
_START = "start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`"


class SchedulerLost(ConnectionError):
    """A scheduler that was there has gone."""


@contextmanager
def connect(
    address: str | None = None,
    workers: int | None = None,
    *,
    memory_limit: str | float | None = "auto",
    dashboard: bool = False,
) -> Iterator[Client]:
    """A client of the scheduler at ``address``, or of ``workers`` processes that are started here.

    Workers use one thread per task (``MAXENT_NUM_THREADS`` is 1 there). Those of a scheduler that
    is running already must have this version of maxent. Whoever can connect to a scheduler can run
    code on its workers, so those started here take no connection without a certificate that this
    process makes for them and keeps in memory (TLS). They end with the block, however it ends. What
    dask would log is held back: what goes wrong is raised.

    Parameters
    ----------
    address : str, default None
        Address of a scheduler.
    workers : int, default None
        Processes to start here instead.
    memory_limit : str, float or None, default "auto"
        Memory of each of these.
    dashboard : bool, default False
        Whether dask's pages on what they do are at ``client.dashboard_link``, for everyone on this
        machine to read.

    Raises
    ------
    ConnectionError
        Nothing answers at the address, there are no workers, or none could be started.
    SchedulerLost
        The scheduler went away while it was needed.

    Examples
    --------
    >>> with connect(workers=1) as client:
    ...     client.submit(sum, [1, 2, 3]).result()
    6
    """
    if (address is None) == (workers is None):
        raise ValueError(
            f"give the address of a scheduler or a number of workers, got {address!r}, {workers!r}"
        )
    with ExitStack() as stack:
        stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
        if workers is not None:
            client = stack.enter_context(_started(workers, memory_limit, dashboard))
            place = "of this machine"
        else:
            assert address is not None
            client = stack.enter_context(_joined(address))
            place = f"at {address}"
        try:
            if address is not None:
                check_package(client)
                stack.enter_context(on_workers(client, _Environment(_settings())))
            yield client
        except (CommClosedError, ClosedClientError, CancelledError) as error:
            why = getattr(error, "reason", None) or _first_line(error)
            raise SchedulerLost(
                f"the scheduler {place} is gone, or has given the work up ({why})"
            ) from error


@contextmanager
def _joined(address: str) -> Iterator[Client]:
    opened: list[Client] = []
    why = None
    try:
        try:
            with held_back():  # else it could be half open, and nobody would know of it
                opened.append(Client(address, timeout=_PATIENCE))
        except Exception as error:  # what answers may be no scheduler, and say anything
            why = _first_line(error)
            # the client that failed ends here and now: were it collected while another one begins,
            # both would wait for each other for ever
            traceback.clear_frames(error.__traceback__)
        if why is not None:
            gc.collect()
            raise ConnectionError(
                f"no dask scheduler answers at {address!r} ({why}); expected its address, such as "
                f"tcp://host:8786: {_START}"
            )
        yield opened[0]
    finally:
        _close(opened)


@contextmanager
def _started(workers: int, memory_limit: str | float | None, dashboard: bool) -> Iterator[Client]:
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    security = _certificate()
    # workers of our own do not sample their stacks every 10 ms, which costs several percent
    settings: dict[str, Any] = {"distributed.worker.profile.enabled": False}
    if not dashboard:
        settings |= {_PAGES.format(of): [] for of in ("scheduler", "worker")}
    opened: list[Any] = []
    try:
        with held_back(), deaf_children(), dask.config.set(settings):
            try:
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host=_HERE,
                    security=security,
                    memory_limit=memory_limit,
                    dashboard_address=_dashboard_address() if dashboard else f"{_HERE}:0",
                    scheduler_kwargs={"dashboard": dashboard},
                    silence_logs=logging.CRITICAL,
                    env=_settings(),
                )
            except (RuntimeError, OSError) as error:
                raise ConnectionError(
                    f"{workers} worker processes could not be started here "
                    f"({_first_line(error)}): free memory or give fewer; a script of your own "
                    'that starts workers does so below `if __name__ == "__main__":`'
                ) from error
            opened.append(cluster)
            opened.append(Client(cluster, timeout=_PATIENCE))
        yield opened[1]
    finally:
        _close(opened)


def _certificate() -> Security:
    """A key and a certificate for one cluster, which no file holds."""
    try:
        return Security.temporary()
    except ImportError as error:
        raise ImportError(
            "workers of this machine talk over TLS, so that other accounts cannot use them, which "
            "needs cryptography: pip install maxent[dask]"
        ) from error


def _close(opened: Sequence[Any]) -> None:
    """In an order that leaves nobody waiting for one that is gone."""
    with held_back():
        for one in reversed(opened):
            with suppress(OSError, CancelledError):  # the other side ended first
                one.close()


def _dashboard_address() -> str:
    """The usual port, or any where another cluster has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HERE, _DASHBOARD))
        except OSError:
            return f"{_HERE}:0"
    return f"{_HERE}:{_DASHBOARD}"


# -- what workers are told -------------------------------------------------------------------------


@contextmanager
def on_workers(client: Client, plugin: WorkerPlugin) -> Iterator[str]:
    """Send something to every worker, once, also to those that come later; its name there."""
    name = f"maxent-{secrets.token_hex(8)}"
    try:
        client.register_plugin(plugin, name=name)
        yield name
    finally:
        with held_back(), suppress(OSError, ValueError, CancelledError, ClosedClientError):
            if client.status == "running":
                client.unregister_worker_plugin(name)


class _Environment(WorkerPlugin):
    """Environment variables of a worker, which gets its own back at the end."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self.before: dict[str, str | None] = {}

    def setup(self, worker: Any) -> None:
        """Set them."""
        self.before = {name: os.environ.get(name) for name in self.settings}
        os.environ.update(self.settings)

    def teardown(self, worker: Any) -> None:
        """Restore what was there."""
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _settings() -> dict[str, str]:
    limit = os.environ.get(limits.VARIABLE)
    return {"MAXENT_NUM_THREADS": "1"} | ({} if limit is None else {limits.VARIABLE: limit})


def least_memory(client: Client) -> int | None:
    """Bytes that the smallest worker may take, None where none has a limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return min(
        (worker["memory_limit"] for worker in workers if worker["memory_limit"]), default=None
    )


# -- checks ----------------------------------------------------------------------------------------


def address_of(client: Client) -> str:
    """Where its scheduler is."""
    scheduler: Any = client.scheduler  # None before it is connected, which it is when it is made
    return str(scheduler.address)


def check_package(client: Client) -> None:
    """Workers are there, and they and the scheduler have this version of maxent."""
    address = address_of(client)
    found = client.run(_package_version(), on_error="return")
    if not found:
        raise ConnectionError(
            f"the scheduler at {address} has no workers; start some with "
            f"`dask worker {address} --nthreads 1`"
        )
    found = {"scheduler": client.run_on_scheduler(_package_version())} | found
    wrong = {at: version for at, version in found.items() if version != __version__}
    if wrong:
        said = [f"{at} has {_described(version)}" for at, version in wrong.items()]
        raise ConnectionError(
            f"a cluster needs maxent {__version__} everywhere, and {_listed(said)}: install it "
            f"there (pip install maxent=={__version__}) and start them again"
        )


def _package_version() -> Callable[[], str | None]:
    def version() -> str | None:  # inside a function: it is sent as it is, not by a name in maxent
        try:
            from maxent._version import __version__ as found
        except ImportError:
            return None
        return found

    return version


def _described(version: Any) -> str:
    if isinstance(version, Exception):
        return f"no answer ({_first_line(version)})"
    return "no such package" if version is None else f"maxent {version}"


def check_shared(
    client: Client, folder: Path | None, read: Iterable[str | os.PathLike[str]]
) -> None:
    """Refuse workers that do not see the files that are read.

    Nor the folder of the results, if there is one: they have to see what is written there.

    Parameters
    ----------
    client : Client
        The client.
    folder : path or None
        The folder of the results.
    read : iterable of paths
        The files that are read.
    """
    needed = sorted({os.path.abspath(path) for path in read if os.path.exists(path)})
    home = folder if folder is None or folder.is_dir() else folder.parent
    probe = None if home is None else home / f".maxent-{secrets.token_hex(8)}"
    try:
        if probe is not None:
            probe.write_text(probe.name)
        found = client.run(_lacking(), probe and str(probe), needed, on_error="return")
    finally:
        if probe is not None:
            probe.unlink(missing_ok=True)
    said = [
        f"{at} has {_described(answer)}"
        if isinstance(answer, Exception)
        else f"{at} does not see {answer}"
        for at, answer in found.items()
        if answer is not None
    ]
    if said:
        raise ConnectionError(
            f"workers read the layers and write the results themselves, and {_listed(said)}: give "
            "places on a file system that all of them share (and may write to)"
        )


def _lacking() -> Callable[[str | None, list[str]], str | None]:
    def lacking(probe: str | None, needed: list[str]) -> str | None:
        import os

        if probe is not None:
            folder, name = os.path.split(probe)
            try:
                with open(probe) as file:
                    seen = file.read() == name
            except OSError:
                seen = False
            if not seen or not os.access(folder, os.W_OK):
                return folder
        return next((path for path in needed if not os.access(path, os.R_OK)), None)

    return lacking


def _listed(said: Sequence[str]) -> str:
    more = len(said) - _SHOWN
    return ", ".join(said[:_SHOWN]) + (f" and {more} more alike" if more > 0 else "")


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
