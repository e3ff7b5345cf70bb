"""What the structural estimators share: their parameters, and the price of a feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from maxent.families import Family
from maxent.features import Schema

FEWEST = 5  # records or samples
PROOF_BUDGET = 5e8  # visits of cells for the bounds of each family: seconds at most
LEAST_CHANGE = 1e-5  # of the objective in a round, at which the paper stops (§4)
OfLevel = Callable[[int, int], float]  # a number for the place of a family and its level k


def check_not_negative(**values: Any) -> None:
    """Finite numbers >= 0, by the names of their parameters."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{name} must be a number >= 0, got {value!r}")


def check_rule(rule: Any, rules: Sequence[str]) -> None:
    """One of the rules of an estimator."""
    if rule not in rules:
        raise ValueError(f"rule must be one of {', '.join(rules)}, got {rule!r}")


def check_searches(searches: Any) -> None:
    """How many longer searches there may be."""
    if not (isinstance(searches, Integral) and int(searches) >= 0):
        raise ValueError(f"searches must be an integer >= 0, got {searches!r}")


def listed_families(families: Any, default: Sequence[Family]) -> list[Family]:
    """``families`` as a list: one alone, several, or None for the default."""
    given = default if families is None else families
    listed = [given] if isinstance(given, Family) else list(given)
    if not listed or not all(isinstance(family, Family) for family in listed):
        raise ValueError(
            f"families must be a list of families such as {list(default)}, got {families!r}"
        )
    return listed


def bound_complexity(families: Sequence[Family], schema: Schema, m: int) -> OfLevel:
    """B_k of every family on the columns of a table."""
    return lambda family, level: families[family].complexity_of(level, schema, m)


def price(lam: float, beta: float, complexity: OfLevel) -> OfLevel:
    """beta_k = lam B_k + beta (§4); each B_k is worked out once."""

    @cache
    def beta_of(family: int, level: int) -> float:
        return float(lam) * complexity(family, level) + float(beta)

    return beta_of
