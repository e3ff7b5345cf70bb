"""Blocks on the workers of a dask cluster, asked by one tree reduction at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import count
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, get_client, wait
from distributed.comm import CommClosedError

from maxent._support.threads import one_blas_thread
from maxent.rows.blocks import BlocksLost
from maxent.rows.blocks.engine import Blocks, Merge, Work, call
from maxent.rows.dask.cluster import address_of
from maxent.rows.merging import merged

_FAN = 8  # answers that one task merges
_SMALL = 20_000  # bytes of a message that goes with every task
_LOOK = 2.0  # seconds after which it is looked whether the workers of a pass are still there
_numbers = count()


class DaskBlocks(Blocks):
    """One future for each block. A block that a worker took down with it is computed again.

    Blocks are large and answers small, so that a task runs where its block is: the scheduler may
    not move it to a worker that has nothing to do, which would have to be sent the block.
    """

    def __init__(self, futures: Sequence[Future], client: Client) -> None:
        self._futures, self._client = list(futures), client
        self._groups: list[tuple[list[str] | None, list[int]]] = []

    @classmethod
    def current_client(cls) -> Client | None:
        """The client in use, None where there is none."""
        try:
            return get_client()
        except ValueError:
            return None

    def __len__(self) -> int:
        return len(self._futures)

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One task for each thread of a worker, for all of its blocks; then a tree of merges.

        Where a worker is lost, its blocks are awaited elsewhere and the pass begins again.
        """
        while self._futures:
            name = _name(work)
            with _reaching(self._client):
                answers = self._answers(work, args, None if ordered else merge, name)
                if not ordered and len(answers) > _FAN:
                    answers = [_tree(answers, merge, name, self._client)]
                if self._finished(answers):
                    found = self._client.gather(answers)
                    return merged(_in_order(found) if ordered else found, merge)
        return None

    def _answers(
        self, work: Work, args: tuple[Any, ...], merge: Merge | None, name: str
    ) -> list[Future]:
        if not self._groups:
            self._groups = self._grouped()
        submit, message = self._client.submit, self._message(args, name)
        return [
            submit(
                _call_all,
                [self._futures[i] for i in numbers],
                numbers,
                work,
                message,
                merge,
                key=f"{name}-{group}",
                workers=place,
            )
            for group, (place, numbers) in enumerate(self._groups)
        ]

    def _grouped(self) -> list[tuple[list[str] | None, list[int]]]:
        """The blocks of each thread of each worker."""
        wait(self._futures)
        found, threads = self._client.who_has(self._futures), self._client.nthreads()
        at: dict[str | None, list[int]] = {}
        for i, future in enumerate(self._futures):
            at.setdefault(next(iter(found.get(future.key, ())), None), []).append(i)
        return [
            (None if place is None else [place], numbers[k :: threads.get(place, 1)])
            for place, numbers in at.items()
            for k in range(min(threads.get(place, 1), len(numbers)))
        ]

    def _message(self, args: tuple[Any, ...], name: str) -> Any:
        """A large one is a task of its own: it travels to each worker once."""
        if len(pickle.dumps(args)) < _SMALL:
            return args
        return self._client.submit(_held, args, key=f"{name}-message")

    def _finished(self, futures: Sequence[Future]) -> bool:
        """Wait; False where one of the workers is gone and tasks that are bound to it never end."""
        while True:
            try:
                wait(futures, timeout=_LOOK)
                return True
            except TimeoutError:
                there = set(self._client.scheduler_info(n_workers=-1)["workers"])
                if not {at for place, _ in self._groups for at in place or ()} <= there:
                    self._groups = []
                    return False

    def map(self, work: Work, *args: Any) -> DaskBlocks:
        """New blocks, each on the worker of the old one."""
        name = _name(work)
        message = self._message(args, name)
        return DaskBlocks(
            [
                self._client.submit(_call, block, i, work, message, key=f"{name}-{i}")
                for i, block in enumerate(self._futures)
            ],
            self._client,
        )

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> DaskBlocks:
        """New blocks, each on the worker of the old one; each of ``others`` travels there."""
        name, pairs = _name(function), zip(self._futures, others, strict=True)
        return DaskBlocks(
            [
                self._client.submit(_call, block, i, function, (other,), key=f"{name}-{i}")
                for i, (block, other) in enumerate(pairs)
            ],
            self._client,
        )


class LazyBlocks(Blocks):
    """Delayed blocks, computed anew at each pass over them: none is kept.

    What ``map`` makes of them is, on the workers.
    """

    def __init__(self, lazy: Sequence[Any], client: Client) -> None:
        self._lazy, self._client = list(lazy), client

    def __len__(self) -> int:
        return len(self._lazy)

    def reduce(self, work: Work, *args: Any, merge: Merge, ordered: bool = False) -> Any:
        """One task for each block after those that make it, then a tree of tasks that merge."""
        with _reaching(self._client):
            answers = self._client.compute(self._calls(work, args))
            if not answers:
                return None
            return _tree(answers, merge, _name(work), self._client).result()

    def map(self, work: Work, *args: Any) -> DaskBlocks:
        """New blocks, on the workers."""
        return DaskBlocks(self._client.compute(self._calls(work, args)), self._client)

    def _calls(self, work: Work, args: tuple[Any, ...]) -> list[Any]:
        step = dask.delayed(_call, pure=False)
        return [step(block, i, work, args) for i, block in enumerate(self._lazy)]

    def apply(self, function: Callable[..., Any], others: Sequence[Any]) -> LazyBlocks:
        """New delayed blocks."""
        step, pairs = dask.delayed(_call, pure=False), zip(self._lazy, others, strict=True)
        changed = [step(b, i, function, (other,)) for i, (b, other) in enumerate(pairs)]
        return LazyBlocks(changed, self._client)


def _tree(answers: Sequence[Future], merge: Merge, name: str, client: Client) -> Future:
    """The answers merged in order by a tree of tasks."""
    level, depth = list(answers), 0
    while len(level) > 1:
        depth += 1
        level = [
            client.submit(merged, level[i : i + _FAN], merge, key=f"{name}-merge-{depth}-{i}")
            for i in range(0, len(level), _FAN)
        ]
    return level[0]


def _name(work: Work) -> str:
    name = work if isinstance(work, str) else work.__name__.strip("_")
    return f"maxent-{name}-{next(_numbers)}"


def _call_all(
    blocks: Sequence[Any],
    numbers: Sequence[int],
    work: Work,
    args: tuple[Any, ...],
    merge: Merge | None,
) -> Any:
    """The answers of some blocks, merged; with their numbers where there is no ``merge``."""
    with one_blas_thread():
        answers = (call(block, i, work, args) for block, i in zip(blocks, numbers, strict=True))
        if merge is None:
            return list(zip(numbers, answers, strict=True))
        return merged(answers, merge)


def _in_order(answers: Sequence[Sequence[tuple[int, Any]]]) -> list[Any]:
    """The answers of all blocks by their numbers."""
    known = {number: answer for some in answers for number, answer in some}
    return [known[number] for number in sorted(known)]


def _held(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args


def _call(block: Any, number: int, work: Work, args: tuple[Any, ...]) -> Any:
    with one_blas_thread():
        return call(block, number, work, args)


@contextmanager
def _reaching(client: Client) -> Iterator[None]:
    """What to say where the cluster does not answer."""
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            "a block took down every worker that was given it, most likely for lack of memory: "
            "give smaller chunks, or workers with more memory"
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise BlocksLost(
            f"the scheduler at {address_of(client)} is gone, and the blocks with it."
        ) from error
