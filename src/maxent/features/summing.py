"""Sums of weighted features of several fits over the same columns, as features of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxent.features.additive import FORWARD, LINEAR, QUADRATIC, REVERSE, Additive
from maxent.features.base import Operator
from maxent.features.categorical import Levels
from maxent.features.cells import Schema, column_units
from maxent.features.kernel import KernelFeatures
from maxent.features.product import Products
from maxent.rows.arrays import Array

Part = tuple[Any, Array]  # an operator and the weights of its features


def joint_schema(schemas: Sequence[Schema]) -> Schema:
    """The columns that all have, with the levels of any.

    >>> joint_schema([Schema.from_table([["b"], ["a"]]), Schema.from_table([["c"], ["a"]])]).levels
    (('a', 'b', 'c'),)
    """
    first = schemas[0]
    for other in schemas[1:]:
        if (other.names, other.categorical) != (first.names, first.categorical):
            raise ValueError(
                f"all members need the columns {', '.join(first.names)} (categorical: "
                f"{', '.join(first.categorical) or 'none'}), got {', '.join(other.names)} "
                f"(categorical: {', '.join(other.categorical) or 'none'})"
            )
    levels = (set().union(*known) for known in zip(*(s.levels for s in schemas), strict=True))
    return Schema(first.names, first.categorical, tuple(tuple(sorted(known)) for known in levels))


def summed(parts: Sequence[Part], schema: Schema) -> tuple[list[Operator], Array]:
    """Operators and weights whose score is the sum of those of all parts, up to a constant.

    Curves, products and levels become one operator each, scaled to the ranges of all parts
    together; a feature that several parts have is one, with the sum of their weights. Other
    operators stay as they are.

    >>> from maxent.features import Linear, fit_operators
    >>> narrow, wide = (fit_operators([Linear()], X)[0] for X in ([[0.0], [1]], [[0.0], [4]]))
    >>> operators, weights = summed([(narrow, np.ones(1)), (wide, np.ones(1))], Schema(("x0",)))
    >>> operators[0].names(), weights
    (['x0'], array([5.]))
    """
    merges = {Additive: _curves, Products: _products, Levels: _levels}
    made: list[Part] = []
    for kind, merge in merges.items():
        mine = [part for part in parts if type(part[0]) is kind]
        if mine:
            made.append(merge(mine, schema))
    made += _named([part for part in parts if type(part[0]) not in merges])
    none = np.empty(0)
    return [operator for operator, _ in made], np.concatenate([none, *(w for _, w in made)])


def _named(parts: Sequence[Part]) -> list[Part]:
    """The same, the kernels of different parts with names that differ."""
    found: list[Part] = []
    seen: set[str] = set()
    for operator, w in parts:
        if isinstance(operator, KernelFeatures):
            name, k = operator.name, 2
            while name in seen:
                name, k = f"{operator.name} ({k})", k + 1
            seen.add(name)
            operator = replace(operator, name=name)
        found.append((operator, w))
    return found


def _curves(parts: Sequence[Part], schema: Schema) -> Part:
    low, high = _range(parts, "low", "high")
    unit = column_units(low, high)
    # squares are of the variable in its units
    ratio = [(column_units(o.low, o.high) / unit) ** 2 for o, _ in parts]
    least = np.min([r * o.square_low for r, (o, _) in zip(ratio, parts, strict=True)], axis=0)
    most = np.max([r * o.square_high for r, (o, _) in zip(ratio, parts, strict=True)], axis=0)
    keys, weights = [], []
    for r, (operator, w) in zip(ratio, parts, strict=True):
        v, kind, knot = operator.variable, operator.kind, operator.knot
        factor = np.ones(kind.size)
        for which, new, old in (
            (LINEAR, (high - low)[v], (operator.high - operator.low)[v]),
            (QUADRATIC, (most - least)[v], (r * (operator.square_high - operator.square_low))[v]),
            (FORWARD, high[v] - knot, operator.high[v] - knot),
            (REVERSE, knot - low[v], knot - operator.low[v]),
        ):
            here = kind == which
            factor[here] = _ratio(new[here], old[here])
        keys.append(np.array([v, kind, np.where(kind >= FORWARD, knot, 0.0)], dtype=np.float64))
        weights.append(factor * w)
    (variable, kind, knot), w = _unique(keys, weights)
    kind = kind.astype(np.int32)
    knot = np.where(kind >= FORWARD, knot, np.nan)
    whole = variable.astype(np.int32)
    return Additive(schema.continuous, low, high, least, most, whole, kind, knot), w


def _products(parts: Sequence[Part], schema: Schema) -> Part:
    low, high = _range(parts, "low", "high")
    unit = column_units(low, high)
    keys, least, most, weights = [], [], [], []
    for operator, w in parts:
        mine = column_units(operator.low, operator.high) / unit
        ratio = mine[operator.first] * mine[operator.second]
        keys.append(np.array([operator.first, operator.second], dtype=np.float64))
        least.append(ratio * operator.least)
        most.append(ratio * operator.most)
        weights.append(w / _width(most[-1] - least[-1]))
    (first, second), slope = _unique(keys, weights)
    place = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)[1].ravel()
    bottom, top = np.full(first.size, np.inf), np.full(first.size, -np.inf)
    np.minimum.at(bottom, place, np.concatenate(least))
    np.maximum.at(top, place, np.concatenate(most))
    pairs = first.astype(np.int32), second.astype(np.int32)
    merged = Products(schema.continuous, low, high, *pairs, bottom, top)
    return merged, slope * _width(top - bottom)


def _levels(parts: Sequence[Part], schema: Schema) -> Part:
    code = [{level: i for i, level in enumerate(known)} for known in schema.levels]
    keys = [
        np.array(
            [(v, code[v][o.levels[v][i]]) for v, i in zip(o.variable, o.level, strict=True)],
            dtype=np.float64,
        ).reshape(-1, 2).T
        for o, _ in parts
    ]  # fmt: skip
    (variable, level), w = _unique(keys, [weights for _, weights in parts])
    both = variable.astype(np.int32), level.astype(np.int32)
    return Levels(schema.categorical, schema.levels, *both), w


def _range(parts: Sequence[Part], low: str, high: str) -> tuple[Array, Array]:
    return (
        np.min([getattr(operator, low) for operator, _ in parts], axis=0),
        np.max([getattr(operator, high) for operator, _ in parts], axis=0),
    )


def _ratio(new: Array, old: Array) -> Array:
    return np.asarray(_width(new) / _width(old))


def _width(size: Array) -> Array:
    """As operators scale: a range of 0 is not divided by."""
    return np.where(size > 0, size, 1.0)


def _unique(keys: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, Array]:
    """The distinct columns of all keys, sorted, and the sum of the weights of each."""
    found, place = np.unique(np.concatenate(keys, axis=1), axis=1, return_inverse=True)
    return found, np.bincount(place.ravel(), np.concatenate(weights), minlength=found.shape[1])
