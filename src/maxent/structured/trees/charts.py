"""Charts: in which order the spans of a sentence are put together, and from what.

Eisner's (1996) items for dependency trees, and those of Cocke, Kasami and Younger for binary trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from maxent.rows.arrays import Array

_STEP = 8  # charts are made for multiples of it, so that batches share them
_FIELDS = 6  # of an item: target, left, right, ways, head, dependent


def dependency_chart(n: int, single: bool) -> Any:
    """Projective dependency trees of n nodes and fewer."""
    return _dependencies(-(-n // _STEP) * _STEP, single)


def constituency_chart(n: int) -> Any:
    """Binary trees over n words and fewer."""
    return _constituents(-(-n // _STEP) * _STEP)


@lru_cache(maxsize=32)
def _dependencies(n: int, single: bool) -> Any:
    """Eisner's items, for spans from i to j.

    A complete one is headed by one of its ends and can grow there alone. An arc between the ends
    lies above two complete ones that meet. A complete one is an arc and the rest of its dependent.
    A single root has an arc alone, to the head of all words.
    """
    i, j = _spans(n)

    def at(table: int, first: Any, last: Any) -> Array:
        return np.asarray(1 + table * n * n + first * n + last)

    join, right_arc, left_arc, right, left = range(5)
    inner, none, width = i > 0, -1, j - i
    zero = np.zeros_like(i)
    root_arc = (i == 0) & (j > 0) & single
    longer = width > 0
    items = [  # of each span, in the order in which they need each other
        (longer & ~root_arc, at(join, i, j), at(right, i, i), at(left, i + 1, j), width, none),
        (longer & ~root_arc, at(right_arc, i, j), at(join, i, j), zero, 1, (i, j)),
        (root_arc, at(right_arc, i, j), at(left, i + 1, j), zero, 1, (i, j)),
        (longer & inner, at(left_arc, i, j), at(join, i, j), zero, 1, (j, i)),
        (longer & inner, at(left, i, j), at(left, i, i), at(left_arc, i, j), width, none),
        (~longer & inner, at(left, i, j), zero, zero, 1, none),
        (longer, at(right, i, j), at(right_arc, i, i + 1), at(right, i + 1, j), width, none),
        (~longer, at(right, i, j), zero, zero, 1, none),
    ]
    return _chart(items, i, j, n, 5, np.arange(n + 1) - 1)


@lru_cache(maxsize=32)
def _constituents(n: int) -> Any:
    """A word alone, or two spans that meet; each has a label."""
    i, j = _spans(n)
    width, zero = j - i, np.zeros_like(i)
    here = 1 + i * n + j
    items = [
        (width > 0, here, 1 + i * n + i, 1 + (i + 1) * n + j, width, (i, j)),
        (width == 0, here, zero, zero, 1, (i, j)),
    ]
    return _chart(items, i, j, n, 1, 2 * np.arange(n + 1) - 1)


def _spans(n: int) -> tuple[Array, Array]:
    """All spans from i to j, by their ends; of those that end together the short ones first."""
    j, back = np.tril_indices(n)
    return j - back, j


def _chart(
    items: Sequence[tuple[Any, ...]], i: Array, j: Array, n: int, tables: int, cells: Array
) -> Any:
    """The items (whether there is one, its fields) of all spans, in the order of the spans."""
    from maxent.structured.trees.kernels.spans import Chart

    field = np.empty((i.size, len(items), _FIELDS), np.int64)
    present = np.empty((i.size, len(items)), bool)
    for place, (there, *fields, ways, cell) in enumerate(items):
        head, dependent = (-1, -1) if cell == -1 else cell
        present[:, place] = there
        for number, value in enumerate((*fields, ways, head, dependent)):
            field[:, place, number] = value
    columns = field[present].T
    ends = np.repeat(j, len(items)).reshape(present.shape)[present]
    goals = np.searchsorted(ends, np.arange(n + 1))
    item = np.zeros(1 + tables * n * n, np.int64)
    item[columns[0]] = np.arange(columns.shape[1])
    target, left, right, ways, head, dependent = (np.ascontiguousarray(x) for x in columns)
    return Chart(target, left, right, ways, head, dependent, goals, cells, item, n)
