"""Answers for each row of a table in blocks, as lazy arrays with the chunks of its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from maxent.rows.arrays import Array
from maxent.rows.blocks.table import BlockTable, Part, load_tables

Answer = Callable[[Any], Array]
# from a table without rows to a function of blocks, and an answer without rows
Prepare = Callable[[Any], tuple[Answer, Array]]


@singledispatch
def _rows(X: Any, prepare: Prepare) -> Any:
    raise TypeError(
        f"there are no lazy answers for the rows of {type(X).__name__}: give a dask array or "
        "dataframe, or each block in turn"
    )


def lazy_rows(X: Any, prepare: Prepare) -> Any:
    """The answers of ``prepare(head)`` for the blocks of X, computed when they are asked for.

    ``head`` is a table with the columns of X and no rows: what is wrong with them shows at once.
    """
    load_tables(X)
    return _rows(X, prepare)


register = _rows.register


@register
def _(X: BlockTable, prepare: Prepare) -> Array:
    """Computed at once: what keeps these blocks knows no lazy arrays."""
    names = X.names()
    if isinstance(names, int):
        head: Any = np.empty((0, names))
    else:
        import pandas as pd

        head = pd.DataFrame(columns=list(names))
    answer, none = prepare(head)
    found = X.blocks.reduce(_answered, answer, merge=_below, ordered=True)
    return none if found is None else found


def _answered(part: Part, answer: Answer) -> Array:
    return answer(part.X)


def _below(one: Array, other: Array) -> Array:
    return np.concatenate([one, other])
