"""Threads: kernels release the GIL, so plain Python threads run them over blocks of rows.

A pool of our own instead of ``prange``: one serial kernel to compile and cache, safe to call
from worker threads (there it runs serially), and no second threading layer to keep in step.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALL = 1 << 15  # entries below which a hand-over to threads costs more than it gains
_BLOCK = 1 << 13  # entries of a block at least
_MOST = 64  # blocks: several for each thread, so that a busy core does not hold up the others
_pool: tuple[int, ThreadPoolExecutor] | None = None  # with the number of its threads
_lock = threading.Lock()


def num_threads() -> int:
    """Threads to use: ``MAXENT_NUM_THREADS``, or every core this process may run on."""
    setting = os.environ.get("MAXENT_NUM_THREADS", "").strip()
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise ValueError(f"MAXENT_NUM_THREADS must be a positive integer, got {setting!r}")
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forget_threads() -> None:
    """In a forked child: the threads of its parent, and what they held, are not there."""
    global _pool, _one_blas_thread
    _pool, _one_blas_thread = None, _OneBlasThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def executor() -> ThreadPoolExecutor:
    """The pool that all kernels share, with as many threads as the setting asks for."""
    global _pool
    with _lock:
        threads = num_threads()
        if _pool is None or _pool[0] != threads:
            _pool = threads, ThreadPoolExecutor(threads, "maxent")
        return _pool[1]


def blocks(rows: int, size: int) -> list[tuple[int, int]]:
    """Where rows of ``size`` entries are cut, whatever the number of threads.

    So products and sums over blocks have the same last bits with any number.
    """
    entries = rows * size
    number = 1 if entries < _SMALL else min(rows, _MOST, entries // _BLOCK)
    cuts = [rows * i // number for i in range(number + 1)]
    return list(pairwise(cuts))


def over_rows(
    work: Callable[[int, int], None], rows: int, size: int, most: int | None = None
) -> None:
    """Run ``work(start, stop)`` over blocks that cover all rows, of ``size`` entries each.

    most : of threads, where the caller has a setting of its own.
    """
    threads = num_threads()  # refuses a bad setting, however small the work
    if rows * size < _SMALL:
        work(0, rows)
        return
    waiting = blocks(rows, size)[::-1]
    threads = min(threads, len(waiting), rows if most is None else most)
    if threading.current_thread() is not threading.main_thread():
        threads = 1  # the caller is one of several

    def drain() -> None:
        while waiting:
            try:
                start, stop = waiting.pop()
            except IndexError:  # another thread took the last one
                return
            work(start, stop)

    helpers = [executor().submit(drain) for _ in range(threads - 1)]
    drain()
    for helper in helpers:
        if not helper.cancel():  # one that has not started by now is not needed
            helper.result()


def sum_of_parts(part: Callable[[int, int], NDArray[Any]], rows: int, size: int) -> NDArray[Any]:
    """The sum of part(start, stop) over blocks that cover the rows, in a fixed order."""
    parts: dict[int, NDArray[Any]] = {}
    lock = threading.Lock()
    (first, _), *others = blocks(rows, size)
    ahead = [start for start, _ in others][::-1]

    def work(start: int, stop: int) -> None:
        value = part(start, stop)
        with lock:
            parts[start] = value
            while first in parts and ahead and ahead[-1] in parts:  # few are kept at a time
                parts[first] = parts[first] + parts.pop(ahead.pop())

    over_rows(work, rows, size)
    return parts[first]


def in_background(work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Start work(*arguments) on another thread; the answer waits for what it returns.

    At once where the setting is one thread, or where the caller is one of several.
    """
    if num_threads() > 1 and threading.current_thread() is threading.main_thread():
        return executor().submit(work, *arguments).result
    value = work(*arguments)
    return lambda: value


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no entry is NaN or infinite: sums over blocks, a closer look at suspicious ones."""
    line = values.ravel(order="K")
    wrong: list[int] = []

    def work(start: int, stop: int) -> None:
        part = line[start:stop]
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(np.add.reduce(part))
        if suspicious and not np.isfinite(part).all():
            wrong.append(start)

    over_rows(work, line.size, 1)
    return not wrong


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 - loads the BLAS that compiled kernels call, to be limited too

    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # slower on busy cores, nothing else
        return None
    return ThreadpoolController().select(user_api="blas")


class _OneBlasThread(AbstractContextManager[None]):
    """The limit is the whole process's: the thread that comes first sets it and restores it.

    Others that come meanwhile find it set; each restoring what it found would leave it for ever.
    """

    def __init__(self) -> None:
        self._lock, self._depth = threading.Lock(), 0
        self._owner: threading.Thread | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                blas, self._owner = _blas(), threading.current_thread()
                self._limit = nullcontext() if blas is None else blas.limit(limits=1)
                self._limit.__enter__()
            self._depth += self._owner is threading.current_thread()

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            if self._owner is not threading.current_thread():
                return
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._limit.__exit__(*raised)


_one_blas_thread = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """BLAS without threads of its own: large products are cut up here instead.

    Threads inside BLAS wait for one another at every call, which costs a time slice each whenever
    a neighbour holds a core; blocks from our queue go to whichever thread is free. Where
    threadpoolctl is missing, BLAS keeps its threads.
    """
    return _one_blas_thread
