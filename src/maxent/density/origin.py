"""Where the features of a density come from: what a bound on its loss has to pay for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maxent import io
from maxent.core import bounds
from maxent.density.evidence import Evidence
from maxent.features import Operator, Schema
from maxent.features.letters import MONOTONE
from maxent.rows.arrays import Array


@io.register
@dataclass(frozen=True)
class Offered:
    """Features that were all on the table from the start.

    n_not_monotone : how many of them are not monotone in one variable, whether or not the fit used
        them: those that it left out after a look at the occurrences are paid for as well.
    """

    n_not_monotone: int

    @classmethod
    def from_operators(cls, operators: Sequence[Operator], schema: Schema) -> Offered:
        """What operators offer, with the levels that are left out for want of occurrences.

        >>> from maxent.features import Categorical, Square, fit_operators
        >>> cells = Schema.from_table([["a"], ["b"], ["b"], ["c"]])
        >>> seen = fit_operators([Categorical(occupied=True)], [["a"], ["b"], ["b"], ["c"]], [1])
        >>> seen[0].n_features, Offered.from_operators(seen, cells)
        (1, Offered(n_not_monotone=3))
        """
        kinds = kinds_of(operators)
        levels = int((kinds == "c").sum())
        others = int((~np.isin(kinds, MONOTONE)).sum()) - levels
        return cls(others + (max(levels, _n_levels(schema)) if levels else 0))

    @classmethod
    def at_most(cls, schema: Schema) -> Offered:
        """Every square, product and level of the columns: where nobody wrote down the choice."""
        k = len(schema.continuous)
        return cls(k + k * (k - 1) // 2 + _n_levels(schema))

    def together(self, other: Offered) -> Offered:
        """What is offered where a search takes one of the two."""
        return Offered(self.n_not_monotone + other.n_not_monotone)

    def deviations(self, n_used: int, n_variables: int, known: Evidence, delta: float) -> Array:
        """How far the mean of each feature in use may be from the truth.

        By the inequality of Dvoretzky, Kiefer and Wolfowitz for the monotone features of all
        ``n_variables`` and by that of Hoeffding for the others; all hold at once with probability
        1 - delta.
        """
        return np.full(n_used, known.radius(n_variables, self.n_not_monotone, delta))


@io.register
@dataclass(frozen=True, eq=False)
class FromFamilies:
    """Features that were grown one by one from families (structural paper).

    families : the name of each family; n_sets : how many sets H_k they have in all.
    family, level, complexity : of each feature in use, which family, k and B_k >= R_m(H_k), for
        the records of the fit and their weights.
    """

    families: tuple[str, ...]
    n_sets: int
    family: Array
    level: Array
    complexity: Array

    def __post_init__(self) -> None:
        sizes = {self.family.shape, self.level.shape, self.complexity.shape}
        if len(sizes) != 1 or not ((self.family >= 0) & (self.family < len(self.families))).all():
            raise ValueError("family, level and complexity need one entry per feature in use")

    def deviations(self, n_used: int, n_variables: int, known: Evidence, delta: float) -> Array:
        """2 B_k + sqrt(log(2 p / delta) / (2 m)), p the sets H_k in all."""
        # structural paper, eq. 1, with R_m(H_k) <= B_k of eq. 15
        return bounds.structural_beta(self.complexity, self.n_sets, known.effective, delta)

    def described(self, coef: dict[str, float], beta: Array) -> list[dict[str, str | float | int]]:
        """Name, weight, family, level and beta of every feature, largest weight first."""
        rows = zip(coef.items(), self.family, self.level, beta, strict=True)
        features: list[dict[str, str | float | int]] = [
            {
                "name": name,
                "weight": weight,
                "family": self.families[family],
                "level": int(level),
                "beta": float(price),
            }
            for (name, weight), family, level, price in rows
        ]
        return sorted(features, key=lambda row: -abs(float(row["weight"])))


def kinds_of(operators: Sequence[Operator]) -> Array:
    """The letter of every feature."""
    return np.concatenate([np.array([], dtype="U1"), *(o.kinds() for o in operators)])


def _n_levels(schema: Schema) -> int:
    return sum(len(levels) for levels in schema.levels)


Origin = Offered | FromFamilies
