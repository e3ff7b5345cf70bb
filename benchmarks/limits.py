"""Physical limits: what the bytes and operations of a method cost at the best rates of the machine.

A rate is that of one core by its own clock, measured in the same run as the times beside it: a sum
over an array larger than the caches, a product of matrices, our exponential over a vector. A limit
is no time that a program reaches, it says how much is left above it, and of what kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.report import Row
from benchmarks.timing import once

STATUS = "limit"
OURS = "maxent"
_REPEATS = 7
_LARGE = 1 << 24  # numbers of 8 bytes: more than the caches hold
_SIDE = 512
_EXPONENTIALS = 1 << 12


class Rates(NamedTuple):
    """Seconds of one core: a byte read, a multiplication with its sum, an exponential."""

    byte: float
    multiplication: float
    exponential: float


def _best(work: Callable[[], object], units: float) -> float:
    work()
    return min(once(work, process_time) for _ in range(_REPEATS)) / units


@cache
def rates() -> Rates:
    """Those of this machine, in float64."""
    import numba
    from threadpoolctl import threadpool_limits

    from maxent.core.kernels.exponential import exponential

    @numba.njit
    def exponentials(x: np.ndarray, out: np.ndarray) -> None:
        for _ in range(64):
            for i in range(x.size):
                out[i] = exponential(x[i])

    numbers, A = np.ones(_LARGE), np.ones((_SIDE, _SIDE))
    x, out = -np.linspace(0, 30, _EXPONENTIALS), np.empty(_EXPONENTIALS)
    with threadpool_limits(1):
        return Rates(
            _best(lambda: np.add.reduce(numbers), numbers.nbytes),
            _best(lambda: A @ A, _SIDE**3),
            _best(lambda: exponentials(x, out), 64 * _EXPONENTIALS),
        )


def with_limit(rows: list[Row], what: str, least: float, note: str) -> list[Row]:
    """The rows of one problem, and one of what ours could take at best: seconds, or MB."""
    ours = next((row for row in rows if row.method == OURS and row.status == "OK"), None)
    if ours is None:
        return rows
    limit = Row(
        *(ours.suite, ours.problem, f"limit: {what}"),
        status=STATUS,
        seconds=least,
        ratio=least / ours.seconds,
        note=note,
    )
    return [*rows, limit]


@dataclass
class Work:
    """What products with samples read and multiply."""

    bytes: float = 0.0
    multiplications: float = 0.0

    def add(self, entries: float, size: int, multiplications: float) -> None:
        """Entries of so many bytes, read once."""
        self.bytes += entries * size
        self.multiplications += multiplications


@contextmanager
def products_counted() -> Iterator[Work]:
    """Count the products of a fit with its samples: scores, moments and those of the Hessian."""
    import maxent.core.maps
    from maxent.core.kernels import samples
    from maxent.rows.products import SampleProducts

    work = Work()
    product, by_matrices = maxent.core.maps._product, SampleProducts._by_matrices
    one_output, few, moments = (
        *(samples.one_output_product, samples.sparse_product, samples.sparse_moments),
    )

    def count_product(A: Any, B: np.ndarray) -> np.ndarray:
        if B.any():
            work.add(A.size, A.itemsize, A.size * (B.size // A.shape[1]))
        return product(A, B)

    def count_one_output(X: np.ndarray, d: Any, v: Any, start: int, stop: int) -> np.ndarray:
        work.add((stop - start) * X.shape[1], X.itemsize, 2 * (stop - start) * X.shape[1])
        return one_output(X, d, v, start, stop)

    def count_few(X: np.ndarray, offsets: np.ndarray, *more: Any) -> np.ndarray:
        start, stop = more[-2:]
        support = int(offsets[stop] - offsets[start])
        work.add((stop - start) * X.shape[1], X.itemsize, 2 * support * X.shape[1])
        return few(X, offsets, *more)

    def count_moments(X: np.ndarray, P: np.ndarray, start: int, stop: int) -> np.ndarray:
        some = np.count_nonzero(P[start:stop])
        work.add((stop - start) * X.shape[1], X.itemsize, some * X.shape[1])
        return moments(X, P, start, stop)

    def count_by_matrices(
        self: SampleProducts, *jacobians: Any
    ) -> Callable[[np.ndarray], np.ndarray]:
        inner, X = by_matrices(self, *jacobians), self.X

        def counted(v: np.ndarray) -> np.ndarray:
            work.add(X.size, X.dtype.itemsize, 2 * X.size * self.outputs)
            return inner(v)

        return counted

    with (
        patch.object(maxent.core.maps, "_product", count_product),
        patch.object(samples, "one_output_product", count_one_output),
        patch.object(samples, "sparse_product", count_few),
        patch.object(samples, "sparse_moments", count_moments),
        patch.object(SampleProducts, "_by_matrices", count_by_matrices),
    ):
        yield work
