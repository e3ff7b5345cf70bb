"""Bags of dask as sequences in blocks: one block for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dask
import dask.bag

from maxent.rows.blocks.engine import Blocks
from maxent.rows.blocks.sequences import SequenceBlock
from maxent.rows.blocks.table import BlockTable, register
from maxent.rows.dask.collections import started


@register(dask.bag.Bag)
def _(X: Any, columns: dict[str, Any]) -> BlockTable:
    bags = {"X": X} | columns
    for name, given in columns.items():
        if not isinstance(given, dask.bag.Bag):
            raise TypeError(
                f"X is a dask bag and {name} is {type(given).__name__}: give a bag with the same "
                "partitions"
            )
        if given.npartitions != X.npartitions:
            raise ValueError(
                f"{name} has {given.npartitions} partitions and X has {X.npartitions}: give both "
                "the same"
            )
    # not optimized one by one: bags that share a source would share its iterators, read once
    pieces = {name: bag.to_delayed(optimize_graph=False) for name, bag in bags.items()}
    lazy = [
        dask.delayed(_block)(number, **{name: parts[number] for name, parts in pieces.items()})
        for number in range(X.npartitions)
    ]
    return BlockTable(started(lazy), tuple(columns))


def _block(
    number: int,
    X: Iterable[Any],
    y: Iterable[Any] | None = None,
    sample_weight: Iterable[Any] | None = None,
) -> SequenceBlock:
    labels = None if y is None else list(y)
    weight = None if sample_weight is None else list(sample_weight)
    return SequenceBlock(number, list(X), labels, weight)


def as_blocks(given: Sequence[Any]) -> Blocks:
    """Small descriptions of blocks, sent to the workers, which read them."""
    return started([dask.delayed(block, traverse=False) for block in given])


def answers(X: Any, model: Any, method: str, *args: Any) -> Any:
    """A bag of model.method(sequences, *args), partition by partition."""
    given = dask.delayed(model, traverse=False)
    return X.map_partitions(_answers, given, method, *args)


def _answers(sequences: Iterable[Any], model: Any, method: str, *args: Any) -> list[Any]:
    part = list(sequences)
    return list(getattr(model, method)(part, *args)) if part else []
