"""Samples in float32 with sums in float64: what a linear model needs of them, block by block.

A table in float32 is never written out in float64: a fit takes no more memory than the table has,
and without an intercept next to none. Its answer is that of the same numbers in float64, but for
the rounding of columns less their means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxent._support.threads import one_blas_thread, over_rows, sum_of_parts
from maxent.core.maps import SampleMap
from maxent.rows.arrays import Array

_BLOCK = 1024  # rows at once: what they become in float64 stays in cache
_WORK = 64  # multiplications that count as much as one entry of an elementwise pass


def sample_map(X: Any, n_outputs: int) -> SampleMap:
    """The map of samples whose scores and moments are in float64."""
    single = not sparse.issparse(X) and X.dtype == np.float32
    return SingleSamples(X, n_outputs) if single else SampleMap(X, n_outputs)


def column_means(X: Any, weight: Array) -> Array:
    """weight' X in float64, with weights of sum 1."""
    if sparse.issparse(X) or X.dtype != np.float32:
        return np.asarray(weight @ X)
    return _moments(X, weight[:, None])[:, 0]


def scores(X: Any, W: Array) -> Array:
    """X W in float64."""
    if sparse.issparse(X) or X.dtype != np.float32:
        return np.asarray(X @ W)
    result = np.empty((len(X), W.shape[1]))

    def work(start: int, stop: int) -> None:
        for rows in _blocks(start, stop):
            np.matmul(X[rows].astype(np.float64), W, out=result[rows])

    with one_blas_thread():
        over_rows(work, len(X), 1 + W.size // _WORK)
    return result


def with_ones(X: Any, center: Array) -> Any:
    """[X - center, 1] in the float type of X; a sparse X is left where it is."""
    if sparse.issparse(X):
        return sparse.hstack([X, np.ones((X.shape[0], 1))], "csc")
    design = np.empty((X.shape[0], X.shape[1] + 1), X.dtype)
    for rows in _blocks(0, len(X)):
        np.subtract(X[rows], center, out=design[rows, :-1], casting="same_kind")
    design[:, -1] = 1
    return design


def _moments(X: Array, P: Array) -> Array:
    """X'P in float64."""

    def part(start: int, stop: int) -> Array:
        total = np.zeros((X.shape[1], P.shape[1]))
        for rows in _blocks(start, stop):
            total += X[rows].astype(np.float64).T @ P[rows]
        return total

    with one_blas_thread():
        return sum_of_parts(part, len(X), 1 + X.shape[1] * P.shape[1] // _WORK)


def _blocks(start: int, stop: int) -> list[slice]:
    return [slice(first, min(first + _BLOCK, stop)) for first in range(start, stop, _BLOCK)]


class SingleSamples(SampleMap):
    """Samples in float32, dense, with scores and moments in float64."""

    def _scores(self, W: Array) -> Array:
        return scores(self.X, W)

    def _moments(self, p: Array) -> Array:
        return _moments(self.X, np.asarray(p, dtype=np.float64))
